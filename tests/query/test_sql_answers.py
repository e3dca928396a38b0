"""Views in SQL, construct by construct: what is kept is what DuckDB says, after every tick."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal

import pytest

from tests.helpers.sql_comparison import Case, Judge, disagreement
from tests.helpers.sql_tables import Column, Script, Table


def table(name: str, **columns: str) -> Table:
    return Table(name, tuple(Column(column, kind) for column, kind in columns.items()))


TABLES = (
    table("t", a="int", b="int", s="text"),
    table("u", b="int", c="int"),
    table("e", src="int", dst="int"),
    table("v", k="int", f="float", m="decimal", p="truth", d="date"),
)

DAYS = dt.date(1994, 1, 31), dt.date(1995, 3, 1), dt.date(1996, 2, 29)
ONE, TWO = Decimal("1.50"), Decimal("-0.25")

SCRIPT: Script = (
    {
        "t": [((1, 2, "x"), 2), ((1, None, "y"), 1), ((None, 2, "xy"), 1), ((3, 1, None), 1)],
        "u": [((2, 1), 1), ((2, 3), 1), ((None, 1), 2)],
        "e": [((1, 2), 1), ((2, 3), 1), ((3, 1), 1), ((2, None), 1)],
    },
    {
        "t": [((None, None, None), 2), ((2, 2, "x"), 1), ((1, 2, "x"), -1)],
        "u": [((1, None), 1), ((2, 1), 1)],
        "e": [((3, 4), 1), ((4, 2), 1), ((1, 2), 1)],
        "v": [((1, 0.5, ONE, True, DAYS[0]), 1), ((2, 2.0, TWO, None, DAYS[1]), 2), ((1, None, None, False, None), 1)],
    },
    {
        "t": [((3, 1, None), -1), ((1, None, "y"), 1), ((0, 4, "%"), 1)],
        "u": [((2, 3), -1), ((None, 1), -2), ((4, 4), 1)],
        "e": [((2, 3), -1), ((2, None), -1), ((1, 1), 1)],
        "v": [((None, 2.0, ONE, True, DAYS[2]), 1), ((2, 2.0, TWO, None, DAYS[1]), -1)],
    },
    {
        "t": [((None, None, None), -2), ((2, 2, "x"), -1), ((1, 2, "x"), -1), ((5, 5, "z"), 1)],
        "u": [((2, 1), -2), ((1, None), -1), ((4, 4), -1)],
        "e": [((1, 1), -1), ((3, 1), -1), ((1, 2), -1), ((2, 3), 1)],
        "v": [
            ((1, 0.5, ONE, True, DAYS[0]), -1),
            ((1, None, None, False, None), -1),
            ((0, -1.25, TWO, False, None), 3),
        ],
    },
    {
        "t": [((1, None, "y"), -2), ((None, 2, "xy"), -1), ((0, 4, "%"), -1), ((5, 5, "z"), -1)],
        "e": [((1, 2), -1), ((2, 3), -1), ((3, 4), -1), ((4, 2), -1)],
        "v": [((2, 2.0, TWO, None, DAYS[1]), -1), ((None, 2.0, ONE, True, DAYS[2]), -1)],
    },
    {"t": [((7, 2, "last"), 1)], "u": [((2, 7), 1)], "e": [((1, 1), 1)]},
)
"""Nulls, equal rows, deletions, tables that become empty, and one row after that."""

QUERIES = {
    "selection": """
        SELECT a, b FROM t;
        SELECT * FROM t WHERE a = 1;
        SELECT s, a FROM t WHERE a = 1 AND b > 1;
        SELECT t.*, a + b AS total FROM t;
        SELECT -a AS n, a * 2 - b AS m, a % 2 AS r, ABS(a - b) AS d FROM t;
        SELECT DISTINCT a FROM t;
        SELECT DISTINCT a, b, s FROM t WHERE a IS NOT NULL;
        SELECT 1 AS one, 'x' AS x, NULL AS n, TRUE AS yes FROM t;
        SELECT a, a FROM t;
        SELECT T.A AS first, "b" FROM T;
        SELECT x.one, x.b FROM (SELECT a + 1 AS one, b FROM t WHERE b > 1) AS x WHERE x.one < 4;
        SELECT y.p, y.q FROM t AS y(p, q);
    """,
    "joins": """
        SELECT t.a, u.c FROM t JOIN u ON t.b = u.b;
        SELECT t.a, u.c FROM t, u WHERE t.b = u.b AND u.c > t.a;
        SELECT * FROM t NATURAL JOIN u;
        SELECT * FROM t JOIN u USING (b);
        SELECT b, t.b AS mine, u.b AS other FROM t JOIN u USING (b);
        SELECT t.a, e.dst FROM t CROSS JOIN e WHERE t.a < 2;
        SELECT e.src AS a, f.src AS b, g.src AS c FROM e JOIN e f ON e.dst = f.src JOIN e g ON f.dst = g.src
          AND g.dst = e.src;
        SELECT t.a, u.c FROM t JOIN u ON t.b < u.b;
        SELECT x.src, z.dst FROM (e x JOIN e y ON x.dst = y.src) JOIN e z ON y.dst = z.src;
        SELECT t.a, w.c FROM t, (SELECT b, c + 1 AS c FROM u WHERE c > 0) w WHERE t.b = w.b;
        SELECT a.a, b.a FROM t a JOIN t b ON a.a IS NOT DISTINCT FROM b.a;
    """,
    "outer joins": """
        SELECT a, c FROM t LEFT JOIN u ON t.b = u.b;
        SELECT a, c FROM t RIGHT JOIN u ON t.b = u.b;
        SELECT a, c FROM t FULL JOIN u ON t.b = u.b;
        SELECT a, b, c FROM t LEFT JOIN u USING (b);
        SELECT a, b, c FROM t RIGHT JOIN u USING (b);
        SELECT * FROM t FULL JOIN u USING (b);
        SELECT a, c FROM t LEFT JOIN u ON t.b = u.b AND u.c > 1;
        SELECT a, c FROM t LEFT JOIN u ON t.b = u.b AND t.a = 1;
        SELECT a, c FROM t LEFT JOIN u ON t.b < u.b;
        SELECT a, c FROM t LEFT JOIN u ON COALESCE(t.b, 0) < 5 AND u.b = t.b;
        SELECT a, c FROM t LEFT JOIN u ON t.b IS DISTINCT FROM 3 AND u.b = t.b;
        SELECT a, c FROM t LEFT JOIN u ON t.b IS NULL AND u.b = t.b;
        SELECT a, c FROM t LEFT JOIN u ON t.b IN (t.a, t.b);
        SELECT a, c FROM t LEFT JOIN u ON CASE WHEN t.b IS NULL THEN 1 ELSE 0 END = 1 AND u.b = t.b;
        SELECT a, c FROM u RIGHT JOIN t ON (t.b IS NULL OR t.a > 1) AND u.b = t.b;
        SELECT a, c FROM t FULL JOIN u ON t.b IS NOT DISTINCT FROM t.a AND u.b = t.b;
        SELECT a FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE COALESCE(t.b, 0) < 5 AND u.b = t.b);
        SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE (t.b IS NULL OR u.c > 1) AND t.b <= u.b);
        SELECT a FROM t LEFT JOIN u ON t.b = u.b WHERE u.b IS NULL;
        SELECT t.a, u.c, e.dst FROM t LEFT JOIN u ON t.b = u.b LEFT JOIN e ON u.c = e.src;
        SELECT t.a, w.c, w.dst FROM t LEFT JOIN (u JOIN e ON u.c = e.src) w ON t.b = w.b;
        SELECT t.a, x.c FROM t LEFT JOIN u x ON TRUE WHERE t.a > 1;
        SELECT a, COALESCE(c, -1) AS c FROM t LEFT JOIN u ON t.b = u.b;
        SELECT count(c) AS n, t.a FROM t LEFT JOIN u ON t.b = u.b GROUP BY t.a;
    """,
    "conditions": """
        SELECT a FROM t WHERE a BETWEEN 1 AND 2;
        SELECT a FROM t WHERE a NOT BETWEEN 1 AND b;
        SELECT a FROM t WHERE NOT (a = 1 AND b = 2);
        SELECT a, b FROM t WHERE a = 1 OR b = 2 OR s IS NULL;
        SELECT a, b FROM t WHERE (a = 1 OR b > a) AND NOT (s = 'x' OR a IS NULL);
        SELECT a FROM t WHERE a IN (1, 3);
        SELECT a FROM t WHERE a IN (1, NULL);
        SELECT a FROM t WHERE a NOT IN (1, 3);
        SELECT a FROM t WHERE a NOT IN (1, NULL);
        SELECT a FROM t WHERE a NOT IN (1, 3, 10, 11, 12, 13, 14, 15, 16, 17);
        SELECT a FROM t WHERE a NOT IN (1, 10, 11, 12, 13, 14, 15, 16, 17, NULL);
        SELECT a FROM t WHERE a IN (b, 1);
        SELECT a, b FROM t WHERE (a, b) IN ((1, 2), (2, 2), (0, 4));
        SELECT x.src, y.dst FROM e x, e y WHERE x.dst = y.src AND (x.src, y.dst) IN ((1, 3), (2, 4));
        SELECT s FROM t WHERE s LIKE 'x%';
        SELECT s FROM t WHERE s NOT LIKE '_' OR s = 'x';
        SELECT s FROM t WHERE s LIKE '!%' ESCAPE '!';
        SELECT a FROM t WHERE a IS DISTINCT FROM b;
        SELECT a FROM t WHERE (a = b) IS NOT TRUE AND (a < b) IS TRUE;
        SELECT a FROM t WHERE (a, b) = (1, 2) OR (a, b) = (NULL, 2);
        SELECT a FROM t WHERE (a, b) <> (1, 2);
        SELECT a FROM t WHERE 1 IN (1, 2) AND 1 NOT IN (2, 3) AND NOT (a = NULL) IS TRUE;
        SELECT k FROM v WHERE k IS NOT DISTINCT FROM f OR k IS DISTINCT FROM m;
        SELECT a = b AS e, a < b OR b IS NULL AS o, NOT a = 1 AS n, a IN (1, 2) AS i, s LIKE 'x%' AS l FROM
          t;
    """,
    "values": """
        SELECT CASE WHEN a = 1 THEN b WHEN b IS NULL THEN -1 ELSE a END AS x FROM t;
        SELECT CASE a WHEN 1 THEN 'one' WHEN 2 THEN 'two' END AS x FROM t;
        SELECT COALESCE(a, b, 7) AS x, NULLIF(a, b) AS y FROM t;
        SELECT IF(a = 1, b, 0) AS x, (a) AS y, 1 + 2 * 3 AS z, -(-1) AS w FROM t;
        SELECT s || '!' AS x, LENGTH(s) AS n, UPPER(s) AS u, SUBSTRING(s, 2, 1) AS c FROM t;
        SELECT k / 2 AS half, k + 1.5 AS more, f * 2 AS twice, m * 2 AS money, f / 4 AS part FROM v;
        SELECT k FROM v WHERE k = m OR k > m;
        SELECT k < m AS x, m = f AS y, CASE WHEN p THEN k ELSE 0.5 END AS z, COALESCE(m, k) AS w FROM v;
        SELECT CAST(k AS DOUBLE) AS x, k + f AS y, k < f AS less, m - 0.5 AS z FROM v;
        SELECT EXTRACT(YEAR FROM d) AS y, MONTH(d) AS m, DAY(d) AS n FROM v;
        SELECT d FROM v WHERE d >= DATE '1995-01-01' AND d < DATE '1995-12-31' + INTERVAL '1' YEAR;
        SELECT d FROM v WHERE d > DATE '1994-02-03' - INTERVAL 3 DAY AND d < DATE '1994-03-31' + INTERVAL 2 YEAR;
        SELECT COALESCE(d, DATE '1990-01-01') AS d, CASE WHEN k = 1 THEN d ELSE '1990-01-01' END AS e FROM v;
        SELECT d FROM v WHERE d = '1994-01-31' OR d IN (DATE '1996-02-29', '2000-01-01');
        SELECT k FROM v WHERE p;
        SELECT k FROM v WHERE NOT p OR p IS NULL;
        SELECT f FROM v WHERE m BETWEEN -1 AND 0.5 OR m IN (1.5, 2);
        SELECT k FROM v WHERE f IN (0.5, 2);
    """,
    "subqueries in conditions": """
        SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.b = t.b);
        SELECT a FROM t WHERE NOT EXISTS (SELECT * FROM u WHERE u.b = t.b);
        SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.c > t.a);
        SELECT a FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.b = t.b AND u.c >= t.a);
        SELECT a FROM t WHERE EXISTS (SELECT * FROM u);
        SELECT a FROM t WHERE NOT EXISTS (SELECT * FROM u WHERE c = 3);
        SELECT a FROM t WHERE b IN (SELECT b FROM u);
        SELECT a FROM t WHERE b NOT IN (SELECT c FROM u);
        SELECT a FROM t WHERE b NOT IN (SELECT c FROM u WHERE u.b = t.a);
        SELECT a FROM t WHERE (CASE WHEN a > 2 THEN 1 WHEN b > 0 THEN b + 1 END) NOT IN (SELECT c FROM u);
        SELECT a FROM t WHERE (COALESCE(b, a) NOT IN (SELECT c FROM u)) IS NULL;
        SELECT a FROM t WHERE (a, b) IN (SELECT c, b FROM u);
        SELECT a FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.b IS NOT DISTINCT FROM t.b);
        SELECT a FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.b = t.b AND NOT EXISTS (SELECT 1 FROM e
          WHERE e.src = u.c AND e.dst = t.a));
        SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u JOIN e ON u.c = e.src AND e.dst = t.a WHERE u.b =
          t.b);
        SELECT a, EXISTS (SELECT 1 FROM u WHERE u.b = t.b) AS x, b IN (SELECT c FROM u) AS y FROM t;
        SELECT a FROM t WHERE a = 3 OR EXISTS (SELECT 1 FROM u WHERE u.b = t.b);
        SELECT a FROM t WHERE b IN (SELECT b FROM u UNION SELECT dst FROM e);
        SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.b = t.b UNION SELECT src FROM e WHERE dst = t.a);
        SELECT a FROM t WHERE a NOT IN (SELECT b FROM u WHERE c = 1 UNION ALL SELECT src FROM e WHERE dst = t.b);
        SELECT a FROM t WHERE EXISTS (SELECT COUNT(*) FROM u) AND b IN ((SELECT MAX(b) FROM u GROUP BY c));
        SELECT a FROM t WHERE a >= (SELECT MAX(c) FROM u);
        SELECT a, (SELECT COUNT(*) FROM u) AS n FROM t;
    """,
    "groups": """
        SELECT a, COUNT(*) AS n, COUNT(b) AS m, SUM(b) AS s, MIN(b) AS lo, MAX(b) AS hi, AVG(b) AS mean FROM
          t GROUP BY a;
        SELECT a, b, COUNT(*) AS n FROM t GROUP BY a, b;
        SELECT a, COUNT(DISTINCT b) AS n, SUM(DISTINCT b) AS s FROM t GROUP BY a;
        SELECT a, SUM(b) AS s FROM t GROUP BY a HAVING COUNT(*) > 1;
        SELECT a, COUNT(*) AS n FROM t GROUP BY a HAVING n > 1 AND MAX(b) IS NOT NULL;
        SELECT a % 2 AS odd, COUNT(*) * 2 AS n FROM t GROUP BY a % 2;
        SELECT a % 2 AS odd, COUNT(*) AS n FROM t GROUP BY odd;
        SELECT s, COUNT(*) AS n FROM t GROUP BY 1;
        SELECT a, SUM(c) AS s FROM t JOIN u USING (b) GROUP BY ALL;
        SELECT a FROM t GROUP BY a;
        SELECT MAX(s) AS hi, MIN(s) AS lo FROM t GROUP BY a;
        SELECT a, COUNT(*) FILTER (WHERE b = 2) AS n, SUM(b) FILTER (WHERE s = 'x') AS m FROM t GROUP BY a;
        SELECT SUM(CASE WHEN s = 'x' THEN b ELSE 0 END) AS x, SUM(b) AS y, a FROM t GROUP BY a;
        SELECT p, SUM(f) AS s, AVG(m) AS m, MIN(d) AS d FROM v GROUP BY p;
        SELECT t.a, COUNT(*) AS n FROM t GROUP BY t.a HAVING EXISTS (SELECT 1 FROM u WHERE u.c = t.a);
        SELECT a, SUM(b) FILTER (WHERE EXISTS (SELECT 1 FROM u x WHERE x.c = t.a)) AS n FROM t GROUP BY a;
        SELECT s, SUM(CASE WHEN EXISTS (SELECT 1 FROM u WHERE u.c = t.a) THEN b END) AS n FROM t GROUP BY s;
        SELECT (SELECT MAX(c) FROM u) AS k, SUM(b) AS n FROM t GROUP BY (SELECT MAX(c) FROM u);
    """,
    "aggregates of everything": """
        SELECT COUNT(*) AS n FROM t;
        SELECT COUNT(*) AS n, COUNT(a) AS m, SUM(a) AS s, MIN(b) AS lo, MAX(s) AS hi, AVG(a) AS mean FROM t;
        SELECT COUNT(DISTINCT a) AS n FROM t WHERE b = 2;
        SELECT COUNT(*) + 1 AS n, COALESCE(SUM(a), 0) AS s FROM t WHERE a > 1;
        SELECT COUNT(*) AS n FROM t HAVING COUNT(*) > 3;
        SELECT SUM(f) AS s, AVG(f) AS m, SUM(m) AS d FROM v;
        SELECT COUNT(*) AS n FROM t WHERE 1 = 2;
        SELECT COUNT(*) AS n FROM e JOIN e f ON e.dst = f.src JOIN e g ON f.dst = g.src AND g.dst = e.src;
        SELECT MAX(n) AS most FROM (SELECT COUNT(*) AS n FROM t GROUP BY a) q;
    """,
    "sets": """
        SELECT a FROM t UNION ALL SELECT c FROM u;
        SELECT a FROM t UNION SELECT c FROM u;
        SELECT a, b FROM t UNION ALL SELECT b, c FROM u UNION ALL SELECT src, dst FROM e;
        SELECT a, b FROM t EXCEPT SELECT b, c FROM u;
        SELECT a, b FROM t INTERSECT SELECT src, dst FROM e;
        SELECT k FROM v UNION ALL SELECT f FROM v;
        SELECT f FROM v EXCEPT SELECT k FROM v;
        SELECT k FROM v UNION ALL SELECT m FROM v UNION ALL SELECT 0.25;
        SELECT k FROM v INTERSECT SELECT m FROM v;
        SELECT x.a, COUNT(*) AS n FROM (SELECT a FROM t UNION ALL SELECT dst FROM e) x GROUP BY x.a;
        SELECT * FROM (VALUES (1, 'one'), (2, NULL)) w(i, n) JOIN t ON w.i = t.a;
        SELECT 1 AS x WHERE 1 = 2;
        SELECT DISTINCT x.a FROM (SELECT a FROM t UNION ALL SELECT src FROM e) x JOIN u ON x.a = u.b;
    """,
    "with": """
        WITH q AS (SELECT a, b FROM t WHERE a < 3) SELECT x.a, y.b FROM q x JOIN q y ON x.a = y.b;
        WITH q(x) AS (SELECT a FROM t), p AS (SELECT x + 1 AS y FROM q) SELECT y, COUNT(*) AS n FROM p GROUP
          BY y;
        WITH q AS (SELECT a, COUNT(*) AS n FROM t GROUP BY a) SELECT x.n, y.n AS m FROM q x JOIN q y ON x.a
          = y.a;
        WITH t AS (SELECT b FROM u) SELECT b FROM t;
        WITH RECURSIVE r(x, y) AS (SELECT src, dst FROM e UNION SELECT r.x, e.dst FROM r JOIN e ON r.y =
          e.src) SELECT * FROM r;
        WITH RECURSIVE r(x) AS (
          SELECT src FROM e UNION (SELECT c FROM r JOIN u ON r.x = u.b UNION ALL SELECT dst FROM r JOIN e ON src = x)
        ) SELECT x FROM r;
        WITH RECURSIVE r(x) AS (SELECT 1 UNION SELECT dst FROM r JOIN e ON x = src) SELECT COUNT(*) AS n
          FROM r;
        WITH RECURSIVE r(x, n) AS (SELECT 1, 0 UNION SELECT dst, n + 1 FROM r JOIN e ON x = src WHERE n < 3)
          SELECT x, n FROM r;
        WITH RECURSIVE r(x) AS (SELECT a FROM t UNION SELECT dst FROM r, e WHERE x = src) SELECT a FROM t
          WHERE b NOT IN (SELECT x FROM r WHERE x IS NOT NULL);
    """,
}
"""By theme."""


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    found = Judge()
    yield found
    found.close()


def case_of(*queries: str) -> Case:
    return Case(tuple((f"v{i}", query) for i, query in enumerate(queries)), TABLES, SCRIPT)


@pytest.mark.parametrize("theme", QUERIES)
def test_a_theme(theme: str, judge: Judge):
    queries = [" ".join(query.split()) for query in QUERIES[theme].split(";") if query.strip()]
    case = case_of(*queries)
    wrong = disagreement(case, judge.answers(case), typed=True)
    assert wrong is None, f"{wrong}\n{case.text}"


def test_views_that_use_one_another(judge: Judge):
    views = (
        ("ways", "SELECT src AS x, dst AS y FROM e UNION ALL SELECT dst, src FROM e"),
        ("loops", "SELECT a.x, b.x AS y FROM ways a JOIN ways b ON a.y = b.x AND b.y = a.x"),
        ("fans", "SELECT x, COUNT(*) AS n FROM ways GROUP BY x"),
        ("busy", "SELECT l.x, f.n FROM loops l LEFT JOIN fans f ON l.x = f.x WHERE f.n > 1"),
        ("plain", "SELECT a, b FROM t WHERE b > 1"),
        ("far", "SELECT plain.a, fans.n FROM plain JOIN fans ON plain.b = fans.x"),
    )
    case = Case(views, TABLES, SCRIPT)
    wrong = disagreement(case, judge.answers(case), typed=True)
    assert wrong is None, wrong


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a, c FROM t LEFT JOIN u ON t.b = u.b WHERE a = 1 OR a IS NULL",
        "SELECT a / b AS q FROM t WHERE b <> 0",
        "SELECT d FROM v WHERE d < DATE '1995-12-31'",
        "SELECT a, AVG(b) AS m FROM t GROUP BY a",
    ],
)
def test_a_query_without_types_and_without_a_name(query: str, judge: Judge):
    case = Case((("", query),), TABLES, SCRIPT)
    wrong = disagreement(case, judge.answers(case))
    assert wrong is None, wrong
