"""A program of a single tick gives the answers, the types and the errors of a first tick of any program."""

from __future__ import annotations

import itertools
import random
import re

import numpy as np
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.circuit import head
from gpu_wcoj.data.column import Dictionary
from gpu_wcoj.engine.options import ProgramOptions
from gpu_wcoj.engine.replicas import proposed_by
from gpu_wcoj.errors import UsageError
from gpu_wcoj.join import delta, full_join
from gpu_wcoj.kernels.protocol import PROPOSALS
from gpu_wcoj.prepared_query import QuerySource, prepare_query
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.trace.arrangement import UnsortedArrangement
from tests.helpers.comparison import VALUES, table
from tests.helpers.counted_work import total_work
from tests.helpers.join_patterns import PATTERNS
from tests.helpers.long_tests import IS_LONG
from tests.reference.random_programs import random_text

BAGS = pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
SEEDS = 6 if IS_LONG else 4

OPS = ("count()", "sum({})", "min({})", "max({})", "mean({})")
AGGREGATES = {
    "one key": "h(a, OP b) :- t(a, b, _).",
    "two keys": "h(a, c, OP b) :- t(a, b, c).",
    "no key": "h(OP b) :- t(_, b, _).",
    "of a join": "h(a, OP c) :- e(a, b), f(b, c).",
    "of a join that projects": "h(a, OP d) :- e(a, b), f(b, c), t(b, d, _).",
    "where": "h(a, OP c) :- e(a, b), f(b, c), c > 1, a != b.",
    "without some": "h(a, OP b) :- e(a, b), f(b, c), !e(c, a).",
    "of an aggregate": "g(a, sum(b)) :- t(a, b, _). h(b, OP a) :- g(a, b).",
    "beside an aggregate": "g(a, OP b) :- t(a, b, _). h(a, b, c) :- g(a, b), e(b, c). i(a) :- h(a, _, _), !f(a, _).",
    "of a constant": "h(a, OP b) :- t(a, b, 2). i(a, OP b) :- t(a, b, a).",
}


def arities(text):
    rules = parse(text)
    return {name: rules.arity[name] for name in rules.inputs}


def outcome(answer):
    """The tables of an answer, or the error instead."""
    try:
        answers = answer()
    except gw.GpuWcojError as error:
        return type(error), str(error)
    tables = {name: zset.to_arrow() for name, zset in answers.items()}
    return {name: (rows.schema, str(rows.to_pydict())) for name, rows in tables.items()}  # as text, NaN equals NaN


def check(text, changes, bag, threads=1, **options):
    """Compare a single tick with the first tick of a program; return the answers."""
    usual = gw.Program(text, bag=bag, inputs=list(changes), threads=threads, **options)
    single = gw.Program(text, bag=bag, inputs=list(changes), threads=threads, single_tick=True, **options)
    expected, found = outcome(lambda: usual.step(changes)), outcome(lambda: single.answer(changes))
    assert found == expected, text
    return expected


def some_rows(chance, arity, n_values, n_rows, weights=(1,)):
    return [(tuple(chance.choices(VALUES[:n_values], k=arity)), chance.choice(weights)) for _ in range(n_rows)]


def some_changes(chance, inputs):
    """Rows that repeat; in some tables, rows of other weights, and cancelled ones."""
    weights = chance.choice(((1,), (1,), (1, 1, 3), (1, -1), (-2, 0, 1, 2)))
    n_values, n_rows = chance.choice((2, 4, 6)), chance.choice((0, 3, 12, 40))
    made = {}
    for name, arity in inputs.items():
        rows = some_rows(chance, arity, n_values, n_rows, weights)
        way = chance.choice(("list", "table", "zset"))
        made[name] = rows if way == "list" else table(rows, arity)
        if way == "zset":
            made[name] = gw.ZSet.from_arrow(made[name], weight="weight")
    return made


@pytest.mark.drawn("bag", "name", share=6)
@BAGS
@pytest.mark.parametrize("name", PATTERNS)
def test_patterns(name, bag):
    for seed in range(SEEDS):
        chance = random.Random(seed)
        check(PATTERNS[name], some_changes(chance, arities(PATTERNS[name])), bag)


