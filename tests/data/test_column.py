"""Columns show their values, not their codes."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from gpu_wcoj.arrow import encode


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (pa.array([1.5, None, -0.0]), "Column(float, [1.5, null, -0.0])"),
        (pa.array([0.5], pa.float32()), "Column(float32, [0.5])"),
        (pa.array(["a", None]), "Column(str, ['a', null])"),
        (pa.array([None], pa.string()), "Column(str, [null])"),
        (pa.array(range(11)), "Column(int, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ...])"),
        (pa.array([True, False]), "Column(bool, [True, False])"),
        (pa.array([dt.date(2026, 1, 2), None]), "Column(date, [2026-01-02, null])"),
        (pa.array([dt.datetime(2026, 1, 2, 3)]), "Column(datetime, [2026-01-02T03:00:00.000000])"),
        (pa.array([Decimal("1.50")]), "Column(decimal(3, 2), [1.50])"),
        (pa.array([b"x"]), "Column(bytes, [b'x'])"),
        (pa.array(["x"]).dictionary_encode(), "Column(category[str], ['x'])"),
        (pa.array([], pa.int8()), "Column(int8, [])"),
    ],
)
def test_the_text_of_a_column(values: pa.Array, text: str):
    assert repr(encode(values)) == text
