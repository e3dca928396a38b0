"""Which times are taken again: those of the same counted work that are far apart, as something disturbed one.

Whoever is ahead, all of them take the same further rounds, and the median is that of all rounds. Cases do so in
further processes, as where the pages of a process lie can make all of its rounds half as long again. What looks settled
by chance is not taken again.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
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


def unsettled(rounds: Mapping[str, Sequence[float]], work: Mapping[str, Work]) -> list[str]:
    """If contenders did the same work in times that are far apart: they, and those that are about as fast as the best.

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
    """
    effort = {name: one.effort for name, one in work.items() if rounds.get(name)}
    median = {name: statistics.median(rounds[name]) for name in effort}
    for one, other in combinations(effort, 2):
        alike = max(effort[one], effort[other]) <= ALIKE * min(effort[one], effort[other])
        if alike and max(median[one], median[other]) > APART * min(median[one], median[other]):
            return [name for name in effort if name in (one, other) or median[name] <= NEAR * min(median.values())]
    return []
