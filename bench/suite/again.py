"""Which times are taken again: those of the same counted work that are far apart, as something disturbed one.

Whoever is ahead, all of them take further rounds, so that none is favoured; the median is that of all rounds. They do
so in further processes: where the pages of a process lie can make all of its rounds half as long again.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from bench.suite.record import Work

ALIKE = 1.1
"""Counted work that differs by no more than this factor is the same."""

APART = 1.12
"""The median times of the same work differ by no more than this factor, or they are taken again."""

AGAIN = 3
"""So many times they are taken again at most."""


def unsettled(rounds: Mapping[str, Sequence[float]], work: Mapping[str, Work]) -> list[str]:
    """The contenders that did the same work as another one, in a time that is far from its.

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
    >>> unsettled({"wcoj": [1.0, 1.0], "binary": [9.0, 9.0], "auto": [1.0, 1.02]}, work)
    []
    """
    effort = {name: (one.proposals or 0) + (one.probes or 0) for name, one in work.items() if rounds.get(name)}
    median = {name: statistics.median(rounds[name]) for name in effort}
    found = []
    for name, own in effort.items():
        others = [other for other in effort if other != name and own <= ALIKE * effort[other] <= ALIKE**2 * own]
        if any(max(median[name], median[other]) > APART * min(median[name], median[other]) for other in others):
            found.append(name)
    return found
