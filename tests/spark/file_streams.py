"""Streams of files for views, what the engine alone makes of them, and tables to compare."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import gpu_wcoj as gw
from gpu_wcoj import datasets
from gpu_wcoj.spark.sources import as_change
from tests.helpers.answers import named

TRIANGLE = "triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c)."
EDGE = "src bigint, dst bigint, weight bigint"


def write_stream(folder: Path, tables: Iterable[pa.Table], first: int = 0) -> list[pa.Table]:
    """Write each table as a file; Spark takes files in the order of their times, which are a second apart."""
    folder.mkdir(parents=True, exist_ok=True)
    written = list(tables)
    for i, table in enumerate(written, first):
        path = folder / f"{i:05}.parquet"
        pq.write_table(table, folder / f".{path.name}")
        os.utime(folder / f".{path.name}", (1_700_000_000 + i, 1_700_000_000 + i))
        (folder / f".{path.name}").rename(path)
    return written


def payments(files: int, transfers: int, accounts: int, seed: int = 1) -> list[pa.Table]:
    """Payments and reversals, in so many tables; about every fifth row deletes."""
    table = pa.table(datasets.payments(transfers, accounts, seed)).drop_columns("tick")
    size = -(-table.num_rows // files)
    return [table.slice(start, size) for start in range(0, table.num_rows, size)]


def alone(
    program: str, batches: Sequence[Mapping[str, pa.Table]], output: str, loaded: Mapping[str, pa.Table] | None = None
) -> tuple[pa.Table, gw.Program]:
    """What the engine without Spark makes of these batches: changes with weight and batch, and the program."""
    engine = gw.Program(program, inputs=named(program))
    found = []
    numbered: list[tuple[int, Mapping[str, Any]]] = [] if loaded is None else [(-1, loaded)]
    for batch, changes in [*numbered, *enumerate(batches)]:
        rows = engine.step({name: as_change(table) for name, table in changes.items()})[output].to_arrow()
        found.append(rows.append_column("batch", pa.repeat(pa.scalar(batch, pa.int64()), rows.num_rows)))
    return pa.concat_tables(found), engine


def in_order(rows: pa.Table) -> pa.Table:
    """The same rows, sorted by all columns, in one chunk and without metadata."""
    ordered = rows.take(pc.sort_indices(rows, [(name, "ascending") for name in rows.column_names]))
    return pa.table({name: ordered[name].combine_chunks() for name in rows.column_names})


def net(changes: pa.Table) -> pa.Table:
    """What changes make of nothing, taken together: rows with their weights, but where these are 0."""
    names = [name for name in changes.column_names if name != "weight"]
    sums = changes.group_by(names).aggregate([("weight", "sum")]).rename_columns([*names, "weight"])
    return sums.filter(pc.field("weight") != 0)


def assert_same(found: pa.Table, expected: pa.Table) -> None:
    """The same rows as often, whatever their order."""
    assert found.column_names == expected.column_names
    assert found.num_rows == expected.num_rows
    assert in_order(found).equals(in_order(expected))


def stream_of(spark: Any, folder: Path, schema: str = EDGE, files: int = 1) -> Any:
    """A stream of a folder's files, so many in a batch."""
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", files).parquet(str(folder))


def run(view: Any) -> Any:
    """The view, once it has taken all that is there."""
    view.start("availableNow")
    view.wait()
    return view
