"""Programs with a name, one per feature and language."""

from __future__ import annotations

NAMED = {
    "triangle": "h(a, b, c) :- e(a, b), e(b, c), e(a, c).",
    "triangle of three relations": "h(a, b, c) :- r(a, b), s(b, c), t(a, c).",
    "4-cycle once": (
        "s(x, y) :- e(x, y). s(x, y) :- e(y, x)."
        " h(a, b, c, d) :- s(a, b), s(b, c), s(c, d), s(d, a), a < b, a < c, a < d, b < d."
    ),
    "house": "h(a, b, c, d, f) :- e(a, b), e(b, c), e(c, d), e(d, a), e(a, f), e(b, f).",
    "4-clique": "h(a, b, c, d) :- e(a, b), e(a, c), e(a, d), e(b, c), e(b, d), e(c, d).",
    "4-path, ends": "h(a, f) :- e(a, b), e(b, c), e(c, d), e(d, f).",
    "loomis-whitney": "h(a, b, c, d) :- p(a, b, c), q(a, b, d), r(a, c, d), s(b, c, d).",
    "two components": "h(a, b, c, d) :- r(a, b), r(b, a), s(c, d), w(d).",
    "wildcard": "h(x) :- e(x, _), e(_, x).",
    "two rules of one head": "h(x, y) :- e(x, y), v(x). h(x, y) :- f(y, x). g(x) :- h(x, x).",
    "negation": "h(a, c) :- e(a, b), e(b, c), !e(a, c), a < c, v(d), d = a + 1.",
    "negation of a wildcard": "h(a, b) :- e(a, b), !f(b, _), !v(a).",
    "counts by group": "n(a, count()) :- e(a, b). many(a) :- n(a, c), c > 1.",
    "sums, means and extremes": (
        "s(a, sum(w)) :- t(a, b, w). m(a, mean(w)) :- t(a, b, w). l(a, min(w)) :- t(a, b, w). g(max(w)) :- t(a, b, w)."
    ),
    "aggregate in a body": "h(a, n) :- v(a), n = count : { e(a, b), e(b, c), !e(c, a) }. k(s) :- s = sum x : { v(x) }.",
    "facts and constants": "e(0, 1). e(1, 2). h(x, y) :- e(x, y), f(y, 3). h(x, 7) :- e(x, 2).",
    "closure": "p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z).",
    "closure, both": "p(x, y) :- e(x, y). p(x, z) :- p(x, y), p(y, z).",
    "mutual recursion": "even(x) :- s(x). odd(y) :- even(x), e(x, y). even(y) :- odd(x), e(x, y).",
    "points-to": (
        "v(y, x) :- new(y, x). v(y, x) :- assign(y, z), v(z, x). v(y, w) :- load(y, x), v(x, z), h(z, w)."
        " h(y, w) :- store(x, z), v(x, y), v(z, w)."
    ),
    "negation over a loop": "p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z). n(x, y) :- s(x), s(y), !p(x, y).",
    "sums over a loop": (
        "p(x, y) :- e(x, y). p(x, z) :- p(x, y), p(y, z). n(x, sum(y)) :- p(x, y). m(max(y), x) :- p(x, y)."
    ),
    "counts in a loop": "r(x) :- s(x). r(y) :- r(x), e(x, y), 1 < count : { f(y, _) }.",
    "components by least label": (
        "c(x, min(x)) :- e(x, _). c(x, min(x)) :- e(_, x). c(y, min(l)) :- c(x, l), e(x, y)."
        " c(y, min(l)) :- c(x, l), e(y, x)."
    ),
    "shortest paths": "d(x, min(0)) :- s(x). d(y, min(d + w)) :- d(x, d), t(x, y, w).",
}
"""In Datalog; all columns are integers, none below 0."""

SQL_TABLES = {
    "edge": {"src": "int", "dst": "int"},
    "item": {"id": "int", "kind": "text", "price": "float"},
}
SQL = {
    "triangle": (
        "SELECT a.src, b.src AS mid, c.dst FROM edge a JOIN edge b ON a.dst = b.src"
        " JOIN edge c ON c.src = a.src AND c.dst = b.dst, item i WHERE i.id = a.src"
    ),
    "group and having": (
        "SELECT kind, count(*) AS n, sum(price) AS s, avg(price) AS m, min(id) AS l FROM item, edge"
        " WHERE src = id GROUP BY kind HAVING count(*) > 1"
    ),
    "outer join": "SELECT i.id, i.kind, e.dst FROM item i LEFT JOIN edge e ON e.src = i.id AND e.dst > 1",
    "exists and in": (
        "SELECT id FROM item i WHERE NOT EXISTS (SELECT 1 FROM edge e WHERE e.src = i.id)"
        " OR id IN (SELECT dst FROM edge)"
    ),
    "not in": "SELECT DISTINCT dst FROM edge WHERE src NOT IN (SELECT id FROM item WHERE kind = 'a')",
    "union and case": (
        "SELECT src AS x, CASE WHEN dst > 2 THEN 'high' ELSE 'low' END AS y FROM edge"
        " UNION SELECT id, upper(kind) FROM item"
    ),
    "with recursive": (
        "WITH RECURSIVE reach AS (SELECT src, dst FROM edge UNION SELECT r.src, e.dst FROM reach r"
        " JOIN edge e ON r.dst = e.src) SELECT src, count(*) AS n FROM reach, item WHERE id = src GROUP BY src"
    ),
}

EDN: dict[str, tuple[str, dict[str, dict[str, str]]]] = {
    "triangle": (
        "{:find [?a ?b ?c] :in [$edges] :where [[$edges ?a ?b] [$edges ?b ?c] [$edges ?a ?c]]}",
        {"edges": {"src": "int", "dst": "int"}},
    ),
    "rules and negation": (
        (
            "{:find [?a ?c] :where [(reach ?a ?c) (not (edges ?a ?c))]"
            " :rules [[(reach ?a ?b) (edges ?a ?b)] [(reach ?a ?c) (edges ?a ?b) (reach ?b ?c)]]}"
        ),
        {"edges": {"src": "int", "dst": "int"}},
    ),
    "count": (
        "{:find [?a (count ?b)] :where [(edges ?a ?b) [(> ?b 1)]]}",
        {"edges": {"src": "int", "dst": "int"}},
    ),
}

MOTIFS: dict[str, tuple[str, dict[str, object]]] = {
    "triangle": ("(a)-[]->(b); (b)-[]->(c); (a)-[]->(c)", {"columns": ["a.id", "b.id", "c.id"]}),
    "filter": ("(a)-[e]->(b); (b)-[]->(c)", {"columns": ["a.id", "e.n", "c.n"], "where": "a.n < c.n and e.n > 1"}),
    "negated edge": ("(a)-[]->(b); (b)-[]->(c); !(a)-[]->(c)", {"columns": ["a.id", "c.id"]}),
}
