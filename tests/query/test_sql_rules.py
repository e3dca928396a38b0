"""Rules of views in SQL: joins stay multiway joins, and conditions move into them."""

from __future__ import annotations

import random
import re
from collections import Counter
from inspect import cleandoc
from types import ModuleType

import numpy as np
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.engine.replicas import proposed_by
from gpu_wcoj.errors import WeightOverflowError
from gpu_wcoj.planner import body
from gpu_wcoj.planner import types as results
from gpu_wcoj.planner.passes import arrange
from gpu_wcoj.query.datalog import parse as parse_datalog
from gpu_wcoj.query.ir import Rule
from gpu_wcoj.query.printer import as_datalog
from gpu_wcoj.query.sql import parse

TABLES = {"edge": ["src", "dst"], "person": {"id": "int64", "name": "string", "born": "date32[day]"}, "r": ["a", "b"]}

GOLDEN = {
    "a triangle": (
        (
            "CREATE VIEW tri AS SELECT e.src a, f.src b, g.src c FROM edge e"
            " JOIN edge f ON e.dst = f.src JOIN edge g ON f.dst = g.src AND g.dst = e.src"
        ),
        "tri(a, b, c) :- edge(a, b), edge(b, c), edge(c, a).",
    ),
    "a triangle with commas and a chain of equalities": (
        "SELECT e.src a FROM edge e, edge f, edge g WHERE e.dst = f.src AND f.dst = g.src AND g.dst = e.src",
        "answer(a) :- edge(a, dst), edge(dst, dst_2), edge(dst_2, a).",
    ),
    "a triangle through subqueries and names": (
        (
            "WITH hop AS (SELECT e.src x, e.dst y, f.dst z FROM edge e JOIN edge f ON e.dst = f.src)"
            " SELECT x, y, z FROM hop JOIN (SELECT dst AS x, src AS z FROM edge) back USING (x, z)"
        ),
        "answer(x, y, z) :- edge(x, y), edge(y, z), edge(z, x).",
    ),
    "a view within a view": (
        (
            "CREATE VIEW hop AS SELECT e.src x, f.dst z FROM edge e JOIN edge f ON e.dst = f.src;"
            "CREATE VIEW far AS SELECT a.x, b.z FROM hop a JOIN hop b ON a.z = b.x"
        ),
        """
        hop(x, z) :- edge(x, dst), edge(dst, z).
        far(x, z) :- edge(x, dst), edge(dst, dst_2), edge(dst_2, dst_3), edge(dst_3, z).
        """,
    ),
    "constants and comparisons": (
        "SELECT id FROM person WHERE name = 'Ada' AND born >= DATE '1990-01-01' + INTERVAL '1' MONTH AND id < 9",
        'answer(id) :- person(id, "Ada", born), born >= "1990-02-01 00:00:00", id < 9.',
    ),
    "what is selected keeps its variable": (
        "SELECT a, b FROM r WHERE a = 3 AND b IS NOT NULL",
        "answer(a, b) :- r(a, b), a = 3, b != null.",
    ),
    "a union is read, not multiplied": (
        (
            "WITH s AS (SELECT src x, dst y FROM edge UNION ALL SELECT dst, src FROM edge)"
            " SELECT p.x FROM s p JOIN s q ON p.y = q.x JOIN s t ON q.y = t.x AND t.y = p.x"
        ),
        """
        part#1(x, y) :- edge(x, y).
        part#1(x, y) :- edge(y, x).
        answer(x) :- part#1(x, y), part#1(y, y_2), part#1(y_2, x).
        """,
    ),
    "OR is a filter": (
        "SELECT a FROM r WHERE a = 1 OR b > 2",
        "answer(a) :- r(a, b), istrue(any(eq(a, 1), gt(b, 2))) = true.",
    ),
    "OR of equalities with constants is a list": (
        "SELECT b FROM r WHERE a = 1 OR a IN (2, 3)",
        """
        in#1(1).
        in#1(2).
        in#1(3).
        answer(b) :- r(a, b), in#1(a).
        """,
    ),
    "what all sides of an OR say joins, and each relation is asked what they say of it": (
        "SELECT r.a FROM r, edge WHERE (b = src AND a = 1 AND dst > 2) OR (src = b AND a = 3 AND dst > 4)",
        (
            "answer(a) :- r(a, b), edge(b, dst), istrue(among(a, 1, 3)) = true,"
            " istrue(any(gt(dst, 2), gt(dst, 4))) = true,"
            " istrue(any(all(eq(a, 1), gt(dst, 2)), all(eq(a, 3), gt(dst, 4)))) = true, a != null, dst != null."
        ),
    ),
    "OR of joins is split, each row once": (
        "SELECT r.a FROM r, edge WHERE r.a = src OR r.b = dst",
        """
        answer(a) :- r(a, _), edge(a, _).
        answer(a) :- r(a, b), edge(src, b), eq(istrue(eq(a, src)), false) = true.
        """,
    ),
    "OR with a query is split into the query and the rest": (
        "SELECT a FROM r WHERE a = 1 OR EXISTS (SELECT 1 FROM edge WHERE src = b) OR b IS NULL",
        """
        keys#1(b) :- edge(b, _), b != null.
        once#2(c0, count()) :- keys#1(c0).
        answer(a) :- r(a, b), istrue(any(eq(a, 1), isnull(b))) = true.
        answer(a) :- r(a, b), once#2(b, _), eq(istrue(any(eq(a, 1), isnull(b))), false) = true.
        """,
    ),
    "CASE is a value": (
        "SELECT CASE WHEN a > 1 OR b = 2 THEN b ELSE 0 END AS v, a = 1 AS w FROM r",
        "answer(case(any(gt(a, 1), eq(b, 2)), b, 0), eq(a, 1)) :- r(a, b).",
    ),
    "CASE of one comparison is a rule for each value": (
        "SELECT CASE WHEN a > 1 THEN b ELSE 0 END AS v FROM r",
        """
        answer(v) :- r(a, v), a > 1.
        answer(0) :- r(a, _), a <= 1.
        answer(0) :- r(null, _).
        """,
    ),
    "a left join": (
        "SELECT r.a, e.dst FROM r LEFT JOIN edge e ON r.b = e.src",
        """
        keys#1(b) :- edge(b, _), b != null.
        answer(a, dst) :- r(a, b), edge(b, dst).
        answer(a, null) :- r(a, b?), !keys#1(b?).
        """,
    ),
    "null equals null": (
        "SELECT x.b FROM r x JOIN r y ON x.a IS NOT DISTINCT FROM y.a",
        "answer(b) :- r(a?, b), r(a?, _).",
    ),
    "a list of constants": (
        "SELECT a FROM r WHERE b IN (1, 2)",
        """
        in#1(1).
        in#1(2).
        answer(a) :- r(a, b), in#1(b).
        """,
    ),
    "a recursion": (
        (
            "WITH RECURSIVE p(x, y) AS (SELECT * FROM edge UNION SELECT p.x, e.dst FROM p JOIN edge e ON p.y = e.src)"
            " SELECT y FROM p WHERE x = 1"
        ),
        """
        p#1(x, y) :- edge(x, y).
        p#1(x, y) :- p#1(x, y_2), edge(y_2, y).
        answer(y) :- p#1(1, y).
        """,
    ),
    "names that are unused cost nothing": (
        "WITH q AS (SELECT DISTINCT a FROM r) SELECT src FROM edge",
        "answer(src) :- edge(src, _).",
    ),
    "counting by a key": (
        "SELECT src, COUNT(*) AS n FROM edge GROUP BY src",
        """
        group#1(src) :- edge(src, _).
        count#2(k0, count()) :- group#1(k0).
        answer(src?, n) :- count#2(src?, n).
        """,
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_rules(name: str):
    text, expected = GOLDEN[name]
    rules = parse(text, TABLES)
    assert "\n".join(map(str, rules.rules)) == cleandoc(expected)
    assert parse_datalog(as_datalog(rules, bag=True)).heads


def test_inputs_and_outputs_have_the_names_that_are_given():
    tables = {"My Table": ["First Name", "id"], "other": ["id"]}
    rules = parse('CREATE VIEW "A View"(one, "and two") AS SELECT "First Name", ID FROM "My Table"', tables)
    assert rules.inputs == ("My Table",)
    assert rules.outputs == ("A View",)
    assert {declaration.relation: declaration.columns for declaration in rules.declarations} == {
        "My Table": ("First Name", "id"),
        "A View": ("one", "and two"),
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT a FROM t WHERE 1 = 0", {}),
        ("SELECT a FROM t WHERE a IN (NULL)", {}),
        ("SELECT a FROM t WHERE a IS NULL AND a > 0", {}),
        ("SELECT COUNT(*) AS n FROM t WHERE a > NULL", {(0,): 1}),
        ("SELECT b, COUNT(*) AS n FROM t JOIN u ON a = b WHERE FALSE GROUP BY b", {}),
        ("SELECT a FROM t UNION ALL SELECT b FROM u WHERE 1 = 0", {(1,): 1, (2,): 1, (None,): 1}),
        ("WITH other AS (SELECT b FROM u) SELECT a FROM t", {(1,): 1, (2,): 1, (None,): 1}),
        ("SELECT a FROM t WHERE FALSE AND a IN (SELECT b FROM u)", {}),
        ("SELECT a FROM t WHERE TRUE OR a IN (SELECT b FROM u)", {(1,): 1, (2,): 1, (None,): 1}),
        ("SELECT COALESCE(1, (SELECT MAX(b) FROM u)) AS a FROM t WHERE a > 1", {(1,): 1}),
    ],
)
def test_relations_of_which_no_row_counts_take_rows(text: str, expected: dict[tuple[int], int]):
    tables = {"t": {"a": [1, 2, None]}, "u": {"b": [2]}}
    named = {name: table for name, table in tables.items() if re.search(rf"\b{name}\b", text)}
    assert gw.query(text, named).to_zset().to_dict() == expected
    view = gw.view(text, named)
    change = view.apply({name: {key: [2] for key in table} for name, table in named.items()})
    assert isinstance(change, gw.ZSet)
    assert set(change.to_dict()) <= {(2,), (1,)}
    for name, table in named.items():
        rows = view.program.relation(name).to_dict()
        assert sum(rows.values()) == 1 + sum(map(len, table.values()))


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("SELECT * FROM u WHERE 1 = 0", ["int64", "string", "double"]),
        ("SELECT MIN(c), SUM(d) FROM u WHERE FALSE", ["string", "double"]),
        ("SELECT c, COUNT(*) FROM u WHERE c IN (NULL) GROUP BY c", ["string", "int64"]),
        ("SELECT t.a, u.c FROM t LEFT JOIN u ON t.a = u.a AND 1 = 0", ["int64", "string"]),
        ("SELECT c FROM u WHERE 1 = 0 EXCEPT SELECT c FROM u", ["string"]),
        ("SELECT d FROM u JOIN t USING (a) WHERE d > NULL", ["double"]),
        ("SELECT d + 1, upper(c), a * 2 FROM u WHERE 1 = 0", ["double", "string", "int64"]),
        ("SELECT CASE WHEN a > 1 THEN d ELSE 0 END, COALESCE(c, 'z') FROM u WHERE a IN (NULL)", ["double", "string"]),
        ("SELECT a, SUM(d + 1), MIN(upper(c)) FROM u WHERE FALSE GROUP BY a", ["int64", "double", "string"]),
        ("SELECT d * d AS x FROM u WHERE FALSE UNION ALL SELECT a + 0.5 FROM t WHERE FALSE", ["double"]),
    ],
)
def test_columns_of_no_rows_have_their_types(text: str, types: list[str]):
    tables = {"t": pa.table({"a": [1]}), "u": pa.table({"a": [1, 3], "c": ["x", "y"], "d": [1.5, 2.5]})}
    named = {name: table for name, table in tables.items() if re.search(rf"\b{name}\b", text)}
    assert [str(field.type) for field in pa.table(gw.query(text, named)).schema] == types


