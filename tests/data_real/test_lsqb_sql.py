"""LSQB's nine queries in SQL: the known counts, loaded at once, fed in 50 ticks, and beside DuckDB on the same text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from bench.lsqb.data import Rows, in_ticks, relations
from bench.lsqb.queries import ANSWERS
from bench.lsqb.sql import COLUMNS, MESSAGES, text
from gpu_wcoj.query.sql import parse
from tests.helpers.long_tests import IS_LONG

N_TICKS = 50
CASES = [
    pytest.param(scale, number, known, id=f"{scale}-q{number}")
    for scale, answers in ANSWERS.items()
    for number, known in enumerate(answers, 1)
    if known is not None
]
SMALL = [case for case in CASES if case.values[0] != "0.1"]


@pytest.fixture
def lsqb(shared_data: Path) -> Path:
    return shared_data / "lsqb"


def program(number: int) -> gw.Program:
    """The view ``answer`` of a query."""
    return gw.Program(parse(text(number), COLUMNS), bag=True, outputs=["answer"], backend="cpu")


def tables(rows: Mapping[str, Rows]) -> dict[str, pa.Table]:
    return {name: pa.table(dict(zip(COLUMNS[name], own.T, strict=True))) for name, own in rows.items()}


@pytest.mark.parametrize(("scale", "number", "known"), CASES)
def test_at_once(lsqb: Path, scale: str, number: int, known: int):
    counting = program(number)
    counting.load(tables(relations(scale, counting.inputs, lsqb)))
    assert counting.relation("answer").rows() == [((known,), 1)]


@pytest.mark.drawn("scale", "number", "known", share=3)
@pytest.mark.parametrize(("scale", "number", "known"), CASES if IS_LONG else SMALL)
def test_in_50_ticks(lsqb: Path, scale: str, number: int, known: int):
    counting = program(number)
    count = None
    for tick in in_ticks(relations(scale, counting.inputs, lsqb), N_TICKS, 1):
        weights = dict(counting.step(tables(tick))["answer"].rows())
        if not weights:
            continue
        assert sorted(weights.values()) == ([1] if count is None else [-1, 1])
        assert count is None or weights[count,] == -1
        count = next(row[0] for row, weight in weights.items() if weight == 1)
    assert count == known


@pytest.mark.parametrize(("scale", "number", "known"), SMALL)
def test_duckdb_takes_the_same_text(lsqb: Path, scale: str, number: int, known: int):
    connection = duckdb.connect(config={"threads": 1})
    needed = [name for name in COLUMNS if name in (text(number) + str(MESSAGES)).lower()]
    for name, table in tables(relations(scale, needed, lsqb)).items():
        connection.register(name, table)
    for statement in text(number).split(";"):
        connection.execute(statement)
    assert connection.execute("SELECT * FROM answer").fetchall() == [(known,)]
    connection.close()
