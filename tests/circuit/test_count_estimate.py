"""Path choice of full counts: sampled paths, sample sizes, and stored estimates."""

from __future__ import annotations

import numpy as np
import pytest

import gpu_wcoj as gw
from gpu_wcoj.join import eliminate, full_join
from gpu_wcoj.join import full_join as tried_module
from gpu_wcoj.join.delta import distinct_paths
from gpu_wcoj.join.eliminate import Summing
from gpu_wcoj.join.full_join import CountEstimate, estimate_cost
from tests.helpers.recounted_programs import PATH, TRIANGLE, heads_of, skewed


@pytest.mark.parametrize(("matters", "most_rows"), [((0.0, 1e18), 128), ((1e18, 1e19), 16), ((0.0, 1e-9), 16)])
def test_few_rows_are_enough_where_a_path_costs_far_less_or_more_than_what_matters(matters, most_rows, monkeypatch):
    drawn = []
    over = eliminate.Summing.sum_merged
    monkeypatch.setattr(
        eliminate.Summing, "sum_merged", lambda self, rows, steps: (drawn.append(len(rows)), over(self, rows, steps))[1]
    )
    program = gw.Program(PATH)
    program.load({"e": skewed()[0]})
    (join,) = heads_of(program)["h"].joins
    generic = full_join.FullJoin(join, full_join.Moment(0)).generic_join(0)
    path = join.query.paths[0]
    batch = max(join.arrangements[path.seed.key].before(0), key=len)
    cost = estimate_cost(CountEstimate(path, [batch] * len(path.seeds), len(batch), generic, True), *matters)
    assert cost > 0
    assert max(drawn) <= most_rows + most_rows // 4
    assert (len(drawn) == 1) == (most_rows == 16)


@pytest.mark.parametrize(("second", "rounds"), [(0.0, 1), (1e9, 2)])
def test_where_only_the_cheapest_path_is_asked_for_more_rows_are_not_tried_if_they_are_dear(
    second, rounds, monkeypatch
):
    monkeypatch.setattr(tried_module, "MAX_RESAMPLE_FRACTION", second)
    made = []
    monkeypatch.setattr(
        tried_module._Traced, "sum_merged", lambda self, *given: made.append(1) or Summing.sum_merged(self, *given)
    )
    base, added = skewed()
    program = gw.Program(TRIANGLE, backend="cpu")
    program.load({"e": base})
    recounting = heads_of(program)["h"].recounting
    total = recounting.total()
    assert len(made) == 3 * rounds
    assert program.step_counts({"e": added})["h"].net == program.count("h") - total


@pytest.mark.parametrize(
    ("body", "n_unlike"),
    [
        ("e(a, b), e(b, c), e(c, a)", 1),
        ("e(a, b), e(b, c), e(a, c)", 3),
        ("e(a, b), e(a, c), e(a, d)", 1),
        ("e(a, b), e(b, c), e(c, d)", 3),
        ("e(a, b), e(b, c), e(c, a), f(a), f(b), f(c)", 3),
        ("e(a, b), e(b, c), e(c, a), f(a), f(b)", 5),
        ("e(a, b), e(b, c), e(c, a), a != b", 3),
        ("e(a, b), e(a, c), e(a, 1)", 2),
        ("e(a, b), e(a, c), !f(b)", 2),
        ("e(a, b), e(a, c), !f(a)", 1),
    ],
)
def test_of_paths_that_are_images_of_each_other_one_is_tried(body, n_unlike, monkeypatch):
    """A single candidate is not sampled at all, as it is the cheapest."""
    base, _ = skewed()
    head = "h(a, b, c, d)" if "d" in body else "h(a, b, c)"
    program = gw.Program(f"{head} :- {body}. .output h")
    program.load({"e": base[:500], "f": [(x,) for x in range(100)]} if "f" in body else {"e": base[:500]})
    made = []
    tried_paths = full_join.FullJoin.estimate_costs
    monkeypatch.setattr(
        full_join.FullJoin, "estimate_costs", lambda self, *given: (made.extend(given[0]), tried_paths(self, *given))[1]
    )
    assert program.count("h") == len(program.relation("h"))
    assert len(made) == (0 if n_unlike == 1 else n_unlike)


def test_a_path_that_was_not_tried_is_tried_when_the_others_turn_out_to_cost_more():
    """The 16 rows of u that are drawn first have a value in e each, the others 500."""
    u = np.arange(128)
    n_below = np.where(u % 8 == 0, 1, 500)
    below = np.concatenate([500 * a + np.arange(n) for a, n in zip(u, n_below, strict=True)])
    apart, k = 10**6 + np.arange(500), np.arange(2000)
    e = np.stack([np.concatenate([np.repeat(u, n_below), 10**7 + np.arange(500)]), np.concatenate([below, apart])])
    f = np.stack([np.concatenate([below, np.repeat(apart, 2000)]), np.concatenate([0 * below, np.tile(k, 500)])])
    program = gw.Program("h(a, b, c) :- u(a), e(a, b), f(b, c), k(c). .output h", threads=1)
    program.load({"u": u[:, None], "e": e.T, "f": f.T, "k": k[:, None]})
    (join,) = heads_of(program)["h"].joins
    moment = full_join.FullJoin(join, full_join.Moment(0))
    costs = moment.estimate_costs(range(4), 1e9, 1e9)
    real = {path_index: moment.total(path_index)[1] for path_index in range(4)}
    assert real[min(costs, key=costs.__getitem__)] == min(real.values())
    assert program.count("h") == len(below)


