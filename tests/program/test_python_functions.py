"""Python functions in programs and SQL: they equal built-in calculations, and errors leave the state as it was."""

from __future__ import annotations

import datetime as dt
import random
import re
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import CalculationError, FunctionError, UnsupportedError, UsageError
from gpu_wcoj.query.datalog import parse

MOST = 2**63 - 1


@gw.function
def inc(n: int) -> int:
    return n + 1


@gw.function("int64", "int64", returns="int64", arrays=True)
def total(a, b):
    return a + b


@gw.function
def shout(text: str) -> str:
    return text + "!"


@gw.function
def size(text: str) -> int:
    return len(text)


@gw.function
def small(n: int) -> bool:
    return n < 3


@gw.function(nulls=True)
def none_as_9(n: int | None) -> int:
    return 9 if n is None else n


ALL = [inc, total, shout, size, small, none_as_9]
DATALOG = [
    ("h(x, inc(y)) :- r(x, y).", "h(x, y + 1) :- r(x, y)."),
    ("h(x?, z) :- r(x?, y), s(z, x?), z = inc(y).", "h(x?, z) :- r(x?, y), s(z, x?), z = y + 1."),
    ("h(x, z) :- r(x, y), z = inc(y), s(z, _).", "h(x, z) :- r(x, y), z = y + 1, s(z, _)."),
    ("h(x, z) :- r(x, y), s(z, x), z = inc(y).", "h(x, z) :- r(x, y), s(z, x), z = y + 1."),
    ("h(x) :- r(x, y), inc(y) > x.", "h(x) :- r(x, y), y + 1 > x."),
    ("h(x) :- r(x, y), !s(inc(y), x).", "h(x) :- r(x, y), !s(y + 1, x)."),
    ("h(x) :- r(x, y), !s(inc(y), _).", "h(x) :- r(x, y), !s(y + 1, _)."),
    (
        "h(inc(x), n) :- r(x, _), n = count : { s(x, y), inc(y) > 1 }.",
        "h(x + 1, n) :- r(x, _), n = count : { s(x, y), y + 1 > 1 }.",
    ),
    ("h(x, sum(total(x, y))) :- r(x, y).", "h(x, sum(x + y)) :- r(x, y)."),
    ("h(x, n) :- s(x, _), n = max inc(y) : { r(x, y) }.", "h(x, n) :- s(x, _), n = max y + 1 : { r(x, y) }."),
    (
        "h(x, y) :- r(x, y). h(x, z) :- h(x, y), z = inc(y), z < 6.",
        "h(x, y) :- r(x, y). h(x, z) :- h(x, y), z = y + 1, z < 6.",
    ),
    (
        "h(x, y) :- r(x, y). h(x, z) :- h(x, y), s(inc(y), z), !s(z, inc(y)).",
        "h(x, y) :- r(x, y). h(x, z) :- h(x, y), s(y + 1, z), !s(z, y + 1).",
    ),
    ("h(x, y) :- r(x, y), small(y).", "h(x, y) :- r(x, y), y < 3."),
    ("h(x, y) :- r(x, y), !small(y), s(y, x).", "h(x, y) :- r(x, y), y >= 3, s(y, x)."),
    ("h(inc(inc(y)) * 2) :- r(x, y), s(x, _). h(y) :- s(inc(y), y).", None),
    ("h(x, c) :- r(x, y), c = any(gt(inc(x), y), isnull(y)).", "h(x, c) :- r(x, y), c = any(gt(x + 1, y), isnull(y))."),
    (
        "h(x, none_as_9(y)) :- r(x, y), none_as_9(y) > 2.",
        "h(x, case(isnull(y), 9, y)) :- r(x, y), case(isnull(y), 9, y) > 2.",
    ),
    ("h(total(x, 1), inc(2)) :- r(x, _). h(inc(0), 5).", "h(x + 1, 3) :- r(x, _). h(1, 5)."),
]
TEXTS = [
    ("h(x, shout(t)) :- r(x, t).", 'h(x, cat(t, "!")) :- r(x, t).'),
    ("h(x) :- r(x, t), s(x, shout(t)).", 'h(x) :- r(x, t), s(x, cat(t, "!")).'),
    ("h(t, n) :- r(_, t), n = size(t).", "h(t, n) :- r(_, t), n = strlen(t)."),
    ("h(x, max(shout(t))) :- r(x, t).", 'h(x, max(cat(t, "!"))) :- r(x, t).'),
    ('h(shout(t)) :- r(x, t), shout(t) > "b".', 'h(cat(t, "!")) :- r(x, t), cat(t, "!") > "b".'),
]
SQL = [
    ("SELECT inc(a) AS x, b FROM r", "SELECT a + 1 AS x, b FROM r"),
    ("SELECT a FROM r WHERE inc(b) > 2", "SELECT a FROM r WHERE b + 1 > 2"),
    ("SELECT a FROM r WHERE INC(b) > 2 OR a = 1", "SELECT a FROM r WHERE b + 1 > 2 OR a = 1"),
    ("SELECT a FROM r WHERE NOT (inc(b) > 2 AND a = 1)", "SELECT a FROM r WHERE NOT (b + 1 > 2 AND a = 1)"),
    ("SELECT a FROM r WHERE small(b)", "SELECT a FROM r WHERE b < 3"),
    ("SELECT a FROM r WHERE NOT small(b)", "SELECT a FROM r WHERE NOT b < 3"),
    ("SELECT a FROM r WHERE inc(b) IS NULL", "SELECT a FROM r WHERE b + 1 IS NULL"),
    ("SELECT a FROM r WHERE inc(b) IN (1, 3)", "SELECT a FROM r WHERE b + 1 IN (1, 3)"),
    ("SELECT a FROM r WHERE inc(b) NOT IN (SELECT a FROM s)", "SELECT a FROM r WHERE b + 1 NOT IN (SELECT a FROM s)"),
    ("SELECT r.a, s.b FROM r JOIN s ON inc(r.b) = s.a", "SELECT r.a, s.b FROM r JOIN s ON r.b + 1 = s.a"),
    ("SELECT r.a, s.b FROM r LEFT JOIN s ON inc(r.b) = s.a", "SELECT r.a, s.b FROM r LEFT JOIN s ON r.b + 1 = s.a"),
    (
        "SELECT inc(a) AS k, COUNT(*) AS n, SUM(total(a, b)) AS t FROM r GROUP BY inc(a) HAVING inc(COUNT(*)) > 2",
        "SELECT a + 1 AS k, COUNT(*) AS n, SUM(a + b) AS t FROM r GROUP BY a + 1 HAVING COUNT(*) + 1 > 2",
    ),
    ("SELECT inc(inc(a)) * 2 AS x FROM r", "SELECT (a + 1 + 1) * 2 AS x FROM r"),
    (
        "SELECT CASE WHEN small(a) THEN inc(b) ELSE a END AS x FROM r",
        "SELECT CASE WHEN a < 3 THEN b + 1 ELSE a END AS x FROM r",
    ),
    ("SELECT COALESCE(inc(b), a) AS x FROM r", "SELECT COALESCE(b + 1, a) AS x FROM r"),
    ("SELECT none_as_9(b) AS x FROM r", "SELECT COALESCE(b, 9) AS x FROM r"),
    ("SELECT a FROM r WHERE none_as_9(b) > 2", "SELECT a FROM r WHERE COALESCE(b, 9) > 2"),
    ("SELECT inc(none_as_9(NULL)) AS x, inc(NULL) AS y FROM r", "SELECT 10 AS x, NULL AS y FROM r"),
    (
        "SELECT DISTINCT inc(a) AS x FROM r UNION SELECT b FROM s",
        "SELECT DISTINCT a + 1 AS x FROM r UNION SELECT b FROM s",
    ),
]  # fmt: skip


