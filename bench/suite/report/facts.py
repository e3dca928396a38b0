"""What is read off the records: per case, how many times as long one strategy took as another, and where that turns.

Every number of the report comes from here. Times of strategies are processor seconds of a tick, since they ran on one
machine in turn; those beside rivals are seconds that passed, since some rivals are other processes.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from bench.suite.catalogue import WORKLOADS
from bench.suite.random_queries import RANDOM
from bench.suite.record import Case, Comparison, Document, Record
from bench.suite.registry import OWN

SMALL, SMALL_SHARE = 10, 1e-3
"""Changed rows of a tick up to which a change is called small, and the share of the state up to which it is as well."""
MADE_BY = ("commit", "processor", "cores", "threads")
"""What has to be the same of two documents for their records of one case to be compared."""
NEAR = 1.5
"""A strategy that takes no more than so many times what the other takes is called as good as that one."""


@dataclass(frozen=True)
class Pair:
    """Binary and worst-case optimal joins at one case.

    Attributes
    ----------
    speedup
        Processor time of binary joins by that of worst-case optimal ones, as `ratio`; None where one of them came to no
        end.
    least_speedup
        What it is at least, where binary joins alone came to no end; else None.
    work_ratio
        The same of proposals, probes and marks together.
    """

    case: Case
    binary: Record
    wcoj: Record
    speedup: float | None
    least_speedup: float | None
    work_ratio: float | None

    @property
    def is_cyclic(self) -> bool:
        """Whether the query is a pattern without a join tree."""
        return self.case.atoms > 0 and not self.case.is_acyclic

    @property
    def share(self) -> float:
        """Changed rows of a tick as a share of the state; of a graph, an edge may be several rows in both."""
        workload = WORKLOADS.get(self.case.workload)
        rows = self.case.change_rows * (1 if workload is None else workload.rows_of_change)
        return rows / self.case.state_rows if self.case.state_rows else math.inf

    @property
    def is_small(self) -> bool:
        """Whether the changes are small."""
        return self.case.change_rows <= SMALL or self.share <= SMALL_SHARE


@dataclass(frozen=True)
class Crossing:
    """Where, along one axis with all else alike, the faster strategy changes.

    Attributes
    ----------
    at
        The values at which the speed-up would be 1, on a straight line between its neighbours, both axes logarithmic.
    low, high
        The ends of the values that were measured, and the speed-ups there.
    endless
        The values at which binary joins came to no end, and the least speed-ups there.
    """

    axis: str
    name: str
    low: tuple[float, float]
    high: tuple[float, float]
    at: tuple[float, ...]
    endless: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class Facts:
    """The records of all documents, each case and contender once.

    What other threads, another commit or another machine measured of a case is not put beside each other: of these the
    last document counts.
    """

    documents: tuple[Document, ...]
    records: Mapping[tuple[str, str], Record]
    comparisons: tuple[Comparison, ...]

    @classmethod
    def of(cls, documents: Sequence[Document]) -> Facts:
        """Of documents in the order in which they were written."""
        records: dict[tuple[str, str], Record] = {}
        made: dict[str, tuple[object, ...]] = {}
        for document in documents:
            own = tuple(document.machine.get(name) for name in MADE_BY)
            for one in document.records:
                name = _base(one)
                if made.setdefault(name, own) != own:
                    made[name] = own
                    records = {at: other for at, other in records.items() if _base(other) != name}
                records[key(one.case), one.contender] = one
        compared = {key(one.case): one for document in documents for one in document.comparisons}
        return cls(tuple(documents), records, tuple(compared.values()))

    def pairs(self) -> list[Pair]:
        """All cases at which both strategies took part."""
        found = []
        for (name, contender), binary in self.records.items():
            wcoj = self.records.get((name, "wcoj"))
            if contender == "binary" and wcoj is not None:
                found.append(
                    Pair(
                        binary.case, binary, wcoj, ratio(binary, wcoj), at_least(binary, wcoj),
                        work_ratio(binary, wcoj),
                    )
                )  # fmt: skip
        return found

    def measured(self) -> list[tuple[Pair, float]]:
        """The pairs whose speed-up is known, with it."""
        return [(pair, pair.speedup) for pair in self.pairs() if pair.speedup is not None]

    def chosen(self) -> list[Comparison]:
        """The planner's choice beside both strategies, case by case."""
        return [one for one in self.comparisons if one.case.family != RANDOM]

    def by_chance(self) -> list[Comparison]:
        """The same of queries that chance wrote."""
        return [one for one in self.comparisons if one.case.family == RANDOM]

    def wrong(self) -> list[Record]:
        """Records of wrong answers."""
        return [one for one in self.records.values() if one.check is not None and not one.check.is_right]

    def checked(self) -> list[Record]:
        """Records whose answers other code confirmed: of the engine's, code that is not the engine's."""
        right = [one for one in self.records.values() if one.check is not None and one.check.is_right]
        others = {_base(one) for one in right if one.contender not in OWN}
        found = []
        for one in right:
            by = set(one.check.by if one.check is not None else ())
            if one.contender in OWN:
                by = {"others"} if by - OWN or _base(one) in others else set()
            found += [one] if by else []
        return found

    def agreed(self) -> list[Record]:
        """Records of right answers that nothing but other ways of the engine's confirmed."""
        others = {id(one) for one in self.checked()}
        right = [one for one in self.records.values() if one.check is not None and one.check.is_right and one.check.by]
        return [one for one in right if id(one) not in others]

    def rivals(self) -> list[tuple[Case, Mapping[str, Record]]]:
        """Per case, with vertices as they were generated, all contenders, each in the order that suits it best."""
        found: dict[str, dict[str, Record]] = {}
        cases: dict[str, Case] = {}
        for (_, contender), record in self.records.items():
            base = replace(record.case, vertex_order="generated")
            at = _without_degrees(base)
            if record.case.vertex_order == "generated" or at not in cases:
                cases[at] = base
            there = found.setdefault(at, {}).get(contender)
            if there is None or _passed(record) < _passed(there):
                found[at][contender] = record
        return [(cases[at], contenders) for at, contenders in found.items()]

    def crossings(self) -> list[Crossing]:
        """Along change sizes, state sizes and skew."""
        axes: Mapping[str, Callable[[Case], float | None]] = {
            "changed rows": lambda case: case.change_rows,
            "rows of the state": lambda case: case.state_rows,
            "skew": lambda case: case.skew,
        }
        return [one for axis, value in axes.items() for one in self._crossings(axis, value)]

    def series(self, value: Callable[[Case], float | None], fixed: str) -> dict[str, list[tuple[float, float]]]:
        """Speed-ups by a value, one series for all cases that are alike but for it; series of one value are left out.

        Parameters
        ----------
        fixed
            Of ``changed rows``, ``rows of the state`` and ``skew``, what the series are along.
        """
        found = _by_name(((pair.case, speedup) for pair, speedup in self.measured()), value, fixed)
        return {name: points for name, points in found.items() if len({at for at, _ in points}) > 1}

    def endless(self, value: Callable[[Case], float | None], fixed: str) -> dict[str, list[tuple[float, float]]]:
        """The same of the least speed-ups where binary joins came to no end, of one value as well.

        What another run has measured to the end, or given more time, is left out.
        """
        least = ((pair.case, pair.least_speedup) for pair in self.pairs())
        found = _by_name(((case, one) for case, one in least if one is not None), value, fixed)
        measured = _by_name(((pair.case, speedup) for pair, speedup in self.measured()), value, fixed)
        kept: dict[str, list[tuple[float, float]]] = {}
        for name, points in found.items():
            known = {at for at, _ in measured.get(name, ())}
            most = {at: one for at, one in points if at not in known}  # ascending: the largest of a value counts
            if most:
                kept[name] = list(most.items())
        return kept

    def _crossings(self, axis: str, value: Callable[[Case], float | None]) -> Iterable[Crossing]:
        endless = self.endless(value, axis)
        for name, points in self.series(value, axis).items():
            yield Crossing(axis, name, points[0], points[-1], crossings(points), tuple(endless.get(name, ())))


