"""The rows of the table: what is run, and how fast it must and should be."""

from __future__ import annotations

from dataclasses import dataclass

from bench.engine.queries import CLIQUE, CYCLE, DIAMOND, TRIANGLE, Query
from bench.engine.streams import How


@dataclass(frozen=True)
class Target:
    """An upper limit: so many times Y, or so many seconds."""

    must: float
    aim: float
    in_seconds: bool = False


@dataclass(frozen=True)
class Row:
    """One stream.

    Attributes
    ----------
    tick_rows
        Edges in a tick; 0 means all edges in one tick, from the empty state.
    n_ticks
        How many ticks of that size, None for the whole stream.
    rounds
        How often they are inserted and deleted again.
    two_threads
        Whether the insertions are run on two threads as well.
    rival_ticks
        How many of these ticks DuckDB gets.
    """

    name: str
    query: Query
    tick_rows: int
    how: How
    target: Target
    n_ticks: int | None = 1
    rounds: int = 1
    two_threads: bool = False
    rival_ticks: int = 1


TRIANGLE_1K, TRIANGLE_100K = Target(0.012, 0.004), Target(0.6, 0.15)
CLIQUE_1K, CLIQUE_100K = Target(0.2, 0.05), Target(18, 4)

ROWS = (
    Row("triangle-1k", TRIANGLE, 1_000, "count", TRIANGLE_1K, n_ticks=None, rival_ticks=5),
    Row("triangle-100", TRIANGLE, 100, "count", Target(0.004, 0.0015), n_ticks=1_500, rival_ticks=5),
    Row("triangle-1k-list", TRIANGLE, 1_000, "list", TRIANGLE_1K, n_ticks=20, rival_ticks=0),
    Row("triangle-100k", TRIANGLE, 100_000, "count", TRIANGLE_100K, rounds=3, two_threads=True),
    Row("triangle-100k-list", TRIANGLE, 100_000, "list", TRIANGLE_100K, rounds=3, rival_ticks=0),
    Row("clique4-1k", CLIQUE, 1_000, "count", CLIQUE_1K, n_ticks=20),
    Row("clique4-1k-list", CLIQUE, 1_000, "list", CLIQUE_1K, n_ticks=5, rival_ticks=0),
    Row("clique4-100k", CLIQUE, 100_000, "count", CLIQUE_100K, two_threads=True, rival_ticks=0),
    Row("diamond-1k", DIAMOND, 1_000, "count", Target(0.9, 0.1), n_ticks=10),
    Row("cycle4-1k", CYCLE, 1_000, "count", Target(0.8, 0.1), n_ticks=10),
    Row(
        "triangle-1",
        TRIANGLE,
        1,
        "count",
        Target(0.3e-3, 0.05e-3, in_seconds=True),
        n_ticks=1_000,
        rival_ticks=20,
    ),
    Row("triangle-1-list", TRIANGLE, 1, "list", Target(0.3e-3, 0.05e-3, in_seconds=True), n_ticks=1_000, rival_ticks=0),
    Row("triangle-all", TRIANGLE, 0, "count", Target(4, 1.5), rounds=3),
)
"""DuckDB gets no ticks of 100,000 edges for the 4-clique: it does not finish one of 1,000 within the limit."""

MAX_DELETION_RATIO = 1.3
MAX_WORST_RATIO = 3
MIN_TWO_THREADS_SPEEDUP = 1.6
