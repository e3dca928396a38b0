"""The engine on a stream: ticks timed one by one, from the call of `step` to its answer."""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

import gpu_wcoj as gw
from bench.engine.graph import Edges, deletions, insertions
from bench.engine.queries import Query

How = Literal["count", "list"]
"""``count`` calls `Program.step_counts`, ``list`` calls `Program.step`, which hands out every row."""


@dataclass(frozen=True)
class StreamResult:
    """What the engine did on one stream.

    Attributes
    ----------
    load_seconds
        Of the first tick, which loads the graph without its answer, and is left out of everything else.
    inserted, deleted
        Rows that each tick of the first round added and took away.
    insert_seconds, delete_seconds
        Of each tick, all rounds.
    """

    load_seconds: float
    inserted: tuple[int, ...]
    deleted: tuple[int, ...]
    insert_seconds: tuple[float, ...]
    delete_seconds: tuple[float, ...]


class CountError(AssertionError):
    """The engine's count is not the one that other code found."""


def run_stream(
    query: Query, loaded: Edges, ticks: Sequence[Edges], how: How, *, threads: int = 1, rounds: int = 1
) -> StreamResult:
    """Load, then insert the ticks in order and delete them in reverse order, as often as `rounds` says.

    Raises
    ------
    CountError
        If a tick's deletion takes away another number of rows than its insertion added, in any round.
    """
    program = gw.Program(query.text, backend="cpu", threads=threads)
    start = time.perf_counter()
    program.load({"edge": insertions(loaded)})
    load_seconds = time.perf_counter() - start
    arriving, leaving = [insertions(tick) for tick in ticks], [deletions(tick) for tick in reversed(ticks)]
    inserted: list[int] = []
    deleted: list[int] = []
    insert_seconds: list[float] = []
    delete_seconds: list[float] = []
    for _ in range(rounds):
        added = [timed_tick(program, query, batch, how) for batch in arriving]
        taken = [timed_tick(program, query, batch, how) for batch in leaving]
        insert_seconds += [seconds for seconds, _ in added]
        delete_seconds += [seconds for seconds, _ in taken]
        counts, negated = [count for _, count in added], [-count for _, count in reversed(taken)]
        if counts != negated or counts != (inserted or counts):
            raise CountError(f"{query.name}, {how}: inserted {counts}, then deleted {negated}, before that {inserted}")
        inserted, deleted = counts, negated
    return StreamResult(load_seconds, tuple(inserted), tuple(deleted), tuple(insert_seconds), tuple(delete_seconds))


def run_from_empty(query: Query, edges: Edges, *, threads: int = 1) -> tuple[float, int]:
    """Seconds to build the program, load all edges and count the whole answer in one tick, and that count."""
    batch = insertions(edges)
    gc.collect()
    start = time.perf_counter()
    program = gw.Program(query.text, backend="cpu", threads=threads)
    count = program.step_counts({"edge": batch})[query.name].net
    return time.perf_counter() - start, count


def timed_tick(program: gw.Program, query: Query, batch: pa.RecordBatch, how: How) -> tuple[float, int]:
    """Seconds of one tick, and by how many rows the answer grew."""
    start = time.perf_counter()
    if how == "count":
        net = program.step_counts({"edge": batch})[query.name].net
        return time.perf_counter() - start, net
    changes = program.step({"edge": batch})[query.name]
    seconds = time.perf_counter() - start
    return seconds, int(changes.weights.sum())
