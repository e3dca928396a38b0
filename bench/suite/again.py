"""Which times are taken again: medians that are far apart, of the same counted work or of rounds that overlap.

Something disturbed one of them, or the machine as a whole. Whoever is ahead, all of them take the same further rounds,
and the median is that of all rounds. Cases do so in further processes, as where the pages of a process lie can make all
of its rounds half as long again. What looks settled by chance is not taken again.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations

from bench.suite.record import Work

ALIKE = 1.1
"""Counted work that differs by no more than this factor is the same."""

APART = 1.12
"""The median times of the same work differ by no more than this factor, or they are taken again."""

NEAR = 2.0
"""Who takes no more than so many times the best one's time is timed again, too: the machine may have become slower."""

AGAIN = 4
"""So many times they are taken again, whatever comes of the first."""

TAKEN_AGAIN = "taken again"
"""The note of a record whose times were not taken again so often."""


@dataclass
class Allowance:
    """How long times may be taken again.

    Attributes
    ----------
    seconds
        That are left of it; None for no limit.

    Examples
    --------
    >>> allowance = Allowance(1e-9)
    >>> with allowance.spending():
    ...     pass
    >>> allowance.is_spent, Allowance().is_spent
    (True, False)
    """

    seconds: float | None = None

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left."""
        return self.seconds is not None and self.seconds <= 0

    @contextmanager
    def spending(self) -> Generator[None]:
        """What is done meanwhile is taken from it."""
        begin = time.monotonic()
        try:
            yield
        finally:
            if self.seconds is not None:
                self.seconds -= time.monotonic() - begin


def unsettled(rounds: Mapping[str, Sequence[float]], work: Mapping[str, Work]) -> list[str]:
    """If times of two contenders need to be taken again: they, and those that are about as fast as the best.

    Parameters
    ----------
    rounds
        Per contender, seconds of the processor.
    work
        Of those whose work is counted.

    Examples
    --------
    >>> work = {"wcoj": Work(10, 100, 200, 5), "binary": Work(90, 900, 900, 50), "auto": Work(10, 101, 200, 5)}
    >>> unsettled({"wcoj": [1.0, 1.0], "binary": [9.0, 9.0], "auto": [1.0, 1.4]}, work)
    ['wcoj', 'auto']
    >>> unsettled({"wcoj": [1.0, 1.0], "binary": [1.3, 1.3], "auto": [1.0, 1.4]}, work)
    ['wcoj', 'binary', 'auto']
    >>> unsettled({"wcoj": [1.0, 1.0], "binary": [1.3, 1.3], "auto": [1.0, 1.02]}, work)
    []
    >>> unsettled({"wcoj": [1.3, 1.4, 0.9], "binary": [1.0, 0.9, 1.4], "auto": [1.3, 1.4, 0.9]}, work)
    ['wcoj', 'binary', 'auto']
    """
    effort = {name: one.effort for name, one in work.items() if rounds.get(name)}
    median = {name: statistics.median(rounds[name]) for name in effort}
    for one, other in combinations(effort, 2):
        alike = max(effort[one], effort[other]) <= ALIKE * min(effort[one], effort[other])
        overlap = max(min(rounds[one]), min(rounds[other])) < min(max(rounds[one]), max(rounds[other]))
        if (alike or overlap) and max(median[one], median[other]) > APART * min(median[one], median[other]):
            return [name for name in effort if name in (one, other) or median[name] <= NEAR * min(median.values())]
    return []
