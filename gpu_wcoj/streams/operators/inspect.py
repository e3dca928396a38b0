"""inspect: look at a stream as it goes by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpu_wcoj.streams.operator import Operator


class Inspect(Operator):
    """``out = in``; a function is called with the value once a tick, in a subcircuit once an iteration. Linear."""

    def __init__(self, function: Callable[[Any], object]) -> None:
        self.function = function

    def evaluate(self, value: Any) -> Any:
        """The value itself."""
        self.function(value)
        return value