def test_types_are_declared():
    rules = parse("SELECT id FROM person", TABLES)
    assert rules.declarations[0].types == ("int64", "string", "date32[day]")


@pytest.mark.parametrize(
    ("dialect", "text", "expected"),
    [
        ("duckdb", "SELECT a / b AS q FROM r", "double(a) / double(b)"),
        ("spark", "SELECT id / 2 AS q FROM person", "double(id) / 2.0"),
        ("postgres", "SELECT id / 2 AS q FROM person", "id / 2"),
        ("postgres", r"SELECT id FROM person WHERE name LIKE 'a\%'", r'like(name, "a\\%", "\\") = true'),
        ("duckdb", r"SELECT id FROM person WHERE name LIKE 'a\%'", r'like(name, "a\\%") = true'),
        ("spark", "SELECT `id` FROM `person` WHERE id <=> 3", "answer(id) :- person(id, _, _), id = 3."),
        ("postgres", "SELECT id FROM person WHERE born < '1990-01-01'::date", 'born < "1990-01-01"'),
        ("trino", "SELECT AVG(id) FROM person", "double(s) / double(n)"),
        ("spark", "SELECT 1 / id AS q FROM person", "quotient(1.0, double(id))"),
        ("spark", "SELECT id % 0.5e0 AS q FROM person", "double(id) % 0.5"),
        ("redshift", "SELECT id % 2 AS q FROM person", "id % 2"),
        ("trino", "SELECT CAST(id AS DOUBLE) / id::DOUBLE AS q FROM person", "double(id) / double(id)"),
    ],
)
def test_what_dialects_mean(dialect: str, text: str, expected: str):
    assert expected in str(parse(text, TABLES, dialect=dialect))


