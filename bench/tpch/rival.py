"""DuckDB on the same tables: it answers each query from them, every time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import duckdb
import pyarrow as pa

from bench.tpch.data import Tick

KEYS = {"orders": "o_orderkey", "lineitem": "l_orderkey"}


class Tables:
    """The tables, as DuckDB holds them."""

    def __init__(self, tables: Mapping[str, pa.Table], threads: int) -> None:
        self.connection = duckdb.connect(config={"threads": threads})
        for name, rows in tables.items():
            self.connection.register("arriving", rows)
            self.connection.execute(f"CREATE TABLE {name} AS SELECT * FROM arriving")
            self.connection.unregister("arriving")

    def apply(self, tick: Tick, columns: Mapping[str, Sequence[str]]) -> None:
        """Insert and delete orders with their lines, of the columns that the tables have."""
        for name, rows in tick.come.items():
            if name in columns:
                self.connection.register("arriving", rows.select(list(columns[name])))
                self.connection.execute(f"INSERT INTO {name} SELECT * FROM arriving")
                self.connection.unregister("arriving")
        self.connection.register("leaving", tick.gone["orders"])
        for name, key in KEYS.items():
            if name in columns:
                self.connection.execute(f"DELETE FROM {name} WHERE {key} IN (SELECT o_orderkey FROM leaving)")
        self.connection.unregister("leaving")

    def answer(self, sql: str) -> pa.Table:
        """The answer of a query."""
        return self.connection.sql(sql).to_arrow_table()

    def close(self) -> None:
        """Let go of the tables."""
        self.connection.close()
