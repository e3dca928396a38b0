"""Difficult SQL texts: each agrees with DuckDB after every tick, or is refused."""

from __future__ import annotations

import datetime as dt
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path

import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import GpuWcojError, UnsupportedError
from gpu_wcoj.query.sql import parse
from tests.helpers.long_tests import IS_LONG
from tests.helpers.sql_comparison import Case, Judge, disagreement
from tests.helpers.sql_tables import Column, Script, Table

SEED = int(os.environ.get("TEST_SEED", "1"))
N_PARTS = 1 if IS_LONG else 10
"""One of so many texts is tried, another one with another seed."""

TABLES = tuple(
    Table(name, tuple(Column(*column) for column in columns))
    for name, columns in {
        "t": [("a", "int"), ("b", "int")],
        "s": [("a", "int"), ("c", "int")],
        "u": [("b", "int"), ("c", "int"), ("x", "text")],
        "v": [("x", "text"), ("p", "truth"), ("m", "decimal"), ("f", "float"), ("d", "date")],
        "e": [("z", "int")],
    }.items()
)
DAY, EARLIER = dt.date(2020, 6, 28), dt.date(2019, 1, 28)
FIRST = ("x", True, Decimal("1.50"), 0.5, DAY)
SCRIPT: Script = [
    {
        "t": [((1, 2), 1), ((2, 3), 2), ((3, 1), 1), ((0, 0), 1)],
        "s": [((1, 1), 1), ((2, 2), 3), ((4, 1), 1)],
        "u": [((2, 1, "x"), 1), ((3, 2, "y"), 2)],
        "v": [(FIRST, 1), (("y", False, Decimal("2.00"), 2.0, EARLIER), 2)],
        "e": [],
    },
    {
        "t": [((1, None), 1), ((None, 3), 2), ((None, None), 1), ((2, 3), -1)],
        "s": [((None, 1), 2), ((2, None), 1)],
        "u": [((None, None, None), 1), ((1, 3, "xy"), 1)],
        "v": [((None,) * 5, 1), (("xy", None, Decimal("-0.25"), None, DAY), 1)],
    },
    {
        "t": [((3, 1), -1), ((None, 3), -1), ((4, 4), 1)],
        "s": [((1, 1), -1), ((3, 3), 1)],
        "u": [((3, 2, "y"), -1), ((4, 4, ""), 1)],
        "e": [((1,), 1), ((None,), 1)],
    },
    {
        "s": [((2, 2), -3), ((4, 1), -1), ((None, 1), -2), ((2, None), -1), ((3, 3), -1)],
        "v": [(FIRST, -1)],
    },
    {
        "s": [((1, 2), 1), ((2, 2), 2), ((None, 2), 1)],
        "t": [((1, 2), 1), ((5, 1), 1)],
        "e": [((1,), -1), ((None,), -1)],
    },
]
AGREE, REFUSED = (
    [line for line in part.splitlines() if not line.startswith("--")]
    for part in (Path(__file__).parent / "sql_texts.sql").read_text().split("\n-- These are refused", 1)
)
REFUSED = [line for line in REFUSED if not line.startswith(",")]


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    found = Judge()
    yield found
    found.close()


def case(line: str) -> Case:
    views = []
    for part in line.split(" ;; "):
        found = re.fullmatch(r"CREATE VIEW (\w+) AS (.*)", part)
        views.append((found[1], found[2]) if found else ("", part))
    return Case(tuple(views), TABLES, SCRIPT)


def some(lines: Sequence[str]) -> Sequence[str]:
    return lines[SEED % N_PARTS :: N_PARTS]


def test_answers_are_those_of_duckdb(judge: Judge):
    assert len(set(AGREE)) == len(AGREE) > 450
    wrong = {}
    for number, line in enumerate(some(AGREE)):
        line_case = case(line)
        right = judge.answers(line_case)
        try:
            wrong[line] = disagreement(line_case, right, typed=bool(number % 2))
        except UnsupportedError:  # which needs the types
            wrong[line] = disagreement(line_case, right, typed=True)
    assert not any(wrong.values()), {line: why for line, why in wrong.items() if why}


def test_others_are_refused():
    assert len(set(REFUSED)) == len(REFUSED) > 90
    kinds: Counter[str] = Counter()
    for line in some(REFUSED):
        with pytest.raises(GpuWcojError) as error:
            check(case(line))
        kinds[type(error.value).__name__] += 1
    assert set(kinds) <= {
        "UnsupportedError", "SqlSyntaxError", "ColumnError", "UnknownRelationError", "TypeMismatchError",
        "CalculationError",
    }  # fmt: skip


def check(one: Case) -> None:
    """The first rows."""
    program = gw.Program(parse(one.text, {table.name: table.names for table in TABLES}), bag=True, backend="cpu")
    for tick in SCRIPT:
        program.step(
            {
                table.name: table.arrow(*map(list, zip(*tick[table.name], strict=True)))
                for table in TABLES
                if table.name in program.inputs and tick.get(table.name)
            }
        )
