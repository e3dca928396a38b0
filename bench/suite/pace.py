"""How far a run is, and about how much longer it takes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass
class Pace:
    """The cases of a run, and the seconds that those which are done have taken.

    Attributes
    ----------
    weights
        How long each case may take beside the others.
    done
        Seconds of those that are done.

    Examples
    --------
    >>> pace = Pace({"one": 1.0, "two": 3.0, "three": 4.0}, {"one": 10.0})
    >>> pace.share, pace.left
    (0.125, 70.0)
    >>> pace.words("two")
    '1 of 3 done, about 1 min left: two'
    """

    weights: Mapping[str, float]
    done: dict[str, float]
    _begun: float = 0.0

    def begin(self) -> None:
        """A case begins."""
        self._begun = time.monotonic()

    def took(self, name: str) -> None:
        """The case that began last is done."""
        self.done[name] = time.monotonic() - self._begun

    @property
    def share(self) -> float:
        """Of all cases, by weight, that are done."""
        return self._weight() / max(sum(self.weights.values()), 1e-9)

    @property
    def left(self) -> float | None:
        """Seconds that the other cases take, if they go on as those before; None before the first one is done."""
        weight = self._weight()
        if not weight:
            return None
        return sum(self.done.values()) * (sum(self.weights.values()) / weight - 1.0)

    def words(self, what: str) -> str:
        """How far the run is, and what is done now."""
        left = "" if self.left is None else f", about {_minutes(self.left)} left"
        return f"{len(self.done)} of {len(self.weights)} done{left}: {what}"

    def _weight(self) -> float:
        return sum(self.weights[name] for name in self.done)


def _minutes(seconds: float) -> str:
    """Whole minutes, and hours.

    Examples
    --------
    >>> [_minutes(one) for one in (3, 100, 3600, 9000)]
    ['a minute', '2 min', '1 h 00 min', '2 h 30 min']
    """
    minutes = round(seconds / 60)
    if minutes < 1:
        return "a minute"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"
