"""The order of values inside groups: numbers, dates and texts by value, nulls last."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_wcoj.data.column import Column
from gpu_wcoj.kernels.protocol import IndexArray, Int64Array
from gpu_wcoj.streams.device_context import Place
from gpu_wcoj.streams.grouped import Groups
from gpu_wcoj.streams.layout import is_null


def order_keys(place: Place, column: Column, descending: bool = False) -> list[Int64Array]:
    """Return sort keys that order rows by the column's values, nulls last."""
    codes = column.stored
    if column.dictionary is not None and len(column):
        ranks = place.backend.asarray(column.dictionary.rank())
        codes = ranks[codes] if len(ranks) else codes
    if descending:
        codes = ~codes
    if column.stored_valid is None:
        return [codes]
    return [is_null(column, place), place.xp.where(column.stored_valid, codes, 0)]


def in_order(groups: Groups, by: Sequence[tuple[int, bool]], total: bool = True) -> IndexArray:
    """Return the rows of each group in the order of these columns, True for a descending column.

    Parameters
    ----------
    total
        Whether ties are sorted by all other columns.
    """
    place, columns = groups.place, groups.rows.columns
    listed = list(by)
    if total:
        named = {column for column, _ in by}
        listed += [
            (position, False)
            for position in range(len(columns))
            if position not in named and position not in groups.keys
        ]
    keys = [groups.group_of_rows]
    for column, descending in listed:
        keys += order_keys(place, columns[column], descending)
    return place.backend.kernels.lexsort([place.xp.ascontiguousarray(key) for key in keys])
