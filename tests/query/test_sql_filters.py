"""Random deep conditions in three-valued logic, against DuckDB after every tick."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator

import pytest

import gpu_wcoj as gw
from gpu_wcoj.query.projection import narrow_inputs
from gpu_wcoj.query.sql import parse
from tests.helpers.long_tests import IS_LONG
from tests.helpers.sql_comparison import Case, Judge, UnfitError, disagreement
from tests.helpers.sql_tables import TYPES, Column, Table, random_script

SEED = int(os.environ.get("TEST_SEED", "1"))
N_CASES = 400 if IS_LONG else 5
"""Cases of one block."""
DEPTH = 6
KINDS = {"a": "int", "b": "int", "s": "text", "p": "truth", "m": "decimal", "d": "date", "f": "float"}
LITERALS = {
    "int": ("0", "1", "2", "-1", "NULL"),
    "text": ("'x'", "'y'", "''", "'xy'", "NULL"),
    "truth": ("TRUE", "FALSE", "NULL"),
    "decimal": ("1.50", "2.00", "-0.25", "2"),
    "date": ("DATE '2019-01-28'", "DATE '2020-06-28'"),
    "float": ("5e-1", "2e0", "-1.25e0"),
}
OPTIONS: tuple[dict[str, object], ...] = (
    {},
    {"strategy": "wcoj"},
    {"strategy": "binary"},
    {"chunk_rows": 3},
    {"threads": 2, "chunk_rows": 5},
)


class Writer:
    """Conditions over the columns of some tables."""

    def __init__(self, chance: random.Random, columns: dict[str, str]) -> None:
        self.chance = chance
        self.columns = columns

    def condition(self, depth: int) -> str:
        way = self.chance.random()
        if depth and way < 0.62:
            parts = [self.condition(depth - 1) for _ in range(self.chance.choice((2, 2, 3)))]
            return f"({self.chance.choice((' AND ', ' OR ', ' OR ')).join(parts)})"
        if depth and way < 0.72:
            return f"NOT ({self.condition(depth - 1)})"
        if depth and way < 0.76:
            word = self.chance.choice(("TRUE", "FALSE", "NOT TRUE", "NOT FALSE", "NULL", "NOT NULL"))
            return f"(({self.condition(depth - 1)}) IS {word})"
        return self.leaf()

    def leaf(self) -> str:
        chance = self.chance
        column = chance.choice(sorted(self.columns))
        kind = self.columns[column]
        way = chance.random()
        negated = chance.choice(("", "", "NOT "))
        if kind == "truth" and way < 0.5:
            return chance.choice((column, f"NOT {column}", f"{column} = {self.literal(kind)}"))
        if way < 0.12:
            return f"{column} IS {negated}NULL"
        if way < 0.24 and kind not in ("truth", "text"):
            return f"{column} {negated}BETWEEN {self.value(kind)} AND {self.literal(kind)}"
        if way < 0.38:
            listed = ", ".join(self.literal(kind) for _ in range(chance.choice((1, 2, 3, 10))))
            return f"{column} {negated}IN ({listed})"
        if way < 0.44:
            return f"{column} IS {negated}DISTINCT FROM {self.value(kind)}"
        if kind == "text" and way < 0.6:
            return f"{column} {negated}LIKE {chance.choice(('%x', '_', 'x%', '%'))!r}"
        if way < 0.52:
            other = self.columns and chance.choice([column for column in self.columns if self.columns[column] == kind])
            return f"CASE WHEN {self.plain()} THEN {column} WHEN {self.plain()} THEN {self.literal(kind)} END = {other}"
        if way < 0.56:
            return f"COALESCE({column}, {self.value(kind)}) = {self.value(kind)}"
        operator = chance.choice(("=", "<>", "<", "<=", ">", ">=")) if kind != "truth" else "="
        return f"{self.value(kind)} {operator} {self.value(kind)}"

    def plain(self) -> str:
        column = self.chance.choice(sorted(self.columns))
        return self.chance.choice((f"{column} IS NULL", f"{column} = {self.literal(self.columns[column])}"))

    def value(self, kind: str) -> str:
        own = [column for column in self.columns if self.columns[column] == kind]
        if not own or self.chance.random() < 0.3:
            return self.literal(kind)
        column = self.chance.choice(own)
        if kind == "int" and self.chance.random() < 0.25:
            return self.chance.choice((f"({column} + 1)", f"({column} * {self.chance.choice(own)})", f"-{column}"))
        return column

    def literal(self, kind: str) -> str:
        return self.chance.choice(LITERALS[kind])


def case_of(seed: str) -> Case:
    chance = random.Random(seed)
    names = [f"{letter}{number}" for number in (1, 2) for letter in chance.sample(sorted(KINDS), 3)]
    tables = tuple(
        Table(
            f"t{at}", (Column(f"k{at}", "int"), *(Column(name, KINDS[name[0]]) for name in names if name[1] == str(at)))
        )
        for at in (1, 2)
    )
    columns = {column.name: column.kind for table in tables for column in table.columns}
    writer, first = Writer(chance, columns), Writer(chance, {column.name: column.kind for column in tables[0].columns})
    depth = chance.choice((1, 2, 3, DEPTH if chance.random() < 0.3 else 2))
    where, on = writer.condition(depth), writer.condition(min(depth, 3))
    shown = chance.choice(sorted(columns))
    join = chance.choice(("LEFT", "LEFT", "RIGHT", "FULL"))
    one = first.columns
    text = chance.choice((
        f"SELECT k1, {chance.choice(sorted(one))} AS v FROM t1 WHERE {first.condition(DEPTH)}",
        f"SELECT k1, k2, {shown} AS v FROM t1, t2 WHERE k1 = k2 AND {where}",
        f"SELECT k1, {shown} AS v FROM t1, t2 WHERE {where}",
        f"SELECT k1, k2 FROM t1, t2 WHERE (k1 = k2 AND {on}) OR (k2 = k1 AND {where})",
        f"SELECT k1, k2, {shown} AS v FROM t1 {join} JOIN t2 ON k1 = k2 AND {on}",
        f"SELECT k1, k2, {shown} AS v FROM t1 {join} JOIN t2 ON k1 = k2 WHERE {where}",
        f"SELECT k1, k2, {shown} AS v FROM t1 {join} JOIN t2 ON {on} WHERE {where}",
        f"SELECT k1, {on} AS v, CASE WHEN {where} THEN k1 WHEN {on} THEN k2 END AS w FROM t1 JOIN t2 ON k1 = k2",
        f"SELECT k1, COUNT(*) FILTER (WHERE {where}) n, SUM(CASE WHEN {on} THEN k2 END) x FROM t1, t2 GROUP BY k1",
        f"SELECT k1, COUNT(*) AS n FROM t1, t2 WHERE {on} GROUP BY k1 HAVING COUNT(*) > 2 OR (k1 = 1 AND SUM(k2) < 4)",
        f"SELECT k1 FROM t1 WHERE EXISTS (SELECT 1 FROM t2 WHERE {where}) OR {first.condition(2)}",
        f"SELECT k1 FROM t1 WHERE NOT EXISTS (SELECT 1 FROM t2 WHERE k2 = k1 AND {where})",
        f"SELECT k1 FROM t1 WHERE k1 IN (SELECT k2 FROM t2 WHERE {on}) OR NOT ({first.condition(2)})",
    ))  # fmt: skip
    return Case((("", text),), tables, random_script(chance, tables, 4))


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    found = Judge()
    yield found
    found.close()


def fit_cases(judge: Judge, block: str) -> Iterator[tuple[str, Case, object]]:
    found = number = 0
    while found < N_CASES:
        seed = f"{SEED} {block} {number}"
        number += 1
        case = case_of(seed)
        try:
            right = judge.answers(case)
        except UnfitError:
            continue
        found += 1
        yield seed, case, right


@pytest.mark.parametrize("block", range(len(OPTIONS)))
def test_a_condition_holds_for_the_rows_that_duckdb_says(block: int, judge: Judge):
    for seed, case, right in fit_cases(judge, str(block)):
        wrong = disagreement(case, right, typed=len(case.text) % 3 > 0, **OPTIONS[block])  # type: ignore[arg-type]
        assert wrong is None, f"seed {seed!r}: {wrong}\n{case}"


def test_a_condition_holds_in_sets_too(judge: Judge):
    for seed, case, right in fit_cases(judge, "set"):
        if "COUNT" in case.text:
            continue
        rules = parse(
            case.text,
            {table.name: {column.name: str(TYPES[column.kind]) for column in table.columns} for table in case.tables},
        )
        program = gw.Program(rules, backend="cpu", threads=1)
        state: dict[str, Counter[tuple[object, ...]]] = {table.name: Counter() for table in case.tables}
        for tick, expected in zip(case.script, right, strict=True):  # type: ignore[call-overload]
            changes = {}
            for table in case.tables:
                before = set(state[table.name])
                for row, weight in tick.get(table.name, ()):
                    state[table.name][row] += weight
                state[table.name] = +state[table.name]
                after = set(state[table.name])
                rows = [*((row, 1) for row in after - before), *((row, -1) for row in before - after)]
                changes[table.name] = table.arrow([row for row, _ in rows], [weight for _, weight in rows])
            read = changes.keys() & set(program.inputs)
            program.step({name: changes[name] for name in read})
            found = {row for row, _ in program.relation(program.outputs[0]).rows()}
            assert found == {tuple(row) for row in _unmarked(expected[""][0])}, f"seed {seed!r}\n{case}"


NARROWED = Table(
    "t", tuple(Column(name, kind) for name, kind in (("k", "int"), ("f", "float"), ("m", "decimal"), ("s", "text")))
)


@pytest.mark.parametrize("typed", [True, False])
@pytest.mark.parametrize("column", ["f IS NULL", "f = 2.5e0", "m IS NULL", "m = 1.50", "s IS NULL", "s = 'x'"])
@pytest.mark.parametrize(
    "condition", ["{0} IN ({1}, {2})", "{0} > {1}", "{0} BETWEEN {1} AND {2}", "CASE WHEN k = 1 THEN {0} END < {2}"]
)
def test_conditions_on_a_column_that_another_one_fixes(column: str, condition: str, typed: bool, judge: Judge):
    values = {"f": ("-1.25e0", "2.5e0"), "m": ("1.50", "2"), "s": ("'x'", "'y'")}[column[0]]
    text = (
        f"SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE {column})"
        f" OR (k < k AND {condition.format(column[0], *values)})"
    )
    case = Case((("", text),), (NARROWED, Table("u", (Column("j", "int"),))), random_script(
        random.Random(text), (NARROWED, Table("u", (Column("j", "int"),))), 4
    ))  # fmt: skip
    assert disagreement(case, judge.answers(case), typed=typed) is None, case


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k FROM t WHERE k > 1 OR s > s",
        "SELECT k FROM t WHERE s < 'a' OR k = 1",
        "SELECT k, s > s AS c FROM t",
        "SELECT t.k, u.s FROM t LEFT JOIN t u ON t.k = u.k AND t.s >= u.s",
        "SELECT t.k FROM t JOIN t u ON t.s > u.s OR t.k = u.k",
        "SELECT k, min(s), max(s) FROM t GROUP BY k",
        "SELECT k, s FROM t ORDER BY s DESC, k LIMIT 2",
        "SELECT k FROM t WHERE s BETWEEN s AND s IS NULL",
    ],
)
def test_texts_that_are_all_null(text: str, judge: Judge):
    table = Table("t", (Column("k", "int"), Column("s", "text")))
    script = [{"t": [((1, None), 1), ((2, None), 2)]}, {"t": [((2, None), -1), ((None, None), 1)]}]
    script += [{"t": [((3, "x"), 1)]}, {"t": [((3, "x"), -1)]}]
    case = Case((("", text),), (table,), script)
    for options in OPTIONS:
        assert disagreement(case, judge.answers(case), typed=True, **options) is None, case  # type: ignore[arg-type]


def _unmarked(rows: Counter[tuple[object, ...]]) -> Iterator[tuple[object, ...]]:
    """Rows with truth values in the place of their names."""
    names = {"is True": True, "is False": False}
    for row in rows:
        yield tuple(names.get(term, term) if isinstance(term, str) else term for term in row)


def test_helpers_of_inputs_take_filters(judge: Judge):
    for seed, case, right in fit_cases(judge, "narrowed"):
        rules = parse(case.text, {table.name: table.names for table in case.tables})
        program = gw.Program(narrow_inputs(rules), bag=True, backend="cpu", threads=1)
        for tick in case.script:
            tables = {table.name: table for table in case.tables}
            program.step({
                name: tables[name].arrow([row for row, _ in rows], [weight for _, weight in rows])
                for name, rows in tick.items() if name in program.inputs
            })  # fmt: skip
        found = Counter(dict(program.relation(program.outputs[0]).rows()))
        expected = right[-1][""][0]  # type: ignore[index]
        assert found.total() == expected.total(), f"seed {seed!r}\n{case}"