def _by_name(
    points: Iterable[tuple[Case, float]], value: Callable[[Case], float | None], fixed: str
) -> dict[str, list[tuple[float, float]]]:
    found: dict[str, list[tuple[float, float]]] = {}
    for case, speedup in points:
        at = value(case)
        if at is not None and at > 0:
            found.setdefault(_alike(case, fixed), []).append((float(at), speedup))
    return {name: sorted(some) for name, some in found.items()}


def _base(record: Record) -> str:
    return key(replace(record.case, vertex_order="generated"))


def key(case: Case) -> str:
    """What tells all cases apart, what they are made with included."""
    made = ", ".join(f"{name}={value:g}" for name, value in sorted(case.parameters.items()))
    return f"{case.key}, {made}, {case.n_ticks} ticks, seed {case.seed}"


def crossings(points: Sequence[tuple[float, float]]) -> tuple[float, ...]:
    """Where the second value of the points, sorted by their first one, passes 1.

    Examples
    --------
    >>> [round(at, 6) for at in crossings([(1.0, 0.5), (100.0, 2.0), (10_000.0, 0.5)])]
    [10.0, 1000.0]
    >>> crossings([(1.0, 2.0), (100.0, 3.0)])
    ()
    """
    found = []
    for (low, first), (high, second) in pairwise(points):
        if (first - 1) * (second - 1) < 0:
            share = math.log(first) / (math.log(first) - math.log(second))
            found.append(float(low * (high / low) ** share))
    return tuple(found)


