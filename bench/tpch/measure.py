"""A view of one query over ticks, beside DuckDB's answers to the same query on the same tables."""

from __future__ import annotations

import gc
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

import gpu_wcoj as gw
from bench.lsqb.measure import Timing
from bench.tpch.data import Tick
from bench.tpch.queries import QUERIES, columns_of
from bench.tpch.rival import Tables

Row = tuple[object, ...]
_NEAR = 1e-12
"""Doubles, which one query has, may differ by this much of themselves: the rest is exact."""


class AnswerError(Exception):
    """A view's rows are not those of DuckDB."""


class Kept:
    """A view of some queries, and its rows: what it began with, and all its changes added up.

    Parameters
    ----------
    names
        The queries; each is a view of one text.
    begin
        The tables to begin with.
    """

    def __init__(self, names: Sequence[str], begin: Mapping[str, pa.Table], threads: int) -> None:
        self.names = tuple(names)
        self.columns = columns_of(" ".join(QUERIES[name] for name in names))
        text = ";".join(f"CREATE VIEW {name} AS {QUERIES[name]}" for name in names)
        given = {name: begin[name].select(list(columns)) for name, columns in self.columns.items()}
        self.view = gw.view(text, given, outputs=self.names, backend="cpu", threads=threads)
        program = self.program = self.view.program
        self.rows: dict[str, Counter[Row]] = {name: Counter(program.relation(name).to_dict()) for name in names}

    def apply(self, changes: Mapping[str, pa.Table]) -> dict[str, gw.ZSet]:
        """Take a tick's changes; what is timed."""
        return self.program.step(changes)

    def add(self, found: Mapping[str, gw.ZSet]) -> int:
        """Add what `apply` gave to the rows; how many rows it has."""
        total = 0
        for name, change in found.items():
            held = self.rows[name]
            for row, weight in change.to_dict().items():
                held[row] += weight
                total += 1
                if held[row] == 0:
                    del held[row]
        return total

    def check(self, tables: Tables, when: str) -> None:
        """Compare all rows with DuckDB's.

        Raises
        ------
        AnswerError
            If they differ.
        """
        for name in self.names:
            answer = tables.answer(QUERIES[name])
            expected = Counter(zip(*(column.to_pylist() for column in answer.columns), strict=True))
            if not _is_same(self.rows[name], expected):
                more, less = self.rows[name] - expected, expected - self.rows[name]
                raise AnswerError(f"{name} {when}: the view has {_few(more)} more, and lacks {_few(less)}")


def _is_same(found: Counter[Row], expected: Counter[Row]) -> bool:
    if found == expected:
        return True
    if not any(isinstance(value, float) for row in expected for value in row):
        return False
    pairs = list(zip(sorted(found.elements(), key=str), sorted(expected.elements(), key=str), strict=False))
    return found.total() == expected.total() and all(map(_is_near, *zip(*pairs, strict=True)))


def _is_near(left: Row, right: Row) -> bool:
    return all(
        math.isclose(one, other, rel_tol=_NEAR) if isinstance(one, float) and isinstance(other, float) else one == other
        for one, other in zip(left, right, strict=True)
    )


def _few(rows: Counter[Row]) -> str:
    shown = [tuple(str(value) if isinstance(value, Decimal) else value for value in row) for row in list(rows)[:3]]
    return f"{rows.total()} rows such as {shown}" if shown else "none"


def over_ticks(
    name: str, begin: Mapping[str, pa.Table], ticks: Sequence[Tick], threads: int, warm_up: int = 2
) -> dict[str, Any]:
    """Seconds of loading and of each tick, and of DuckDB's answer after it; all answers are compared.

    Parameters
    ----------
    warm_up
        Ticks of a view before, which compile what is compiled.

    Raises
    ------
    AnswerError
        If the view's rows are not those of DuckDB, in the beginning or after a tick.
    """
    for_warming = Kept([name], begin, threads)
    for tick in ticks[:warm_up]:
        for_warming.apply(tick.changes(for_warming.columns))
    del for_warming
    columns = columns_of(QUERIES[name])
    load, ours, theirs = Timing(), Timing(), Timing()
    kept = load.take(lambda: Kept([name], begin, threads))
    tables = Tables({table: begin[table].select(list(own)) for table, own in columns.items()}, threads)
    kept.check(tables, "in the beginning")
    changed = []
    gc.collect()
    gc.freeze()  # checks make rows by the thousand, and a collection within a tick would look through all libraries
    for number, tick in enumerate(ticks, 1):
        changes = tick.changes(columns)
        found = ours.take(lambda changes=changes: kept.apply(changes))  # type: ignore[misc]  # a default binds it
        changed.append(kept.add(found))
        tables.apply(tick, columns)
        _ = theirs.take(lambda: tables.answer(QUERIES[name]))
        kept.check(tables, f"after tick {number}")
    gc.unfreeze()
    tables.close()
    return {
        "rows": sum(kept.rows[name].values()),
        "changed_rows": changed,
        "load": load.record,
        "ticks": {"ours": ours.record, "DuckDB": theirs.record},
    }
