"""Programs with seeded ticks: golden ones of the planner, ones with a name, and random ones."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.frozen.named import EDN, MOTIFS, NAMED, SQL, SQL_TABLES

FOLDER = Path(__file__).parent
GOLDEN = FOLDER.parent / "planner" / "golden"
PROGRAMS = FOLDER / "programs.jsonl"
TYPES = {"int": pa.int64(), "key": pa.int64(), "text": pa.string(), "float": pa.float64(), "truth": pa.bool_()}
VALUES: dict[str, tuple[object, ...]] = {
    "int": (0, 1, 2, 3, 4, 5),
    "key": tuple(range(12)),
    "text": ("a", "b", "", "größe", "B"),
    "float": (0.0, 0.5, 2.0, -1.25),
    "truth": (True, False),
}
N_TICKS = 4

Rows = list[tuple[tuple[object, ...], int]]
Tick = dict[str, tuple[str, Rows]]


@dataclass(frozen=True)
class Case:
    """A program and how rows for it are drawn.

    Attributes
    ----------
    tables
        Per input, name and kind of each column.
    options
        Options of `Program`, or of a motif.
    sizes
        Rows of relations, by which a plan without rows is made too.
    values
        Values of integer columns in place of `VALUES`.
    nulls
        Share of values that are null.
    signed
        Whether the weights of rows may be negative in total.
    """

    name: str
    text: str
    tables: Mapping[str, Mapping[str, str]]
    language: str = "datalog"
    bag: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, float] = field(default_factory=dict)
    values: tuple[object, ...] = ()
    nulls: float = 0.0
    signed: bool = False

    def ticks(self) -> Iterator[Tick]:
        """Changes of the inputs, tick by tick; the first tick is the largest and the last one has a single row."""
        chance = random.Random(f"frozen {self.name}")
        present: dict[str, Counter[tuple[object, ...]]] = {table: Counter() for table in self.tables}
        for number in range(N_TICKS):
            tick: Tick = {}
            tables = list(self.tables)
            if number == N_TICKS - 1:
                tables = [chance.choice(tables)] if tables else []
            for table in tables:
                if 0 < number < N_TICKS - 1 and chance.random() < 0.2:
                    continue
                n_rows = 1 if number == N_TICKS - 1 else chance.randint(6, 12) if number == 0 else chance.randint(1, 5)
                rows = self._rows(chance, table, n_rows, present[table], with_deletions=number > 0)
                for row, weight in rows:
                    present[table][row] += weight
                tick[table] = chance.choice(("rows", "zset")), rows
            yield tick

    def _rows(
        self,
        chance: random.Random,
        table: str,
        n_rows: int,
        present: Counter[tuple[object, ...]],
        *,
        with_deletions: bool,
    ) -> Rows:
        kinds = list(self.tables[table].values())
        has_key = kinds[0] == "key"  # no two rows may have one
        hub = chance.random() < 0.3 and not has_key
        drawn: Rows = []
        left = +present
        for _ in range(n_rows):
            if with_deletions and left and chance.random() < 0.5:
                row = chance.choice(sorted(left, key=repr))
                drawn.append((row, -1))
                left[row] -= 1
                left = +left
                continue
            pools = [self.values if kind == "int" and self.values else VALUES[kind] for kind in kinds]
            values = [None if chance.random() < self.nulls else chance.choice(pool) for pool in pools]
            if hub:
                column = chance.randrange(len(kinds))
                values[column] = pools[column][0]
            if has_key and values[0] in {row[0] for row in [*left, *(row for row, _ in drawn)]}:
                continue
            weight = 1 if has_key else chance.choice((1, 1, 2, -1)) if self.signed else chance.choice((1, 1, 1, 2))
            drawn.append((tuple(values), weight))
        return drawn

    def arrow(self, table: str, rows: Rows) -> pa.Table:
        """Rows with their weights."""
        columns = {
            name: pa.array([row[index] for row, _ in rows], TYPES[kind])
            for index, (name, kind) in enumerate(self.tables[table].items())
        }
        return pa.table(columns | {"weight": pa.array([weight for _, weight in rows], pa.int64())})


def integers(arity: int) -> dict[str, str]:
    """Columns of integers."""
    return {f"c{index}": "int" for index in range(arity)}


def golden_cases() -> Iterator[Case]:
    """The programs of the planner's golden files, once each."""
    seen = set()
    for path in sorted(GOLDEN.glob("*.txt")):
        for number, block in enumerate(path.read_text().split("\n\n")):
            section, sections = "", dict[str, list[str]]()
            for line in block.strip("\n").splitlines():
                if line.startswith("  "):
                    sections[section].append(line[2:])
                elif not line.startswith("# "):
                    section = line
                    sections[section] = []
            text, given = "\n".join(sections["program"]), sections.get("options", [])
            if (text, *given) in seen:
                continue
            seen.add((text, *given))
            options: dict[str, Any] = {}
            sizes: dict[str, float] = {}
            for line in given:
                word, *more = line.split()
                if word == "order":
                    options.setdefault("order", {})[more[0].rstrip(":")] = more[1:]
                elif word == "sizes":
                    sizes[more[0]] = float(more[1])
                elif word == "strategy":
                    options["strategy"] = more[0]
            yield Case(f"{path.stem} {number}", text, tables_of(text), bag="bag" in given, options=options, sizes=sizes)


def tables_of(text: str) -> dict[str, dict[str, str]]:
    """The inputs of a program in Datalog; their columns are integers."""
    import gpu_wcoj as gw

    program = gw.Program(text, backend="cpu", threads=1)
    return {name: integers(program.arity(name)) for name in program.inputs}


def named_cases() -> Iterator[Case]:
    """Programs in all languages, each for a feature."""
    for name, text in NAMED.items():
        yield Case(name, text, tables_of(text))
    for name in ("triangle", "wildcard", "counts by group", "closure", "two rules of one head"):
        yield Case(f"{name}, bag", NAMED[name], tables_of(NAMED[name]), bag=True)
    for name, text in SQL.items():
        yield Case(f"SQL: {name}", text, SQL_TABLES, "sql", bag=True, nulls=0.15)
    for name, (text, tables) in EDN.items():
        yield Case(f"EDN: {name}", text, tables, "edn")
    for name, (text, options) in MOTIFS.items():
        tables = {"vertices": {"id": "key", "n": "int"}, "edges": {"src": "int", "dst": "int", "n": "int"}}
        yield Case(f"motif: {name}", text, tables, "motif", options=options)


def random_cases() -> Iterator[Case]:
    """The programs of ``programs.jsonl``."""
    for line in PROGRAMS.read_text().splitlines():
        fields = json.loads(line)
        tables = {
            name: integers(given) if isinstance(given, int) else given for name, given in fields.pop("tables").items()
        }
        yield Case(**fields | {"tables": tables, "values": tuple(fields.get("values", ()))})
