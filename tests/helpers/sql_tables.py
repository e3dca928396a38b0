"""Random tables of a few columns, and ticks of changes to them.

They have nulls, equal rows and skew, and may be empty.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa

Row = tuple[object, ...]
Bag = Counter[Row]
Tick = Mapping[str, Sequence[tuple[Row, int]]]
Script = Sequence[Tick]

TYPES = {
    "int": pa.int64(),
    "text": pa.string(),
    "truth": pa.bool_(),
    "date": pa.date32(),
    "decimal": pa.decimal128(9, 2),
    "float": pa.float64(),
}
"""The kinds of columns."""

VALUES: dict[str, tuple[object, ...]] = {
    "int": (0, 1, 2, 3, 4, -1),
    "text": ("x", "y", "z", "", "xy"),
    "truth": (True, False),
    "date": tuple(dt.date(2019 + number, 1 + 5 * number, 28) for number in range(3)),
    "decimal": tuple(map(Decimal, ("0.00", "1.50", "2.00", "-0.25"))),
    "float": (0.0, 0.5, 2.0, -1.25),
}
"""What a column may hold; all floats and what is calculated from them are exact."""

EXTREMES: dict[str, tuple[object, ...]] = {
    "int": (2**63 - 1, -(2**63), 2**63 - 2, 0, 2**53 + 1, 2**53),
    "text": ("", " ", "x\u0301", "'", "\U0001f600", "X"),
    "truth": (True, False),
    "date": (dt.date.min, dt.date.max, dt.date(1969, 12, 31)),
    "decimal": tuple(map(Decimal, ("9999999.99", "-9999999.99", "0.01", "-0.01"))),
    "float": (1.7e308, -1.7e308, 5e-324, 0.1, -0.0, 0.0),
}
"""Values at the ends of what a type holds, and some that are close to one another."""

NAMES = {
    "a": "int", "b": "int", "c": "int", "k": "int", "s": "text", "t": "text", "p": "truth", "d": "date",
    "m": "decimal", "f": "float",
}  # fmt: skip
"""Names of columns, which tables share, so that natural joins have something to join."""


@dataclass(frozen=True)
class Column:
    """A name, and one of `TYPES`."""

    name: str
    kind: str


@dataclass(frozen=True)
class Table:
    """A table: its name and its columns."""

    name: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> list[str]:
        """The names of its columns."""
        return [column.name for column in self.columns]

    def arrow(self, rows: Sequence[Row], weights: Sequence[int] | None = None) -> pa.Table:
        """Rows as an Arrow table, with a column of weights if there are any."""
        arrays = [
            pa.array([row[number] for row in rows], TYPES[column.kind]) for number, column in enumerate(self.columns)
        ]
        if weights is None:
            return pa.table(arrays, self.names)
        return pa.table([*arrays, pa.array(weights, pa.int64())], [*self.names, "weight"])


def random_tables(chance: random.Random) -> tuple[Table, ...]:
    """One to five tables of one to four columns; most columns are integers."""
    tables = []
    for number in range(chance.choice((1, 2, 2, 3, 3, 4, 5))):
        names: dict[str, None] = {}
        for _ in range(chance.choice((1, 2, 2, 3, 3, 4))):
            names[chance.choice("aabbck") if chance.random() < 0.7 else chance.choice("stpdmf")] = None
        tables.append(Table(f"t{number + 1}", tuple(Column(name, NAMES[name]) for name in names)))
    return tuple(tables)


@dataclass
class _Manner:
    """Distribution of the rows of a table."""

    values: dict[str, Sequence[object]]
    nulls: float
    from_tick: int
    hub: bool

    def row(self, table: Table, tick: int, chance: random.Random) -> Row:
        nulls = self.nulls if tick >= self.from_tick else 0.0
        row: list[object] = []
        for column in table.columns:
            values = self.values[column.kind]
            value = values[0] if self.hub and chance.random() < 0.5 else chance.choice(values)
            row.append(None if chance.random() < nulls else value)
        return tuple(row)


def random_script(
    chance: random.Random,
    tables: Sequence[Table],
    n_ticks: int,
    values_of: Mapping[str, tuple[object, ...]] = VALUES,
) -> Script:
    """Return a first load and further ticks.

    A table may be empty at first, may be emptied, and may get its nulls late.

    The first tick names every table, so that types of columns are known; later ones leave some out.
    """
    manners = {
        table.name: _Manner(
            {kind: values[: chance.choice((2, 3, 4, 6))] for kind, values in values_of.items()},
            chance.choice((0.0, 0.1, 0.2, 0.3, 0.3, 1.0 if chance.random() < 0.1 else 0.2)),
            chance.choice((0, 0, 0, 3)),
            chance.random() < 0.3,
        )
        for table in tables
    }
    state: dict[str, Bag] = {table.name: Counter() for table in tables}
    script = []
    for number in range(n_ticks):
        tick = {}
        emptied = chance.choice(tables).name if number > 1 and chance.random() < 0.4 else None
        for table in tables:
            own, manner = state[table.name], manners[table.name]
            if number and chance.random() < 0.3 and table.name != emptied:
                continue
            changes: list[tuple[Row, int]] = []
            if table.name == emptied:
                changes += [(row, -weight) for row, weight in own.items()]
            else:
                most = chance.choice((0, 1, 5, 8, 10)) if number == 0 else chance.choice((0, 1, 2, 4))
                for _ in range(most):
                    changes.append((manner.row(table, number, chance), chance.choice((1, 1, 1, 1, 2, 3))))
                for row in chance.sample(sorted(own, key=repr), chance.randint(0, (len(own) + 1) // 2)):
                    changes.append((row, -chance.randint(1, own[row])))
            chance.shuffle(changes)
            for row, weight in changes:
                own[row] += weight
            state[table.name] = +own
            tick[table.name] = changes
        script.append(tick)
    return script


def states(tables: Sequence[Table], script: Script) -> Iterator[dict[str, Bag]]:
    """The tables after each tick.

    Raises
    ------
    ValueError
        If a row goes that is not there.
    """
    state: dict[str, Bag] = {table.name: Counter() for table in tables}
    for tick in script:
        for name, changes in tick.items():
            for row, weight in changes:
                state[name][row] += weight
            if any(weight < 0 for weight in state[name].values()):
                raise ValueError(f"a row of {name} goes that is not there")
            state[name] = +state[name]
        yield {name: Counter(own) for name, own in state.items()}
