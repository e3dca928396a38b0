"""The queries that chance writes, run through the engine, and answered by DuckDB."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

import gpu_wcoj as gw
from bench.suite.random_queries import VALUES, Query, shown
from bench.suite.random_sql import WEIGHT, select
from tests.helpers.comparison import Rows, fed
from tests.reference.changes import ZSet, apply_bag, apply_rows, apply_zset, plus

Script = list[dict[str, tuple[str, Rows]]]
ARITIES = {"r1": 1, "s1": 1, "r2": 2, "s2": 2, "t2": 2, "r3": 3, "s3": 3, "r4": 4}
MOST_ROWS = 10_000
"""The most that come out of a query."""
N_TICKS = 3


def rows_for(query: Query) -> int:
    """Return a number of rows per relation that keeps the result small."""
    return max(rows for rows in range(4, 25) if rows == 4 or rows**query.cover <= MOST_ROWS)


def random_script(
    chance: random.Random, n_rows: int, *, bag: bool, textual: bool = False, nulls: bool = False
) -> Script:
    """Ticks for all relations: rows come, then some go and others come; few values, or one of many rows."""
    values: list[object] = list(VALUES[: min(chance.choice((2, 3, 4, 6)), n_rows // 2)])
    if textual:
        values = [shown(value) for value in VALUES[: len(values)]]
    hub = chance.random() < 0.4
    state: dict[str, list[tuple[object, ...]]] = {name: [] for name in ARITIES}
    script: Script = []
    for number in range(N_TICKS):
        tick = {}
        for name, arity in ARITIES.items():
            usual = min(n_rows, len(values) ** arity)
            come = usual if number == 0 else usual // 2
            rows: Rows = []
            for _ in range(come):
                row = chance.choices(values, k=arity)
                if hub and chance.random() < 0.5:
                    row[chance.randrange(arity)] = values[0]
                if nulls and chance.random() < 0.2:
                    row[chance.randrange(arity)] = None
                rows.append((tuple(row), chance.choice((1, 1, 1, 2, -1, 3)) if bag else 1))
            if number:
                rows += [(row, -1) for row in chance.sample(state[name], len(state[name]) // 4)]
            chance.shuffle(rows)
            state[name] += [row for row, weight in rows if weight > 0]
            if number == 0 or chance.random() < 0.7:
                tick[name] = (chance.choice(("rows", "zset")), rows)
        script.append(tick)
    return script


class Judge:
    """DuckDB, with the relations as they are after some ticks of a script."""

    def __init__(self) -> None:
        self.connection = duckdb.connect(config={"threads": 1})

    def load(self, script: Script, ticks: Sequence[int], *, bag: bool, textual: bool = False) -> None:
        """The relations after each of these ticks in a schema of their own; those of the script before are gone."""
        state: dict[str, ZSet] = {name: {} for name in ARITIES}
        for number, tick in enumerate(script):
            for name, (how, rows) in tick.items():
                apply = apply_bag if bag else apply_rows if how == "rows" else apply_zset
                state[name] = apply(state[name], rows)
            if number in ticks:
                self.connection.execute(f"CREATE SCHEMA IF NOT EXISTS tick{number}")
                for name, arity in ARITIES.items():
                    self._create(f"tick{number}.{name}", state[name], arity, "VARCHAR" if textual else "BIGINT")

    def _create(self, name: str, rows: ZSet, arity: int, kind: str) -> None:
        columns = "".join(f"c{i} {kind}, " for i in range(arity))
        self.connection.execute(f"CREATE OR REPLACE TABLE {name} ({columns}{WEIGHT} BIGINT)")
        if rows:
            values = [(*row, weight) for row, weight in rows.items()]
            shown = ", ".join(
                f"({', '.join('NULL' if value is None else repr(value) for value in row)})" for row in values
            )
            self.connection.execute(f"INSERT INTO {name} VALUES {shown}")

    def answer(self, query: Query, tick: int, *, bag: bool) -> ZSet:
        """The head after a tick."""
        self.connection.execute(f"SET schema = 'tick{tick}'")
        return {row[:-1]: int(row[-1]) for row in self.connection.execute(select(query, bag)).fetchall()}


def answers(query: Query, script: Script, *, bag: bool, **options: Any) -> list[ZSet]:
    """The head after each tick, as the changes add up to it; the engine's whole head is the same in the end."""
    program = gw.Program(query.text, bag=bag, **options)
    kind = pa.string() if query.is_textual else pa.int64()
    total: ZSet = {}
    found = []
    for tick in script:
        changes = {name: fed(tick[name], arity, kind) for name, arity in query.inputs.items() if name in tick}
        total = plus(total, program.step(changes)["h"].to_dict())
        found.append(total)
    whole = program.relation("h").to_dict()
    assert whole == total, f"{query.text}\n  the head is {whole}, and its changes add up to {total}"
    return found


def check(judge: Judge, query: Query, script: Script, ticks: Sequence[int], *, bag: bool, **options: Any) -> None:
    """The engine's answers after these ticks are the judge's, which holds the script."""
    found = answers(query, script, bag=bag, **options)
    for tick in ticks:
        right = judge.answer(query, tick, bag=bag)
        assert found[tick] == right, (
            f"{query.text}\n  seed {query.seed}, tick {tick}, bag={bag}, {options}: "
            f"too many {_beyond(found[tick], right)}, missing {_beyond(right, found[tick])}"
        )


def _beyond(one: Mapping[Any, int], other: Mapping[Any, int]) -> dict[Any, int]:
    return {row: weight for row, weight in one.items() if other.get(row) != weight}
