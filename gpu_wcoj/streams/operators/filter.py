"""Filter: the rows that satisfy a condition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpu_wcoj.errors import UsageError
from gpu_wcoj.kernels.protocol import BoolArray
from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.streams.operators.linear import input_arrays
from gpu_wcoj.zset.zset import ZSet


class Filter(Operator):
    """``out(r) = in(r) if condition(r) else 0``. Linear.

    The condition of the columns returns a mask. A null in it counts as False.
    """

    def __init__(self, condition: Callable[..., Any], columns: Sequence[str | int] | None) -> None:
        self.condition, self.columns = condition, columns

    def evaluate(self, rows: ZSet) -> ZSet:
        """Return the rows for which the condition holds."""
        if not len(rows):
            return rows
        mask = self._mask(rows)
        return self.place.select_rows(rows, self.place.backend.asarray(mask) if rows.columns else mask)

    def _mask(self, rows: ZSet) -> BoolArray:
        made = self.condition(*input_arrays(rows, self.columns))
        mask = np.ma.filled(made, False) if isinstance(made, np.ma.MaskedArray) else np.asarray(made)
        if mask.shape != (len(rows),) or mask.dtype != bool:
            raise UsageError.mismatch(
                "the filter",
                "has the wrong shape or type",
                f"{mask.dtype} of shape {mask.shape}",
                f"a boolean mask of shape {(len(rows),)}",
                "Return one boolean per row, or use filter_rows for a function of single rows.",
            )
        return mask


class FilterRows(Filter):
    """The same with a function of one row, which returns True or False. Linear."""

    def _mask(self, rows: ZSet) -> BoolArray:
        answers = [self.condition(row) for row, _ in rows.rows()]
        for answer in answers:
            if not isinstance(answer, (bool, np.bool_)):
                raise UsageError.wrong_type("the result of the condition", answer, "True or False")
        return np.array(answers, bool)
