"""Weights that leave int64: in the state, in products and in sums; an error, and the state exactly as before."""

from __future__ import annotations

import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import WeightOverflowError
from tests.helpers.refused_changes import assert_refused


class TestOverflow:
    TEXT = "h(x) :- r(x, y), s(y). k(x) :- r(x, _)."

    def refused(self, changes, match):
        first = {"r": [((1, 1), 2**62), ((2, 2), -(2**62))], "s": [((1,), 1)]}
        following = {"s": [((2,), 2)]}
        assert_refused(changes, WeightOverflowError, match, self.TEXT, first, following, bag=True)

    def test_of_the_state(self):
        self.refused({"r": [((1, 1), 2**62)]}, r"(?s)'r'.*\(1, 1\).*outside int64")
        self.refused({"r": [((2, 2), -(2**62) - 1)]}, r"(?s)'r'.*\(2, 2\).*outside int64")

    def test_of_a_product(self):
        self.refused({"s": [((1,), 1)]}, r"(?s)'h'.*\(1,\).*outside int64")
        self.refused({"s": [((2,), 3)]}, r"(?s)'h'.*\(2,\).*outside int64")

    def test_of_a_sum(self):
        self.refused({"r": [((1, 9), 2**62)]}, r"(?s)'k'.*\(1,\).*outside int64")

    def test_of_a_product_far_beyond(self):
        self.refused({"s": [((1,), 2**63 - 2)]}, r"(?s)'h'.*\(1,\).*outside int64")

    def test_of_a_change_between_two_weights_that_fit(self):
        program = gw.Program("h(x) :- v(x), w(x).", bag=True)
        program.step({"v": gw.ZSet.from_rows([((1,), 2**63 - 1)]), "w": gw.ZSet.from_rows([((1,), -1)])})
        with pytest.raises(WeightOverflowError, match=r"(?s)'h'.*\(1,\).*outside int64"):
            program.step({"w": gw.ZSet.from_rows([((1,), 2)])})
        assert program.relation("h").to_dict() == {(1,): -(2**63) + 1}

    @pytest.mark.parametrize("n", [1, 32])
    @pytest.mark.parametrize("rest", ["", ", y != x", ", !g(x, y)"])
    def test_of_a_sum_that_is_counted(self, n, rest):
        """The sum is 2^64, which is 0 for who adds in int64."""
        rows = gw.ZSet.from_rows([((x, y), 2**57) for x in range(n) for y in range(200, 328)])
        for way in ("step", "step_counts"):
            program = gw.Program(f"h(x) :- u(x), e(x, y){rest}.", bag=True)
            program.load({"e": rows, "u": []} | ({"g": []} if "g(" in rest else {}))
            with pytest.raises(WeightOverflowError, match=r"outside int64"):
                getattr(program, way)({"u": [(x,) for x in range(n)]})
            assert program.count("h") == 0

    def test_of_a_product_that_is_counted(self):
        """The product is 2^80, which is 0 for who multiplies in int64."""
        program = gw.Program("h(x, y) :- u(x), e(x, y), f(x, y).", bag=True, inputs=["u", "e", "f"])
        program.load({"e": [((1, 2), 2**40), ((3, 2), 1)], "f": [((1, 2), 2**40), ((3, 2), 1)]})
        assert program.step_counts({"u": [(3,)]})["h"].net == 1
        with pytest.raises(WeightOverflowError, match=r"(?s)'h'.*\(1, 2\).*outside int64"):
            program.step_counts({"u": [(1,)]})
        assert program.count("h") == 1

    @pytest.mark.parametrize(("weight", "exact"), [(-1, -(2**63) - 1), (-(2**63), -(2**64))])
    @pytest.mark.parametrize("is_prepared", [True, False])
    def test_of_the_smallest_weight(self, weight, exact, is_prepared):
        """Its magnitude, 2^63, is outside int64."""
        program = gw.Program("h(x) :- v(x), u(x).", bag=True, inputs=["v", "u"])
        if is_prepared:  # small ticks are walked from then on
            program.step({"v": [((2,), 1)], "u": []})
        program.step({"v": [((1,), -(2**63))]})
        with pytest.raises(WeightOverflowError, match=rf"(?s)'v'.*\(1,\).*{exact} is outside int64"):
            program.step({"v": [((1,), weight)]})
        assert program.relation("v").to_dict()[1,] == -(2**63)
        assert program.step({"u": [((1,), 1)]})["h"].to_dict() == {(1,): -(2**63)}

    @pytest.mark.usefixtures("large_ticks")
    @pytest.mark.parametrize("n", [1, 2, 3])
    def test_of_a_sum_times_a_weight(self, n):
        """Each product is 2^62. Their sum is below 2^64, but only one of them fits int64."""
        program = gw.Program("h(x) :- v(x), e(x, y).", bag=True, inputs=["v", "e"])
        program.load({"e": [((1, y), 2**30) for y in range(n)]})
        if n == 1:
            assert program.step({"v": [((1,), 2**32)]})["h"].to_dict() == {(1,): 2**62}
            return
        with pytest.raises(WeightOverflowError, match=r"(?s)'h'.*\(1,\).*outside int64"):
            program.step({"v": [((1,), 2**32)]})
        assert program.relation("h").to_dict() == {}

    def test_of_rows_that_add_up_within_a_table(self):
        program = gw.Program("h(x) :- v(x).", bag=True)
        with pytest.raises(WeightOverflowError, match="outside int64"):
            program.step({"v": {"x": [1, 1], "weight": [2**63 - 1, 1]}})
        assert program.count("v") == 0

    def test_sets_never_overflow(self):
        program = gw.Program("h(x) :- v(x), v(x).")
        for _ in range(3):
            program.step({"v": [((1,), 2**63 - 1), ((2,), 2**63 - 1), ((2,), -(2**63))]})
        assert program.relation("h").to_dict() == {(1,): 1}


