"""How many values prefixes have in the ranges of a step, by a sample: without that any of them is looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_wcoj.join.conditions import bounds_of
from gpu_wcoj.join.path import Step
from gpu_wcoj.join.prefixes import Prefixes
from gpu_wcoj.kernels.protocol import CodeArray, IndexArray, Int64Array

if TYPE_CHECKING:
    from gpu_wcoj.join.generic import GenericJoin

SAMPLED = 1024
"""About so many prefixes are asked, evenly spaced."""


def n_values(join: GenericJoin, prefixes: Prefixes, step: Step) -> Any:
    """About how many values of the step all prefixes have together, each those of its narrowest atom; as an array."""
    xp = join.backend.xp
    rows = xp.arange(0, len(prefixes), max(1, len(prefixes) // SAMPLED))
    sample = prefixes.take(rows, xp)
    lower, upper, _ = bounds_of(step, sample.values, len(rows), join.backend)
    least = xp.full(len(rows), np.iinfo(np.int64).max, np.int64)
    at, first = 0, dict[int, tuple[int, int]]()
    for atom, depth in sample.layout:
        first[atom] = at, depth
        at += len(join.batches[atom])
    for atom in step.atoms:
        at, depth = first.get(atom, (0, 0))
        found = xp.zeros(len(rows), np.int64)
        for number, batch in enumerate(join.batches[atom], at):
            begin, end = xp.zeros(len(rows), np.int64), xp.full(len(rows), len(batch.values[0]), np.int64)
            if depth:
                node = sample.positions[number]
                begin = xp.where(node >= 0, batch.offsets[depth - 1][xp.maximum(node, 0)], 0)
                end = xp.where(node >= 0, batch.offsets[depth - 1][xp.maximum(node, 0) + 1], 0)
            if len(lower):
                values = batch.values[depth]
                from_here = first_from(values, begin, end, lower, False, xp)
                begin, end = from_here, first_from(values, begin, end, upper, True, xp)
            found = found + xp.maximum(end - begin, 0)
        least = xp.minimum(least, found)
    return least.sum() * (len(prefixes) / len(rows))


def first_from(
    values: CodeArray, begin: IndexArray, end: IndexArray, sought: Int64Array, is_above: bool, xp: Any = np
) -> IndexArray:
    """For each range of `values`, which ascend there, where it begins not to be below what is sought, or to be above.

    Examples
    --------
    >>> values = np.array([1, 3, 5, 2, 3])
    >>> sought = np.array([3, 3, 9])
    >>> first_from(values, np.array([0, 3, 3]), np.array([3, 5, 3]), sought, False)
    array([1, 4, 3])
    >>> first_from(values, np.array([0, 3, 3]), np.array([3, 5, 3]), sought, True)
    array([2, 5, 3])
    """
    for _ in range(len(values).bit_length()):
        middle = (begin + end) // 2
        one = values[xp.minimum(middle, len(values) - 1)]
        is_right = (begin < end) & (one <= sought if is_above else one < sought)
        begin, end = xp.where(is_right, middle + 1, begin), xp.where(is_right, end, middle)
    return begin
