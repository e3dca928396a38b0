"""How long planning takes."""

from __future__ import annotations

import time
from collections.abc import Sequence

import gpu_wcoj as gw
from bench.suite.record import Planning, Spread
from gpu_wcoj.query.datalog import parse


def plan_seconds(text: str, *, bag: bool = False, repeats: int = 3) -> float:
    """From the parsed rules to a plan, as it is explained; the best of some, without data.

    Parameters
    ----------
    text
        The program.
    """
    rules = parse(text)
    found = []
    for _ in range(repeats):
        start = time.process_time()
        gw.Program(rules, bag=bag, backend="cpu").explain()
        found.append(time.process_time() - start)
    return min(found)


def planning(texts: Sequence[str]) -> Planning:
    """Of all these programs of one rule.

    Examples
    --------
    >>> found = planning(["p(a, c) :- e(a, b), e(b, c).", "q(a) :- e(a, b)."])
    >>> found.queries, found.largest_atoms, found.seconds.n
    (2, 2, 2)
    """
    seconds = Spread.of([plan_seconds(text) for text in texts])
    assert seconds is not None
    return Planning(seconds, len(texts), max(len(rule.atoms) for text in texts for rule in parse(text).rules))
