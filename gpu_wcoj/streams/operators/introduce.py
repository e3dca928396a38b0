"""Imports into a subcircuit: δ0, and constant values."""

from __future__ import annotations

from typing import Any

from gpu_wcoj.streams.device_context import NOTHING
from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.zset.zset import ZSet


class Introduce(Operator):
    """``δ0(x)``: a value of the parent circuit at iteration 0, else 0. Linear."""

    state: bool = True

    def clock_start(self, scope: int) -> None:
        """Reset at the start of a tick."""
        if scope == 0:
            self.state = False

    def evaluate(self, value: ZSet) -> ZSet:
        """Return the value at iteration 0, else no rows."""
        now = value if self.time.iteration == 0 else NOTHING
        if self.time.iteration and value.columns:
            now = self.place.taken(value, slice(0))
        self.state = not len(now)
        return now

    @property
    def settled(self) -> bool:
        """True if 0 was returned, as it will be from now on."""
        return self.state


class Hold(Operator):
    """A value of the parent circuit, constant over all iterations. Linear."""

    def evaluate(self, value: Any) -> Any:
        """Return the value."""
        return value
