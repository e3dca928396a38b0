"""Inspection of the values of a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpu_wcoj.streams.operator import Operator


class Inspect(Operator):
    """``out = in``; a function is called with the value once per tick or iteration. Linear."""

    def __init__(self, function: Callable[[Any], object]) -> None:
        self.function = function

    def evaluate(self, value: Any) -> Any:
        """Return the value itself."""
        self.function(value)
        return value
