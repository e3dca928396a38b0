"""Rows on their way out: stored columns as Z-sets of the columns' types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.column import Column
from gpu_wcoj.planner.body import Shape
from gpu_wcoj.schema import DataType
from gpu_wcoj.trace.arrangement import PhaseRows
from gpu_wcoj.zset.zset import ZSet

if TYPE_CHECKING:
    from gpu_wcoj.dictionary import Dictionary


def as_zset(
    names: tuple[str, ...],
    kinds: Sequence[DataType],
    shape: Shape,
    phases: Sequence[PhaseRows],
    dictionaries: tuple[Dictionary, Dictionary],
    backend: Backend,
    are_sorted: bool = True,
) -> ZSet:
    """Stored columns of distinct rows as a Z-set, which lives where they do.

    Parameters
    ----------
    names, kinds
        Of the relation's columns.
    shape
        Which of them have a stored column of null flags.
    phases
        The rows.
    dictionaries
        Of text and of bytes.
    backend
        Where the rows are.
    are_sorted
        Whether each phase is in order.
    """
    filled = [phase for phase in phases if len(phase)] or list(phases[:1])
    arity, n_stored, xp = len(kinds), len(filled[0].columns), backend.xp
    stored = [xp.concatenate([phase.columns[i] for phase in filled]) for i in range(n_stored)]
    signs = (one.weights for one in filled)
    weights = xp.concatenate(
        [
            xp.full(len(one), sign, np.int64) if isinstance(sign, int) else sign
            for one, sign in zip(filled, signs, strict=True)
        ]
    )
    columns = []
    for column, kind in enumerate(kinds):
        flag = shape.flag(column) if n_stored > arity else None
        valid = None if flag is None or not bool(stored[flag].any()) else stored[flag] == 0
        columns.append(Column(kind, stored[column], valid, _dictionary_of(kind, dictionaries)))
    place = None if backend.device is None else backend
    if are_sorted and len(filled) == 1 and n_stored == arity:
        return ZSet(names, tuple(columns), weights, backend=place)
    return ZSet.from_columns(names, columns, weights, backend=place)


def no_rows(names: tuple[str, ...], kinds: Sequence[DataType], dictionaries: tuple[Dictionary, Dictionary]) -> ZSet:
    """The Z-set of these columns without rows."""
    nothing = np.empty(0, np.int64)
    columns = tuple(Column(kind, nothing, None, _dictionary_of(kind, dictionaries)) for kind in kinds)
    return ZSet(names, columns, nothing)


def _dictionary_of(kind: DataType, dictionaries: tuple[Dictionary, Dictionary]) -> Dictionary | None:
    if not kind.has_dictionary:
        return None
    return dictionaries[0 if kind.family == "string" else 1]
