"""DuckDB on the same relations, by several formulations of a query: it answers each from its tables, every time."""

from __future__ import annotations

from collections.abc import Mapping

import duckdb
import pyarrow as pa

from bench.lsqb.data import Rows

_KNOWS, _INTEREST = "person_knows_person", "person_hasinterest_tag"
_CITY, _COUNTRY = "person_islocatedin_city", "city_ispartof_country"
_INTERESTS = f"interests AS (SELECT s, count(*) n FROM {_INTEREST} GROUP BY s)"
_PATHS = f"{_KNOWS} p JOIN {_KNOWS} q ON p.d = q.s"
_NEAR = f"""
    lives AS MATERIALIZED (SELECT l.s p, c.d k FROM {_CITY} l JOIN {_COUNTRY} c ON l.d = c.s),
    near AS MATERIALIZED (
        SELECT e.s, e.d FROM {_KNOWS} e JOIN lives a ON a.p = e.s JOIN lives b ON b.p = e.d WHERE a.k = b.k {{}}
    )
"""
FORMULATIONS: dict[int, dict[str, str]] = {
    3: {
        "joins": f"""
            SELECT count(*) FROM {_COUNTRY} j, {_COUNTRY} k, {_COUNTRY} l, {_CITY} a, {_CITY} b, {_CITY} c,
                {_KNOWS} x, {_KNOWS} y, {_KNOWS} z
            WHERE j.d = k.d AND k.d = l.d AND a.d = j.s AND b.d = k.s AND c.d = l.s
                AND x.s = a.s AND x.d = b.s AND y.s = b.s AND y.d = c.s AND z.s = c.s AND z.d = a.s
        """,
        "near pairs first": f"""
            WITH {_NEAR.format("")}
            SELECT count(*) FROM near x JOIN near y ON x.d = y.s JOIN near z ON z.s = y.d AND z.d = x.s
        """,
        "near pairs first, one way round": f"""
            WITH {_NEAR.format("AND e.s < e.d")}
            SELECT 6 * count(*) FROM near x JOIN near y ON x.d = y.s JOIN near z ON z.s = x.s AND z.d = y.d
        """,
    },
    6: {
        "joins": f"SELECT count(*) FROM {_PATHS} JOIN {_INTEREST} i ON i.s = q.d WHERE p.s <> q.d",
        "interests counted first": f"""
            WITH {_INTERESTS} SELECT sum(n) FROM {_PATHS} JOIN interests i ON i.s = q.d WHERE p.s <> q.d
        """,
        "all counted first": f"""
            WITH {_INTERESTS}, degrees AS (SELECT s, count(*) n FROM {_KNOWS} GROUP BY s)
            SELECT sum((g.n - 1) * i.n) FROM {_KNOWS} q JOIN degrees g ON g.s = q.s JOIN interests i ON i.s = q.d
        """,
    },
    9: {
        "joins": f"""
            SELECT count(*) FROM {_PATHS} JOIN {_INTEREST} i ON i.s = q.d ANTI JOIN {_KNOWS} z
                ON z.s = p.s AND z.d = q.d WHERE p.s <> q.d
        """,
        "outer join": f"""
            SELECT count(*) FROM {_PATHS} JOIN {_INTEREST} i ON i.s = q.d LEFT JOIN {_KNOWS} z
                ON z.s = p.s AND z.d = q.d WHERE p.s <> q.d AND z.s IS NULL
        """,
        "interests counted first": f"""
            WITH {_INTERESTS},
            pairs AS (SELECT p.s a, q.d c, n FROM {_PATHS} JOIN interests i ON i.s = q.d WHERE p.s <> q.d)
            SELECT sum(n) FROM pairs ANTI JOIN {_KNOWS} z ON z.s = a AND z.d = c
        """,
        "pairs counted first": f"""
            WITH {_INTERESTS},
            pairs AS (SELECT p.s a, q.d c, count(*) m FROM {_PATHS} WHERE p.s <> q.d GROUP BY ALL)
            SELECT sum(m * n) FROM pairs JOIN interests i ON i.s = c ANTI JOIN {_KNOWS} z ON z.s = a AND z.d = c
        """,
    },
}
"""By query, the plain joins first, then with parts worked out before by hand, which a system might do by itself."""


class Tables:
    """The relations as DuckDB's tables of columns s and d."""

    def __init__(self, inputs: Mapping[str, Rows], threads: int) -> None:
        self.connection = duckdb.connect(config={"threads": threads})
        for name in inputs:
            self.connection.execute(f"CREATE TABLE {name} (s BIGINT, d BIGINT)")
        self.insert(inputs)

    def insert(self, rows: Mapping[str, Rows]) -> None:
        """Add rows."""
        for name, own in rows.items():
            self.connection.register("arriving", pa.table({"s": own[:, 0].copy(), "d": own[:, 1].copy()}))
            self.connection.execute(f"INSERT INTO {name} SELECT * FROM arriving")
            self.connection.unregister("arriving")

    def answer(self, sql: str) -> int:
        """What a formulation counts; 0 for the sum of no rows."""
        ((found,),) = self.connection.execute(sql).fetchall()
        return int(found or 0)

    def close(self) -> None:
        """Let go of the tables."""
        self.connection.close()
