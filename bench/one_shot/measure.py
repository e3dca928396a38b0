"""Measurements of one case: the engine and DuckDB in turn, after their answers were compared."""

from __future__ import annotations

import statistics
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from bench.lsqb.measure import Timing
from bench.one_shot.cases import Case, Tables

RELATIVE_ERROR = 1e-9
"""Relative difference of two doubles that count as equal: DuckDB's sums depend on the order of the rows."""


class AnswerError(Exception):
    """The engine's rows differ from those of DuckDB."""


class Rival:
    """DuckDB over Arrow tables, which it reads where they are."""

    def __init__(self, tables: Tables, threads: int) -> None:
        self.connection = duckdb.connect(config={"threads": threads})
        for name, rows in tables.items():
            self.connection.register(name, rows)

    def answer(self, sql: str) -> pa.Table:
        """Return the answer of a query as an Arrow table."""
        return self.connection.sql(sql).to_arrow_table()

    def counted(self, rows: pa.Table, weight: str = "") -> pa.Table:
        """Return the distinct rows in order, with the number of each, or the sum of its weights, as last column."""
        names = [name for name in rows.column_names if name != weight]
        labels = [f"c{i}" for i in range(len(names))]
        columns = ", ".join(f'"{name}" AS {label}' for name, label in zip(names, labels, strict=True))
        count = f'CAST(sum("{weight}") AS BIGINT)' if weight else "count(*)"
        self.connection.register("counted", rows)
        sql = f"SELECT {columns}, {count} AS n FROM counted GROUP BY {', '.join(labels)} ORDER BY {', '.join(labels)}"
        return self.connection.sql(sql).to_arrow_table()

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


def compare(rival: Rival, ours: pa.Table, theirs: pa.Table) -> int:
    """Return the number of rows of both answers, after comparing them as bags.

    Raises
    ------
    AnswerError
        If they differ.
    """
    has_weights = ours.num_columns == theirs.num_columns + 1
    if not has_weights and ours.num_columns != theirs.num_columns:
        raise AnswerError(f"{ours.num_columns} columns instead of {theirs.num_columns}")
    left = rival.counted(ours, ours.column_names[-1] if has_weights else "")
    right = rival.counted(theirs)
    if len(left) != len(right):
        raise AnswerError(f"{len(left):,} distinct rows instead of {len(right):,}")
    for name in left.column_names:
        one, other = left[name].combine_chunks(), right[name].combine_chunks()
        if pa.types.is_floating(other.type):
            is_equal = bool(np.allclose(one.cast(pa.float64()), other, rtol=RELATIVE_ERROR, atol=0))
        else:
            is_equal = one.cast(other.type).equals(other)
        if not is_equal:
            raise AnswerError(f"column {name} differs: {one[:3]} ... instead of {other[:3]} ...")
    return len(theirs)


def measure(case: Case, tables: Tables, threads: int, rounds: int) -> dict[str, Any]:
    """Return the times of both sides, which take their rounds in turn.

    The answers are compared first, which also compiles what has to be compiled.

    Raises
    ------
    AnswerError
        If the answers differ.
    """
    rival = Rival(tables, threads)
    n_rows = compare(rival, case.answer(tables, threads), rival.answer(case.duckdb))
    case.answer(tables, threads)
    ours, theirs = Timing(), Timing()
    for _ in range(rounds):
        ours.take(lambda: case.answer(tables, threads))
        theirs.take(lambda: rival.answer(case.duckdb))
    rival.close()
    ratios = {
        kind: statistics.median(getattr(ours, kind)) / statistics.median(getattr(theirs, kind))
        for kind in ("processor", "wall")
    }
    return {"rows": n_rows, "ours": ours.record, "DuckDB": theirs.record, "ratio": ratios}
