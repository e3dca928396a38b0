"""feedback: what closes a loop; and streams that are defined later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.streams.place import NOTHING
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
        """A clock of its own begins with 0."""
        if scope == 0:
            self.state = NOTHING, True

    def evaluate(self) -> ZSet:
        """What it was given the time before."""
        return self.state[0]

    def latch(self, value: ZSet) -> None:
        """Take what is given next time."""
        self.state = value, self.place.equal(self.state[0], value)

    @property
    def settled(self) -> bool:
        """Whether it was given what it had."""
        return self.state[1]


class Forward(Operator):
    """``out = in``, connected later. Linear."""

    def __init__(self) -> None:
        self.source: Node | None = None

    def evaluate(self, value: ZSet) -> ZSet:
        """The value."""
        return value
