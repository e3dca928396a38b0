"""Null in rules: asked for, put into heads, and joined by, against recomputation from scratch after every tick."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpu_wcoj as gw
from gpu_wcoj.query.datalog import parse
from tests.helpers.answers import named
from tests.helpers.kernel_kinds import KINDS, Kind, lacking
from tests.helpers.long_tests import IS_LONG
from tests.reference.changes import Row, ZSet, minus, plus
from tests.reference.nulls import evaluate

INPUTS = {"q": 1, "r": 2, "s": 2}
INTEGERS = (0, 1, 2, 5)
TEXTS = ("", "a", "b", "c\x00")
N_PROGRAMS = 2000 if IS_LONG else 24
N_BLOCKS = 4
BAGS = pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])


@dataclass
class Writer:
    """A writer of programs by chance, over values of one type."""

    chance: random.Random
    values: tuple[object, ...]

    def program(self, bag: bool) -> str:
        """One head of rules, one that reads it, and one that aggregates or, over sets, recurs."""
        width = self.chance.randint(1, 2)
        rules = [self.rule("h", width, INPUTS) for _ in range(self.chance.randint(1, 2))]
        known = {**INPUTS, "h": width}
        third = self.chance.choice(("count", "head", "least", "none" if bag else "loop"))
        if third == "count":
            rules.append(self.count_in_body(known))
        elif third == "head":
            rules.append(self.rule("g", 1, known, "count()"))
        elif third == "least":
            rules.append(self.rule("g", 1, known, "min"))
        elif third == "loop":
            rules += self.loop()
        rules.append(self.rule("k", 2, known))
        return "\n".join(rules)

    def literal(self) -> str:
        value = self.chance.choice(self.values)
        return '"' + value.replace("\x00", "\\u0000") + '"' if isinstance(value, str) else str(value)

    def names(self) -> list[str]:
        return [f"{name}{self.chance.choice(('', '?'))}" for name in "xyz"]

    def atom(self, relations: dict[str, int], names: list[str]) -> tuple[str, list[str]]:
        relation = self.chance.choice(list(relations))
        terms = []
        for _ in range(relations[relation]):
            other = self.chance.choice(("_", "null", self.literal()))
            terms.append(self.chance.choice(names) if names and self.chance.random() < 0.75 else other)
        return f"{relation}({', '.join(terms)})", [one for one in terms if one in names]

    def body(self, relations: dict[str, int]) -> tuple[list[str], list[str]]:
        names = self.names()
        found: list[str] = []
        bound: dict[str, None] = {}
        while not bound or self.chance.random() < 0.4:
            text, own = self.atom(relations, names)
            found.append(text)
            bound.update(dict.fromkeys(own))
        plain = [one for one in bound if not one.endswith("?")]
        while self.chance.random() < 0.35:
            found.append("!" + self.atom(relations, list(bound))[0])
        if self.chance.random() < 0.25:
            found.append(f"{self.chance.choice(list(bound))} {self.chance.choice(('=', '!='))} null")
        if plain and self.chance.random() < 0.25:
            other = self.chance.choice([*plain, self.literal()])
            found.append(f"{self.chance.choice(plain)} {self.chance.choice(('=', '!=', '<', '>='))} {other}")
        return found, list(bound)

    def rule(self, head: str, width: int, relations: dict[str, int], aggregate: str = "") -> str:
        while True:
            body, bound = self.body(relations)
            terms = [self.chance.choice([*bound * 3, "null", self.literal()]) for _ in range(width)]
            plain = [one for one in bound if not one.endswith("?")]
            if aggregate == "min":
                if not plain:
                    continue
                terms.append(f"min({self.chance.choice(plain)})")
            elif aggregate:
                terms.insert(self.chance.randint(0, width), aggregate)
            return f"{head}({', '.join(terms)}) :- {', '.join(body)}."

    def count_in_body(self, relations: dict[str, int]) -> str:
        body, bound = self.body(relations)
        keys = self.chance.choices(bound, k=2)
        how, u = self.chance.choice((("count", "u"), ("count", "u?"), ("min u", "u")))
        others = [f"s({u}, {keys[1]})", f"s(_, {u})", f"!q({u})", f"!s(null, {u})", "q(w?)"]
        inner = [f"r({keys[0]}, {u})", self.chance.choice(others)]
        if how == "count" and self.chance.random() < 0.3:
            inner.append(f"{u} {self.chance.choice(('=', '!='))} null")
        return f"g({keys[0]}, n) :- {', '.join(body)}, n = {how} : {{ {', '.join(inner)} }}."

    def loop(self) -> list[str]:
        x, y, z = self.names()
        if self.chance.random() < 0.3:
            rest = self.chance.choice(("", f", !q({x})", f", {x} != null", ", q(null)", f", r({x}, null)"))
            return [f"g({x}, min(v)) :- r({x}, v).", f"g({x}, min(v)) :- g({y}, v), s({y}, {x}){rest}."]
        rest = self.chance.choice(("", f", !q({z})", f", {y} != null", ", q(_)", ", q(null)", f", r({y}, null)"))
        return [f"g({x}, {y}) :- r({x}, {y}).", f"g({x}, {z}) :- g({x}, {y}), s({y}, {z}){rest}."]


def change(chance: random.Random, state: ZSet, width: int, values: Sequence[object], bag: bool) -> ZSet:
    """Some rows that come, and some that go."""
    found: ZSet = {}
    for _ in range(chance.randint(0, 4)):
        found = plus(found, {tuple(chance.choices(values, k=width)): 1})
    if not bag:
        found = {row: 1 for row in found if row not in state}
    for row in chance.sample(list(state), chance.randint(0, len(state) // 2)):
        found = plus(found, {row: -chance.randint(1, state[row])})
    return found


def table(rows: ZSet, width: int, kind: pa.DataType) -> pa.Table:
    columns = {f"c{i}": pa.array([row[i] for row in rows], kind) for i in range(width)}
    return pa.table(columns | {"weight": pa.array(list(rows.values()), pa.int64())})


def check(text: str, seed: int, *, bag: bool, values: tuple[object, ...] = INTEGERS, ticks: int = 6, **options) -> None:
    """Ticks by chance, nulls from the third on; all heads and all changes are those of the judge."""
    chance = random.Random(seed)
    kind = pa.string() if values is TEXTS else pa.int64()
    rules = parse(text)
    assert parse(str(rules)) == rules
    program = gw.Program(text, bag=bag, **options)
    state: dict[str, ZSet] = {name: {} for name in program.inputs}
    before: dict[str, ZSet] = {name: {} for name in program.heads}
    counted = chance.randrange(2 * ticks)
    for tick in range(ticks):
        own = [*values, None, None] if tick > 1 else list(values)
        changes = {name: change(chance, rows, INPUTS[name], own, bag) for name, rows in state.items()}
        state = {name: plus(rows, changes[name]) for name, rows in state.items()}
        given = {name: table(rows, INPUTS[name], kind) for name, rows in changes.items()}
        after = evaluate(rules, state, bag)
        if tick == counted:
            for name, count in program.step_counts(given).items():
                assert count.net == sum(minus(after[name], before[name]).values()), f"{text}\ntick {tick}: {name}"
        else:
            for name, zset in program.step(given).items():
                right, found = minus(after[name], before[name]), zset.to_dict()
                assert found == right, f"{text}\ntick {tick}: {name} changes by {found}, not {right}"
        for name in program.outputs:
            assert program.count(name) == sum(after[name].values()), f"{text}\ntick {tick}: count of {name}"
        for name in program.heads:
            whole = program.relation(name).to_dict()
            assert whole == after[name], f"{text}\ntick {tick}: {name} is {whole}, not {after[name]}"
        before = after


@pytest.mark.drawn("bag", "block", share=2)
@BAGS
@pytest.mark.parametrize("block", range(N_BLOCKS))
def test_programs_by_chance(block, bag):
    for seed in range(block, N_PROGRAMS, N_BLOCKS):
        values = (INTEGERS, TEXTS)[seed // N_BLOCKS % 2]
        check(Writer(random.Random(f"{seed} {bag}"), values).program(bag), seed, bag=bag, values=values, backend="cpu")


@pytest.mark.parametrize("seed", range(6))
def test_options_change_no_answer(seed):
    bag = seed % 2 == 1
    text = Writer(random.Random(f"options {seed}"), INTEGERS).program(bag)
    given = ({"chunk_rows": 1, "threads": 2}, {"strategy": "binary"}, {"strategy": "wcoj"})[seed // 2]
    check(text, seed, bag=bag, backend="cpu", keep=["h"], **given)


@pytest.mark.drawn("bag")
@pytest.mark.parametrize("name", [name for name in KINDS if name != "numba"])
@BAGS
def test_other_kernels(name, bag):
    why = lacking(name)
    if why:
        pytest.skip(why)
    for seed in range(2):
        text = Writer(random.Random(f"kernels {seed} {bag}"), TEXTS).program(bag)
        check(text, seed, bag=bag, values=TEXTS, backend=Kind(name).backend(seed), ticks=4)


@pytest.mark.drawn("bag")
@BAGS
def test_a_twin(bag):
    why = lacking("shim")
    if why:
        pytest.skip(why)
    text = Writer(random.Random(f"twin {bag}"), INTEGERS).program(bag)
    check(text, 3, bag=bag, backend=Kind("shim").backend(), route=3, ticks=5)


SPLIT = """
h(x, y?) :- r(x, y?), !s(x, y?).
h(x, null) :- q(x), !r(x, null).
n(y?, count()) :- h(_, y?).
"""


@BAGS
def test_a_negated_atom_whose_column_has_no_null(bag):
    program = gw.Program(SPLIT, bag=bag, backend="cpu")
    program.step({"r": [(0, 0), (1, 1)], "s": [(0, 0)], "q": [(5,)]})
    program.step({"r": [(0, None)]})
    assert program.relation("h").to_dict() == {(1, 1): 1, (0, None): 1, (5, None): 1}
    program.step({"s": [(0, None)]})
    assert program.relation("h").to_dict() == {(1, 1): 1, (5, None): 1}
    program.step({"s": [((0, None), -1), ((0, 0), -1)], "r": [(5, None)]})
    assert program.relation("h").to_dict() == {(0, 0): 1, (1, 1): 1, (0, None): 1, (5, None): 1}
    assert program.relation("n").to_dict() == {(0, 1): 1, (1, 1): 1, (None, 2): 1}


def test_null_is_not_the_value_that_has_its_code():
    program = gw.Program("h(x?) :- r(x?), s(x?). only(x?) :- r(x?), !s(x?).", backend="cpu")
    program.step({"r": [("",), ("a",)], "s": pa.table({"x": pa.array([None, "b"], pa.string())})})
    assert program.relation("h").to_dict() == {}
    assert program.relation("only").to_dict() == {("",): 1, ("a",): 1}
    program.step({"r": pa.table({"x": pa.array([None], pa.string())}), "s": [("",)]})
    assert program.relation("h").to_dict() == {("",): 1, (None,): 1}
    assert program.relation("only").to_dict() == {("a",): 1}


def test_a_variable_that_equals_another_is_not_null():
    rows = [(1, 1), (None, 2), (2, None)]
    for rest in ("", ", 0 < count : { r(_, _) }"):
        program = gw.Program(f"h(x) :- r(y, _), x = y{rest}.")
        assert program.step({"r": rows})["h"].rows() == [((1,), 1), ((2,), 1)]


def test_facts_with_null():
    text = 'f(1, null). f(2, ""). f(null, "b"). h(x, y?) :- f(x, y?), !s(y?). j(y?) :- f(_, y?), s(y?).'
    program = gw.Program(text, backend="cpu", inputs=named(text))
    program.step({})
    assert program.relation("f").to_dict() == {(1, None): 1, (2, ""): 1, (None, "b"): 1}
    assert program.relation("h").to_dict() == {(1, None): 1, (2, ""): 1, (None, "b"): 1}
    program.step({"s": pa.table({"y": pa.array([None, "a"], pa.string())})})
    assert program.relation("h").to_dict() == {(2, ""): 1, (None, "b"): 1}
    assert program.relation("j").to_dict() == {(None,): 1}


@pytest.mark.parametrize("kind", [pa.string(), pa.float64(), pa.date32(), pa.bool_(), pa.int16()])
def test_a_column_of_null_takes_any_type(kind):
    value = {pa.string(): "a", pa.float64(): 0.0, pa.bool_(): False}.get(kind, 0)
    program = gw.Program(
        "f(1, null). h(x, y?) :- f(x, y?). h(x, y?) :- r(x, y?). k(x) :- h(x, y?), r(_, y?).", inputs=["r"]
    )
    program.step({})
    assert program.relation("h").to_dict() == {(1, None): 1}
    values = pa.array([value], pa.int32() if pa.types.is_date(kind) else kind).cast(kind)
    program.step({"r": pa.table({"x": [2], "y": values})})
    assert program.relation("h").to_arrow().schema.field(1).type == kind
    assert program.relation("k").to_dict() == {(2,): 1}
    program.step({"r": pa.table({"x": [3], "y": pa.array([None], kind)})})
    assert program.relation("k").to_dict() == {(1,): 1, (2,): 1, (3,): 1}


@BAGS
def test_constants_that_turn_out_to_be_dates(bag):
    text = 'h("2021-01-01") :- q(_). h(null) :- q(_). h("2020-01-01") :- q(_). h(y) :- r(y). k(y?) :- h(y?), r(y?).'
    program = gw.Program(text, bag=bag, backend="cpu", inputs=named(text))
    program.step({"q": [(1,)]})
    dates = [dt.date(2020, 1, 1), dt.date(2021, 1, 1)]
    program.step({"r": pa.table({"y": pa.array([*dates, None])})})
    assert program.relation("k").to_dict() == {(one,): 1 + bag for one in (*dates, None)}
    program.step({"q": [((1,), -1)]})
    assert program.relation("h").to_dict() == {(one,): 1 for one in (*dates, None)}


def test_rules_that_ask_for_null_cost_nothing_before_there_is_one():
    both = gw.Program("h(x, y) :- r(x, y). h(x, null) :- r(x, null). k(x) :- h(x, null), q(x).", backend="cpu")
    both.load({"r": [(1, 2)], "q": [(1,)]})
    assert set(both.state_rows) == {"r[0, 1]", "q[0]"}
    planned = both.last_tick.plan
    assert planned is not None
    assert planned.queries["k"] == ()
    both.step({"r": [(1, None)]})
    assert both.relation("k").to_dict() == {(1,): 1}


@BAGS
def test_a_recursion_that_begins_with_the_first_null(bag):
    text = """
    p(x, y) :- r(x, y).
    p(x, z) :- p(x, y), p(y, z), q(null).
    d(x, min(v)) :- s(x, v).
    d(y, min(v + 1)) :- d(x, v), r(x, y), q(null).
    """
    program = gw.Program(text, bag=bag, backend="cpu")
    program.step({"r": [(1, 2), (2, 3), (3, 1)], "q": [(7,)], "s": [(1, 0), (1, 5)]})
    assert len(program.relation("p")) == 3
    assert program.relation("d").to_dict() == {(1, 0): 1}
    found = program.step({"q": [(None,)]})
    assert len(found["p"]) == 6
    assert program.relation("d").to_dict() == {(1, 0): 1, (2, 1): 1, (3, 2): 1}
    program.step({"r": [((3, 1), -1)]})
    assert program.relation("p").to_dict() == {(1, 2): 1, (2, 3): 1, (1, 3): 1}
    program.step({"q": [((None,), -1)]})
    assert program.relation("p").to_dict() == {(1, 2): 1, (2, 3): 1}
    assert program.relation("d").to_dict() == {(1, 0): 1}


@BAGS
def test_a_checkpoint(tmp_path, bag):
    chance = random.Random(f"checkpoint {bag}")
    text = Writer(chance, INTEGERS).program(bag) + "\nf(1, null).\nm(x?) :- f(_, x?), q(x?)."
    program = gw.Program(text, bag=bag, backend="cpu")
    state: dict[str, ZSet] = {name: {} for name in program.inputs}
    for tick in range(5):
        own = [*INTEGERS, None, None] if tick > 1 else list(INTEGERS)
        changes = {name: change(chance, rows, INPUTS[name], own, bag) for name, rows in state.items()}
        state = {name: plus(rows, changes[name]) for name, rows in state.items()}
        program.step({name: table(rows, INPUTS[name], pa.int64()) for name, rows in changes.items()})
        program.checkpoint(tmp_path / "state")
        program = gw.Program.restore(tmp_path / "state", backend="cpu")
        after = evaluate(parse(text), state, bag)
        for name in program.heads:
            assert program.relation(name).to_dict() == after[name], f"tick {tick}: {name}"


def test_duckdb_agrees_on_what_is_not_distinct():
    duckdb = pytest.importorskip("duckdb")
    chance = random.Random(11)
    text = """
    joined(x?, y?, z?) :- r(x?, y?), s(y?, z?).
    plain(x, y, z) :- r(x, y), s(y, z).
    anti(x?, y?) :- r(x?, y?), !s(y?, x?).
    group(y?, count()) :- r(_, y?).
    left(x, y, z) :- plain(x, y, z).
    left(x, y, null) :- r(x, y), !t(y).
    left(x, null, null) :- r(x, null).
    t(y) :- s(y, _), y != null.
    """
    queries = {
        "joined": "SELECT r.x, r.y, s.z FROM r JOIN s ON r.y IS NOT DISTINCT FROM s.y",
        "anti": "SELECT * FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.y IS NOT DISTINCT FROM r.y"
        " AND s.z IS NOT DISTINCT FROM r.x)",
        "group": "SELECT y, count(*) FROM r GROUP BY y",
        "left": "SELECT r.x, r.y, s.z FROM r LEFT JOIN s ON r.y = s.y",
    }
    program = gw.Program(text, bag=True, backend="cpu")
    state: dict[str, ZSet] = {"r": {}, "s": {}}
    database = duckdb.connect()
    for tick in range(12):
        own = [0, 1, 2, None] if tick > 2 else [0, 1, 2]
        changes = {name: change(chance, rows, 2, own, True) for name, rows in state.items()}
        state = {name: plus(rows, changes[name]) for name, rows in state.items()}
        program.step({name: table(rows, 2, pa.int64()) for name, rows in changes.items()})
        for name, columns in (("r", "xy"), ("s", "yz")):
            rows: list[Row] = [row for row, weight in state[name].items() for _ in range(weight)]
            given = {c: pa.array([row[i] for row in rows], pa.int64()) for i, c in enumerate(columns)}
            database.register(name, pa.table(given))
        for name, query in queries.items():
            expected: ZSet = {}
            for row in database.execute(query).fetchall():
                expected = plus(expected, {row: 1})
            assert program.relation(name).to_dict() == expected, f"tick {tick}: {name}"


def test_a_plan_says_what_is_null():
    program = gw.Program("h(x) :- r(x, null). g(x, y) :- r(x, y), s(y, _).", backend="cpu", inputs=["r", "s"])
    shown = program.explain()
    assert "h   (its rules never hold, or ask for a null that has not turned up)" in shown
    assert "is null" not in shown
    program.step({"r": [(1, None), (1, 2)]})
    shown = program.explain()
    assert "r[c0 | c1 is null]" in shown
    assert "r[c1, c0 | c1 is not null]" in shown


def test_a_calculated_value_that_may_be_null_is_tested_for_null():
    rows = {"r": [(1,), (2,), (None,)]}
    for text, right in (
        ("h(x, y) :- r(x), y = case(gt(x, 1), x), y != null.", [((2, 2), 1)]),
        ("h(x, y) :- r(x), y = case(gt(x, 1), x).", [((None, None), 1), ((1, None), 1), ((2, 2), 1)]),
        ("h(y) :- r(x), y = case(isnull(x), 7), y != null.", [((7,), 1)]),
    ):
        assert gw.query(text, rows).rows(weights=True) == right, text


UNTYPED = pa.table({"a": [1, 2], "b": pa.array([None, None], pa.null())})


class TestColumnsOfNullsOnly:
    """Columns without a type: they are null, and later rows may have any type."""

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ("SELECT * FROM t", [(1, None), (2, None)]),
            ("SELECT b, count(*) AS n, count(b) AS m FROM t GROUP BY b", [(None, 2, 0)]),
            ("SELECT sum(b) AS s, max(b) AS m, avg(b) AS v FROM t", [(None, None, None)]),
            ("SELECT coalesce(b, 'x') AS c FROM t", [("x",)] * 2),
            ("SELECT coalesce(b, 5) AS c FROM t", [(5,)] * 2),
            ("SELECT upper(b) AS u FROM t", [(None,)] * 2),
            ("SELECT year(b) AS y FROM t", [(None,)] * 2),
            ("SELECT a FROM t WHERE b LIKE 'x%'", []),
            ("SELECT t.a FROM t JOIN (VALUES ('x')) u(b) ON t.b = u.b", []),
            ("SELECT b FROM t UNION SELECT 'x' AS b", [("x",), (None,)]),
        ],
    )
    def test_queries_and_views(self, query, expected):
        assert sorted(gw.query(query, t=UNTYPED).rows(), key=repr) == sorted(expected, key=repr)
        assert sorted(gw.view(query, t=UNTYPED).snapshot().rows(), key=repr) == sorted(expected, key=repr)

    @pytest.mark.parametrize("later", ["x", 1.5, dt.datetime(2024, 1, 1), 2**64 - 1, True, b"a"])
    def test_later_rows_have_any_type(self, later):
        view = gw.view("SELECT b, count(*) AS n FROM t GROUP BY b", t=UNTYPED)
        kind = pa.uint64() if later == 2**64 - 1 else None
        view.apply(t=pa.table({"a": [3], "b": pa.array([later], kind)}))
        assert sorted(view.snapshot().rows(), key=repr) == sorted([(None, 2), (later, 1)], key=repr)
        view.apply(t=UNTYPED.append_column("weight", pa.array([-1, -1])))
        assert view.snapshot().rows() == [(later, 1)]

    def test_of_a_parquet_file(self, tmp_path):
        path = tmp_path / "t.parquet"
        pq.write_table(UNTYPED, path)
        assert gw.query("q(a, b) :- t(a, b).", t=path).rows() == [(1, None), (2, None)]
        assert gw.query("q(a) :- t(a, null).", t=path).rows() == [(1,), (2,)]

    def test_streams_need_a_type(self):
        circuit = gw.Circuit()
        circuit.sink("h", circuit.source("r").distinct())
        with pytest.raises(gw.errors.UnsupportedTypeError, match="holds nothing but nulls"):
            circuit.step({"r": UNTYPED})