@pytest.mark.drawn("bag")
@BAGS
def test_programs_that_chance_writes(bag):
    for seed in range(150 if IS_LONG else 30):
        chance = random.Random(seed)
        text = random_text(chance)
        check(text, some_changes(chance, arities(text)), bag, strategy=chance.choice(("auto", "wcoj", "binary")))


def wide_rule(chance):
    """A rule of three to five atoms that are connected; some negate, compare or calculate."""
    atoms, names = [], ["a"]
    for number in range(chance.choice((3, 4, 5))):
        new = "bcdfg"[number]
        relation, arity = chance.choice((("e", 2), ("f", 2), ("t", 3)))
        terms = [chance.choice(names), new, *chance.choices([*names, new], k=arity - 2)]
        chance.shuffle(terms)
        atoms.append(f"{relation}({', '.join(terms)})")
        names.append(new)
    left, right = chance.sample(names, 2)
    more = chance.choice(("", "", f", !e({left}, {right})", f", {left} < {right}", f", {left} + 1 != {right}"))
    return f"h({', '.join(chance.sample(names, chance.choice((1, 2, 3))))}) :- {', '.join(atoms)}{more}."


@BAGS
@pytest.mark.parametrize("is_forced", [False, True], ids=["sampled", "forced"])
def test_answers_along_alternatives(is_forced, bag, monkeypatch):
    """Every path gives the same answer, chosen by samples of few rows or by chance."""
    taken, cheapest = [], full_join._cheapest_alternative
    chance = random.Random(0)

    def chosen(join, *arguments):
        found = cheapest(join, *arguments)
        if is_forced:
            found = chance.choice(full_join._alternatives(join)), 1.0
        taken.append(found[0] is not None)
        return found

    monkeypatch.setattr(full_join, "_cheapest_alternative", chosen)
    if is_forced:
        monkeypatch.setattr(full_join, "_list_within", lambda *_: None)
    for name, value in {
        "SMALL_LOAD_ROWS": 1,
        "UNCOMPARED_COST": 1.0,
        "INDICES_FACTOR": 0.0,
        "UNEXPECTED_FACTOR": 0.0,
        "MIN_GAIN": 0.5,
    }.items():
        monkeypatch.setattr(full_join, name, value)
    for seed in range(300 if IS_LONG else 30):
        chance.seed(seed)
        text = wide_rule(chance)
        print(f"seed {seed}: {text}")
        check(text, some_changes(chance, arities(text)), bag)
    assert len(taken) > 4
    assert any(taken)


def aggregating(name, op):
    """A text of `AGGREGATES` with one of `OPS`."""
    return re.sub(r"OP (\w)", lambda match: op.format(match[1]), AGGREGATES[name])


@pytest.mark.drawn("bag", "name", share=4)
@BAGS
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("name", AGGREGATES)
def test_aggregates(name, op, bag):
    text = aggregating(name, op)
    for seed in range(SEEDS):
        chance = random.Random(seed)
        check(text, some_changes(chance, arities(text)), bag)


@pytest.mark.drawn("op", share=3)
@pytest.mark.parametrize("op", ["count(*)", "sum(t.v)", "min(t.v)", "max(t.v)", "avg(t.v)"])
def test_rows_that_join_with_nothing_are_not_aggregated(op):
    text = f"SELECT {op} AS n FROM t, e, f WHERE e.y = t.y AND f.z = e.z AND f.x = t.x"
    for seed in range(20):
        chance = np.random.default_rng(seed)
        n_rows, n_values = int(chance.integers(1, 60)), int(chance.integers(2, 40))
        tables = {
            name: pa.table({column: chance.integers(0, n_values, n_rows) for column in columns})
            for name, columns in {"t": "xyv", "e": "zy", "f": "zx"}.items()
        }
        assert gw.query(text, tables).rows(weights=True) == gw.view(text, tables).snapshot().rows(weights=True)


