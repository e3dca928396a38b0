"""How many ticks are so many times as fast as a count of the same state, and from which one on."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass

TIMES = 5.0
"""What is asked of a tick."""


@dataclass(frozen=True)
class Reached:
    """Of one comparison, tick by tick.

    Attributes
    ----------
    ticks
        How many there are.
    enough
        How many reach `TIMES`.
    first
        The first of those, numbered from 1; None if there is none.
    lasting
        The first from which on all do; None if the last one does not.
    least, median, most
        How many times as fast ticks are.
    """

    ticks: int
    enough: int
    first: int | None
    lasting: int | None
    least: float
    median: float
    most: float

    @classmethod
    def of(cls, ticks: Sequence[float], counts: Sequence[float], times: float = TIMES) -> Reached:
        """Of seconds that ticks take, and counts of the state after each.

        Examples
        --------
        >>> Reached.of([1.0, 1.0, 1.0, 1.0], [2.0, 5.0, 4.0, 9.0])
        Reached(ticks=4, enough=2, first=2, lasting=4, least=2.0, median=4.5, most=9.0)
        >>> print(Reached.of([1.0, 1.0], [6.0, 5.0]))
        2 of 2 ticks (100 %) at 5 times or more, the first is tick 1, all from tick 1 on; 5.0 to 6.0, median 5.5
        """
        ratios = [count / tick for tick, count in zip(ticks, counts, strict=True)]
        enough = [number for number, ratio in enumerate(ratios, 1) if ratio >= times]
        short = [number for number, ratio in enumerate(ratios, 1) if ratio < times]
        after = max(short, default=0) + 1
        return cls(
            len(ratios), len(enough), min(enough, default=None), after if after <= len(ratios) else None,
            min(ratios), statistics.median(ratios), max(ratios),
        )  # fmt: skip

    def __str__(self) -> str:
        said = f"{self.enough} of {self.ticks} ticks ({self.enough / self.ticks:.0%}) at {TIMES:g} times or more"
        said = said.replace("%", " %")
        if self.first is not None:
            said += f", the first is tick {self.first}"
        if self.lasting is not None:
            said += f", all from tick {self.lasting} on"
        return f"{said}; {self.least:.1f} to {self.most:.1f}, median {self.median:.1f}"

    @property
    def record(self) -> dict[str, object]:
        """For the JSON."""
        return asdict(self)
