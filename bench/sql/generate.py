"""Generate tables and queries of TPC-H and TPC-DS by DuckDB's extensions; runs in a venv of its own.

It imports nothing of this project: ``python generate.py FOLDER --tpch 0.01 --tpcds 0.01`` writes a folder for each of
the two with Parquet files and the texts of the queries.
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

import duckdb

GENERATORS = {"tpch": "dbgen", "tpcds": "dsdgen"}


def generate(name: str, scale: float, folder: Path) -> None:
    """Write the tables and the queries of one benchmark, unless they are there."""
    if (folder / "queries").is_dir():
        return
    extension = importlib.import_module(f"duckdb_extension_{name}")
    (file,) = Path(extension.__file__ or "").parent.rglob(f"{name}.duckdb_extension")
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute(f"LOAD '{file}'")
    connection.execute(f"CALL {GENERATORS[name]}(sf={scale:g})")
    folder.mkdir(parents=True, exist_ok=True)
    for (table,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
        connection.execute(f"COPY {table} TO '{folder / table}.parquet'")
    texts = folder / "queries.new"
    texts.mkdir(exist_ok=True)
    for number, text in connection.execute(f"FROM {name}_queries()").fetchall():
        (texts / f"{number:02d}.sql").write_text(text)
    texts.rename(folder / "queries")


def main() -> None:
    """Generate what the arguments ask for."""
    parser = argparse.ArgumentParser(description="Generate tables and queries of TPC-H and TPC-DS.")
    parser.add_argument("folder", type=Path)
    for name in GENERATORS:
        parser.add_argument(f"--{name}", type=float, default=0.01, help="scale factor")
    arguments = parser.parse_args()
    for name in GENERATORS:
        scale = getattr(arguments, name)
        generate(name, scale, arguments.folder / f"{name}-{scale:g}")


if __name__ == "__main__":
    main()
