"""Queries that refer to rows outside of them: LATERAL, ASOF, and queries that group or cut; other joins, and aliases.

Each view is compared with DuckDB after every tick, with nulls, duplicates and deletions.
"""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import UnsupportedError
from tests.helpers.duckdb_judge import connect

Row = tuple[int | None, int | None]

LATERAL = [
    "SELECT t.a, x.b FROM t, LATERAL (SELECT u.b FROM u WHERE u.a = t.a) x",
    "SELECT t.a, x.m FROM t, LATERAL (SELECT max(u.b) AS m FROM u WHERE u.a = t.a) x",
    "SELECT t.a, x.m, x.n FROM t, LATERAL (SELECT max(b) AS m, count(*) AS n FROM u WHERE u.a < t.a) x",
    "SELECT t.a, x.n FROM t, LATERAL (SELECT count(*) AS n FROM u WHERE u.a = t.a HAVING count(*) > 1) x",
    "SELECT t.a, x.b FROM t, (SELECT u.b FROM u WHERE u.a = t.a) x",
    "SELECT * FROM t LEFT JOIN LATERAL (SELECT u.b FROM u WHERE u.a = t.a ORDER BY u.b DESC LIMIT 1) x ON x.b > t.b",
    "SELECT t.a, x.b FROM t CROSS JOIN LATERAL (SELECT b FROM u WHERE a = t.a ORDER BY b, a LIMIT 2 OFFSET 1) x",
    "SELECT t.a, x.k, x.n FROM t, LATERAL (SELECT u.b AS k, count(*) AS n FROM u WHERE u.a >= t.a GROUP BY u.b) x",
    "SELECT t.a, x.k, x.n FROM t, LATERAL (SELECT u.b AS k, sum(a) AS n FROM u WHERE u.a >= t.a GROUP BY ALL) x",
    "SELECT t.a, x.d FROM t, LATERAL (SELECT DISTINCT u.b AS d FROM u WHERE u.a = t.a) x",
    "SELECT t.a, x.d FROM t, LATERAL (SELECT DISTINCT ON (u.b) u.a, u.b AS d FROM u WHERE u.a > t.a ORDER BY u.a) x",
    "SELECT t.a, x.d FROM t, LATERAL (SELECT b AS d FROM u WHERE a = t.a UNION SELECT a FROM u WHERE b = t.b) x",
    "SELECT t.a, x.d FROM t, LATERAL (SELECT b AS d FROM u WHERE a = t.a EXCEPT SELECT a FROM u WHERE b = t.b) x",
    "SELECT t.a, x.d FROM t, LATERAL (SELECT b AS d FROM u WHERE a > t.a UNION ALL SELECT t.b ORDER BY d LIMIT 2) x",
    "SELECT t.a, x.d, y.e FROM t, LATERAL (SELECT t.a + 1 AS d) x, LATERAL (SELECT x.d * u.b AS e FROM u) y",
    "SELECT t.a, x.r FROM t, LATERAL (SELECT row_number() OVER (ORDER BY u.b, u.a) AS r FROM u WHERE u.a = t.a) x",
    "SELECT t.a, r FROM t, LATERAL (SELECT b AS r FROM u WHERE a = t.a QUALIFY row_number() OVER (ORDER BY b) = 1) x",
    "SELECT t.a, x.b, w.a FROM t JOIN LATERAL (SELECT b FROM u WHERE a = t.a) x ON x.b = t.b JOIN u w ON w.b = x.b",
    "SELECT t.a, x.b FROM t, LATERAL (SELECT u.b, s.a FROM u LEFT JOIN t s ON s.a = u.a AND s.b = t.b) x",
    "SELECT t.a, x.b FROM t, LATERAL (SELECT s.b FROM u RIGHT JOIN t s ON s.a = u.a WHERE s.b = t.b) x",
    "SELECT * FROM t, LATERAL (SELECT * FROM u WHERE u.a = t.a) x (c, d)",
    "SELECT * FROM t, LATERAL (SELECT count(*) AS n FROM u) x",
]
ASOF = [
    "SELECT t.a, t.b, u.b FROM t ASOF JOIN u ON t.b >= u.b",
    "SELECT t.a, t.b, u.b FROM t ASOF LEFT JOIN u ON t.a = u.a AND t.b > u.b",
    "SELECT t.a, t.b, e.b FROM t ASOF JOIN u e ON t.a = e.a AND e.b >= t.b",
    "SELECT t.a, t.b, e.b FROM t ASOF JOIN (SELECT DISTINCT a, b FROM u) e ON t.a = e.a AND t.b < e.b",
    "SELECT t.a, t.b, u.b FROM t ASOF JOIN u USING (a, b)",
]
VALUES = [
    "SELECT a, (SELECT u.b FROM u WHERE u.a = t.a ORDER BY u.b DESC LIMIT 1) AS x FROM t",
    "SELECT a, (SELECT count(*) FROM u WHERE u.a = t.a GROUP BY u.a) AS x FROM t",
    "SELECT a, (SELECT count(*) FROM u WHERE u.a = t.a HAVING count(*) > 1) AS x FROM t",
    "SELECT a, (SELECT DISTINCT u.a FROM u WHERE u.a = t.a) AS x FROM t",
    "SELECT a, (SELECT max(s.n) FROM (SELECT count(*) AS n FROM u WHERE u.a = t.a GROUP BY u.b) s) AS x FROM t",
    "SELECT a, (SELECT sum(x.b) FROM (SELECT u.b FROM u WHERE u.a = t.a ORDER BY u.b LIMIT 2) x) AS m FROM t",
    "SELECT a, (SELECT lag(b, 1, -1) OVER (ORDER BY b) AS p FROM u WHERE a = t.a ORDER BY p LIMIT 1) AS m FROM t",
    "SELECT t.a, count(*) AS n, (SELECT u.b FROM u WHERE u.a = t.a ORDER BY u.b LIMIT 1) AS x FROM t GROUP BY t.a",
    "SELECT a FROM t WHERE b = (SELECT u.b FROM u WHERE u.a = t.a ORDER BY u.b LIMIT 1)",
    "SELECT a FROM t WHERE EXISTS (SELECT u.b FROM u WHERE u.a = t.a GROUP BY u.b HAVING count(*) > 1)",
    "SELECT a FROM t WHERE NOT EXISTS (SELECT u.b FROM u WHERE u.a = t.a GROUP BY u.b HAVING sum(u.a) > 1)",
    "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a LIMIT 1)",
    "SELECT a FROM t WHERE b IN (SELECT u.b FROM u WHERE u.a = t.a ORDER BY u.b LIMIT 2)",
    "SELECT a FROM t WHERE b NOT IN (SELECT max(u.b) FROM u WHERE u.a = t.a GROUP BY u.b)",
    "SELECT a FROM t WHERE b >= ALL (SELECT count(*) FROM u WHERE u.a = t.a)",
    "SELECT a FROM t WHERE b > ANY (SELECT x.m FROM (SELECT max(u.b) AS m FROM u WHERE u.a = t.a) x)",
    "SELECT a FROM t WHERE EXISTS (SELECT u.a FROM u WHERE u.b = t.b EXCEPT SELECT u.b FROM u WHERE u.a = t.a)",
    "SELECT t.a, sum(t.b) AS s FROM t GROUP BY t.a HAVING EXISTS (SELECT u.b FROM u WHERE u.a = t.a GROUP BY u.b)",
]


