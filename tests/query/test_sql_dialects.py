"""What dialects do not have in common: answers of one text in several of them."""

from __future__ import annotations

import math

import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import CalculationError
from gpu_wcoj.query.sql.functions import INFINITE
from gpu_wcoj.query.sql.parse import DIALECTS

DOUBLES = {"a": [1.5, 3.0, None], "b": [0.0, 2.0, 0.0]}
RAISING = [one for one in DIALECTS if one not in INFINITE]


@pytest.mark.parametrize("dialect", RAISING)
@pytest.mark.parametrize(("op", "shown"), [("/", "quotient"), ("%", "rest")])
def test_division_by_zero_of_doubles_is_an_error(dialect: str, op: str, shown: str):
    with pytest.raises(CalculationError, match=rf"{shown}\(1.5, 0.0\) has no value: it divides by zero"):
        gw.query(f"SELECT a {op} b AS q FROM r", r=DOUBLES, dialect=dialect)
    guarded = f"""
        SELECT CASE WHEN b <> 0 THEN a {op} b ELSE -1 END AS q FROM r WHERE b = 0 OR a {op} b >= 1
        UNION ALL SELECT a {op} b FROM r WHERE b > 0
        UNION ALL SELECT a {op} NULLIF(b, 0) FROM r
        UNION ALL SELECT a {op} 2e0 FROM r
    """
    found = gw.query(guarded, r=DOUBLES, dialect=dialect)
    values = (1.5, 1.5, 1.5, 0.75, 1.5) if op == "/" else (1.0, 1.0, 1.0, 1.5, 1.0)
    wanted = [-1.0, -1.0, *values, None, None, None]
    assert sorted(map(repr, (row[0] for row, weight in found.rows() for _ in range(weight)))) == sorted(
        map(repr, wanted)
    )


@pytest.mark.parametrize("dialect", INFINITE)
def test_division_by_zero_of_doubles_is_infinite(dialect: str):
    ((row, _),) = gw.query("SELECT a / b AS q, a % b AS r FROM r WHERE a = 1.5e0", r=DOUBLES, dialect=dialect).rows()
    assert row[0] == math.inf
    assert math.isnan(row[1])


def test_division_by_zero_of_integers_as_doubles():
    table = {"a": [1, 0]}
    for dialect in ("spark", "databricks", "bigquery"):
        with pytest.raises(CalculationError, match=r"quotient\(0.0, 0.0\) has no value"):
            gw.query("SELECT a / 0 AS x FROM r", r=table, dialect=dialect)
        assert gw.query("SELECT 1 / a AS x FROM r WHERE a > 0", r=table, dialect=dialect).rows() == [((1.0,), 1)]
        assert gw.query("SELECT a / 0 AS x FROM r WHERE a > 1", r=table, dialect=dialect).rows() == []
    assert gw.query("SELECT a / 0 AS x FROM r WHERE a > 0", r=table).rows() == [((math.inf,), 1)]


def test_a_view_goes_on_after_a_division_by_zero():
    view = gw.view("SELECT a / b AS q FROM r JOIN s USING (k)", r={"k": [1], "a": [1.0]}, s={"k": [1], "b": [2.0]},
                   dialect="spark")  # fmt: skip
    with pytest.raises(CalculationError, match=r"quotient\(1.0, 0.0\) has no value"):
        view.apply(s=[(1, 0.0)])
    assert view.apply(s=[(2, 0.0)]).rows() == []
    assert view.apply(s=[(1, 4.0)]).rows() == [((0.25,), 1)]
    text = view.explain(format="datalog")
    tables = {"r": [(1, 1.0)], "s": [(1, 2.0), (1, 4.0), (2, 0.0)]}
    assert gw.query(text, tables, bag=True).rows() == view.snapshot().rows()
