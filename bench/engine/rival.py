"""DuckDB on the same stream: delta queries in SQL, one for each atom of the body, on one thread.

Term j joins the atoms before j as they are after the tick, the change of atom j, and the atoms after j as they were
before it. That is the same rule as the engine's, run by binary joins.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from bench.engine.graph import Edges, insertions
from bench.engine.queries import Query

DIRECTIONS = {"e": ("SELECT src, dst FROM {}",), "s": ("SELECT src, dst FROM {}", "SELECT dst, src FROM {}")}


@dataclass(frozen=True)
class RivalResult:
    """What DuckDB did on one stream.

    Attributes
    ----------
    seconds
        Of each tick that it finished, upkeep included.
    counts
        Rows that each of these ticks added.
    stopped
        Why there are no more, or None.
    """

    seconds: tuple[float, ...]
    counts: tuple[int, ...]
    stopped: str | None


def delta_queries(query: Query) -> list[str]:
    """One counting statement per atom, over ``X_before``, ``X_change`` and the view ``X_after`` of X = e, s."""
    statements = []
    for seed in range(len(query.atoms)):
        tables: list[str] = []
        where: list[str] = []
        bound: dict[str, str] = {}
        for i, (relation, variables) in enumerate(query.atoms):
            version = "change" if i == seed else "after" if i < seed else "before"
            tables.append(f"{relation}_{version} t{i}")
            for variable, column in zip(variables, ("src", "dst"), strict=True):
                place = f"t{i}.{column}"
                if variable in bound:
                    where.append(f"{bound[variable]} = {place}")
                bound.setdefault(variable, place)
        where += [f"{bound[left]} < {bound[right]}" for left, right in query.comparisons]
        statements.append(f"SELECT count(*) FROM {', '.join(tables)} WHERE {' AND '.join(where)}")
    return statements


def run_deltas(query: Query, loaded: Edges, ticks: Sequence[Edges], limit_seconds: float) -> RivalResult:
    """Feed `ticks` as insertions; a tick that takes longer than `limit_seconds` is interrupted and ends the run."""
    relations = tuple(dict.fromkeys(relation for relation, _ in query.atoms))
    statements = delta_queries(query)
    seconds: list[float] = []
    counts: list[int] = []
    with duckdb.connect(config={"threads": 1}) as connection:
        _create(connection, relations, insertions(loaded))
        for tick in ticks:
            batch = insertions(tick)
            timer = threading.Timer(limit_seconds, connection.interrupt)
            timer.start()
            start = time.perf_counter()
            try:
                counts.append(_tick(connection, relations, statements, batch))
                seconds.append(time.perf_counter() - start)
            except duckdb.InterruptException:
                return RivalResult(tuple(seconds), tuple(counts), f"interrupted after {limit_seconds:g} s")
            finally:
                timer.cancel()
    return RivalResult(tuple(seconds), tuple(counts), None)


def run_from_empty(query: Query, edges: Edges, limit_seconds: float) -> RivalResult:
    """Load all edges and count the whole answer, once."""
    return run_deltas(query, edges[:0], [edges], limit_seconds)


def _rows_of(relation: str, source: str) -> str:
    return " UNION ALL ".join(part.format(source) for part in DIRECTIONS[relation])


def _create(connection: duckdb.DuckDBPyConnection, relations: Sequence[str], batch: pa.RecordBatch) -> None:
    connection.register("batch", pa.table(batch))
    for name in relations:
        connection.execute(f"CREATE TABLE {name}_before AS {_rows_of(name, 'batch')}")
        connection.execute(f"CREATE TABLE {name}_change (src BIGINT, dst BIGINT)")
        connection.execute(
            f"CREATE VIEW {name}_after AS SELECT * FROM {name}_before UNION ALL SELECT * FROM {name}_change"
        )
    connection.unregister("batch")


def _tick(
    connection: duckdb.DuckDBPyConnection, relations: Sequence[str], statements: Sequence[str], batch: pa.RecordBatch
) -> int:
    connection.register("batch", pa.table(batch))
    for name in relations:
        connection.execute(f"INSERT INTO {name}_change {_rows_of(name, 'batch')}")
    count = 0
    for statement in statements:
        row = connection.execute(statement).fetchone()
        assert row is not None
        count += int(row[0])
    for name in relations:
        connection.execute(f"INSERT INTO {name}_before SELECT * FROM {name}_change")
        connection.execute(f"DELETE FROM {name}_change")
    connection.unregister("batch")
    return count