def test_groups_of_several_keys_of_which_no_row_is_selected():
    text = "SELECT a.k, b.v, max(b.v) AS n FROM a LEFT JOIN b ON b.k = a.k AND b.v < 0 GROUP BY a.k, b.v"
    rows = pa.table({"k": [1, 2], "v": [3, 4]})
    assert gw.query(text, a=rows, b=rows).rows(weights=True) == gw.view(text, a=rows, b=rows).snapshot().rows(
        weights=True
    )


@pytest.mark.parametrize(
    "condition", ["NOT EXISTS (SELECT 1 FROM a AS b WHERE b.y = a.x)", "a.x NOT IN (SELECT y FROM a)"]
)
def test_the_order_of_tables_does_not_matter(condition):
    """Heads that the rule reads have estimates, so the cheapest path is found from all orders."""
    chance, n_rows = np.random.default_rng(3), 20_000
    tables = {
        "a": pa.table({"x": chance.integers(0, 2_000, 2_000), "y": chance.integers(0, 2_000, 2_000)}),
        "c": pa.table({"y": chance.integers(0, 2_000, n_rows), "z": chance.permutation(n_rows)}),
        "d": pa.table({"z": np.zeros(n_rows, np.int64), "w": np.arange(n_rows)}),
    }
    counts = []
    for order in itertools.permutations(("a", "c", "d")):
        text = f"SELECT a.x FROM {', '.join(order)} WHERE c.y = a.y AND d.z = c.z AND {condition}"
        prepared = prepare_query(QuerySource(text, "sql"), tables, gw.query, is_single=True)
        options = ProgramOptions(
            bag=True, inputs=prepared.rules.inputs, threads=1, single_tick=True, backend="cpu"
        )  # fmt: skip
        program, changes = prepared.start(options)
        program.answer(changes)
        counts.append(proposed_by(program.last_tick.work))
    assert max(counts) <= 1.6 * min(counts) + 10_000


@pytest.mark.drawn("bag")
@BAGS
def test_texts_and_nulls(bag):
    texts = ["b", "", "größe", None, "B"]
    for text in (PATTERNS["triangle"], aggregating("of a join", "max({})"), aggregating("two keys", "count()")):
        for seed in range(SEEDS):
            chance = random.Random(seed)
            changes = {
                name: pa.table({f"c{i}": pa.array(chance.choices(texts, k=20), pa.string()) for i in range(arity)})
                for name, arity in arities(text).items()
            }
            check(text, changes, bag)


@pytest.mark.drawn("bag")
@BAGS
def test_floats_whose_sums_need_every_bit(bag):
    values = [0.0, -0.0, 1.5, 1e300, -1e300, 5e-324, -1e-310, 0.1, np.inf, -np.inf, np.nan]
    for op in ("sum({})", "mean({})", "min({})", "max({})"):
        text = f"h(a, {op.format('b')}) :- t(a, b)."
        for seed in range(2 * SEEDS):
            chance = random.Random(seed)
            drawn = chance.choices(values[: chance.choice((8, 11))], k=30)
            keys = chance.choices(range(4), k=30)
            expected = check(text, {"t": pa.table({"a": keys, "b": drawn})}, bag)
            assert isinstance(expected, dict)


@BAGS
@pytest.mark.parametrize("threads", [1, 3])
def test_rows_in_blocks(monkeypatch, threads, bag):
    """Many rows start a path some at a time, on several threads, and their order does not matter."""
    monkeypatch.setattr(delta, "MAX_BLOCK_SEEDS", 100)
    monkeypatch.setattr(delta, "SPLIT_FROM", 64)
    monkeypatch.setattr(delta, "MIN_BLOCK_SEEDS", 16)
    chance = np.random.default_rng(1)
    changes = {
        "e": pa.table({"a": chance.integers(0, 90, 3000), "b": chance.integers(0, 90, 3000)}),
        "f": pa.table({"a": chance.integers(0, 90, 400), "b": chance.integers(0, 9, 400)}),
    }
    for text in (
        "h(a, c) :- e(a, b), f(b, c).", "h(c, a) :- e(a, b), f(b, c).", "h(a, b, c) :- e(a, b), f(b, c), !f(a, c).",
        "h(c, sum(a)) :- e(a, b), f(b, c), a < b.",
    ):  # fmt: skip
        assert check(text, changes, bag, threads=threads)["h"][1].count(",") > 20


