"""Measurements of one query at one scale: loaded at once and counted, and kept up to date over ticks."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import gpu_wcoj as gw
from bench.lsqb.data import Rows
from bench.lsqb.queries import VIEWS, Query
from bench.lsqb.rival import FORMULATIONS, Tables

PLAIN, KEPT = "the query", "with relations between"
"""Our formulations."""

LOADS = 3
"""Programs that are loaded; the median counts."""

T = TypeVar("T")


class AnswerError(Exception):
    """A count is not the known one."""


@dataclass
class Timing:
    """Seconds by the clock and of the processor, round by round."""

    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    def take(self, call: Callable[[], T]) -> T:
        """Time one call; what it returns."""
        processor, wall = time.process_time(), time.perf_counter()
        found = call()
        self.wall.append(time.perf_counter() - wall)
        self.processor.append(time.process_time() - processor)
        return found

    @classmethod
    def medians(cls, rounds: Sequence[Timing]) -> Timing:
        """Of rounds of the same calls, the median of each call.

        Examples
        --------
        >>> Timing.medians([Timing([1.0, 2.0], [1.0, 9.0]), Timing([3.0, 2.0], [1.0, 7.0])])
        Timing(wall=[2.0, 2.0], processor=[1.0, 8.0])
        """
        walls, processors = ([getattr(one, name) for one in rounds] for name in ("wall", "processor"))
        return cls(*([statistics.median(own) for own in zip(*some, strict=True)] for some in (walls, processors)))

    @property
    def record(self) -> dict[str, object]:
        """For the JSON."""
        return {"median": statistics.median(self.wall), "least": min(self.wall), **asdict(self)}


def texts_of(query: Query) -> dict[str, str]:
    """Our formulations of a query."""
    return {PLAIN: query.text} | ({KEPT: VIEWS[query.number]} if query.number in VIEWS else {})


def _program(text: str, threads: int) -> gw.Program:
    return gw.Program(text, bag=True, outputs=["answer"], backend="cpu", threads=threads)


def _expect(what: str, found: int, known: int) -> None:
    if found != known:
        raise AnswerError(f"{what} is {found:,}; {known:,} is known.")


def check(query: Query, inputs: Mapping[str, Rows], ticks: Sequence[Mapping[str, Rows]], known: int) -> None:
    """All formulations of ours, at once and tick by tick, against the known answer.

    Raises
    ------
    AnswerError
        If one is wrong.
    """
    for how, text in texts_of(query).items():
        program = _program(text, 1)
        program.load(inputs)
        _expect(f"{query.name}, {how}, at once,", program.count("answer"), known)
        program, total = _program(text, 1), 0
        for tick in ticks:
            total += program.step_counts(tick)["answer"].net
        _expect(f"{query.name}, {how}, tick by tick,", total, known)


@dataclass
class Stored:
    """A program's state in a folder. A program that has just been restored from it does not know its counts yet.

    Attributes
    ----------
    folder
        Where it is.
    threads
        Those that a restored program has.
    """

    folder: Path
    threads: int

    def count(self, timing: Timing) -> int:
        """Time the first count of the state, what it takes to find a path for it included."""
        program = gw.Program.restore(self.folder, backend="cpu", threads=self.threads)
        return timing.take(partial(program.count, "answer"))


def recounts(query: Query, inputs: Mapping[str, Rows], known: int, threads: int, rounds: int) -> dict[str, object]:
    """Counting from loaded state, ours and DuckDB's in turn, by every formulation; and loading.

    A program that has ticked knows its counts; so every count of ours is the first one of a state that was restored.

    Raises
    ------
    AnswerError
        If a count is wrong.
    """
    loads: dict[str, Timing] = {}
    calls: dict[str, Callable[[Timing], int]] = {}
    with TemporaryDirectory() as folder:
        for number, (how, text) in enumerate(texts_of(query).items()):
            loading = loads[f"ours: {how}"] = Timing()
            programs = [_program(text, threads) for _ in range(LOADS)]
            for program in programs:
                loading.take(partial(program.load, inputs))
            programs[-1].checkpoint(Path(folder, str(number)))
            calls[f"ours: {how}"] = Stored(Path(folder, str(number)), threads).count
        tables = loads.setdefault("DuckDB", Timing()).take(partial(Tables, inputs, threads))
        for how, sql in FORMULATIONS[query.number].items():
            calls[f"DuckDB: {how}"] = partial(_answered, tables, sql)
        for how, call in calls.items():
            _expect(f"{query.name}, {how},", call(Timing()), known)
        counts = {how: Timing() for how in calls}
        for _ in range(rounds):
            for how, call in calls.items():
                _expect(f"{query.name}, {how},", call(counts[how]), known)
        tables.close()
    return {
        "load": {how: timing.record for how, timing in loads.items()},
        "count": {how: timing.record for how, timing in counts.items()},
    }


def _answered(tables: Tables, sql: str, timing: Timing) -> int:
    return timing.take(partial(tables.answer, sql))


def over_ticks(
    query: Query,
    ticks: Sequence[Mapping[str, Rows]],
    known: int,
    threads: int,
    formulations: Sequence[str],
    rounds: int,
) -> dict[str, object]:
    """Each tick's seconds, those of our own count after it, and of DuckDB's by some formulations: medians of rounds.

    All take a round in turn.

    Raises
    ------
    AnswerError
        If ours and DuckDB's differ after a tick, or the last is not the known answer.
    """
    calls: dict[str, Callable[[], Counted]] = {}
    for how, text in texts_of(query).items():
        calls[f"ours: {how}"] = partial(_kept, text, ticks, threads)
        calls[f"ours, counted: {how}"] = partial(_counted, text, ticks, threads)
    for name in formulations:
        calls[f"DuckDB: {name}"] = partial(_counted_by_duckdb, FORMULATIONS[query.number][name], ticks, threads)
    timings: dict[str, list[Timing]] = {how: [] for how in calls}
    gc.collect()
    gc.freeze()  # a collection within a tick would look through all libraries; an untimed round warms up again
    totals = _kept(query.text, ticks, threads).found
    _expect(f"{query.name}, in ticks,", totals[-1], known)
    for _ in range(rounds):
        for how, call in calls.items():
            counted = call()
            _expect_all(f"{query.name}, {how},", counted.found, totals)
            timings[how].append(counted.timing)
    gc.unfreeze()
    return {how: Timing.medians(some).record for how, some in timings.items()}


@dataclass
class Counted:
    """Counts after every tick, and what each took."""

    found: list[int] = field(default_factory=list)
    timing: Timing = field(default_factory=Timing)


def _kept(text: str, ticks: Sequence[Mapping[str, Rows]], threads: int) -> Counted:
    """The counts that a program has kept up to date by ticks."""
    program, kept, total = _program(text, threads), Counted(), 0
    for tick in ticks:
        total += kept.timing.take(partial(program.step_counts, tick))["answer"].net
        kept.found.append(total)
    return kept


def _counted(text: str, ticks: Sequence[Mapping[str, Rows]], threads: int) -> Counted:
    """The first counts of the states after every tick, restored each."""
    program, counted = _program(text, threads), Counted()
    with TemporaryDirectory() as folder:
        stored = Stored(Path(folder), threads)
        for tick in ticks:
            program.load(tick)
            program.checkpoint(folder)
            counted.found.append(stored.count(counted.timing))
    return counted


def _counted_by_duckdb(sql: str, ticks: Sequence[Mapping[str, Rows]], threads: int) -> Counted:
    tables, counted = Tables({name: rows[:0] for name, rows in ticks[0].items()}, threads), Counted()
    for tick in ticks:
        tables.insert(tick)
        counted.found.append(counted.timing.take(partial(tables.answer, sql)))
    tables.close()
    return counted


def _expect_all(what: str, found: Sequence[int], known: Sequence[int]) -> None:
    for number, pair in enumerate(zip(found, known, strict=True), 1):
        _expect(f"{what} after tick {number}", *pair)
