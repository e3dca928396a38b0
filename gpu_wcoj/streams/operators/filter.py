"""filter: the rows that satisfy a condition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpu_wcoj.errors import UsageError
from gpu_wcoj.kernels.protocol import BoolArray
from gpu_wcoj.streams.callables import input_arrays
from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.zset.zset import ZSet


class Filter(Operator):
    """``out(r) = in(r) if condition(r) else 0``. Linear.

    The condition of the columns returns a mask. A null in it counts as False.
    """

    def __init__(self, condition: Callable[..., Any], of: Sequence[str | int] | None) -> None:
        self.condition, self.of = condition, of

    def evaluate(self, rows: ZSet) -> ZSet:
        """The rows that the condition holds for."""
        if not len(rows):
            return rows
        mask = self._mask(rows)
        return self.place.held(rows, self.place.backend.asarray(mask) if rows.columns else mask)

    def _mask(self, rows: ZSet) -> BoolArray:
        made = self.condition(*input_arrays(rows, self.of))
        mask = np.ma.filled(made, False) if isinstance(made, np.ma.MaskedArray) else np.asarray(made)
        if mask.shape != (len(rows),) or mask.dtype != bool:
            raise UsageError(
                f"a filter is a boolean mask of shape {(len(rows),)}, and this one has shape {mask.shape} and type"
                f" {mask.dtype}.\n  The function gets one array per column; one of single rows goes to filter_rows."
            )
        return mask


class FilterRows(Filter):
    """The same by a function of one row, which returns True or False. Linear."""

    def _mask(self, rows: ZSet) -> BoolArray:
        answers = [self.condition(row) for row, _ in rows.rows()]
        for answer in answers:
            if not isinstance(answer, (bool, np.bool_)):
                raise UsageError(f"a condition returns True or False, and this one returned {answer!r:.80}.")
        return np.array(answers, bool)