@pytest.mark.parametrize("order", [None, {"h": ["c"]}])
def test_of_images_that_are_walked_differently_each_is_tried(order):
    """Automorphic atoms of the cycle may be continued differently by the planner."""
    rows = [(x, y) for x in range(4000) for y in range(4000, 4020)]
    program = gw.Program("h(a, b, c, d) :- e(a, b), e(c, b), e(c, d), e(a, d). .output h", order=order, backend="cpu")
    program.load({"e": rows[::5]})
    (join,) = heads_of(program)["h"].joins
    costs = full_join.FullJoin(join, full_join.Moment(0)).estimate_costs(range(4))
    assert min(costs[path_index] for path_index in distinct_paths(join.query)) <= 1.01 * min(costs.values())


def test_what_a_count_costs_that_was_interrupted_is_not_known(monkeypatch):
    program = gw.Program("h(a, b, c) :- e(a, b), e(b, c), e(c, a). .output h")
    program.load({"e": skewed()[0]})
    monkeypatch.setattr(full_join.FullJoin, "total", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        program.count("h")
    monkeypatch.undo()
    assert heads_of(program)["h"].recounting._estimate is None
    assert program.count("h") == len(program.relation("h"))


def test_what_a_count_costs_while_an_atom_is_empty_tells_nothing(monkeypatch):
    expected = []
    total = full_join.FullJoin.total
    monkeypatch.setattr(
        full_join.FullJoin, "total", lambda self, *given: (expected.append(given[2]), total(self, *given))[1]
    )
    program = gw.Program("h(a, b, c) :- r(a, b), s(b, c). .output h", schema={"s": ["int64", "int64"]})
    rows = skewed()[0].tolist()
    program.load({"r": rows})
    assert program.count("h") == 0
    program.load({"s": rows[:2000]})
    assert program.count("h") == len(program.relation("h"))
    assert expected[-1] > 1000


@pytest.mark.parametrize(("far", "rounds"), [(1.0, 1), (1e9, 2)])
def test_of_paths_that_cost_far_more_than_another_few_rows_are_tried(far, rounds, monkeypatch):
    drawn: dict[str, list[int]] = {}
    draw = tried_module.CountEstimate.draw

    def noted(self, draws):
        drawn.setdefault("".join(self.path.seed.variables), []).append(draws)
        return draw(self, draws)

    monkeypatch.setattr(tried_module.CountEstimate, "draw", noted)
    monkeypatch.setattr(tried_module, "MAX_RESAMPLE_FRACTION", 1e9)  # however dear more of them are
    monkeypatch.setattr(tried_module, "DECISIVE_FACTOR", far)
    base, _ = skewed()
    program = gw.Program("h(a, b, c, d) :- e(a, b), e(b, c), e(c, d), a != d. .output h")
    program.load({"e": base})
    counted = program.count("h")
    assert drawn == {seed: list(tried_module.SAMPLE_SIZES[:rounds]) for seed in ("ab", "bc", "cd")}
    assert counted == len(program.relation("h"))


def test_a_path_that_costs_more_to_begin_than_another_in_all_is_not_tried(monkeypatch):
    drawn = set()
    draw = tried_module.CountEstimate.draw
    monkeypatch.setattr(
        tried_module.CountEstimate,
        "draw",
        lambda self, draws: (drawn.add(self.path.seed.variables), draw(self, draws))[1],
    )
    base, _ = skewed()
    program = gw.Program("h(a, b, c) :- u(a), e(a, b), f(b, c). .output h")
    program.load({"e": base, "f": base[:2000], "u": [(3,), (5,)]})
    assert program.count("h") == len(program.relation("h")) > 0
    assert drawn == {("a",)}


@pytest.mark.parametrize(("per_thread", "blocks"), [(1 << 40, 0), (1, 2)])
def test_threads_take_part_where_there_is_enough_to_do(per_thread, blocks, monkeypatch):
    started = []
    monkeypatch.setattr(full_join, "THREAD", per_thread)
    in_order = full_join.in_order
    monkeypatch.setattr(
        full_join, "in_order", lambda run, n, threads: (started.append(n), in_order(run, n, threads))[1]
    )
    program, single_threaded = (
        gw.Program(TRIANGLE, threads=2, backend="cpu"),
        gw.Program(TRIANGLE, threads=1, backend="cpu"),
    )
    for each in (program, single_threaded):
        each.load({"e": skewed()[0]})
    assert program.count("h") == single_threaded.count("h")
    assert started == ([blocks] if blocks else [])


def test_what_steps_see_of_rows_that_no_order_begins_with_is_drawn_by_its_hashes(kind):
    text = "h(d, c, a, b) :- u(b), e(a, a), e(c, d), e(c, c), t(b, a, a), d < a. .output h"
    program = gw.Program(text, backend=kind.backend())
    program.load({"e": [(x, y) for x in range(5) for y in range(5)], "u": [(3,), (4,)], "t": [(3, 2, 2), (4, 4, 4)]})
    assert program.count("h") == 5 * 2 + 5 * 4