ELEMENTS = [
    "SELECT t.a, r.range FROM t JOIN range(1, 4) r ON r.range > t.a",
    "SELECT a, x FROM t LEFT JOIN generate_series(0, 4, 2) g(x) ON x = b",
    "SELECT a, i FROM t, range(b) r(i)",
    "SELECT a, i FROM t, unnest([a, b, a, NULL]) r(i)",
    "SELECT a, w FROM t LEFT JOIN LATERAL unnest(string_split(repeat('x ', b), ' ')) u(w) ON true",
    "SELECT a, unnest([b, a + 1]) AS e, count(*) OVER (PARTITION BY a) AS n FROM t",
    "SELECT unnest([1, 2]) AS x, unnest(range(b)) AS y, a FROM t",
    "SELECT e, count(*) AS n FROM (SELECT unnest([a, b]) AS e FROM t) GROUP BY e",
    "SELECT a, (SELECT sum(x) FROM unnest([a, b, 5]) u(x)) AS s FROM t",
    "SELECT a FROM t WHERE b IN (SELECT unnest([a, 1]))",
    "SELECT a FROM t WHERE NOT EXISTS (SELECT 1 FROM unnest([1, 3]) u(x) WHERE x = t.a)",
    "SELECT a, sum(b) AS s, unnest([a, sum(b)]) AS e FROM t GROUP BY a",
    "SELECT DISTINCT unnest([a, b]) AS e FROM t ORDER BY e LIMIT 2",
    "SELECT a FROM t UNION ALL SELECT * FROM generate_series(7, 9)",
]


