"""Times of a circuit: tick and iteration, under the product order."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Time:
    """(tick, iteration): one time is at most another if and only if both coordinates are.

    The order is partial: (0, 2) and (1, 1) are not comparable. Outside a subcircuit the iteration is 0.

    Examples
    --------
    >>> Time(0, 1) <= Time(1, 1), Time(0, 2) <= Time(1, 1), Time(0, 2) >= Time(1, 1)
    (True, False, False)
    >>> Time(0, 2).join(Time(1, 1)), Time(0, 2).meet(Time(1, 1))
    (Time(tick=1, iteration=2), Time(tick=0, iteration=1))
    """

    tick: int
    iteration: int = 0

    def __le__(self, other: Time) -> bool:
        return self.tick <= other.tick and self.iteration <= other.iteration

    def __lt__(self, other: Time) -> bool:
        return self <= other and self != other

    def __ge__(self, other: Time) -> bool:
        return other <= self

    def __gt__(self, other: Time) -> bool:
        return other < self

    def is_comparable(self, other: Time) -> bool:
        """Return whether one of the two times is at most the other."""
        return self <= other or other <= self

    def join(self, other: Time) -> Time:
        """Return the least upper bound of both times."""
        return Time(max(self.tick, other.tick), max(self.iteration, other.iteration))

    def meet(self, other: Time) -> Time:
        """Return the greatest lower bound of both times."""
        return Time(min(self.tick, other.tick), min(self.iteration, other.iteration))
