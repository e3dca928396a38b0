"""Estimates of plans beside what ticks count, over the planner's golden programs."""

from __future__ import annotations

import numpy as np
import pytest

from bench.estimates.ticks import compare, draw_rows, estimates
from tests.helpers.kernel_kinds import needed
from tests.helpers.long_tests import IS_LONG

MEDIAN, WORST = 4, 30
"""Factors between expected and counted values that no change of the planner may exceed."""


def test_plans_do_what_they_are_expected_to_do() -> None:
    needed("numba")
    found = list(estimates(in_full=IS_LONG))
    factors = sorted(found, key=lambda one: one.factor)
    assert len(found) > 60
    assert np.median([one.factor for one in found]) <= MEDIAN
    assert factors[-1].factor <= WORST, factors[-5:]


@pytest.mark.parametrize("kind", ["uniform", "skewed", "correlated", "hub"])
def test_rows_are_distinct(kind: str) -> None:
    rows = draw_rows(np.random.default_rng(3), kind, 3, 200)
    assert len({tuple(row) for row in rows.tolist()}) == len(rows) > 100


def test_groups_of_prefixes_scale_the_estimate() -> None:
    level = {"estimate": {"proposals": 6.0, "rows": 2.0}, "counts": {"prefixes": 10, "proposals": 50, "rows": 30}}
    grouped = {"estimate": {"proposals": 8.0, "rows": 1.0}, "counts": {"prefixes": 4, "proposals": 12, "rows": 4}}
    path = {"seed_counts": {"changes": 10}, "seed_estimate": {"rows": 1.0}, "levels": [level, grouped]}
    assert compare(path) == (10 + 60 + 4 / 2 * 8, 10 + 50 + 12)