PIVOTS = [
    "SELECT * FROM t PIVOT (sum(b) AS s, count(*) AS n FOR a IN (1, 2 AS two)) p",
    "SELECT * FROM t PIVOT (max(a) FOR b IN (0, 1, 3))",
    "SELECT * FROM (SELECT a FROM t) PIVOT (count(*) FOR a IN (1, 2))",
    "PIVOT t ON b IN (1, 2) USING sum(b) GROUP BY a",
    "WITH w AS (SELECT a, b FROM t JOIN u USING (a, b)) PIVOT w ON a IN (1) USING count(*) AS n",
    'SELECT p.a, u.b FROM (PIVOT t ON b IN (1, 2) USING count(*) GROUP BY a) p JOIN u ON u.a = p.a WHERE p."1" > 0',
    "SELECT * FROM t UNPIVOT (x FOR n IN (a AS first, b))",
    "SELECT * FROM t UNPIVOT INCLUDE NULLS (x FOR n IN (b))",
    "UNPIVOT (SELECT a, b, a + b AS c FROM t) ON a, b INTO NAME n VALUE x",
]


JOINS_AND_NAMES = [
    "SELECT * FROM t SEMI JOIN u ON t.a = u.a AND t.b < u.b",
    "SELECT * FROM t ANTI JOIN u ON t.a = u.a",
    "SELECT a, b FROM t ANTI JOIN u USING (a)",
    "SELECT * EXCLUDE (b) FROM t",
    "SELECT t.* REPLACE (a + 1 AS a) FROM t",
    "SELECT a + 1 AS c, c * 2 AS d, b FROM t WHERE d > 4",
    "SELECT a AS c, count(*) AS n, n + 1 AS m FROM t WHERE c > 0 GROUP BY c",
    "SELECT t.a + u.a AS d, d + 1 AS c FROM t JOIN u ON t.b = u.b WHERE (SELECT max(s.a) FROM t s) < c",
]


def drawn(chance: random.Random) -> Row:
    first, second = (chance.choice([None, 0, 1, 2, 3]) for _ in range(2))
    return first, second


def table(rows: list[Row]) -> pa.Table:
    return pa.table({name: pa.array([row[i] for row in rows], pa.int64()) for i, name in enumerate("ab")})


def by_duckdb(query: str, tables: dict[str, list[Row]]) -> Counter[tuple[object, ...]]:
    with connect() as connection:
        for name, rows in tables.items():
            connection.register(name, table(rows))
        return Counter(connection.sql(query).fetchall())


@pytest.mark.parametrize("query", [*LATERAL, *ASOF, *VALUES, *ELEMENTS, *PIVOTS, *JOINS_AND_NAMES])
def test_a_view_equals_duckdb_after_every_tick(query: str):
    seed = f"lateral {query}"
    print(f"seed {seed!r}")
    chance = random.Random(seed)
    tables = {name: [drawn(chance) for _ in range(7)] for name in "tu"}
    view = gw.view(query, {name: table(rows) for name, rows in tables.items()})
    for _ in range(4):
        assert Counter(view.snapshot().rows()) == by_duckdb(query, tables)
        changes: dict[str, list[tuple[Row, int]]] = {name: [] for name in "tu"}
        for name, rows in tables.items():
            for _ in range(chance.choice((0, 1, 2))):
                if rows and chance.random() < 0.5:
                    changes[name].append((rows.pop(chance.randrange(len(rows))), -1))
                else:
                    rows.append(drawn(chance))
                    changes[name].append((rows[-1], 1))
        view.apply({name: rows for name, rows in changes.items() if name in view.program.inputs})


def test_elements_are_named_as_in_the_dialect():
    columns = {"duckdb": ["range", "unnest"], "postgres": ["g", "u"]}
    for dialect, series in (("duckdb", "range(2)"), ("postgres", "generate_series(0, 1)")):
        text = f"SELECT * FROM {series} g, unnest({'ARRAY' * (dialect == 'postgres')}[5]) u"
        view = gw.view(text, {}, dialect=dialect, language="sql")
        assert view.snapshot().columns == columns[dialect]
        assert sorted(view.snapshot().rows()) == [(0, 5), (1, 5)]


def test_only_lateral_makes_relations_visible_outside_of_duckdb():
    tables = {"t": {"a": [1]}, "u": {"a": [1], "b": [2]}}
    text = "SELECT x.b FROM t, {}(SELECT u.b FROM u WHERE u.a = t.a) x"
    assert gw.view(text.format("LATERAL "), tables, dialect="postgres", language="sql").snapshot().rows() == [(2,)]
    with pytest.raises(UnsupportedError, match="a subquery in FROM cannot refer to the outer query"):
        gw.view(text.format(""), tables, dialect="postgres", language="sql")
