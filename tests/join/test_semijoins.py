"""Semi-joins of a single tick: answers are as without them, and few rows are indexed and looked up."""

from __future__ import annotations

import numpy as np
import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import CalculationError
from gpu_wcoj.join import full_join
from gpu_wcoj.join.settings import tune
from gpu_wcoj.trace.arrangement import UnsortedArrangement
from tests.join.test_loads import answer_once

BODIES = (
    "r(a, b), s(b, c), t(c, d), a < 4",
    "r(a, b), s(b, c), t(a, c), b = 3",
    "r(a, b), r(b, c), r(c, d), a < 3",
    "r(a, b), r(a, c), s(b, d), s(c, d), d < 5",
    "r(a, b), s(b, c), !t(a, c), a + b < 9",
    "r(a, b), s(b, c), t(_, d), c != d, a < 2",
    "r(a, b), s(b, c), t(_, _), a < 2",
    "r(a, a), s(a, b), t(b, d), d = 7",
    "r(a, b), s(b, 5), t(b, d)",
    "r(a, b), s(b, c), t(c, d), a * b = d, a < 6",
)


@pytest.fixture
def any_rows(monkeypatch):
    """All rows are tested, and left out if one does not pass, also where that costs more than it saves."""
    monkeypatch.setattr(full_join, "MIN_INDEXED_ROWS", 1)
    monkeypatch.setattr(full_join, "MAX_TEST_FRACTION", np.inf)
    monkeypatch.setattr(full_join, "MAX_KEPT", 0.999)


@pytest.fixture
def indexed(monkeypatch):
    """The numbers of rows that are indexed."""
    numbers = []
    index = UnsortedArrangement.index

    def counting(self, rows):
        batch = index(self, rows)
        numbers.append(batch.n_rows)
        return batch

    monkeypatch.setattr(UnsortedArrangement, "index", counting)
    return numbers


@pytest.mark.usefixtures("any_rows")
@pytest.mark.parametrize("bag", [False, True])
@pytest.mark.parametrize("body", BODIES)
def test_answers_are_as_without_semi_joins(body, bag):
    for seed in range(5):
        random = np.random.default_rng(seed)
        sizes = random.choice([1, 20, 300], 3)
        far = random.choice([0, 2**40, -(2**62)])  # values far from each other, too
        rows = {
            name: random.integers(0, 12, (n, 2)) + random.choice([0, far])
            for name, n in zip("rst", sizes, strict=True)
            if f"{name}(" in body
        }
        text = f"h(a, b) :- {body}."
        answer, _, _ = answer_once(text, rows, bag=bag)
        assert answer == answer_once(text, rows, {"semi-joins"}, bag=bag)[0], f"seed {seed}"


@pytest.mark.usefixtures("any_rows")
@pytest.mark.parametrize("seed", range(4))
def test_counts_and_groups_are_as_without_semi_joins(seed):
    random = np.random.default_rng(seed)
    rows = {name: random.integers(0, 15, (200, 2)) for name in "rst"}
    text = (
        "n(count : { r(a, b), s(b, c), t(c, d), a < 3 }). g(b, sum(d)) :- r(a, b), s(b, c), t(c, d), a < 3. "
        "h(b) :- r(a, b), s(b, c), !n(a), c < 4."
    )
    expected = None
    for off in (frozenset(), frozenset({"semi-joins"})):
        with tune(off=off):
            answer = gw.query(text, rows, outputs=["n", "g", "h"], backend="cpu")
        found = {name: sorted(table.rows()) for name, table in answer.items()}
        assert expected in (None, found), f"seed {seed}"
        expected = found


def chain(n):
    random = np.random.default_rng(2)
    return {name: random.permutation(n)[:, None] * [1, 1] + [0, i] for i, name in enumerate("rst")}


def test_few_rows_are_indexed_where_few_match(indexed):
    rows, text = chain(30_000), "h(a, d) :- r(a, b), s(b, c), t(c, d), a < 60."
    answer, work, _ = answer_once(text, rows)
    few = sum(indexed)
    indexed.clear()
    expected, more, _ = answer_once(text, rows, {"semi-joins"})
    assert answer == expected
    assert len(answer) == 60
    assert sum(indexed) > 30_000
    assert few < 200
    assert work <= more


def test_rows_are_indexed_as_they_are_where_most_match(indexed):
    rows = chain(30_000)
    answer, _, _ = answer_once("h(a, d) :- r(a, b), s(b, c), t(c, d).", rows)
    assert len(answer) == 29_999
    assert sum(indexed) == 60_000


@pytest.mark.usefixtures("any_rows")
def test_a_calculation_that_fails_for_a_row_of_the_answer_is_an_error():
    rows = {"r": [(0, 1), (2, 3), (4, 5)], "s": [(1, 1), (3, 1)]}
    text = "h(a, c) :- r(a, b), s(b, c), 6 / a > 1."
    with pytest.raises(CalculationError):
        gw.query(text, rows, backend="cpu")
    assert gw.query(text, {**rows, "s": [(3, 1)]}, backend="cpu").rows() == [(2, 1)]


def test_a_filter_lets_its_own_values_pass_and_few_others():
    values = np.random.default_rng(3).integers(-(2**63), 2**63 - 1, 2_000)
    bloom = full_join.ValueFilter.from_values(values[:1_000])
    assert bloom.passing(values[:1_000]).all()
    assert bloom.passing(values[1_000:]).mean() < 0.15
    assert not full_join.ValueFilter.from_values(values[:0]).passing(values).any()


@pytest.mark.parametrize("bag", [False, True])
def test_equal_prefixes_are_counted_once_where_few_rows_are_left(bag):
    """Prefixes that propose some ten values each are grouped as those that propose many are."""
    random = np.random.default_rng(5)
    rows = {
        "s": np.column_stack([np.arange(200), random.integers(0, 40, 200)]),
        "u": np.column_stack([np.repeat(np.arange(40), 3), random.integers(0, 40, 120)]),
        "r": np.column_stack([np.repeat(np.arange(40), 14), random.integers(0, 200, 560)]),
        "t": np.column_stack([np.repeat(np.arange(40), 14), random.integers(0, 200, 560)]),
    }
    text = "q(p) :- s(p, a), u(a, b), r(a, v), t(b, v)."
    answer, proposed, _ = answer_once(text, rows, bag=bag)
    plain = gw.Program(text, bag=bag, backend="cpu", strategy="binary")
    assert answer.rows() == plain.step(rows)["q"].rows()
    assert proposed < 4_000