def test_stars_stand_where_the_dialect_puts_them():
    tables = {"x": ["p", "k"], "y": ["k", "q"]}

    def columns(dialect: str) -> tuple[str, ...]:
        return parse("SELECT * FROM x JOIN y USING (k)", tables, dialect=dialect).declarations[-1].columns

    assert columns("duckdb") == ("p", "k", "q")
    assert columns("postgres") == ("k", "p", "q")


COLUMNS = {"t": {**dict.fromkeys("abcdef", "int64"), "s": "string"}}


def random_terms(count: int) -> str:
    chance = random.Random(count)
    ways = (
        "{0} = {1}", "{0} BETWEEN {1} AND 7", "{0} IN (1, {1}, 9)", "{0} IS NULL", "NOT ({0} > {1})", "s LIKE 'x{1}%'",
        "({0} < {1} AND b IS NOT NULL)",
    )  # fmt: skip
    terms = [chance.choice(ways).format(chance.choice("abcdef"), chance.randrange(9)) for _ in range(count)]
    halves = [" OR ".join(terms[at::4]) for at in range(4)]
    return f"(({halves[0]}) AND NOT ({halves[1]})) OR (({halves[2]}) AND ({halves[3]}))"


@pytest.mark.parametrize(
    ("text", "most_rules"),
    [
        (f"SELECT a FROM t WHERE {random_terms(60)}", 1),
        ("SELECT s FROM t WHERE " + " AND ".join(f"s NOT LIKE 'z{at}%'" for at in range(200)), 1),
        ("SELECT s FROM t WHERE " + " OR ".join(f"s LIKE 'z{at}%'" for at in range(200)), 1),
        ("SELECT " + ", ".join(f"a + {at} AS c{at}" for at in range(200)) + " FROM t", 2),
        ("SELECT " + ", ".join(f"{at} = a AS c{at}, b + {at} AS d{at}" for at in range(50)) + " FROM t", 2),
    ],
    ids=["60 terms", "200 NOT LIKE", "200 LIKE", "200 sums", "50 truth values"],
)
def test_long_conditions_are_few_rules_which_are_not_spelled(
    text: str, most_rules: int, monkeypatch: pytest.MonkeyPatch
):
    spelled: list[Rule] = []
    monkeypatch.setattr(Rule, "__str__", lambda rule: spelled.append(rule) or "a rule")
    rules = parse(text, COLUMNS)
    assert len(rules.rules) <= most_rules
    program = gw.Program(rules, bag=True, backend="cpu")
    row = pa.table({name: pa.array([1], pa.int64()) for name in "abcdef"} | {"s": ["x"]})
    _ = program.step({"t": row})
    assert len(spelled) <= 20 * most_rules  # once a stage, however many terms there are


