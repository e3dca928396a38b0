"""One statement as a query and as a view, beside DuckDB's answer."""

from __future__ import annotations

import datetime as dt
import multiprocessing
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, Self

import duckdb
import numpy as np
import pyarrow as pa
import sqlglot

import gpu_wcoj as gw
from bench.sql.compare import difference
from bench.sql.tables import tables

SECONDS = 120.0
"""Seconds of a statement, all its runs together; after them its process is ended."""
SHARE = 0.002
"""Of the rows of a table, how many come and how many go with a refresh."""
_FORKING = multiprocessing.get_context("fork")

Tables = Mapping[str, pa.Table]


@dataclass
class Outcome:
    """What became of a statement.

    Attributes
    ----------
    worker
        ``engine``, ``DuckDB`` or ``both``; empty if it was refused.
    why
        The reason for which it was refused, or the engine did not do all of it.
    wrong
        The first difference from DuckDB's answer; empty if there is none.
    seconds
        Seconds of the query, from the text to the rows.
    n_rows
        Rows of the answer.
    view
        ``exact``, or the reason for which the view was refused or is wrong; empty if it was not asked for.
    """

    worker: str = ""
    why: str = ""
    wrong: str = ""
    seconds: float = 0.0
    n_rows: int = 0
    view: str = ""

    @property
    def agrees(self) -> bool:
        """Whether the query ran and its answer is DuckDB's."""
        return bool(self.worker) and not self.wrong


@dataclass
class Rival:
    """DuckDB over tables, in the time zone of gw.query."""

    tables: Tables
    connection: duckdb.DuckDBPyConnection = field(default_factory=duckdb.connect)

    def __post_init__(self) -> None:
        self.connection.execute("SET TimeZone = 'UTC'")
        for name, table in self.tables.items():
            self.connection.register(name, table)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def answer(self, text: str) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""
        table = self.connection.sql(text).to_arrow_table()
        return list(zip(*([_plain(value) for value in column.to_pylist()] for column in table.columns), strict=True))


def _plain(value: Any) -> Any:
    """Return an interval without months as a timedelta, as DuckDB's own rows have it; other values unchanged."""
    if not isinstance(value, pa.MonthDayNano) or value.months or value.nanoseconds % 1000:
        return value
    return dt.timedelta(value.days, microseconds=value.nanoseconds // 1000)


def ask(text: str, relations: Tables, rival: Rival) -> Outcome:
    """Answer a statement by gw.query and by DuckDB."""
    expected = rival.answer(text)
    outcome = Outcome(n_rows=len(expected))
    start = time.perf_counter()
    try:
        with warnings.catch_warnings(action="ignore"):
            result = gw.query(text, relations, language="sql", backend="cpu", threads=1)
        rows = result.rows()
    except gw.GpuWcojError as error:
        outcome.why = _first_line(error)
        return outcome
    outcome.seconds = time.perf_counter() - start
    outcome.wrong = difference(rows, expected)
    parts = result.explain()
    if "\nanswer: DuckDB" not in f"\n{parts}":
        outcome.worker = "engine"
    else:
        outcome.worker = "both" if ": engine, " in parts else "DuckDB"
        outcome.why = next(line for line in parts.split("\n") if "The engine does not" in line).strip()
    return outcome


def follow(text: str, relations: Tables, n_refreshes: int, seed: int, fewest: int) -> str:
    """Keep a view over refreshes, and compare it with DuckDB's answer from scratch after each of them.

    An answer that differs may have other rows of equal keys in a LIMIT, and is compared with that of gw.query.

    Each refresh takes rows away from the tables of at least `fewest` rows, and brings some back that were away.

    Returns
    -------
    str
        ``exact``, or the reason for which it was refused, or the difference.
    """
    chance = np.random.default_rng(seed)
    names = [name for name, table in relations.items() if len(table) >= fewest]
    away = {name: chance.random(len(relations[name])) < n_refreshes * SHARE for name in names}
    text = without_order(text)

    def present() -> dict[str, pa.Table]:
        return {**relations, **{name: relations[name].filter(pa.array(~away[name])) for name in names}}

    try:
        with warnings.catch_warnings(action="ignore"):
            view = gw.view(text, present(), language="sql", backend="cpu", threads=1)
    except gw.GpuWcojError as error:
        return _first_line(error)
    read = [name for name in names if name in view.program.inputs]
    for number in range(n_refreshes + 1):
        if number:
            changes = {}
            for name in read:
                coming, going = _drawn(chance, away[name], SHARE), _drawn(chance, ~away[name], SHARE)
                away[name][coming], away[name][going] = False, True
                columns = [relations[name].take(coming), relations[name].take(going)]
                weights = np.repeat([1, -1], [len(coming), len(going)])
                changes[name] = pa.concat_tables(columns).append_column("weight", pa.array(weights))
            view.apply(changes)
        rows, current = view.snapshot().rows(), present()
        with Rival(current) as rival:
            wrong = difference(rows, rival.answer(text))
        if wrong:  # of equal keys, LIMIT keeps others in DuckDB than here
            with warnings.catch_warnings(action="ignore"):
                scratch = gw.query(text, current, language="sql", backend="cpu", threads=1)
            wrong = difference(rows, scratch.rows())
        if wrong:
            return f"wrong after {number} refreshes: {wrong}"
    return "exact"


def _drawn(chance: np.random.Generator, mask: Any, share: float) -> Any:
    """Return positions at which a mask holds: a share of its length, or all that there are."""
    positions = np.flatnonzero(mask)
    return chance.choice(positions, min(len(positions), max(1, round(len(mask) * share))), replace=False)


def without_order(text: str) -> str:
    """Return a statement without an ORDER BY that cuts nothing off, which a view does not have.

    Examples
    --------
    >>> without_order("SELECT a FROM t ORDER BY a"), without_order("SELECT a FROM t ORDER BY a LIMIT 1")
    ('SELECT a FROM t', 'SELECT a FROM t ORDER BY a LIMIT 1')
    """
    node = sqlglot.parse_one(text, read="duckdb")
    is_cut = node.args.get("limit") is not None or node.args.get("offset") is not None
    if is_cut or node.args.get("order") is None:
        return text
    node.set("order", None)
    return node.sql(dialect="duckdb")


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0]}"


def load_kernels() -> None:
    """Run a view and a query, so that child processes begin with the kernels loaded."""
    text = (
        "SELECT e.name, count(*) AS n FROM emp e JOIN dept d ON e.dept = d.id GROUP BY e.name ORDER BY n, name LIMIT 2"
    )
    view = gw.view(text, tables(), language="sql", backend="cpu", threads=1)
    view.apply(emp=tables()["emp"].slice(0, 2))
    _ = gw.query(text, tables(), language="sql", backend="cpu", threads=1)


def apart(work: Callable[[], Outcome | str], seconds: float = SECONDS) -> Outcome | str:
    """Return what a function returns in a child process; a text if it fails, or does not end."""
    here, there = _FORKING.Pipe(duplex=False)
    process = _FORKING.Process(target=_answer, args=(there, work), daemon=True)
    process.start()
    there.close()
    try:
        if not here.poll(seconds):
            return f"no end after {seconds:g} seconds"
        found: Outcome | str = here.recv()
    except EOFError:
        return "the process ended without an answer"
    finally:
        process.kill()
        process.join()
        here.close()
    return found


def _answer(pipe: Connection, work: Callable[[], Outcome | str]) -> None:
    try:
        pipe.send(work())
    except Exception as error:
        pipe.send(_first_line(error))
