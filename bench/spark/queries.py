"""The patterns: as programs, and as binary joins of Spark SQL."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf


@dataclass(frozen=True)
class Query:
    """A pattern of an undirected graph whose edges are (smaller, larger)."""

    name: str
    program: str
    joins: str
    rows: str


TRIANGLE = Query(
    "triangle",
    "triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c).",
    "edge x JOIN edge y ON y.src = x.dst JOIN edge z ON z.src = x.src AND z.dst = y.dst",
    "x.src AS a, x.dst AS b, y.dst AS c",
)

MOTIF = "(a)-[]->(b); (b)-[]->(c); (a)-[]->(c)"
"""The motif of triangles."""

CLIQUE = Query(
    "4-clique",
    "clique(a, b, c, d) :- edge(a, b), edge(a, c), edge(a, d), edge(b, c), edge(b, d), edge(c, d).",
    # Triangles first, then the fourth vertex as a neighbour of one of them, checked against the two others.
    "edge x JOIN edge y ON y.src = x.dst JOIN edge z ON z.src = x.src AND z.dst = y.dst "
    "JOIN edge u ON u.src = y.dst JOIN edge v ON v.src = x.dst AND v.dst = u.dst "
    "JOIN edge w ON w.src = x.src AND w.dst = u.dst",
    "x.src AS a, x.dst AS b, y.dst AS c, u.dst AS d",
)

QUERIES = (TRIANGLE, CLIQUE)


def read_all(frame: DataFrame) -> int:
    """Read every column of every row, which are summed, and return the number of rows."""
    rows = frame.agg(sf.count("*").alias("n"), *(sf.sum(name) for name in frame.columns)).collect()
    return int(rows[0]["n"])