@pytest.mark.drawn("bag")
@BAGS
def test_answers_that_arrive_in_order(monkeypatch, bag):
    """Pieces that follow each other are consolidated as they arrive, as all rows together are."""
    monkeypatch.setattr(head, "MIN_ORDERED_ROWS", 50)
    chance = np.random.default_rng(2)
    changes = {"e": pa.table({"a": chance.integers(0, 60, 900), "b": chance.integers(0, 60, 900)})}
    settled = []
    original = head.OrderedPieces.close
    monkeypatch.setattr(head.OrderedPieces, "close", lambda own: settled.append(len(original(own))) or own.parts)
    for text in ("h(a, c) :- e(a, b), e(b, c).", "h(a, c) :- e(a, b), e(b, c). h(c, a) :- e(a, b), e(b, c)."):
        check(text, changes, bag, chunk_rows=200)
    assert max(settled) > 10


def test_only_what_is_looked_up_is_indexed(monkeypatch):
    """A join indexes one of its relations, an aggregate none; the rows of the others are not sorted."""
    indexed = []
    original = UnsortedArrangement.index
    monkeypatch.setattr(
        UnsortedArrangement, "index", lambda own, rows: indexed.append((str(own.key), len(rows))) or original(own, rows)
    )
    chance = np.random.default_rng(3)
    orders = pa.table({"customer": chance.integers(0, 50, 2000), "amount": chance.integers(0, 9, 2000)})
    customers = pa.table({"id": np.arange(50), "region": chance.integers(0, 5, 50)})
    tables = {"orders": orders, "customers": customers}
    sql = (
        "SELECT c.region, count(*) AS n, sum(o.amount) AS total FROM orders o JOIN customers c ON o.customer = c.id "
        "GROUP BY c.region"
    )
    assert gw.query(sql, tables).to_arrow().num_rows == 5
    assert {(key, n) for key, n in indexed if n > 5} == {("customers[0, 1]", 50)}


def test_columns_that_no_rule_reads_are_not_encoded(monkeypatch):
    encoded = []
    original = Dictionary.encode
    monkeypatch.setattr(Dictionary, "encode", lambda own, array: encoded.append(len(array)) or original(own, array))
    table_of_texts = pa.table({"a": [1, 2, 2], "read": ["x", "y", "y"], "unread": ["u", "v", "w"]})
    answer = gw.query("SELECT a, read FROM t", t=table_of_texts)
    assert answer.rows() == [(1, "x"), (2, "y"), (2, "y")]
    assert [n for n in encoded if n] == [3]


def test_answers_share_no_memory_with_tables():
    numbers = np.arange(1000)
    rows = pa.table({"a": pa.array(numbers), "b": pa.array(numbers)})
    column = gw.query("h(a, b) :- e(a, b).", e=rows).to_zset().columns[0].codes
    assert not np.shares_memory(column, rows["a"].chunk(0).to_numpy())


def test_a_program_that_has_taken_a_tick_answers_nothing():
    program = gw.Program("h(a, b) :- e(a, b).")
    program.step({"e": [(1, 2)]})
    with pytest.raises(UsageError, match="answer"):
        program.answer({"e": [(1, 2)]})


@pytest.mark.parametrize("absent", ["gone(c, b)", "gone(b, c)"])
def test_a_negated_atom_is_looked_up_by_the_order_that_lists_least(absent):
    edges = [(x, (5 * x + y) % 400) for x in range(400) for y in range(20)]
    gone = [(x, (3 * x) % 400) for x in range(400)]
    program = gw.Program(
        f"h(a, b) :- e(a, b), e(a, c), !{absent}.", inputs=["e", "gone"], bag=True, single_tick=True, threads=1
    )
    answer = program.answer({"e": edges, "gone": gone})["h"]
    pairs = set(gone) if absent == "gone(b, c)" else {(y, x) for x, y in gone}
    ends = {x: [y for other, y in edges if other == x] for x in range(400)}
    assert dict(answer.rows()) == {(a, b): sum((b, c) not in pairs for c in ends[a]) for a, b in edges}
    assert total_work(program)[PROPOSALS] <= 2 * len(edges)
