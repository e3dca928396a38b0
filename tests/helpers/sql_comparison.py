"""Maintained SQL views against DuckDB after every tick."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import isclose
from typing import Any

import duckdb

import gpu_wcoj as gw
from gpu_wcoj.errors import UnsupportedError
from gpu_wcoj.query.projection import narrow_inputs
from gpu_wcoj.query.sql import parse
from tests.helpers.sql_tables import TYPES, Bag, Row, Script, Table, states

MAX_ROWS = 1000
"""Most rows of an answer; queries with larger answers are left out."""


class UnfitError(Exception):
    """DuckDB does not take the text, or its answer is too large: not a case."""


@dataclass(frozen=True)
class Case:
    """Views, or one query; tables; and ticks.

    Attributes
    ----------
    views
        Names and bodies, each of which may read those before it; one with the name ``""`` is a query by itself.
    """

    views: tuple[tuple[str, str], ...]
    tables: tuple[Table, ...]
    script: Script

    @property
    def text(self) -> str:
        """The SQL."""
        return ";\n".join(f"CREATE VIEW {name} AS {body}" if name else body for name, body in self.views)

    def __str__(self) -> str:
        tables = "\n".join(
            f"{table.name}({', '.join(f'{column.name} {column.kind}' for column in table.columns)})"
            for table in self.tables
        )
        ticks = "\n".join(
            f"tick {i}: " + "; ".join(f"{name} {list(changes)}" for name, changes in tick.items())
            for i, tick in enumerate(self.script)
        )
        return f"{self.text}\n{tables}\n{ticks}"


Answers = list[dict[str, tuple[Bag, list[str]]]]
"""By tick and output: the rows, and the names of the columns."""


class Judge:
    """DuckDB."""

    def __init__(self) -> None:
        self.connection = duckdb.connect(config={"threads": 1, "memory_limit": "200MB", "temp_directory": ""})
        self._views: list[str] = []
        self._tables: list[str] = []

    def answers(self, case: Case) -> Answers:
        """Return the answers of DuckDB after each tick.

        Raises
        ------
        UnfitError
            If it does not take the text, or has too many rows to say.
        """
        try:
            return self._answers(case)
        except duckdb.Error as error:
            raise UnfitError(str(error)) from error
        finally:
            for name in reversed(self._views):
                self.connection.execute(f"DROP VIEW IF EXISTS {name}")
            for name in self._tables:
                self.connection.unregister(name)
            self._views, self._tables = [], []

    def _answers(self, case: Case) -> Answers:
        found: Answers = []
        for state in states(case.tables, case.script):
            for table in case.tables:
                self.connection.register(table.name, table.arrow(list(state[table.name].elements())))
                self._tables.append(table.name)
            own = {}
            for name, body in case.views:
                if name and not found:
                    self.connection.execute(f"CREATE VIEW {name} AS {body}")
                    self._views.append(name)
                cursor = self.connection.execute(f"SELECT * FROM {name}" if name else body)
                own[name] = self._read(cursor), [description[0] for description in cursor.description]
            found.append(own)
        return found

    def _read(self, cursor: Any) -> Bag:
        rows = cursor.fetchmany(MAX_ROWS + 1)
        if len(rows) > MAX_ROWS:
            self.connection.abort()
            raise UnfitError("too many rows")
        return Counter(map(plain, rows))

    def close(self) -> None:
        """Let go of it."""
        self.connection.close()


def plain(row: Sequence[object]) -> Row:
    """A row in which true differs from 1, and NaN equals NaN."""
    return tuple(f"is {value}" if isinstance(value, bool) or value != value else value for value in row)


def disagreement(case: Case, right: Answers, *, typed: bool = False, **options: Any) -> str | None:
    """Return a description of the first wrong answer, or None.

    The types of columns are given if it is `typed`, else only their names.

    Raises
    ------
    UnsupportedError
        If the text is refused.
    """
    try:
        known = {
            table.name: {column.name: str(TYPES[column.kind]) for column in table.columns} for table in case.tables
        }
        rules = parse(case.text, known if typed else {table.name: table.names for table in case.tables})
        rules = narrow_inputs(rules) if len(case.text) % 2 else rules
        program = gw.Program(rules, bag=True, **{"backend": "cpu", "threads": 1} | options)
        return _compare(case, program, right)
    except UnsupportedError:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _compare(case: Case, program: gw.Program, right: Answers) -> str | None:
    tables = {table.name: table for table in case.tables}
    named = {name: name or program.outputs[0] for name, _ in case.views}
    followed = {name: named[name] for name in named if named[name] in program.outputs}
    if not followed:
        return f"the outputs are {program.outputs}"
    kept: dict[str, Bag] = {name: Counter() for name in followed}
    for i, tick in enumerate(case.script):
        changes = {
            name: tables[name].arrow([row for row, _ in rows], [weight for _, weight in rows])
            for name, rows in tick.items()
            if name in program.inputs
        }
        found = program.step(changes)
        for name, output in followed.items():
            rows = [(plain(row), weight) for row, weight in found[output].rows()]
            expected, labels = right[i][name]
            # -0.0 and 0.0 are rows of their own, which are counted as one here: DuckDB shows either where it compares
            if any(weight == 0 for _, weight in rows) or len({repr(row) for row, _ in rows}) < len(rows):
                return f"tick {i}: the change of {output} has rows of weight 0, or one twice: {rows}"
            for row, weight in rows:
                kept[name][row] += weight
                if not kept[name][row]:
                    del kept[name][row]
            where = f"tick {i}, {output}: "
            if wrong := _difference(kept[name], expected):
                return where + wrong
            if wrong := _labels(found[output], labels):
                return where + wrong
    for name, output in named.items():
        whole: Bag = Counter()
        for row, weight in program.relation(output).rows():
            whole[plain(row)] += weight
        if wrong := _difference(whole, right[-1][name][0]):
            return f"in the end, {output} as a whole: {wrong}"
    return None


def _labels(answer: gw.ZSet, labels: list[str]) -> str | None:
    """Return whether columns have the names of the text; unnamed expressions may have any."""
    own = answer.to_arrow().column_names[: len(labels)]
    pairs = zip(labels, own, strict=True)
    if any(name.isidentifier() and labels.count(name) == 1 and name.lower() != mine.lower() for name, mine in pairs):
        return f"the columns are {own}, and should be {labels}"
    return None


def _difference(answer: Bag, right: Bag) -> str | None:
    over, under = _minus(answer, right), _minus(right, answer)
    for row in list(over):
        for other in list(under):
            if over[row] == under[other] and _is_close(row, other):
                del over[row], under[other]
                break
    return f"too many {dict(over)}, missing {dict(under)}" if over or under else None


def _minus(left: Bag, right: Bag) -> Bag:
    return Counter({row: weight - right[row] for row, weight in left.items() if weight > right[row]})


def _is_close(left: Row, right: Row) -> bool:
    """Return whether rows differ in the last digits of floats only."""
    return len(left) == len(right) and all(
        mine == yours or (isinstance(mine, float) and isinstance(yours, float) and isclose(mine, yours, rel_tol=1e-9))
        for mine, yours in zip(left, right, strict=True)
    )
