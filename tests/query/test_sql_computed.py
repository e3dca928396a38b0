"""Views with expressions, aggregates and windows that DuckDB computes agree with it after every tick."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest

from tests.helpers.long_tests import IS_LONG
from tests.helpers.sql_comparison import Case, Judge, UnfitError, disagreement
from tests.helpers.sql_tables import Column, Table, random_script

SEED = int(os.environ.get("TEST_SEED", "1"))
N_BLOCKS = 4
N_VIEWS = 2000 if IS_LONG else 60

TABLES = (
    Table("t", tuple(Column(name, kind) for name, kind in (
        ("a", "int"), ("b", "int"), ("s", "text"), ("p", "truth"), ("d", "date"), ("m", "decimal"), ("f", "float"),
    ))),
    Table("u", (Column("a", "int"), Column("s", "text"), Column("d", "date"))),
)  # fmt: skip

SCALARS = (
    "round(f)", "round(m, 1)", "floor(f)", "ceil(m)", "power(a, 2)", "sqrt(abs(a))", "exp(f)", "trim(s)", "ltrim(s)",
    "replace(s, 'x', 'zz')", "left(s, 1)", "right(s, 1)", "split_part(s, 'y', 1)", "lpad(s, 3, '-')", "rpad(s, 3, '-')",
    "regexp_extract(s, '[xy]+')", "regexp_replace(s, 'x', 'q')", "greatest(a, b)", "least(a, b, 1)",
    "concat_ws('-', s, a)", "concat(s, b)", "date_trunc('month', d)", "date_diff('day', d, DATE '2022-02-02')",
    "date_add(d, INTERVAL 3 DAY)", "d + INTERVAL 1 MONTH", "d + a", "d - DATE '2019-01-01'", "strftime(d, '%Y-%m')",
    "CAST(a AS VARCHAR)", "CAST(f AS INTEGER)", "CAST(p AS INTEGER)", "TRY_CAST(s AS INTEGER)", "CAST(d AS TIMESTAMP)",
    "CAST(a AS DECIMAL(9, 3))", "a::BOOLEAN", "extract(quarter FROM d)", "dayname(d)", "a // 2", "f // 2", "a ** 2",
    "a & b", "a | 4", "xor(a, b)", "m / 3", "m % 2", "coalesce(round(f), 0)", "nullif(left(s, 1), 'x')",
    "CASE WHEN round(f) > 0 THEN 'big' WHEN s ILIKE 'x%' THEN s ELSE 'none' END",
    "CASE s WHEN 'x' THEN round(m) ELSE -1 END", "round(f) + ceil(m) * a", "upper(left(s, 1)) || 'q'",
    "CAST(d AS TIMESTAMP) AT TIME ZONE 'Europe/Rome'", "length(trim(s)) + a", "instr(s, 'y')", "starts_with(s, 'x')",
    "substr(s, a + 1)", "reverse(s)", "repeat(s, 2)", "sign(a)", "ln(greatest(a, 1))", "chr(97 + abs(a))",
    "md5(s)", "hash(s) % 7 = 1", "if(a > b, round(f), m)", "make_date(2020, 1 + abs(a), 1)", "date_part('week', d)",
    "to_days(b) + d", "d > TIMESTAMP '2020-01-01'", "TIME '10:00:00'", "DATE '2020-02-02'",
    "TIMESTAMPTZ '2020-01-01 10:00:00+02'", "1.5", "round(1.26, 1)",
)  # fmt: skip
CONDITIONS = (
    "round(f) > 0", "s ILIKE 'X%'", "regexp_matches(s, 'x|z')", "s SIMILAR TO 'x.*'", "NOT round(m) = 2",
    "date_trunc('year', d) = DATE '2020-01-01'", "left(s, 1) IN ('x', 'z')", "greatest(a, b) BETWEEN 1 AND 3",
    "round(f) = 2 OR left(s, 1) = 'y'", "(round(f) > 0) IS NULL", "starts_with(s, 'x') IS NOT TRUE",
    "trim(s) IS NOT DISTINCT FROM s", "s LIKE left(s, 1) || '%'", "CAST(a AS VARCHAR) < '2'", "(a, b) > (1, 2)",
    "round(f) <> ceil(m) AND a > 0", "p", "a + 1 > 0", "s > 'x'", "d > TIMESTAMP '2020-01-01 00:00:00'",
    "coalesce(starts_with(s, 'x'), p)", "CASE WHEN round(f) > 0 THEN p ELSE a > 1 END",
)  # fmt: skip
AGGREGATES = (
    "stddev(a)", "stddev_pop(f)", "var_samp(m)", "variance(a)", "median(a)", "median(f)", "quantile_cont(f, 0.25)",
    "quantile_disc(a, 0.5)", "percentile_cont(0.5) WITHIN GROUP (ORDER BY f)", "bool_or(p)", "bool_and(a > 1)",
    "string_agg(s, ',' ORDER BY s, b)", "string_agg(DISTINCT s, '' ORDER BY s)", "min(round(f))", "sum(ceil(m))",
    "arg_max(s, a * 1000 + b * 100 + length(s))", "count(DISTINCT left(s, 1))", "count(DISTINCT round(f))",
    "sum(f) FILTER (WHERE round(f) > 0)", "median(b) FILTER (WHERE p)", "first(s ORDER BY s)", "last(a ORDER BY a)",
    "array_to_string(list(a ORDER BY a), '/')", "count_if(a > 1)", "bit_or(a)", "product(a)", "max(s)", "count(*)", "avg(m)", "sum(a)",
    "corr(a, b)", "round(avg(f), 2)", "sum(a) / count(*)", "count(DISTINCT (a, b))", "geomean(abs(a) + 1)",
    "mad(a)", "kurtosis(a)", "max(d) - min(d)", "coalesce(median(f), 0) + 1", "any_value(a + 0 * b)",
)  # fmt: skip
KEYS = ("a", "left(s, 1)", "date_trunc('year', d)", "p", "round(f)", "a, s", "CASE WHEN b > 1 THEN 'x' END", "")
HAVING = ("median(a) > 0", "count(*) > 1", "stddev(a) IS NOT NULL", "bool_or(p)", "string_agg(s, '' ORDER BY s) > 'x'")
ORDERS = ("ORDER BY a, b, s, p, d, m, f", "ORDER BY b DESC, a, s, p, d, m, f", "ORDER BY f DESC NULLS LAST, a, b, s, p, d, m")
PLACES = (
    "row_number() OVER ({by} {order})", "lag(s) OVER ({by} {order})", "lag(a, 2, -1) OVER ({by} {order})",
    "lead(round(f)) OVER ({by} {order})", "ntile(3) OVER ({by} {order})", "first_value(s) OVER ({by} {order})",
    "sum(a) OVER ({by} {order} ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)", "nth_value(b, 2) OVER ({by} {order})",
    "last_value(a) OVER ({by} {order} ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
    "lag(s IGNORE NULLS) OVER ({by} {order})",
)  # fmt: skip
"""Windows that tell equal rows apart: which row has which result is open where a query has two of them."""
WINDOWS = (
    "rank() OVER ({by} ORDER BY b)", "dense_rank() OVER ({by} ORDER BY s DESC)", "sum(a) OVER ({by})",
    "sum(a) OVER ({by} ORDER BY b)", "count(*) OVER ({by} ORDER BY s)", "avg(m) OVER ({by} ORDER BY a)",
    "max(a) OVER ({by} ORDER BY b RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)", "percent_rank() OVER ({by} ORDER BY a)",
    "count(DISTINCT s) OVER ({by})", "median(a) OVER ({by})", "a - avg(a) OVER ({by})",
    "sum(a) FILTER (WHERE p) OVER ({by})", "round(100 * sum(a) OVER ({by} ORDER BY b), 1)",
)  # fmt: skip
PARTITIONS = ("", "PARTITION BY a", "PARTITION BY s, a", "PARTITION BY left(s, 1)", "PARTITION BY date_trunc('year', d)")


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    found = Judge()
    yield found
    found.close()


def a_window(chance: random.Random, choices: tuple[str, ...] = WINDOWS) -> str:
    return chance.choice(choices).format(by=chance.choice(PARTITIONS), order=chance.choice(ORDERS))


def of_expressions(chance: random.Random) -> str:
    items = ", ".join(chance.sample(SCALARS, 3))
    where = f" WHERE {chance.choice(CONDITIONS)}" if chance.random() < 0.7 else ""
    return f"SELECT a, {items} FROM t{where}"


def of_groups(chance: random.Random) -> str:
    keys, aggregates = chance.choice(KEYS), ", ".join(chance.sample(AGGREGATES, chance.choice((1, 2, 3))))
    where = f" WHERE {chance.choice(CONDITIONS)}" if chance.random() < 0.3 else ""
    having = f" HAVING {chance.choice(HAVING)}" if chance.random() < 0.3 else ""
    if not keys:
        return f"SELECT {aggregates} FROM t{where}{having}"
    return f"SELECT {keys}, {aggregates} FROM t{where} GROUP BY {keys}{having}"


def of_windows(chance: random.Random) -> str:
    items = ", ".join([a_window(chance, PLACES), *(a_window(chance) for _ in range(chance.choice((0, 1, 2))))])
    where = f" WHERE {chance.choice(CONDITIONS)}" if chance.random() < 0.3 else ""
    keep = f" QUALIFY {a_window(chance)} IS NOT NULL" if chance.random() < 0.2 else ""
    shown = chance.choice(("*", "a, b", "s", "upper(s)"))
    return f"SELECT {shown}, {items} FROM t{where}{keep}"


def of_joins(chance: random.Random) -> str:
    on = chance.choice(
        ("date_trunc('year', t.d) = date_trunc('year', u.d)", "left(t.s, 1) = u.s", "t.a = u.a AND round(t.f) > u.a",
         "t.a = abs(u.a) AND t.s ILIKE u.s", "t.a = u.a")
    )  # fmt: skip
    kind = chance.choice(("JOIN", "LEFT JOIN"))
    item = chance.choice(("greatest(t.a, u.a)", "concat_ws('/', t.s, u.s)", "count(*) OVER (PARTITION BY t.a)"))
    return f"SELECT t.a, u.s, {item} FROM t {kind} u ON {on}"


def of_windows_over_groups(chance: random.Random) -> str:
    window = chance.choice(
        ("rank() OVER (ORDER BY sum(b))", "sum(count(*)) OVER ()", "lag(median(b)) OVER (ORDER BY a)",
         "round(sum(b) / sum(sum(b)) OVER (), 2)", "row_number() OVER (ORDER BY count(*) DESC, a)")
    )  # fmt: skip
    return f"SELECT a, {window} FROM t GROUP BY a"


KINDS = (of_expressions, of_groups, of_windows, of_joins, of_windows_over_groups)


@pytest.mark.parametrize("block", range(N_BLOCKS))
def test_views_follow(block: int, judge: Judge):
    n_run = number = 0
    while n_run < N_VIEWS // N_BLOCKS:
        seed = f"{SEED} {block} {number}"
        number += 1
        chance = random.Random(seed)
        text = KINDS[number % len(KINDS)](chance)
        case = Case((("v", text),), TABLES, random_script(chance, TABLES, 5))
        try:
            right = judge.answers(case)
        except UnfitError:
            continue
        n_run += 1
        wrong = disagreement(case, right, typed=True)
        assert not wrong, f"seed {seed!r}: {wrong}\n{case}"
    assert n_run > number // 3
