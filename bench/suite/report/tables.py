"""The report's tables: a header, and rows of text."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from bench.suite.record import Comparison, Document, Record
from bench.suite.report.facts import Facts, counted, cpu_per_tick, grown, key
from bench.suite.report.thresholds import FACTOR, thresholds
from bench.suite.report.words import digits, duration, size

NONE = "–"
ONCE = " (once)"
"""Said of times of the first round, since there was no time for another one."""


@dataclass(frozen=True)
class Table:
    """Text by rows and columns."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def strategies(facts: Facts) -> Table:
    """Every case: seconds of a tick by strategy, speed-up, and ratio of work."""
    rows = [
        (
            pair.case.key, _cpu(pair.binary), _cpu(pair.wcoj), _times(pair.speedup), _times(pair.work_ratio),
            _number(counted(pair.wcoj)), _number(pair.wcoj.bound_rows),
        )
        for pair in sorted(facts.pairs(), key=lambda one: -(one.speedup or 0))
    ]  # fmt: skip
    header = (
        "case", "binary", "wcoj", "binary by wcoj", "work, binary by wcoj", "work of wcoj", "bound on rows",
    )  # fmt: skip
    return Table(header, tuple(rows))


def binary_wins(facts: Facts) -> Table:
    """The cases at which binary joins are faster."""
    won = sorted((pair for pair, speedup in facts.measured() if speedup < 1), key=lambda one: one.speedup or 0)
    rows = [
        (
            pair.case.key,
            ("cyclic" if pair.is_cyclic else "acyclic") if pair.case.atoms else NONE,
            _cpu(pair.binary),
            _cpu(pair.wcoj),
            _times(pair.speedup),
        )
        for pair in won
    ]
    return Table(("case", "query", "binary", "wcoj", "binary by wcoj"), tuple(rows))


def tenfold(facts: Facts) -> Table:
    """Per skewed cyclic pattern, the speed-up at each state size, and from which size on it is ten times or more."""
    rows = []
    for one in thresholds(facts):
        measured = ", ".join(
            f"{digits(point.rows)}: {NONE if point.speedup is None else _least(point.is_least) + digits(point.speedup)}"
            for point in one.points
        )
        autos = [point.auto for point in one.points if point.auto is not None]
        rows.append((
            one.workload, measured, NONE if one.rows is None else f"{digits(one.rows)} rows",
            _times(max(autos, default=None)),
        ))  # fmt: skip
    return Table(
        ("pattern", "rows of the state: binary by wcoj", f"{FACTOR:g} times or more from", "auto by wcoj, at most"),
        tuple(rows),
    )


def _least(is_least: bool) -> str:
    return "more than " if is_least else ""


def crossings(facts: Facts) -> Table:
    """Along each axis, where the faster strategy changes."""
    rows = [
        (
            one.axis, one.name, f"{digits(one.low[0])} to {digits(one.high[0])}",
            f"{digits(one.low[1])} to {digits(one.high[1])}", ", ".join(map(digits, one.at)) or NONE,
            ", ".join(f"{digits(at)} (more than {digits(least)})" for at, least in one.endless) or NONE,
        )
        for one in facts.crossings()
    ]  # fmt: skip
    header = ("axis", "with", "measured", "binary by wcoj", "as fast as each other at", "binary came to no end at")
    return Table(header, tuple(rows))


def choices(facts: Facts) -> Table:
    """Per case, the planner's choice beside the better one of both strategies: time, and counted work."""
    rows = [
        (
            one.case.key, _per_tick(one, "auto"), _per_tick(one, "wcoj"), _per_tick(one, "binary"),
            _times(one.ratio), _times(one.fastest_ratio), _times(one.work_ratio),
        )
        for one in sorted(facts.chosen(), key=lambda one: -(one.ratio or 0))
    ]  # fmt: skip
    header = (
        "case", "auto", "wcoj", "binary", "auto by the better one", "by fastest rounds", "by counted work",
    )  # fmt: skip
    return Table(header, tuple(rows))


def _per_tick(one: Comparison, strategy: str) -> str:
    rounds = one.cpu_seconds.get(strategy)
    return duration(statistics.median(rounds) / one.case.n_ticks) if rounds else one.stopped.get(strategy, NONE)


