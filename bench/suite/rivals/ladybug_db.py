"""LadybugDB, the live fork of Kuzu: a recount in Cypher after each tick.

Columns that a variable of the pattern joins are one node table, relations of two columns are relationships between two
of them. Of a cyclic pattern it intersects adjacency lists, of an acyclic one it counts without listing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ladybug
import numpy as np
import pyarrow as pa

from bench.suite.contender import About, NotForThisError, Setting
from bench.suite.rivals.counter import Recounter
from bench.suite.workload import Pattern, Rows, State, Tick

ADDRESSES = 1 << 36
"""Bytes of addresses that a database may take, so that a limit on a process's addresses can be held."""
Prepared = Mapping[str, tuple[Rows, pa.Table, pa.Table]]
"""Per relation, the rows that come, and as tables those that come and those that go."""


def recompute(setting: Setting) -> Recompute:
    """Count anew after each tick."""
    pattern = setting.workload.pattern
    if pattern is None:
        raise NotForThisError("the workload is more than one rule, and no Cypher is written for it")
    wide = [name for name, columns in setting.workload.columns.items() if len(columns) != 2]
    if wide:
        raise NotForThisError(f"relation '{wide[0]}' has not two columns, and is no relationship")
    return Recompute(setting, pattern)


def domains(pattern: Pattern) -> dict[tuple[str, int], str]:
    """Per relation and column, the node table of its values: columns that share a variable share one.

    Examples
    --------
    >>> domains(Pattern((("likes", ("a", "b")), ("has", ("b", "c")))))
    {('likes', 0): 'N0', ('likes', 1): 'N1', ('has', 0): 'N1', ('has', 1): 'N2'}
    >>> sorted(set(domains(Pattern((("knows", ("a", "b")), ("knows", ("b", "c"))))).values()))
    ['N0']
    """
    places: dict[str, set[tuple[str, int]]] = {}
    for relation, variables in pattern.atoms:
        for column, name in enumerate(variables):
            places.setdefault(name, set()).add((relation, column))
    groups: list[set[tuple[str, int]]] = []
    for found in places.values():
        apart = [group for group in groups if not group & found]
        groups = [*apart, found.union(*(group for group in groups if group & found))]
    ordered = dict.fromkeys((relation, column) for relation, names in pattern.atoms for column in range(len(names)))
    number: dict[int, str] = {}
    tables = {}
    for place in ordered:
        (at,) = (i for i, group in enumerate(groups) if place in group)
        tables[place] = number.setdefault(at, f"N{len(number)}")
    return tables


def cypher(pattern: Pattern) -> str:
    """The count of the pattern's rows.

    Examples
    --------
    >>> print(cypher(Pattern((("e", ("a", "b")), ("e", ("b", "c"))), (("a", "<", "c"),))))
    MATCH (a:N0)-[:e]->(b:N0), (b)-[:e]->(c:N0) WHERE a.id < c.id RETURN count(*)
    """
    tables = domains(pattern)
    seen: set[str] = set()
    pieces = []
    for relation, variables in pattern.atoms:
        ends = []
        for column, name in enumerate(variables):
            ends.append(f"({name})" if name in seen else f"({name}:{tables[relation, column]})")
            seen.add(name)
        pieces.append(f"{ends[0]}-[:{relation}]->{ends[1]}")
    where = [f"{left}.id {'<>' if sign == '!=' else sign} {right}.id" for left, sign, right in pattern.comparisons]
    condition = f" WHERE {' AND '.join(where)}" if where else ""
    return f"MATCH {', '.join(pieces)}{condition} RETURN count(*)"


class Recompute(Recounter):
    """The whole answer's count after each tick."""

    def __init__(self, setting: Setting, pattern: Pattern) -> None:
        super().__init__(setting)
        self.n_runs = 0
        self.statement = cypher(pattern)
        self.tables = domains(pattern)
        self.relations = tuple(dict.fromkeys(relation for relation, _ in pattern.atoms))
        self.database = ladybug.Database(":memory:", max_num_threads=setting.threads, max_db_size=ADDRESSES)
        self.connection = ladybug.Connection(self.database, num_threads=setting.threads)
        self.known = {table: np.empty(0, np.int64) for table in self.tables.values()}
        for table in self.known:
            self._run(f"CREATE NODE TABLE {table}(id INT64 PRIMARY KEY)")
        for name in self.relations:
            self._run(f"CREATE REL TABLE {name}(FROM {self.tables[name, 0]} TO {self.tables[name, 1]})")

    @property
    def about(self) -> About:
        """With the statement."""
        return About(str(ladybug.__version__), notes={"statement": self.statement})

    def load(self, state: State) -> None:
        """See `Contender`."""
        self._nodes({(name, i): rows[:, i] for name, rows in state.items() for i in range(2)})
        for name, rows in state.items():
            if len(rows):
                self._run(f"COPY {name} FROM $rows", _table(rows))
        self.last = self.count()

    def prepare(self, tick: Tick) -> Prepared:
        """See `Contender`."""
        return {
            name: (change.inserted, _table(change.inserted), _table(change.deleted))
            for name, change in tick.items()
            if len(change)
        }

    def take(self, prepared: Prepared) -> None:
        """See `Recounter`."""
        self._nodes({(name, i): rows[:, i] for name, (rows, _, _) in prepared.items() for i in range(2)})
        for name, (_, inserted, deleted) in prepared.items():
            if len(deleted):
                source, target = self.tables[name, 0], self.tables[name, 1]
                found = f"MATCH (a:{source} {{id: source}})-[r:{name}]->(b:{target} {{id: target}})"
                self._run(f"LOAD FROM $rows {found} DELETE r", deleted)
            if len(inserted):
                self._run(f"COPY {name} FROM $rows", inserted)

    def count(self) -> int:
        """See `Contender`."""
        ((found,),) = self._run(self.statement)
        return int(found)

    def close(self) -> None:
        """See `Contender`."""
        self.connection.close()
        self.database.close()

    def _nodes(self, columns: Mapping[tuple[str, int], Rows]) -> None:
        """Let nodes stand in their tables, new ones with the next numbers in ascending order."""
        found: dict[str, list[Rows]] = {}
        for place, values in columns.items():
            found.setdefault(self.tables[place], []).append(values)
        for table, parts in found.items():
            new = np.setdiff1d(np.concatenate(parts), self.known[table])
            if len(new):
                self._run(f"COPY {table} FROM $rows", pa.table({"id": new}))
                self.known[table] = np.union1d(self.known[table], new)

    def _run(self, statement: str, rows: pa.Table | None = None) -> Sequence[Any]:
        """Run a statement; `rows` stands for ``$rows``.

        The parameter gets a new name each time: a write that runs again by the same text may crash the process, in
        0.22 as in https://github.com/LadybugDB/ladybug/issues/875, since plans are kept by text.
        """
        self.n_runs += 1
        name = f"rows{self.n_runs}"
        parameters = None if rows is None else {name: rows}
        result = self.connection.execute(statement.replace("$rows", f"${name}"), parameters)
        assert not isinstance(result, list), "one statement has one result"
        try:
            return result.get_all() if result.has_next() else ()
        finally:
            result.close()


def _table(rows: Rows) -> pa.Table:
    return pa.table({"source": rows[:, 0], "target": rows[:, 1]})
