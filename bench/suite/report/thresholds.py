"""From which state on worst-case optimal joins are ten times as fast as binary ones, per skewed cyclic pattern."""

from __future__ import annotations

from dataclasses import dataclass

from bench.suite.record import Case, Record
from bench.suite.report.facts import Facts, at_least, cpu_per_tick, ratio

FACTOR = 10.0
"""How many times as fast."""
CHANGES = 1_000
"""Changed rows of a tick."""
SUITE = "skewed"
"""Which suite's records count: others measure some of the same states in fewer rounds."""
COMMAND = f"gpu-wcoj bench --suite {SUITE} --rivals none --report DIR"
"""What measures it."""


@dataclass(frozen=True)
class Point:
    """One state size.

    Attributes
    ----------
    rows
        Of the state, in all relations.
    speedup
        Processor time of binary joins by that of worst-case optimal ones; None where it is not known.
    is_least
        Whether binary joins were stopped, so that they take at least so many times as long.
    auto
        Processor time of the planner's choice by that of worst-case optimal joins; None where it is not known.
    """

    rows: int
    speedup: float | None
    is_least: bool
    auto: float | None

    @property
    def holds(self) -> bool:
        """Whether worst-case optimal joins are known to be so many times as fast."""
        return self.speedup is not None and self.speedup >= FACTOR


@dataclass(frozen=True)
class Threshold:
    """A pattern over its state sizes, the smallest first."""

    workload: str
    points: tuple[Point, ...]

    @property
    def rows(self) -> int | None:
        """The smallest measured state from which on it holds for all that were measured; None where there is none.

        Examples
        --------
        >>> found = [Point(10, 12.0, False, 1.0), Point(20, 9.0, False, 1.0), Point(30, 15.0, True, 1.0)]
        >>> Threshold("triangle", tuple(found)).rows, Threshold("triangle", tuple(found[:2])).rows
        (30, None)
        """
        found = None
        for point in reversed(self.points):
            if not point.holds:
                break
            found = point.rows
        return found


def thresholds(facts: Facts) -> list[Threshold]:
    """Of all cyclic patterns over graphs of the usual skew, at so many changes a tick, half of them deletions."""
    records = Facts.of([one for one in facts.documents if one.suite == SUITE]).records
    found: dict[str, dict[int, Point]] = {}
    for (name, contender), wcoj in records.items():
        if contender == "wcoj" and _belongs(wcoj.case):
            binary, auto = (records.get((name, other)) for other in ("binary", "auto"))
            point = _point(wcoj, binary, auto)
            if point is not None:
                found.setdefault(wcoj.case.workload, {})[point.rows] = point
    return [Threshold(name, tuple(one[rows] for rows in sorted(one))) for name, one in found.items()]


def _belongs(case: Case) -> bool:
    return (
        case.family == "cyclic"
        and case.data == "rmat"
        and (case.change_rows, case.kind, case.how) == (CHANGES, "mixed", "count")
        and case.vertex_order == "generated"
        and "skew" not in case.parameters
    )


def _point(wcoj: Record, binary: Record | None, auto: Record | None) -> Point | None:
    if not cpu_per_tick(wcoj):
        return None
    speedup, is_least = ratio(binary, wcoj), cpu_per_tick(binary) is None
    least = at_least(binary, wcoj)
    return Point(wcoj.case.state_rows, speedup if least is None else least, is_least, ratio(auto, wcoj))
