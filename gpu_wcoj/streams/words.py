"""Exact sums of floats as words, independent of the order of the rows; on the host."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from gpu_wcoj.backend import cpu_backend
from gpu_wcoj.circuit.float_sums import float_sum_codes, float_words
from gpu_wcoj.data.column import Column
from gpu_wcoj.data.schema import DataType
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.streams.device_context import Place
from gpu_wcoj.streams.grouped import Groups

ROWS, VALUES = -1, -2
"""Word indices of the number of rows of a group, and of its non-null values."""

Words = dict[int, int]
"""The words of one group."""


def words_of_groups(groups: Groups, column: Column) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return the words that rows add to their groups: group, word and amount, consolidated."""
    to_host = groups.place.backend.to_host
    group, codes, weights = to_host(groups.group_of_rows), to_host(column.stored), to_host(groups.weights)
    parts = [(group, np.full(len(group), ROWS), weights)]
    if column.stored_valid is not None:
        valid = to_host(column.stored_valid)
        group, codes, weights = group[valid], codes[valid], weights[valid]
    parts.append((group, np.full(len(group), VALUES), weights))
    parts.append(float_words(group, codes, 4 if column.type.family == "float32" else 8, weights))
    columns = [np.concatenate(each).astype(np.int64) for each in zip(*parts, strict=True)]
    (group, word), amount = cpu_backend().kernels.consolidate(columns[:2], columns[2])
    return group, word, amount


def words_by_group(n_groups: int, groups: Iterable[int], word: Iterable[int], amount: Iterable[int]) -> list[Words]:
    """Return the words of each group, with the amounts of each word added."""
    words_of_groups: list[Words] = [{} for _ in range(n_groups)]
    for group, index, more in zip(groups, word, amount, strict=True):
        words_of_groups[group][index] = words_of_groups[group].get(index, 0) + more
    return words_of_groups


def column_of(place: Place, groups: Sequence[Words], is_mean: bool) -> Column:
    """Return the sums, or means, of these groups as doubles; null for groups without values."""
    sums = [{word: amount for word, amount in words.items() if word >= 0} for words in groups]
    counts = [words.get(VALUES, 0) for words in groups]
    valid = np.array([count > 0 for count in counts], bool)
    codes = np.where(valid, float_sum_codes(sums, counts if is_mean else None), 0)
    moved = None if bool(valid.all()) else place.backend.asarray(valid)
    return Column(DataType("double"), place.backend.asarray(codes), moved)
