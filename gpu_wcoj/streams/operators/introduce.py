"""Streams into a subcircuit: δ0, and values that stay."""

from __future__ import annotations

from typing import Any

from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.streams.place import NOTHING
from gpu_wcoj.zset.zset import ZSet


class Introduce(Operator):
    """``δ0(x)``: a value of the circuit around at iteration 0, and 0 at all others. Linear."""

    state: bool = True

    def clock_start(self, scope: int) -> None:
        """A tick begins."""
        if scope == 0:
            self.state = False

    def evaluate(self, value: ZSet) -> ZSet:
        """The value, the first time."""
        now = value if self.time.iteration == 0 else NOTHING
        if self.time.iteration and value.columns:
            now = self.place.taken(value, slice(0))
        self.state = not len(now)
        return now

    @property
    def settled(self) -> bool:
        """Whether 0 was given, as it will be from now on."""
        return self.state


class Hold(Operator):
    """A value of the circuit around, the same at all iterations. Linear."""

    def evaluate(self, value: Any) -> Any:
        """The value."""
        return value
