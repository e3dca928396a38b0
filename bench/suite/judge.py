"""What the answers must be, from code that is not the engine's: known numbers, GraphBLAS, DuckDB."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.suite.contender import NotForThisError, Setting
from bench.suite.digest import digest
from bench.suite.workload import Rows, State, Stream, Workload
from bench.suite.workloads.graphs import QUERIES

HASHED_ROWS = 100_000
"""Answers with no more rows than this are compared row by row, as a hash."""
MOST_PATHS = 500_000_000
"""Products of matrices are asked for counts where no more pairs of edges meet than this."""


@dataclass(frozen=True)
class Expected:
    """What is known of the right answers.

    Attributes
    ----------
    before, after
        Rows of the whole answer before the first tick and after the last one; None where nobody counted them.
    changes
        By how many rows each tick changes the answer; None where that is not known.
    digest
        Of the rows after the last tick; None where nobody has them.
    by
        Who says so; empty if nobody does.
    """

    before: int | None = None
    after: int | None = None
    changes: tuple[int, ...] | None = None
    digest: str | None = None
    by: tuple[str, ...] = ()

    @property
    def total(self) -> int | None:
        """By how many rows all ticks together change the answer."""
        if self.changes is not None:
            return sum(self.changes)
        return None if self.before is None or self.after is None else self.after - self.before


def judge(workload: Workload, stream: Stream, known: Expected | None, limit: float) -> Expected:
    """Count the answer before and after all ticks, if it is not known and somebody can do so in `limit` seconds each.

    Raises
    ------
    AssertionError
        If two of them count differently.
    """
    if known is not None:
        return known
    after = state_after(stream)
    blas = by_graphblas(workload, stream.state), by_graphblas(workload, after)
    before = blas[0] if blas[0] is not None else by_duckdb(workload, stream.state, limit)
    if before is None:
        return Expected()
    counted = blas[1] if blas[1] is not None else by_duckdb(workload, after, limit)
    if counted is None:
        return Expected()
    if counted > HASHED_ROWS or workload.pattern is None:
        return Expected(before, counted, by=("graphblas" if None not in blas else "duckdb",))
    rows = rows_by_duckdb(workload, after)
    if rows is None:
        return Expected(before, counted, by=("graphblas",))
    if len(rows) != counted:
        raise AssertionError(f"{workload.name}: GraphBLAS counts {counted:,} rows, DuckDB {len(rows):,}")
    return Expected(before, counted, None, digest(rows), ("duckdb",) if None in blas else ("graphblas", "duckdb"))


def state_after(stream: Stream) -> dict[str, Rows]:
    """The rows that are there after all ticks.

    Examples
    --------
    >>> from bench.suite.workload import Change
    >>> rows = np.array([[1, 2], [3, 4]])
    >>> state_after(Stream({"r": rows}, ({"r": Change(np.array([[5, 6]]), rows[:1])},)))["r"].tolist()
    [[3, 4], [5, 6]]
    """
    state = dict(stream.state)
    for name, rows in state.items():
        changes = [tick[name] for tick in stream.ticks if name in tick]
        if changes:
            deleted = np.concatenate([change.deleted for change in changes])
            inserted = np.concatenate([change.inserted for change in changes])
            state[name] = np.concatenate([rows[~np.isin(_as_one(rows), _as_one(deleted))], inserted])
    return state


def by_graphblas(workload: Workload, state: State) -> int | None:
    """None where it cannot count this pattern, or is not installed."""
    try:
        from bench.engine.reference import recount
        from bench.suite.rivals import blas
    except ImportError:
        return None
    query = QUERIES.get(workload.name)
    if query is not None:
        edges = state["e"] if "e" in state else state["s"][state["s"][:, 0] < state["s"][:, 1]]
        found = recount(query, edges)
        if found is not None:
            return found
    if workload.pattern is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        try:
            counter = blas.recompute(Setting(workload, "count", 1, Path(folder)))
        except NotForThisError:
            return None
        if paths_of_two(state) > MOST_PATHS:
            return None
        counter.load(state)
        return counter.last


def paths_of_two(state: State) -> int:
    """How many pairs of rows of one relation meet at a value, as those of a graph's edges do at a vertex.

    Examples
    --------
    >>> paths_of_two({"e": np.array([[0, 1], [0, 2]])})
    6
    """
    counts = (np.unique(rows, return_counts=True)[1] for rows in state.values())
    return max((int((one.astype(np.int64) ** 2).sum()) for one in counts), default=0)


def by_duckdb(workload: Workload, state: State, limit: float) -> int | None:
    """None where it takes longer than `limit` seconds or more than a few gigabytes, or is not installed."""
    try:
        from bench.suite.rivals.duck import statement
    except ImportError:
        return None
    return number_by_duckdb(statement(workload), state, limit)


def number_by_duckdb(sql: str, state: State, limit: float, *more: str) -> int | None:
    """The one number that a query gives; None as of `by_duckdb`.

    Parameters
    ----------
    more
        Statements that come before it, once the tables are there.
    """
    try:
        import duckdb
    except ImportError:
        return None

    with duckdb.connect(config={"memory_limit": "6GB"}) as connection:
        tables(connection, state)
        for statement in more:
            connection.execute(statement)
        timer = threading.Timer(limit, connection.interrupt)
        timer.start()
        try:
            row = connection.execute(sql).fetchone()
        except (duckdb.InterruptException, duckdb.OutOfMemoryException):
            return None
        finally:
            timer.cancel()
        assert row is not None
        return int(row[0] or 0)


def rows_by_duckdb(workload: Workload, state: State) -> Rows | None:
    """All rows of a pattern's answer; None where DuckDB is not installed."""
    try:
        import duckdb
    except ImportError:
        return None
    assert workload.pattern is not None
    with duckdb.connect() as connection:
        tables(connection, state)
        found = connection.execute(workload.pattern.sql(select="*")).fetchnumpy()
        return np.stack([np.asarray(column) for column in found.values()], axis=1)


def tables(connection: object, state: Mapping[str, Rows]) -> None:
    """Make a DuckDB table of each relation, with columns c0, c1 and so on."""
    import duckdb
    import pyarrow as pa

    assert isinstance(connection, duckdb.DuckDBPyConnection)
    for name, rows in state.items():
        columns = [pa.array(np.ascontiguousarray(rows[:, i])) for i in range(rows.shape[1])]
        connection.register("incoming", pa.table(columns, names=[f"c{i}" for i in range(rows.shape[1])]))
        connection.execute(f'CREATE TABLE "{name}" AS SELECT * FROM incoming')
        connection.unregister("incoming")


def _as_one(rows: Rows) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    rows = np.ascontiguousarray(rows)
    return rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
