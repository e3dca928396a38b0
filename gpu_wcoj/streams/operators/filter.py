"""filter: the rows that satisfy a condition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpu_wcoj.errors import UsageError
from gpu_wcoj.streams.callables import given
from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.zset.zset import ZSet


class Filter(Operator):
    """``out(r) = in(r) if condition(r) else 0``. Linear.

    The condition of columns returns a mask; that of a row returns True or False. A null in the mask counts as False.
    """

    def __init__(self, condition: Callable[..., Any], by_row: bool) -> None:
        self.condition, self.by_row = condition, by_row

    def evaluate(self, rows: ZSet) -> ZSet:
        """The rows that the condition holds for."""
        if not len(rows):
            return rows
        if self.by_row:
            answers = [self.condition(row) for row, _ in rows.rows()]
            for answer in answers:
                if not isinstance(answer, (bool, np.bool_)):
                    raise UsageError(f"a condition returns True or False, and this one returned {answer!r:.80}.")
            mask = np.array(answers, bool)
        else:
            made = self.condition(*given(rows))
            mask = np.ma.filled(made, False) if isinstance(made, np.ma.MaskedArray) else np.asarray(made)
            if mask.shape != (len(rows),) or mask.dtype != bool:
                raise UsageError(
                    f"a filter is a boolean mask of shape {(len(rows),)}, and this one has shape {mask.shape} and type"
                    f" {mask.dtype}.\n  The function gets one array per column; one of single rows goes to filter_rows."
                )
        return self.place.held(rows, self.place.backend.asarray(mask) if rows.columns else mask)