@pytest.mark.parametrize(
    ("text", "most_types", "most_placed"),
    [
        ("SELECT s FROM t WHERE " + " AND ".join(f"s NOT LIKE 'z{at}%'" for at in range(100)), 12, 1),
        ("SELECT " + ", ".join(f"a + {at} AS c{at}" for at in range(100)) + " FROM t", 8, 4),
        ("SELECT a FROM t WHERE " + " AND ".join(f"a + {at} <> {at}" for at in range(100)), 8, 10),
    ],
    ids=["NOT LIKE", "columns", "comparisons"],
)
def test_types_and_places_are_worked_out_a_few_times_a_term(
    text: str, most_types: int, most_placed: int, monkeypatch: pytest.MonkeyPatch
):
    counts = Counter[str]()

    def counted(module: ModuleType, name: str) -> None:
        function = getattr(module, name)

        def call(*arguments: object) -> object:
            counts[name] += 1
            return function(*arguments)

        monkeypatch.setattr(module, name, call)

    counted(results, "result_of")
    counted(body, "result_of")
    counted(arrange, "check_variables")
    program = gw.Program(parse(text, COLUMNS), bag=True, backend="cpu")
    row = pa.table({name: pa.array([1], pa.int64()) for name in "abcdef"} | {"s": ["x"]})
    _ = program.step({"t": row})
    assert 0 < counts["result_of"] <= 100 * most_types
    assert counts["check_variables"] <= 100 * most_placed


