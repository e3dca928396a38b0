"""DuckDB: a recount after each tick, and delta queries in SQL.

The delta queries are those of the delta rule: the change is the sum, over the atoms of the body, of one join each, of
that atom's changed rows, with the atoms before it as they are after the tick and those behind it as they were before.
Each relation is two tables, before and after; while the statement runs, they differ by the tick. Both ways count by
`bench.suite.rivals.counting`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from bench.suite.contender import About, NotForThisError, Outcome, Setting
from bench.suite.digest import digest
from bench.suite.rivals.counter import Counter, Recounter
from bench.suite.rivals.counting import counting
from bench.suite.workload import Change, Pattern, Rows, State, Tick, Workload

Prepared = Mapping[str, tuple[pa.Table, bool]]
"""Per relation, its changed rows with weights, and whether some are deleted."""


def recompute(setting: Setting) -> Recompute:
    """Count anew after each tick."""
    return Recompute(setting)


def deltas(setting: Setting) -> Deltas:
    """Delta queries."""
    if setting.workload.pattern is None:
        raise NotForThisError("delta queries are written for patterns, and this is more than one rule")
    return Deltas(setting, setting.workload.pattern)


def statement(workload: Workload) -> str:
    """What counts the answer."""
    pattern = workload.pattern
    return workload.sql if pattern is None else counting(pattern, [relation for relation, _ in pattern.atoms])


def delta_terms(pattern: Pattern) -> list[tuple[str, str, str]]:
    """Per atom, its relation, the statement that sums the weights of the rows that its change makes, and all such rows.

    Examples
    --------
    >>> path = Pattern((("edge", ("a", "b")), ("edge", ("b", "c"))))
    >>> for relation, _, rows in delta_terms(path):
    ...     print(relation, "|", rows)
    edge | SELECT t0.c0 a, t0.c1 b, t1.c1 c, t0.w FROM edge_change t0, edge t1 WHERE t0.c1 = t1.c0
    edge | SELECT t0.c0 a, t0.c1 b, t1.c1 c, t1.w FROM edge_after t0, edge_change t1 WHERE t0.c1 = t1.c0
    """
    found = []
    columns = pattern.sql(select="*").partition(" FROM ")[0].removeprefix("SELECT ")
    for seed, (relation, _) in enumerate(pattern.atoms):
        tables = tuple(
            f"{name}_change" if i == seed else f"{name}_after" if i < seed else name
            for i, (name, _) in enumerate(pattern.atoms)
        )
        counted = counting(pattern, tables, weighted=(seed,), root=seed)
        found.append((relation, counted, pattern.sql(tables, select=f"{columns}, t{seed}.w")))
    return found


class Tables:
    """Relations as tables, with these suffixes."""

    def __init__(self, setting: Setting, suffixes: tuple[str, ...]) -> None:
        self.columns = setting.workload.columns
        self.suffixes = suffixes
        self.connection = duckdb.connect(
            config={
                "threads": setting.threads,
                "temp_directory": str(setting.folder),
                "preserve_insertion_order": False,
            }
        )

    def load(self, state: State) -> None:
        """Make them."""
        for name, columns in self.columns.items():
            for suffix in self.suffixes:
                rows = _table(state.get(name, np.empty((0, len(columns)), np.int64)))
                self._create(f"TABLE {name}{suffix}", rows)

    def arrive(self, prepared: Prepared) -> None:
        """Let there be tables of what changes."""
        for name, (rows, _) in prepared.items():
            self._create(f"OR REPLACE TEMP TABLE {name}_change", rows)

    def take(self, prepared: Prepared, suffix: str) -> None:
        """Let what changes come and go."""
        for name, (rows, deletes) in prepared.items():
            table = f"{name}{suffix}"
            columns = [one for one in rows.column_names if one != "w"]
            if deletes:
                same = " AND ".join(f"{table}.{one} = d.{one}" for one in columns)
                self.connection.execute(f"DELETE FROM {table} USING {name}_change d WHERE d.w < 0 AND {same}")
            chosen = f"SELECT {', '.join(columns)} FROM {name}_change WHERE w > 0"
            self.connection.execute(f"INSERT INTO {table} {chosen}")

    def number(self, text: str) -> int:
        """What a statement gives, 0 for NULL."""
        ((found,),) = self.connection.execute(text).fetchall()
        return int(found or 0)

    def rows(self, text: str) -> pa.Table:
        """All rows that a statement gives."""
        return self.connection.sql(text).to_arrow_table()

    def _create(self, what: str, rows: pa.Table) -> None:
        self.connection.register("batch", rows)
        self.connection.execute(f"CREATE {what} AS SELECT * FROM batch")
        self.connection.unregister("batch")


def _prepared(tick: Tick) -> Prepared:
    return {name: (_weighted(change), bool(len(change.deleted))) for name, change in tick.items() if len(change)}


class Recompute(Recounter):
    """The whole answer's count after each tick."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.statement = statement(setting.workload)
        self.tables = Tables(setting, ("",))

    @property
    def about(self) -> About:
        """With the statement."""
        return About(duckdb.__version__, notes={"statement": self.statement})

    def load(self, state: State) -> None:
        """See `Contender`."""
        self.tables.load(state)
        self.last = self.count()

    def prepare(self, tick: Tick) -> Prepared:
        """See `Contender`."""
        return _prepared(tick)

    def take(self, prepared: Prepared) -> None:
        """See `Recounter`."""
        self.tables.arrive(prepared)
        self.tables.take(prepared, "")

    def count(self) -> int:
        """See `Contender`."""
        return self.tables.number(self.statement)

    def state_bytes(self) -> int:
        """Of its buffers."""
        return self.tables.number(_MEMORY)

    def close(self) -> None:
        """See `Contender`."""
        self.tables.connection.close()


