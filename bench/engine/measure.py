"""One row from start to end: the engine, its counts checked, then DuckDB on the same ticks."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from bench.engine import rival
from bench.engine.graph import Edges, Graph, by_degree
from bench.engine.queries import Query
from bench.engine.reference import recount
from bench.engine.rows import Row
from bench.engine.streams import CountError, run_from_empty, run_stream


@dataclass(frozen=True)
class Measurement:
    """What one row gave; seconds of ticks are all kept.

    Attributes
    ----------
    seconds
        Of each insertion tick, one thread.
    checks
        How the counts were checked.
    two_threads
        Seconds of each insertion tick on two threads.
    rivals
        DuckDB by vertex order: ids as ``generated``, or numbered by ascending ``degree``.
    """

    row: Row
    load_seconds: float | None
    seconds: tuple[float, ...]
    delete_seconds: tuple[float, ...]
    two_threads: tuple[float, ...]
    n_rows: int
    checks: tuple[str, ...]
    rivals: dict[str, rival.RivalResult]

    @property
    def headline(self) -> float:
        """The seconds that are compared: p50 of one-edge ticks and of single ticks in rounds, otherwise the mean.

        The mean holds the ticks that merge batches, at the rate at which they come.
        """
        few_or_tiny = self.row.tick_rows <= 1 or self.row.n_ticks == 1
        return statistics.median(self.seconds) if few_or_tiny else statistics.fmean(self.seconds)

    @property
    def worst_ratio(self) -> float:
        """The longest tick over the median one, of insertions or of deletions: ticks that merge batches take longer."""
        ticks = (self.seconds, self.delete_seconds) if self.delete_seconds else (self.seconds,)
        return max(max(seconds) / statistics.median(seconds) for seconds in ticks)

    @property
    def deletion_ratio(self) -> float | None:
        """Total time of the deletions over that of the insertions."""
        return sum(self.delete_seconds) / sum(self.seconds) if self.delete_seconds else None

    @property
    def two_threads_speedup(self) -> float | None:
        """Total time on one thread over that on two."""
        if not self.two_threads:
            return None
        return statistics.median(self.seconds) / statistics.median(self.two_threads)

    @property
    def best_rival(self) -> float | None:
        """DuckDB's mean seconds a tick in the better vertex order, None where it finished no tick."""
        means = [statistics.fmean(result.seconds) for result in self.rivals.values() if result.seconds]
        return min(means, default=None)


def measure(row: Row, graph: Graph, limit_seconds: float, *, rivals: bool) -> Measurement:
    """Run one row.

    Raises
    ------
    CountError
        If a count is not the known one, or not the one that GraphBLAS or DuckDB found.
    """
    if row.tick_rows == 0:
        return _measure_from_empty(row, graph, limit_seconds, rivals=rivals)
    ticks = graph.ticks(row.tick_rows, row.n_ticks)
    result = run_stream(row.query, graph.loaded, ticks, row.how, rounds=row.rounds)
    checks = ["each deletion took away what its insertion had added"]
    _check_known(row.query, graph, ticks, result.inserted, checks)
    n_rows = sum(result.inserted)
    before = recount(row.query, graph.loaded)
    after = recount(row.query, graph.edges[: graph.n_loaded + sum(map(len, ticks))])
    if before is not None and after is not None:
        _expect(row.query, "GraphBLAS's recount", after - before, n_rows, checks)
    two: tuple[float, ...] = ()
    if row.two_threads:
        both = run_stream(row.query, graph.loaded, ticks, row.how, threads=2, rounds=row.rounds)
        _expect(row.query, "one thread", n_rows, sum(both.inserted), checks)
        two = both.insert_seconds
    others = _run_rivals(row, graph, limit_seconds) if rivals else {}
    for other in others.values():
        if other.counts:
            n_ticks = len(other.counts)
            _expect(row.query, "DuckDB", sum(other.counts), sum(result.inserted[:n_ticks]), checks)
    return Measurement(
        row, result.load_seconds, result.insert_seconds, result.delete_seconds, two, n_rows, tuple(checks), others
    )


def _measure_from_empty(row: Row, graph: Graph, limit_seconds: float, *, rivals: bool) -> Measurement:
    runs = [run_from_empty(row.query, graph.edges) for _ in range(row.rounds)]
    checks: list[str] = []
    expected = recount(row.query, graph.edges)
    for _, count in runs:
        if graph.is_standard:
            _expect(row.query, "the known answer", row.query.known[0], count, checks)
        if expected is not None:
            _expect(row.query, "GraphBLAS's recount", expected, count, checks)
    others = {}
    if rivals:
        others = {
            "generated": rival.run_from_empty(row.query, graph.edges, limit_seconds),
            "degree": rival.run_from_empty(row.query, by_degree(graph.edges), limit_seconds),
        }
    for other in others.values():
        if other.counts:
            _expect(row.query, "DuckDB", other.counts[0], runs[0][1], checks)
    seconds = tuple(seconds for seconds, _ in runs)
    return Measurement(row, None, seconds, (), (), runs[0][1], tuple(dict.fromkeys(checks)), others)


def _run_rivals(row: Row, graph: Graph, limit_seconds: float) -> dict[str, rival.RivalResult]:
    if row.rival_ticks == 0:
        return {}
    results = {}
    for order, edges in (("generated", graph.edges), ("degree", by_degree(graph.edges))):
        stream = edges[graph.n_loaded :]
        starts = range(0, len(stream), row.tick_rows)[: row.rival_ticks]
        ticks = [stream[start : start + row.tick_rows] for start in starts]
        results[order] = rival.run_deltas(row.query, edges[: graph.n_loaded], ticks, limit_seconds)
    return results


def _check_known(
    query: Query, graph: Graph, ticks: Sequence[Edges], inserted: Sequence[int], checks: list[str]
) -> None:
    if not graph.is_standard:
        return
    n_edges = n_rows = 0
    for tick, count in zip(ticks, inserted, strict=True):
        n_edges += len(tick)
        n_rows += count
        if n_edges in query.known:
            _expect(query, f"the known answer after {n_edges:,} insertions", query.known[n_edges], n_rows, checks)


def _expect(query: Query, source: str, expected: int, found: int, checks: list[str]) -> None:
    if expected != found:
        raise CountError(f"{query.name}: {source} is {expected:,}, the engine counts {found:,}")
    checks.append(f"equals {source}: {found:,}")
