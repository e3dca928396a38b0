"""Feedbacks, which close loops, and streams that are defined later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_wcoj.streams.device_context import NOTHING
from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.zset.zset import ZSet

if TYPE_CHECKING:
    from gpu_wcoj.streams.node import Node


class Feedback(Operator):
    """``z⁻¹`` whose input is read after the round, so that it may depend on its output. Linear.

    Attributes
    ----------
    source
        The node that it is given; None as long as it is not connected.
    """

    state: tuple[ZSet, bool] = (NOTHING, True)

    def __init__(self) -> None:
        self.source: Node | None = None

    def clock_start(self, scope: int) -> None:
        """Reset to 0 at the start of the operator's clock."""
        if scope == 0:
            self.state = NOTHING, True

    def evaluate(self) -> ZSet:
        """Return the input of the previous time."""
        return self.state[0]

    def latch(self, value: ZSet) -> None:
        """Store the input for the next time."""
        self.state = value, self.place.equal(self.state[0], value)

    @property
    def settled(self) -> bool:
        """True if the input equals the previous input."""
        return self.state[1]


class Forward(Operator):
    """``out = in``, connected later. Linear."""

    def __init__(self) -> None:
        self.source: Node | None = None

    def evaluate(self, value: ZSet) -> ZSet:
        """Return the value."""
        return value
