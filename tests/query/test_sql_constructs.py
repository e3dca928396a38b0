"""Constructs of SQL as queries and as views over ticks, beside DuckDB."""

from __future__ import annotations

import random
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from bench.sql.measure import Rival, ask, follow
from bench.sql.tables import tables
from gpu_wcoj.errors import AggregateOverflowError, CalculationError

KEPT = [
    "SELECT [x FOR x IN [1, 2, 3] IF x > 1]",
    "SELECT id, [y * dept FOR y IN [id, dept] IF y > 2] FROM emp",
    "SELECT [[y + z FOR y IN [1, 2]] FOR z IN [id, 10]] FROM emp",
    "SELECT DATE '2024-01-31' + INTERVAL 1 MONTH, DATE '2024-03-31' - INTERVAL 1 MONTH",
    "SELECT INTERVAL 1 YEAR > INTERVAL 11 MONTH, INTERVAL 3 DAY + INTERVAL 5 HOUR",
    "SELECT id FROM sale WHERE day > DATE '2024-03-01' - INTERVAL 1 MONTH",
    "SELECT id FROM sale WHERE day + INTERVAL 30 DAY > (SELECT max(day) FROM sale)",
    "SELECT id FROM sale WHERE age(moment, TIMESTAMP '2023-01-15') > INTERVAL 13 MONTH",
    "SELECT id FROM sale WHERE moment - (SELECT min(moment) FROM sale) > INTERVAL (qty) DAY",
    "SELECT s.id FROM sale s JOIN emp e ON s.emp = e.id AND s.moment - e.hired > INTERVAL 1 YEAR",
    "SELECT id FROM sale WHERE day < TIMESTAMP '2024-03-01 10:00:00' OR moment = DATE '2024-02-28'",
    "SELECT id FROM sale WHERE day IN (TIMESTAMP '2024-03-03 00:00:00', TIMESTAMP '2024-01-05 01:00:00')",
    "SELECT CAST(avg(day) AS DATE), CAST(avg(moment) AS DATE) FROM sale",
    "SELECT emp FROM sale GROUP BY emp HAVING avg(day) > DATE '2024-02-01'",
    "SELECT emp, median(moment) AS d FROM sale GROUP BY emp HAVING median(moment) > TIMESTAMP '2024-02-01 00:00:00'",
    "SELECT emp, any_value(day) AS d FROM sale WHERE id < 4 GROUP BY emp HAVING any_value(day) > DATE '2024-02-01'",
    "SELECT id, lag(day) OVER (ORDER BY id) AS p FROM sale QUALIFY lag(day) OVER (ORDER BY id) >= DATE '2024-02-10'",
    "SELECT dept, string_agg(name, ',' ORDER BY name) AS s FROM emp GROUP BY dept HAVING s > 'B'",
    "SELECT id, len([id, dept]), length(name), CAST(salary AS DECIMAL(30, 4)) > id FROM emp",
    "SELECT count(*) AS n, sum(id) FROM (SELECT id, name FROM emp ORDER BY salary DESC NULLS LAST OFFSET 2)",
    "SELECT * FROM (SELECT dept, count(*) AS n FROM emp GROUP BY dept ORDER BY n, dept NULLS FIRST OFFSET 1)",
    "SELECT * FROM (SELECT DISTINCT ON (dept) dept, id FROM emp ORDER BY dept NULLS FIRST, id OFFSET 1)",
    "SELECT id FROM emp WHERE hired > DATE '2021-5-7' AND hired < TRY_CAST('2024-1-1 1:00:00' AS TIMESTAMP)",
    "SELECT id, TRY_CAST('2024-02-30' AS DATE) AS d, TRY_CAST('x' AS TIMESTAMP) AS t FROM emp",
    "SELECT t AS q FROM limits UNION ALL SELECT 300",
    "SELECT i FROM limits WHERE t < 128 AND t <> 200 AND i < 3000000000 OR t = -1000",
    "SELECT x FROM limits WHERE t = 200 UNION ALL SELECT x FROM limits WHERE t IN (1, 400)",
    "SELECT i FROM limits WHERE b < 9223372036854775808 AND b <> -99999999999999999999",
    "SELECT i AS q FROM limits UNION ALL SELECT m FROM limits UNION ALL SELECT NULL",
    "SELECT CASE WHEN i > 2 THEN m ELSE f END AS q, CASE WHEN i > 2 THEN i ELSE m END AS r FROM limits",
    "SELECT m FROM limits UNION ALL SELECT 100000 UNION ALL VALUES (0.125), (1.12345678901234567890)",
    "SELECT CASE WHEN i = 2 THEN m ELSE 1234567.891 END AS q, coalesce(m, 1e0, 0.00000000000000000001) FROM limits",
    "SELECT i, m + 1.0000000000000000000000001 AS q, m * 1.00000000000000001 AS r FROM limits WHERE m * 0.5 > 0.4",
    "SELECT sum(m) AS s FROM (SELECT m FROM limits UNION ALL SELECT 99999999 UNION ALL SELECT -m FROM limits)",
    "SELECT i FROM limits WHERE i + 3 IS NULL OR m * 2 IS NOT NULL AND t % 7 IS NOT NULL",
    "SELECT typeof(i), typeof(x), count(*) FROM num WHERE typeof(s) = 'SMALLINT' GROUP BY ALL",
]
"""Statements that are queries and views of the engine."""
ONCE = {
    "SELECT age(TIMESTAMP '2024-03-01', TIMESTAMP '2023-01-15')": "has months",
    "SELECT id, INTERVAL (id) MONTH FROM emp": "has months",
    "SELECT max(age(moment, TIMESTAMP '2023-01-15')) FROM sale": "has months",
    "SELECT COLUMNS('i|j') + 1 FROM num": "several columns in an expression",
    "SELECT max(COLUMNS('i|j')) FROM num": "several columns in an expression",
    "SELECT e.id, x.qty FROM emp e, LATERAL (SELECT qty FROM sale s WHERE s.emp = e.id ORDER BY s.id OFFSET 1) x": (
        "OFFSET without LIMIT"
    ),
    "SELECT typeof(sum(i)), typeof(avg(i)), typeof(count(*)) FROM num": "of a value that is calculated",
    "SELECT typeof(x), x & 1 FROM (SELECT sum(i) AS x FROM num GROUP BY j)": "of a value that is calculated",
    "SELECT #1, count(*) FROM emp GROUP BY #1": "position in FROM",
    "SELECT alias(e.id) AS a, #2 AS b FROM emp e JOIN dept d ON e.dept = d.id": "calculated: alias describes",
    "SELECT typeof(y) FROM (SELECT i + 1 AS y FROM num UNION ALL SELECT 5)": "of a value that is calculated",
}
"""Statements that DuckDB answers as queries, and what a view says."""


