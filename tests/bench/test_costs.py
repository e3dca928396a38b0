"""The measurement of costs, and the table that it writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.costs.__main__ import rewritten
from bench.costs.measure import fitted, rows
from gpu_wcoj import costs
from tests.helpers.kernel_kinds import needed


def test_costs_are_fitted_to_what_was_counted() -> None:
    counted = np.random.default_rng(1).integers(0, 1000, (60, 3))
    found = fitted(("A", "B"), counted.tolist(), (counted @ [3.0, 0.0, 20.0] + 500).tolist())
    assert found.keys() == {"A", "B"}
    assert abs(found["A"] - 3.0) < 1e-6 > found["B"]


def test_measured_costs_are_in_the_table() -> None:
    needed("numba")
    found = rows()
    assert found.keys() <= vars(costs).keys()
    assert min(found.values()) > 0


def test_a_written_table_differs_in_the_measured_costs_only() -> None:
    text = Path(costs.__file__).read_text()
    changed = rewritten(text, {"SEARCH": 41.6, "INDEXED_ROW": 71.27})
    lines = [(old, new) for old, new in zip(text.splitlines(), changed.splitlines(), strict=True) if old != new]
    assert lines == [
        ("SEARCH: Final = 30", "SEARCH: Final = 42"),
        ("INDEXED_ROW: Final = 64.0", "INDEXED_ROW: Final = 71.0"),
    ]
