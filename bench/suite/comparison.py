"""The engine's strategies beside each other: how many times as long auto takes as the better of the other two."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from bench.suite.record import Case, Check, Comparison, Work
from bench.suite.registry import STRATEGIES


def compared(
    case: Case,
    cpu_seconds: Mapping[str, Sequence[float]],
    work: Mapping[str, Work],
    check: Check | None,
    stopped: Mapping[str, str],
) -> Comparison:
    """From the rounds that the strategies took in turn.

    Examples
    --------
    >>> case = Case("triangle", "cyclic", "rmat", {}, 1, 100, 1, "insert", 1)
    >>> rounds = {"wcoj": [1.0, 1.2, 1.1], "binary": [9.0, 8.0, 9.5], "auto": [1.1, 1.2, 1.4]}
    >>> work = {"wcoj": Work(10, 10, 30, 5), "binary": Work(90, 90, 90, 50), "auto": Work(10, 12, 32, 5)}
    >>> found = compared(case, rounds, work, None, {})
    >>> round(found.ratio, 2), found.work_ratio
    (1.09, 1.1)
    """
    timed = {name: statistics.median(rounds) for name, rounds in cpu_seconds.items() if rounds}
    effort = {name: float(one.effort) for name, one in work.items()}
    return Comparison(
        case,
        {name: tuple(rounds) for name, rounds in cpu_seconds.items()},
        dict(work),
        _ratio(timed),
        _ratio(effort),
        check,
        dict(stopped),
    )


def _ratio(values: Mapping[str, float]) -> float | None:
    """Auto's by the lesser one of the others; where one of them was stopped, by that of the one that was not."""
    others = [values[name] for name in STRATEGIES if name != "auto" and name in values]
    if "auto" not in values or not others:
        return None
    best = min(others)
    return values["auto"] / best if best else (1.0 if not values["auto"] else None)