def star(n_arms, degree, hubs):
    """Rows of g, that lead to hubs, and of the arms of each."""
    arms = {f"r{i}": [(hub, leaf) for hub in range(hubs) for leaf in range(degree)] for i in range(n_arms)}
    return {"g": [(0, hub) for hub in range(hubs)], **arms}


@pytest.mark.parametrize("bag", [True, False])
@pytest.mark.parametrize("way", ["step", "step_counts", "relation"])
def test_products_that_fit_and_whose_sum_does_not(bag, way):
    """Six arms of 1,200 leaves: each hub gives 1200^6 bindings, which int64 holds for three hubs, not for four."""
    arms = ", ".join(f"r{i}(a, x{i})" for i in range(6))
    program = gw.Program(f"h(k) :- g(k, a), {arms}.", bag=bag)
    rows = star(6, 1200, 4)
    last = {"g": [rows["g"].pop()]}
    program.load(rows) if way == "relation" else getattr(program, way)(rows)
    weight = 3 * 1200**6
    assert weight < 1 << 63 < 4 * 1200**6
    assert program.relation("h").rows() == [((0,), weight if bag else 1)]
    if not bag:  # a leaf only has to exist
        program.step_counts(last) if way == "step_counts" else program.step(last)
        assert program.relation("h").rows() == [((0,), 1)]
        return
    with pytest.raises(WeightOverflowError, match="weight 11943936000000000000"):
        program.step_counts(last) if way == "step_counts" else program.step(last)
    assert program.relation("h").rows() == [((0,), weight if bag else 1)]
    assert program.count("g") == 3


@pytest.mark.parametrize(("extreme", "best"), [("min", 5), ("max", 9)])
def test_extremes_of_rows_whose_weights_together_leave_int64(extreme, best):
    program = gw.Program(f"h(k, {extreme}(x)) :- r(k, x, y).", bag=True)
    rows = [((1, best, 1), 2**62), ((1, best, 2), 2**62)]
    assert program.step({"r": [*rows, ((1, 7, 1), 1)]})["h"].to_dict() == {(1, best): 1}
    assert program.step({"r": [((1, best, 1), -(2**62))]})["h"].to_dict() == {}
    assert program.step({"r": [((1, best, 2), -(2**62))]})["h"].to_dict() == {(1, best): -1, (1, 7): 1}


def test_negated_atoms_beside_products_that_fit_and_whose_sum_does_not():
    """The weights of all rows together leave int64, so each is counted exactly."""
    program = gw.Program("h(x, y) :- r(x), q(y), !s(x).", bag=True)
    weight = 2**31 * (2**31 - 1)
    rows = {"r": [((x,), 2**31) for x in range(4)], "q": [((0,), 2**31 - 1)], "s": []}
    assert program.step(rows)["h"].to_dict() == {(x, 0): weight for x in range(4)}
    assert program.step({"s": [((1,), 3), ((2,), 1)]})["h"].to_dict() == {(1, 0): -weight, (2, 0): -weight}
    change = {"s": [((1,), -2), ((2,), -1)], "r": [((3,), -(2**31))]}
    assert program.step(change)["h"].to_dict() == {(2, 0): weight, (3, 0): -weight}
    assert program.relation("h").to_dict() == {(0, 0): weight, (2, 0): weight}
