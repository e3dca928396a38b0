"""DuckDB: a semi-naive loop in SQL, and recursive SQL where a program has one recursive relation and reads it once.

The loop keeps a table a relation and one of what the last iteration has found. Each rule is one statement for each of
its atoms that recursion feeds: that atom from what was found last, the others from all there is; what is there already
is dropped by an anti-join.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import count

import duckdb
import pyarrow as pa

from bench.recursion.tasks import Rows, Task
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.ir import Rule, Variable


def loop(task: Task, inputs: Mapping[str, Rows], threads: int) -> tuple[float, dict[str, int]]:
    """Seconds of the fixpoint, the inputs being tables already, and the rows of each derived relation."""
    rules = parse(task.text).rules
    derived = list(dict.fromkeys(rule.head.relation for rule in rules))
    arity = {rule.head.relation: len(rule.head.terms) for rule in rules}
    with _connected(threads, inputs) as connection:
        start = time.perf_counter()
        for name in derived:
            columns = ", ".join(f"c{i} BIGINT" for i in range(arity[name]))
            for table in (name, f"{name}_last", f"{name}_next"):
                connection.execute(f"CREATE TABLE {table} ({columns})")
        for number in count():
            found = 0
            for name in derived:
                selects = [
                    _select(rule, seed)
                    for rule in rules
                    if rule.head.relation == name
                    for seed in _seeds(rule, derived, number == 0)
                ]
                if selects:
                    found += _insert_new(connection, name, arity[name], selects)
            if not found:
                break
            for name in derived:
                connection.execute(f"INSERT INTO {name} SELECT * FROM {name}_next")
                connection.execute(f"DROP TABLE {name}_last")
                connection.execute(f"ALTER TABLE {name}_next RENAME TO {name}_last")
                connection.execute(f"CREATE TABLE {name}_next AS SELECT * FROM {name}_last LIMIT 0")
        seconds = time.perf_counter() - start
        return seconds, {name: _number(connection, f"SELECT count(*) FROM {name}") for name in derived}


def recursive(task: Task, inputs: Mapping[str, Rows], threads: int) -> tuple[float, dict[str, int]]:
    """The same by ``WITH RECURSIVE``, for one recursive relation."""
    rules = parse(task.text).rules
    (name,) = {rule.head.relation for rule in rules}
    columns = ", ".join(f"c{i}" for i in range(len(rules[0].head.terms)))
    selects = " UNION ".join(_select(rule, None) for rule in rules)
    with _connected(threads, inputs) as connection:
        start = time.perf_counter()
        rows = _number(connection, f"WITH RECURSIVE {name}({columns}) AS ({selects}) SELECT count(*) FROM {name}")
        return time.perf_counter() - start, {name: rows}


def _connected(threads: int, inputs: Mapping[str, Rows]) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": threads, "temp_directory": tempfile.gettempdir()})
    for name, rows in inputs.items():
        batch = pa.table({f"c{i}": rows[:, i] for i in range(rows.shape[1])})
        connection.register("batch", batch)
        connection.execute(f"CREATE TABLE {name} AS SELECT DISTINCT * FROM batch")
        connection.unregister("batch")
    return connection


def _seeds(rule: Rule, derived: Sequence[str], is_first: bool) -> list[int | None]:
    """The atoms from which the rule finds something new; None for a rule that reads inputs only."""
    recursive_atoms: list[int | None] = [i for i, atom in enumerate(rule.atoms) if atom.relation in derived]
    if not recursive_atoms:
        return [None] if is_first else []
    return [] if is_first else recursive_atoms


def _select(rule: Rule, seed: int | None) -> str:
    """One rule, an atom of it over what the last iteration has found."""
    bound: dict[Variable, str] = {}
    where = []
    for i, atom in enumerate(rule.atoms):
        for column, term in enumerate(atom.terms):
            assert isinstance(term, Variable)
            place = f"t{i}.c{column}"
            if term in bound:
                where.append(f"{bound[term]} = {place}")
            bound.setdefault(term, place)
    tables = [f"{atom.relation}{'_last' if i == seed else ''} t{i}" for i, atom in enumerate(rule.atoms)]
    head = [bound[term] for term in rule.head.terms if isinstance(term, Variable)]
    shown = ", ".join(f"{place} AS c{i}" for i, place in enumerate(head))
    return f"SELECT {shown} FROM {', '.join(tables)}" + (f" WHERE {' AND '.join(where)}" if where else "")


def _insert_new(connection: duckdb.DuckDBPyConnection, name: str, arity: int, selects: Sequence[str]) -> int:
    same = " AND ".join(f"d.c{i} = a.c{i}" for i in range(arity))
    new = f"SELECT DISTINCT * FROM ({' UNION ALL '.join(selects)}) d ANTI JOIN {name} a ON {same}"
    return _number(connection, f"INSERT INTO {name}_next {new}")


def _number(connection: duckdb.DuckDBPyConnection, statement: str) -> int:
    row = connection.execute(statement).fetchone()
    assert row is not None
    return int(row[0])
