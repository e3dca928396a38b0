"""Measurements of one query at one scale: loaded at once and counted, and kept up to date over ticks."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
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


def recounts(query: Query, inputs: Mapping[str, Rows], known: int, threads: int, rounds: int) -> dict[str, object]:
    """Counting from loaded state, ours and DuckDB's in turn, by every formulation; and loading.

    Raises
    ------
    AnswerError
        If a count is wrong.
    """
    loads: dict[str, Timing] = {}
    counts: dict[str, Timing] = {}
    calls: dict[str, Callable[[], int]] = {}
    for how, text in texts_of(query).items():
        loading = loads[f"ours: {how}"] = Timing()
        programs = [_program(text, threads) for _ in range(LOADS)]
        for program in programs:
            loading.take(partial(program.load, inputs))
        calls[f"ours: {how}"] = partial(programs[-1].count, "answer")
    tables = loads.setdefault("DuckDB", Timing()).take(partial(Tables, inputs, threads))
    for how, sql in FORMULATIONS[query.number].items():
        calls[f"DuckDB: {how}"] = partial(tables.answer, sql)
    for how, call in calls.items():
        _expect(f"{query.name}, {how},", call(), known)
    for _ in range(rounds):
        for how, call in calls.items():
            _expect(f"{query.name}, {how},", counts.setdefault(how, Timing()).take(call), known)
    tables.close()
    return {
        "load": {how: timing.record for how, timing in loads.items()},
        "count": {how: timing.record for how, timing in counts.items()},
    }


def over_ticks(
    query: Query, ticks: Sequence[Mapping[str, Rows]], known: int, threads: int, formulations: Sequence[str]
) -> dict[str, object]:
    """Each tick's seconds, those of our own count after it, and of DuckDB's by some formulations.

    Raises
    ------
    AnswerError
        If ours and DuckDB's differ after a tick, or the last is not the known answer.
    """
    timings: dict[str, Timing] = {}
    for how, text in texts_of(query).items():
        for warm in (True, False):
            program, total = _program(text, threads), 0
            tables = Tables({name: rows[:0] for name, rows in ticks[0].items()}, threads)
            own, again = Timing(), Timing()
            for number, tick in enumerate(ticks):
                total += own.take(partial(program.step_counts, tick))["answer"].net
                after = f"{query.name} after tick {number + 1}"
                _expect(f"{after}, {how}, counted,", again.take(partial(program.count, "answer")), total)
                if warm or how != PLAIN:
                    continue
                tables.insert(tick)
                for name in formulations:
                    timing = timings.setdefault(f"DuckDB: {name}", Timing())
                    found = timing.take(partial(tables.answer, FORMULATIONS[query.number][name]))
                    _expect(f"{after}, DuckDB: {name},", found, total)
            _expect(f"{query.name}, {how}, in ticks,", total, known)
            tables.close()
            timings[f"ours: {how}"], timings[f"ours, counted: {how}"] = own, again
    return {how: timing.record for how, timing in timings.items()}