@pytest.mark.parametrize("text", KEPT)
def test_queries_and_views(text):
    seed = random.randrange(2**16)
    print("seed", seed)
    outcome = ask(text, tables(), Rival(tables()))
    assert (outcome.worker, outcome.wrong) == ("engine", ""), outcome.why
    assert follow(text, tables(), 4, seed, 1) == "exact"


def test_constants_and_nulls_do_not_narrow_or_change_the_type_of_a_column():
    """A wide constant was cut off in a column of 8 bits, and decimals beside null and integers became doubles."""
    relations = tables()
    numbers = gw.query("SELECT t FROM limits UNION ALL SELECT 300", relations).to_arrow()
    assert (numbers.schema.types, max(filter(None, numbers["t"].to_pylist()))) == ([pa.int64()], 300)
    exact = pa.table({"d": pa.array([Decimal("1234567890123456.78")], pa.decimal128(18, 2)), "i": [7]})
    view = gw.view("SELECT d FROM v UNION ALL SELECT i FROM v UNION ALL SELECT NULL", v=exact, language="sql")
    assert set(view.snapshot().rows()) == {(Decimal("1234567890123456.78"),), (Decimal("7.00"),), (None,)}


def test_floats_of_32_bits_beside_other_numbers():
    rows = pa.table({"f": pa.array([1.5, 0.1, None], pa.float32()), "i": [1, 2, 3], "m": [Decimal("0.5")] * 3})
    for text in ("SELECT f + i AS q, f * m AS r, f * f AS s FROM t", "SELECT i FROM t WHERE f * i > 1 OR f - m < 0"):
        assert follow(text, {"t": rows}, 2, 1, 1) == "exact"