def rivals(facts: Facts) -> Table:
    """Per case, seconds of a tick by contender, each with the vertices numbered as suits it best."""
    found = [
        (case, contenders) for case, contenders in facts.rivals() if len(set(contenders) - {"wcoj", "binary", "auto"})
    ]
    names = dict.fromkeys(name for _, contenders in found for name in contenders)
    rows = []
    for case, contenders in found:
        cells = []
        for name in names:
            record = contenders.get(name)
            if record is None or record.seconds is None:
                cells.append(NONE)
            else:
                by_degree = " (by degree)" if record.case.vertex_order == "degree" else ""
                cells.append(duration(record.seconds.median) + (ONCE if record.first_only else "") + by_degree)
        rows.append((case.key, *cells))
    return Table(("case", *names), tuple(rows))


def left_out(facts: Facts) -> Table:
    """What has no time, and why."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for (_, name), record in facts.records.items():
        if record.seconds is None:
            message = record.check.message if record.check is not None and not record.check.is_right else record.stopped
            cases = reasons.setdefault((name, message or NONE), [])
            if record.case.workload not in cases:
                cases.append(record.case.workload)
    rows = [(name, ", ".join(cases), reason) for (name, reason), cases in reasons.items()]
    rows += [(name, "all", reason) for document in facts.documents for name, reason in document.missing.items()]
    return Table(("contender", "workloads", "why"), tuple(dict.fromkeys(rows)))


def memory(facts: Facts) -> Table:
    """Per case, by how much processes of the engine grew, and what their state takes."""
    names = [name for name in ("wcoj", "binary", "auto", "kept") if any(one == name for _, one in facts.records)]
    rows = []
    for pair in sorted(facts.pairs(), key=lambda one: -one.case.state_rows):
        cells = []
        for name in names:
            record = next(
                (one for (_, own), one in facts.records.items() if own == name and one.case == pair.case), None
            )
            value = None if record is None else grown(record)
            state = None if record is None or record.state_bytes is None else size(record.state_bytes)
            cells.append(NONE if value is None else f"{size(value)}, state {state or NONE}")
        rows.append((pair.case.key, *cells))
    return Table(("case", *names), tuple(rows))


def unfinished(facts: Facts) -> Table:
    """The cases that runs did not come to, and why."""
    rows = [
        (one.suite, f"{len(one.planned) - len(one.left_out)} of {len(one.planned)}", one.ended or "it was stopped",
         "; ".join(one.left_out))
        for one in facts.documents
        if one.left_out
    ]  # fmt: skip
    return Table(("suite", "cases that are here", "why not all", "left out"), tuple(rows))


def machines(facts: Facts) -> Table:
    """What each run was made on."""
    rows = []
    for one in facts.documents:
        about = one.machine
        libraries = ", ".join(f"{name} {version}" for name, version in (about.get("libraries") or {}).items())
        where = f"{about.get('processor', NONE)}, {about.get('cores', NONE)} cores, {about.get('memory', NONE)}"
        rows.append((
            one.suite, _cases(one), str(about.get("date", NONE)), str(about.get("commit", NONE)), str(one.seed),
            str(about.get("threads", NONE)), where,
            f"{about.get('system', NONE)}, Python {about.get('python', NONE)}; {libraries}", duration(one.seconds),
        ))  # fmt: skip
    return Table(("suite", "cases", "date", "commit", "seed", "threads", "machine", "versions", "took"), tuple(rows))


def planning(facts: Facts) -> Table:
    """How long plans take."""
    found = [(one.suite, one.planning) for one in facts.documents if one.planning is not None]
    rows = [
        (name, duration(of.seconds.median), duration(of.seconds.most), str(of.queries), str(of.largest_atoms))
        for name, of in found
    ]
    return Table(("suite", "median", "at most", "queries", "atoms, at most"), tuple(rows))


def _cases(document: Document) -> str:
    """How many of the planned cases a document holds; all that it has, if it does not say what was planned."""
    if not document.planned:
        return str(len({key(one.case) for one in document.records if one.case.vertex_order == "generated"}))
    return f"{len(document.planned) - len(document.left_out)} of {len(document.planned)}"


def _cpu(record: Record) -> str:
    seconds = cpu_per_tick(record)
    if seconds is None:
        return record.stopped or "stopped"
    return duration(seconds) + (ONCE if record.first_only else "")


def _times(value: float | None) -> str:
    return NONE if value is None else digits(value)


def _number(value: float | None) -> str:
    return NONE if value is None else digits(value)
