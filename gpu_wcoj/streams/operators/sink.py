"""Sinks: outputs of a circuit."""

from __future__ import annotations

from typing import Any

from gpu_wcoj.streams.device_context import NOTHING, is_nothing
from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.zset.zset import ZSet


class Sink(Operator):
    """``out = in``; without rows, the columns seen so far. Linear."""

    state: ZSet = NOTHING
    """The columns, as far as they are known; no rows."""

    def clock_start(self, scope: int) -> None:
        """Reset at the start of the operator's clock."""
        if scope == 0:
            self.state = NOTHING

    def evaluate(self, value: Any) -> Any:
        """Return the value."""
        if not isinstance(value, ZSet):
            return value
        if is_nothing(value):
            return self.state
        if value.columns:
            self.state = self.place.taken(value, slice(0))
        return value
