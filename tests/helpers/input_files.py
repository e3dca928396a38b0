"""Files in all forms, and what is read of them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from gpu_wcoj.files.reader import open_input, read_table, ticks
from gpu_wcoj.files.spec import parse_input, united

BUDGET = 1 << 30


TABLE = pa.table(
    {
        "src": pa.array([1, 2, 3, 4, 5, 6, 7]),
        "dst": pa.array([2, 3, 1, 5, 6, 4, -8]),
        "name": ["a", "b", "c", "d", "é", "f", "g h"],
        "weight": pa.array([1, 1, -1, 1, 1, 1, -1]),
        "time": pa.array([10, 10, 11, 11, 11, 13, 14]),
    }
)


def read(path: Path, options: str = "", arity: int = 2, budget: int = BUDGET) -> pa.Table:
    (spec,) = united([parse_input(f"edge={path}{options}")])
    return read_table(spec, arity, budget)


def read_text(path: Path, text: str | bytes, options: str = "", arity: int = 2) -> pa.Table:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read(path, options, arity)


def read_ticks(specs: list[str], tick_rows: int | None = None, arity: int = 2) -> list[dict[str, list[tuple]]]:
    parsed = united(map(parse_input, specs))
    readers = {spec.relation: open_input(spec, arity, True, BUDGET) for spec in parsed}
    try:
        return [{name: rows(table) for name, table in tick.items()} for tick in ticks(readers, tick_rows, BUDGET)]
    finally:
        for reader in readers.values():
            reader.close()


def rows(table: pa.Table) -> list[tuple]:
    return list(zip(*table.to_pydict().values(), strict=True))


def write_all_forms(folder: Path) -> list[str]:
    """`TABLE` in every form, plain and gzipped, each as PATH with the options that choose its columns by position."""
    cells = [[str(cell) for cell in row] for row in rows(TABLE)]
    header = ",".join(TABLE.column_names)
    pq.write_table(TABLE, folder / "t.parquet", row_group_size=3)
    with pa.ipc.new_file(folder / "t.arrow", TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=3)
    with pa.ipc.new_stream(folder / "t.arrows", TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=3)
    (folder / "t.csv").write_text("\n".join([header, *map(",".join, cells)]))
    (folder / "u.csv").write_text("\r\n".join([header, *map(",".join, cells)]) + "\r\n")
    (folder / "t.tsv").write_text("\n".join(map("\t".join, cells)) + "\n")
    (folder / "t.dat").write_text("\n".join(map("|".join, cells)) + "\n\n")
    extra = {"t.tsv": "&header=no", "t.dat": "&sep=pipe&header=no"}
    plain = ["t.parquet", "t.arrow", "t.arrows", "t.csv", "u.csv", "t.tsv", "t.dat"]
    for name in plain:
        (folder / f"{name}.gz").write_bytes(gzip.compress((folder / name).read_bytes()))
    return [f"{folder / name}{gz}?%s{extra.get(name, '')}" for name in plain for gz in ("", ".gz")]
