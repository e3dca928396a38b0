"""Rows of the relations of a random query: uniform, skewed, with one hub, correlated, or few values."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.cliffs.queries import Query, Table


def tables_of(query: Query, share: float = 1.0) -> dict[str, pa.Table]:
    """Return the rows of all relations that a query reads; of Datalog's, which are sets, each once.

    Parameters
    ----------
    share
        Factor of the numbers of rows.
    """
    return {table.name: rows_of(table, share, query.language == "datalog") for table in query.used_tables}


def rows_of(table: Table, share: float, is_set: bool) -> pa.Table:
    """Return the rows of a relation, columns c0, c1 and so on, in random order.

    A share of the rows has a share of the few values, too: with all of them, each would have fewer rows, and the join
    another shape.
    """
    chance = np.random.default_rng(table.seed)
    n_rows = max(1, int(table.n_rows * share)) if table.n_rows else 0
    n_values = max(2, int(n_rows * table.density))
    columns: list[npt.NDArray[np.int64]] = []
    for kind in table.columns:
        columns.append(_column(chance, kind, n_rows, n_values, max(1, int(10 * share)), columns).astype(np.int64))
    rows = np.stack(columns, axis=1)
    if is_set:
        rows = chance.permutation(np.unique(rows, axis=0))
    return pa.table({f"c{number}": np.ascontiguousarray(rows[:, number]) for number in range(len(columns))})


def _column(
    chance: np.random.Generator, kind: str, n_rows: int, n_values: int, n_few: int, before: list[npt.NDArray[np.int64]]
) -> npt.NDArray[np.int64]:
    if kind == "key":
        return chance.permutation(n_rows)
    if kind == "skewed":
        return np.minimum(chance.zipf(1.3, n_rows) - 1, n_values - 1)
    if kind == "near" and before:
        return before[-1] + chance.integers(0, 5, n_rows)
    if kind == "few":
        return chance.integers(0, n_few, n_rows)
    if kind == "one":
        return np.zeros(n_rows, np.int64)
    column = chance.integers(0, n_values, n_rows)
    if kind == "hub":
        column[chance.random(n_rows) < 0.3] = 0
    return column