def random_ticks(seed: str, bag: bool, values: list[Any], seconds: list[Any]) -> list[dict[str, Any]]:
    """Ticks of insertions and deletions of present rows in the relations r and s."""
    rng = random.Random(seed)
    present: dict[str, Counter[Any]] = {"r": Counter(), "s": Counter()}
    ticks = []
    for _ in range(6):
        tick: dict[str, Any] = {}
        for name, rows in present.items():
            changes = []
            for _ in range(rng.randint(0, 5)):
                there = sorted(rows.elements(), key=repr)
                if there and rng.random() < 0.4:
                    row, weight = rng.choice(there), -1
                else:
                    row, weight = (rng.choice(values), rng.choice(seconds)), 1
                if not bag and (rows[row] > 0) == (weight > 0):
                    continue
                rows[row] += weight
                changes.append((row, weight))
            tick[name] = changes
        ticks.append(tick)
    return ticks


def stepped(text: str, ticks: list[dict[str, Any]], second: str = "int64", **options: Any) -> list[Any]:
    """The changes of all outputs after each tick, then their rows."""
    schema = {name: ["int64", second] for name in ("r", "s") if re.search(rf"\b{name}\(", text)}
    program = gw.Program(text, schema=schema, **options)
    changes = [program.step({name: tick[name] for name in schema}) for tick in ticks]
    found = [{name: zset.to_dict() for name, zset in change.items()} for change in changes]
    return [*found, {name: program.relation(name).to_dict() for name in program.outputs}]


