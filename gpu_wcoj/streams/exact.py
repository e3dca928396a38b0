"""Products of weights as Python integers: slow, used only if int64 may overflow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpu_wcoj.data.column import Column, on_host
from gpu_wcoj.errors import WeightOverflowError
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.zset.zset import ZSet

if TYPE_CHECKING:
    from gpu_wcoj.streams.device_context import Place


def product(place: Place, names: Sequence[str], columns: Sequence[Column], left: Int64Array, right: Int64Array) -> ZSet:
    """Return the consolidated rows with the weights ``left * right``.

    Raises
    ------
    WeightOverflowError
        If the exact weight of a row leaves int64.
    """
    exact = on_host(left).astype(object) * on_host(right).astype(object)
    ones = np.ones(len(exact), np.int64)
    rows = place.made(names, columns, place.backend.asarray(ones))
    if not columns:
        return place.made(names, columns, _to_int64(rows, np.array([exact.sum()], object)))
    keys = [on_host(key) for column in columns for key in _keys(column)]
    order = np.lexsort(keys[::-1])
    changed = np.zeros(len(order), bool)
    changed[0] = True
    for key in keys:
        changed[1:] |= key[order][1:] != key[order][:-1]
    sums = np.add.reduceat(exact[order], np.flatnonzero(changed))
    return place.select_rows(
        place.trusted(names, rows.columns, place.backend.asarray(_to_int64(rows, sums))),
        place.backend.asarray(sums != 0),
    )


def _keys(column: Column) -> list[Int64Array]:
    """Return the sort keys of a column of a Z-set: nulls first, then codes."""
    if column.stored_valid is None:
        return [column.stored]
    return [column.stored_valid.astype(np.int64), column.stored]


def _to_int64(rows: ZSet, sums: Int64Array) -> Int64Array:
    for row, weight in enumerate(sums.tolist()):
        if not -(1 << 63) <= weight < 1 << 63:
            raise WeightOverflowError("<stream>", rows.rows()[row][0] if rows.columns else (), weight)
    return sums.astype(np.int64)