class Deltas(Counter):
    """One statement a tick: the sum of the delta queries of all atoms whose relations change."""

    def __init__(self, setting: Setting, pattern: Pattern) -> None:
        self.pattern = pattern
        self.lists_rows = setting.how == "rows"
        self.terms = delta_terms(pattern)
        self.statement = statement(setting.workload)
        self.tables = Tables(setting, ("", "_after"))

    @property
    def about(self) -> About:
        """With the statements."""
        shown = [rows if self.lists_rows else counted for _, counted, rows in self.terms]
        return About(duckdb.__version__, notes={"statements": shown})

    def load(self, state: State) -> None:
        """See `Contender`."""
        self.tables.load(state)

    def prepare(self, tick: Tick) -> Prepared:
        """See `Contender`."""
        return _prepared(tick)

    def tick(self, prepared: Prepared) -> Outcome:
        """See `Contender`."""
        self.tables.arrive(prepared)
        self.tables.take(prepared, "_after")
        terms = [one for one in self.terms if one[0] in prepared]
        net = 0
        if terms and self.lists_rows:
            rows = self.tables.rows(" UNION ALL ".join(rows for _, _, rows in terms))
            net = int(np.sum(rows.column(rows.num_columns - 1).to_numpy()))
        elif terms:
            parts = " UNION ALL ".join(f"({counted})" for _, counted, _ in terms)
            net = self.tables.number(f"SELECT sum(n) FROM ({parts}) part(n)")
        self.tables.take(prepared, "")
        return Outcome(net)

    def count(self) -> int:
        """See `Contender`."""
        return self.tables.number(self.statement)

    def digest(self) -> str | None:
        """Where rows are made."""
        if not self.lists_rows:
            return None
        found = self.tables.rows(self.pattern.sql(select="*"))
        return digest(np.stack([column.to_numpy() for column in found.columns], axis=1))

    def state_bytes(self) -> int:
        """Of its buffers."""
        return self.tables.number(_MEMORY)

    def close(self) -> None:
        """See `Contender`."""
        self.tables.connection.close()


_MEMORY = "SELECT sum(memory_usage_bytes) FROM duckdb_memory()"


def _table(rows: Rows) -> pa.Table:
    columns: dict[str, Any] = {f"c{i}": np.ascontiguousarray(rows[:, i]) for i in range(rows.shape[1])}
    return pa.table(columns)


def _weighted(change: Change) -> pa.Table:
    weights = np.repeat(np.array([1, -1]), [len(change.inserted), len(change.deleted)])
    return _table(np.concatenate([change.inserted, change.deleted])).append_column("w", pa.array(weights))