def twin(text: str, twin_text: str | None) -> str:
    return twin_text if twin_text is not None else text.replace("inc(", "(1 + ")


@pytest.mark.drawn("bag")
@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
@pytest.mark.parametrize(("text", "built_in"), DATALOG)
def test_functions_equal_built_in_calculations(text, built_in, bag, backend):
    for seed in range(2):
        ticks = random_ticks(f"{text} {seed}", bag, [-1, 0, 1, 2, None], [0, 1, 2, 3, 4, None])
        options = {"bag": bag, "backend": backend.name}
        right = stepped(twin(text, built_in), ticks, **options)
        assert stepped(text, ticks, functions=ALL, **options) == right
        assert stepped(text, ticks, functions=ALL, threads=3, chunk_rows=2, **options) == right


@pytest.mark.drawn("bag")
@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
@pytest.mark.parametrize(("text", "built_in"), TEXTS)
def test_functions_of_texts_equal_built_in_functions(text, built_in, bag, backend):
    for seed in range(2):
        ticks = random_ticks(f"{text} {seed}", bag, [0, 1, None], ["", "a", "b!", "größe", "b", None])
        options = {"bag": bag, "backend": backend.name}
        assert stepped(text, ticks, "string", functions=ALL, **options) == stepped(built_in, ticks, "string", **options)


def test_functions_with_every_kind_of_kernels(kind):
    for text, built_in in [*DATALOG[1::4], *TEXTS[::2]]:
        second = "string" if (text, built_in) in TEXTS else "int64"
        seconds = ["", "a", "b!", None] if second == "string" else [0, 1, 2, 3, None]
        ticks = random_ticks(text, False, [0, 1, 2, None], seconds)
        right = stepped(twin(text, built_in), ticks, second, backend="cpu")
        assert stepped(text, ticks, second, functions=ALL, backend=kind.backend()) == right


@pytest.mark.drawn("text", "built_in", share=2)
@pytest.mark.parametrize(("text", "built_in"), SQL)
def test_functions_in_sql_equal_built_in_calculations(text, built_in):
    tables = [name for name in ("r", "s") if re.search(rf"(FROM|JOIN) {name}\b", text)]
    schema = {name: {"a": "int64", "b": "int64"} for name in tables}
    for seed in range(3):
        views = [gw.view(text, schema=schema, functions=ALL), gw.view(built_in, schema=schema)]
        for tick in random_ticks(f"{text} {seed}", True, [-1, 0, 1, 2, None], [0, 1, 2, 3, 4, None]):
            changes = [view.apply({name: tick[name] for name in tables}) for view in views]
            assert changes[0].to_dict() == changes[1].to_dict()
        assert sorted(map(repr, views[0].snapshot())) == sorted(map(repr, views[1].snapshot()))
        assert views[0].snapshot().to_arrow().schema == views[1].snapshot().to_arrow().schema


def test_a_function_is_called_once_a_tick_for_equal_arguments(backend):
    calls: list[tuple[int, int]] = []

    @gw.function
    def seen(a: int, b: int) -> int:
        calls.append((a, b))
        return a * b

    text = "h(x, seen(x, y)) :- r(x, y), s(y, _). g(seen(y, x)) :- r(y, x), seen(y, x) > 0, !h(x, seen(y, x))."
    program = gw.Program(text, functions=[seen], backend=backend.name, chunk_rows=7)
    rng = random.Random(4)
    rows = [(rng.randrange(12), rng.randrange(12)) for _ in range(400)]
    program.step({"r": rows[:200], "s": rows[200:]})
    assert len(calls) == len(set(calls))
    known, calls[:] = set(calls), []
    program.step({"r": [(row, -1) for row in rows[:50]], "s": rows[:50]})
    assert len(calls) == len(set(calls))
    assert not known.intersection(calls)