def cpu_per_tick(record: Record | None) -> float | None:
    """Processor seconds of a tick: of a round, the median over the rounds; None where there are none."""
    if record is None or record.seconds is None or (record.check is not None and not record.check.is_right):
        return None
    if record.round_cpu_seconds:
        return statistics.median(record.round_cpu_seconds) / record.case.n_ticks
    return None if record.cpu_seconds is None else record.cpu_seconds.median


def ratio(one: Record | None, other: Record | None) -> float | None:
    """Processor time of one by that of the other; of the first rounds, if one of them had time for no other.

    Examples
    --------
    >>> from bench.suite.record import Spread
    >>> case = Case("triangle", "cyclic", "rmat", {}, 1, 100, 1, "insert", 1)
    >>> spread = Spread.of([2.0])
    >>> often = Record(case, "wcoj", seconds=spread, round_cpu_seconds=(2.0, 2.0), first_cpu_seconds=3.0)
    >>> once = Record(case, "binary", seconds=spread, round_cpu_seconds=(6.0,), first_cpu_seconds=6.0)
    >>> ratio(once, often), ratio(replace(once, first_only=True), often)
    (3.0, 2.0)
    """
    first, second = cpu_per_tick(one), cpu_per_tick(other)
    if first is None or not second or one is None or other is None:
        return None
    if one.first_only or other.first_only:
        cold = one.first_cpu_seconds, other.first_cpu_seconds
        if cold[0] is not None and cold[1]:
            return cold[0] / cold[1]
    return first / second


def at_least(one: Record | None, other: Record) -> float | None:
    """How many times as long as the other's first round one takes at least that was stopped.

    None if it was not, or if either's processor time is not known.
    """
    taken = cpu_per_tick(other)
    if one is None or one.unfinished_seconds is None or not taken:
        return None
    own = other.first_cpu_seconds if other.first_cpu_seconds is not None else taken * other.case.n_ticks
    return one.unfinished_seconds / own if own else None


def counted(record: Record) -> float | None:
    """Proposals, probes and marks of a tick."""
    if record.work is None or record.work.proposals is None:
        return None
    return record.work.effort / record.case.n_ticks


def work_ratio(one: Record, other: Record) -> float | None:
    """Counted work of one by that of the other."""
    first, second = counted(one), counted(other)
    return None if first is None or not second else first / second


def grown(record: Record) -> int | None:
    """Bytes by which a contender's processes grew from before the state was loaded to their peak."""
    if record.peak_bytes is None or record.before_bytes is None:
        return None
    return record.peak_bytes - record.before_bytes


def _passed(record: Record) -> float:
    return math.inf if record.seconds is None else record.seconds.median


def _without_degrees(case: Case) -> str:
    """A case in whatever order of vertices, of which nothing else depends but the degrees' order."""
    return key(replace(case, vertex_order="generated"))


def _alike(case: Case, axis: str) -> str:
    """What a case shares with those that differ from it along one axis only."""
    parts = [case.workload, case.data, case.kind]
    if case.how == "rows":
        parts.append("rows made")
    if axis != "changed rows":
        parts.append(f"{case.change_rows:,} changed")
    if axis == "skew":
        made = {name: value for name, value in case.parameters.items() if name != "skew"}
        parts[1] = " ".join(f"{name} {value:g}" for name, value in sorted(made.items()))
    elif axis == "changed rows":
        parts.append(" ".join(f"{name} {value:g}" for name, value in sorted(case.parameters.items())))
    elif "skew" in case.parameters:
        parts.append(f"skew {case.parameters['skew']:g}")
    return ", ".join(parts)