N_ORDERED = 400
ORDERED = {
    "a": {"k": list(range(N_ORDERED)), "x": [7 * k % N_ORDERED for k in range(N_ORDERED)]},
    "b": {"k": list(range(N_ORDERED)), "v": [11 * k % N_ORDERED for k in range(N_ORDERED)]},
    "c": {"k": list(range(N_ORDERED)), "m": [13 * k % N_ORDERED for k in range(N_ORDERED)]},
}


def answer_and_work(text):
    """The answer of a view's first tick, and the values that its joins proposed."""
    program = gw.Program(parse(text, {name: list(table) for name, table in ORDERED.items()}), bag=True, backend="cpu")
    answer = program.step({name: ORDERED[name] for name in program.inputs})["answer"].rows()
    return answer, proposed_by(program.last_tick.work)


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("a, b WHERE EXISTS ({sub}) AND a.k = b.k", "a, b WHERE a.k = b.k AND EXISTS ({sub})"),
        ("a, b WHERE NOT EXISTS ({sub}) AND a.k = b.k", "a, b WHERE a.k = b.k AND NOT EXISTS ({sub})"),
        ("a, b WHERE a.x IN (SELECT m FROM c WHERE c.m < b.v) AND a.k = b.k",
         "a, b WHERE a.k = b.k AND a.x IN (SELECT m FROM c WHERE c.m < b.v)"),
        ("a CROSS JOIN b LEFT JOIN c ON c.k = b.k AND c.m < a.x WHERE a.k = b.k",
         "a JOIN b ON a.k = b.k LEFT JOIN c ON c.k = b.k AND c.m < a.x"),
    ],
)  # fmt: skip
def test_a_subquery_costs_the_same_wherever_it_stands(first, last):
    sub = "SELECT 1 FROM c WHERE c.k = a.k AND c.m < b.v"
    bad, good = (answer_and_work(f"SELECT a.x FROM {text.format(sub=sub)}") for text in (first, last))
    assert bad[0] == good[0] != []
    assert bad[1] <= 2 * good[1]


def test_keys_of_a_subquery_come_from_the_relations_that_bind_them():
    sub = "SELECT 1 FROM c WHERE c.k = a.k AND c.m < b.v"
    text = f"SELECT a.x FROM a, b, c e WHERE a.k = b.k AND e.k = a.k AND EXISTS ({sub})"
    rules = parse(text, {name: list(table) for name, table in ORDERED.items()})
    (keys,) = (rule for rule in rules.rules if rule.head.relation.startswith("keys#"))
    assert sorted(atom.relation for atom in keys.atoms) == ["b", "c"]


def test_keys_of_a_subquery_are_no_cross_product():
    sub = "SELECT 1 FROM c WHERE c.k = a.k AND c.m < b.v"
    text = f"SELECT a.x FROM a, b, c e WHERE a.x = e.m AND e.k = b.k AND EXISTS ({sub})"
    rules = parse(text, {name: list(table) for name, table in ORDERED.items()})
    (keys,) = (rule for rule in rules.rules if rule.head.relation.startswith("keys#"))
    assert sorted(atom.relation for atom in keys.atoms) == ["a", "b", "c", "c"]


def test_a_condition_is_not_moved_before_a_join_that_keeps_rows_which_it_drops():
    data = {"a": {"k": [1, 2]}, "b": {"k": [1, 3]}, "c": {"k": [1, 2]}}
    text = "SELECT a.k, b.k j, c.k i FROM a LEFT JOIN c ON c.k = a.k RIGHT JOIN b ON b.k = a.k WHERE a.k IS NULL"
    assert gw.query(text, data).rows(weights=True) == [((None, 3, None), 1)]
    text = "SELECT a.k, c.k i FROM a LEFT JOIN c ON c.k = a.k AND c.k > 1 WHERE a.k = 1"
    assert gw.query(text, a=data["a"], c=data["c"]).rows(weights=True) == [((1, None), 1)]


def test_weights_outside_int64_of_a_single_tick_are_named():
    tables = {f"t{i}": {"k": np.arange(5000)} for i in range(7)}
    with pytest.raises(WeightOverflowError, match="its weight 15625000000000000000000 is outside int64"):
        gw.query(f"SELECT DISTINCT t0.k FROM {', '.join(tables)}", tables)