UNSIGNED = pa.table({"a": pa.array([2**63, 5, 2**64 - 1, None, 5], pa.uint64())})
SIGNED = pa.table({"b": pa.array([-1, 5, None, 2**63 - 1])})


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM u UNION ALL SELECT -1",
        "SELECT a FROM u UNION SELECT b FROM v",
        "SELECT a FROM u EXCEPT ALL SELECT b FROM v",
        "SELECT max(a), min(a) FROM (SELECT a FROM u UNION ALL SELECT b FROM v)",
        "SELECT coalesce(a, -1) AS q, CASE WHEN a > 5 THEN a ELSE -1 END AS r FROM u",
        "SELECT CAST(18446744073709551615 AS UBIGINT) AS x UNION ALL SELECT b FROM v",
        "SELECT a FROM u JOIN v ON a = b WHERE a > -1 AND a IN (-1, 5, 9223372036854775808)",
    ],
)
def test_unsigned_integers_beside_negative_ones(text):
    """They are decimals of 20 digits together, as DuckDB's HUGEINT is in Arrow."""
    relations = {"u": UNSIGNED, "v": SIGNED}
    outcome = ask(text, relations, Rival(relations))
    assert (outcome.worker, outcome.wrong) == ("engine", ""), outcome.why
    assert follow(text, relations, 4, 3, 1) == "exact"


@pytest.mark.parametrize(
    "condition", ["10 // (i - 2) IS NULL", "10 % (i - 2) IS NOT NULL", "NOT 10 // (i - 2) IS NULL"]
)
def test_a_test_for_null_calculates(condition):
    """A division by zero in it was not seen in WHERE, though DuckDB raises for it, and so does a SELECT."""
    text = f"SELECT i FROM num WHERE {condition}"
    with pytest.raises(duckdb.Error, match="Division by zero"):
        Rival(tables()).answer(text)
    for call in (gw.query, gw.view):
        with pytest.raises(CalculationError, match="10 [/%] 0 has no value"):
            call(text, tables())
    assert ask(f"{text.replace('WHERE', 'WHERE i <> 2 AND')}", tables(), Rival(tables())).agrees


def test_rows_of_the_engine_have_the_types_of_duckdb_in_what_it_does():
    """Sums of integers were decimals for DuckDB, which have no bits."""
    text = (
        "SELECT x & 3 AS y, random() < 2 FROM (SELECT sum(i) AS x, j FROM num GROUP BY j) q JOIN dept ON q.j = dept.id"
    )
    outcome = ask(text, tables(), Rival(tables()))
    assert (outcome.worker, outcome.wrong) == ("both", "")


def test_a_python_function_hides_one_of_duckdb_that_describes_columns():
    @gw.function
    def stats(x: int) -> float:
        return x / 3

    view = gw.view("SELECT round(stats(a), 1) AS r FROM t", functions=[stats], t={"a": [1, 2]})
    assert sorted(view.snapshot().rows()) == [(0.3,), (0.7,)]


def test_a_value_that_no_column_holds_is_named_with_what_a_view_keeps():
    with pytest.raises(CalculationError) as caught:
        gw.view("SELECT id, to_months(id) AS p FROM emp", tables())
    assert str(caught.value).splitlines()[0] == (
        "TO_MONTHS(1) has a value that no column holds: the value 1 month, 0 days of type 'interval' has months, which "
        "differ in length."
    )
    text = "SELECT id, CAST(to_months(id) AS VARCHAR) AS p, datepart('month', to_months(id)) AS n FROM emp"
    assert follow(text, tables(), 4, 5, 1) == "exact"
    with pytest.raises(CalculationError, match=r"^Decimal\('-?123456789012345678.1234567890'\) \* 1.0+1 has no value"):
        gw.view("SELECT w * 1.00000000000001 AS q FROM limits", tables())


def test_an_overflowing_sum_names_what_a_view_keeps():
    text = "SELECT sum(b) AS s FROM limits"
    with pytest.raises(AggregateOverflowError, match="sum CAST.x AS HUGEINT."):
        gw.view(text, tables())
    assert follow(text.replace("(b)", "(CAST(b AS HUGEINT))"), tables(), 4, 7, 1) == "exact"


@pytest.mark.parametrize("text", ONCE)
def test_what_no_view_keeps_is_answered_once(text):
    outcome = ask(text, tables(), Rival(tables()))
    assert (outcome.worker, outcome.wrong) == ("DuckDB", "")
    with pytest.raises(gw.GpuWcojError, match=ONCE[text]):
        gw.view(text, tables())