class TestErrors:
    def test_a_function_that_raises_leaves_the_state_as_it_was(self, backend):
        @gw.function
        def ratio(a: int, text: str) -> float:
            return a / len(text)

        program = gw.Program("h(a, ratio(a, t)) :- r(a, t). k(t) :- r(_, t).", functions=[ratio], backend=backend.name)
        program.step({"r": [(1, "ab")]})
        before, texts = program.relation("h").rows(), len(program.dictionaries[0])
        with pytest.raises(
            FunctionError, match=r"(?s)'h\(a, #1\) :- .*ratio\(7, ''\) raised ZeroDivisionError"
        ) as raised:
            program.step({"r": [(5, "new"), (7, ""), ((1, "ab"), -1)]})
        assert isinstance(raised.value, CalculationError)
        assert isinstance(raised.value.__cause__, ZeroDivisionError)
        assert (raised.value.function, raised.value.arguments) == ("ratio", (7, ""))
        assert program.relation("h").rows() == before
        assert len(program.dictionaries[0]) == texts
        assert program.step({"r": [(5, "other")]})["h"].rows() == [((5, 1.0), 1)]
        assert program.relation("k").to_dict() == {("ab",): 1, ("other",): 1}

    def test_an_exception_counts_only_for_rows_that_nothing_else_drops(self):
        divide = gw.function(lambda a, b: a // b, int, int, returns=int, name="divide")
        changes = {"r": [(6, 2), (6, 0)], "s": [(3,), (0,)]}
        for guard in ("b != 0", "!s(b)", "divide(a, 1) < 6, b > 1"):
            text = f"h(q) :- r(a, b), s(q), q = divide(a, b), {guard}."
            gw.Program(text, functions=[divide]).step(changes)
        with pytest.raises(FunctionError, match=r"divide\(6, 0\)"):
            gw.Program("h(q) :- r(a, b), s(q), q = divide(a, b).", functions=[divide]).step(changes)

    def test_a_function_that_raises_in_a_loop_or_under_an_aggregate(self):
        @gw.function
        def below_5(n: int) -> int:
            if n == 4:
                raise LookupError("four")
            return n + 1

        for text in (
            "h(n) :- r(n). h(m) :- h(n), m = below_5(n).",
            "h(s) :- s = sum below_5(n) : { r(n) }.",
            "h(n) :- r(n), !s(below_5(n)).",
            "h(n, min(below_5(n))) :- r(n).",
        ):
            program = gw.Program(text, functions=[below_5], iterations=9, inputs=["r", "s"] if "!s(" in text else ["r"])
            program.step({"r": [(7,)]} if "h(m)" not in text else {"r": []})
            before = program.relation("h").rows()
            with pytest.raises(FunctionError, match=r"below_5\(4\) raised LookupError: four") as raised:
                program.step({"r": [(4,), (9,)] if "h(m)" not in text else [(2,)]})
            assert isinstance(raised.value.__cause__, LookupError)
            assert program.relation("h").rows() == before

    @pytest.mark.parametrize(
        ("kind", "value", "match"),
        [
            ("int64", "high", "returned 'high' of type str, and it is declared to return 'int64'"),
            ("int64", True, "returned True of type bool"),
            ("int64", 1.0, "returned 1.0 of type float"),
            ("int64", MOST + 1, "outside of 'int64'"),
            ("uint8", -1, "returned -1, which is outside of 'uint8'"),
            ("string", b"a", "of type bytes"),
            ("string", "\ud800", "not a value of 'string'"),
            ("float64", "1", "of type str"),
            ("float32", 1e300, "too large for 32 bits"),
            ("bool", 1, "of type int"),
            ("date32", dt.datetime(2020, 1, 1), "of type datetime"),
            ("decimal(4, 2)", Decimal("1.001"), "digits after the point"),
            ("decimal(4, 2)", 100, "outside of"),
        ],
    )
    def test_results_of_another_type(self, kind, value, match):
        wrong = gw.function(lambda n: value, "int64", returns=kind, name="wrong")
        program = gw.Program("h(wrong(n)) :- r(n).", functions=[wrong])
        with pytest.raises(FunctionError, match=rf"(?s)wrong\(3\) .*{match}") as raised:
            program.step({"r": [(3,)]})
        assert raised.value.value == value
        assert program.count("h") == 0

    def test_an_interrupt_within_a_function_undoes_the_tick(self):
        stops = [False]

        @gw.function
        def shouted(text: str) -> str:
            if stops[0] and text == "stop":
                raise KeyboardInterrupt
            return text.upper()

        program = gw.Program("h(shouted(t)) :- r(t). h(t) :- h(u), r(t), shouted(t) != u.", functions=[shouted])
        program.step({"r": [("a",)]})
        before, texts = program.relation("h").to_dict(), len(program.dictionaries[0])
        stops[0] = True
        with pytest.raises(KeyboardInterrupt):
            program.step({"r": [("b",), ("stop",)]})
        assert program.relation("h").to_dict() == before
        assert len(program.dictionaries[0]) == texts
        again = gw.Program("h(shouted(t)) :- r(t). h(t) :- h(u), r(t), shouted(t) != u.", functions=[shouted])
        again.step({"r": [("a",)]})
        for tick in ([("c",), ("b",)], [(("a",), -1), ("d",)]):
            assert program.step({"r": tick})["h"].to_dict() == again.step({"r": tick})["h"].to_dict()

    def test_results_are_forgotten_with_the_texts_of_a_tick_that_fails(self):
        @gw.function
        def strict(text: str) -> str:
            if text == "bad":
                raise ValueError("bad")
            return text[::-1]

        program = gw.Program("h(strict(t)) :- r(t).", functions=[strict])
        with pytest.raises(FunctionError):
            program.step({"r": [("ab",), ("bad",)]})
        assert program.step({"r": [("xy",), ("cd",)]})["h"].to_dict() == {("yx",): 1, ("dc",): 1}
        mark = program.mark()
        program.step({"r": [("ef",)]})
        program.return_to(mark)
        assert program.step({"r": [("gh",)]})["h"].to_dict() == {("hg",): 1}

    def test_a_function_may_not_use_its_program(self):
        programs: list[gw.Program] = []
        ask = gw.function(lambda n: programs[0].count("h"), int, returns=int, name="ask")
        programs.append(gw.Program("h(ask(n)) :- r(n).", functions=[ask]))
        with pytest.raises(FunctionError) as raised:
            programs[0].step({"r": [(1,)]})
        assert isinstance(raised.value.__cause__, UsageError)


def test_none_is_null():
    @gw.function
    def root(n: int) -> int | None:
        return next((i for i in range(n + 1) if i * i == n), None)

    rows = [(n,) for n in (0, 2, 4)]
    for text, right in (
        ("h(n, root(n)) :- r(n).", [((0, 0), 1), ((2, None), 1), ((4, 2), 1)]),
        ("h(n, root(n) + 1) :- r(n).", [((0, 1), 1), ((4, 3), 1)]),
        ("h(n, m) :- r(n), m = root(n), m != null.", [((0, 0), 1), ((4, 2), 1)]),
        ("h(n) :- r(n), isnull(root(n)) = true.", [((2,), 1)]),
        ("h(n) :- r(n), r(root(n)).", [((0,), 1), ((4,), 1)]),
        ("h(n) :- r(n), !r(root(n)).", []),
        ("h(root(root(n))) :- r(n).", [((None,), 1), ((0,), 1)]),
        ("h(s) :- s = sum root(n) : { r(n) }.", [((2,), 1)]),
        ("h(m, count()) :- r(n), m = root(n).", [((None, 1), 1), ((0, 1), 1), ((2, 1), 1)]),
    ):
        assert gw.query(text, r=rows, functions=[root]).rows(weights=True) == right, text
    for text, right in (
        ("SELECT root(n) + 1 AS m FROM r", [((None,), 1), ((1,), 1), ((3,), 1)]),
        ("SELECT n FROM r WHERE root(n) IS NULL", [((2,), 1)]),
        ("SELECT n FROM r WHERE NOT root(n) = 0", [((4,), 1)]),
        ("SELECT root(root(n)) AS m FROM r WHERE n > 0", [((None,), 2)]),
    ):
        assert gw.query(text, r={"n": [0, 2, 4]}, functions=[root]).rows(weights=True) == right, text


def test_explain_names_functions_and_why_ticks_run_path_by_path():
    program = gw.Program("h(x, inc(y)) :- r(x, y). g(x) :- r(x, _).", functions=[inc])
    program.step({"r": [(1, 2)]})
    text = program.explain()
    assert "head h: #1 is calculated by the Python function inc" in text
    assert "then #1 = inc(y)" in text
    assert "h(x, inc(y)) :- r(x, y)." in program.explain(format="datalog")


def test_functions_are_bound_by_program():
    texts = []
    for factor in (2, 3):
        times = gw.function(lambda n, factor=factor: n * factor, "int64", returns="int64", name="times")
        texts.append(gw.query("h(times(n)) :- r(n).", r=[(5,)], functions=[times]).rows(weights=True))
    assert texts == [[((10,), 1)], [((15,), 1)]]


def test_spark_refuses_functions_and_says_what_to_do():
    maintenance = pytest.importorskip("gpu_wcoj.spark.maintenance", reason="PySpark is not installed")
    rules = parse("h(inc(n)) :- r(n).", functions=[inc])
    with pytest.raises(UnsupportedError, match=r"(?s)'inc' on Spark is not supported.*Add its result as a column"):
        maintenance.rules_of(rules, None, "duckdb", None, {})
