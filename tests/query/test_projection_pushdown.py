"""Programs over projected inputs derive what they derived, at every tick."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.engine.replicas import proposed_by
from gpu_wcoj.join.settings import tune
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.desugar import desugar
from gpu_wcoj.query.projection import aggregate_early, group_derivations, narrow_inputs, project_sets

RULES = (
    "h(x, v) :- r(x, y, _, _), s(y, v, _).",
    "h(x) :- r(x, y, 1, _), s(y, _, d), d < 3.",
    "h(x, w) :- r(x, _, _, w), s(_, _, _), r(_, 2, _, v), v > 1.",
    "h(y) :- r(x, y, z, z), s(y, x, _).",
    "h(x, w) :- r(x, _, z, w), r(w, _, z, _), x != w.",
    "h(x, y) :- r(x, y, a, b), s(y, _, c), a < b, b <= c.",
    "h(x, a + 1) :- r(x, y, a, _), s(y, _, a), a > 0, abs(a) < 4.",
    "h(x) :- r(x, y, _, w), !s(y, w, 2), w != null.",
    "h(x?, b?) :- r(x?, y, _, b?), s(y, _, _).",
    "h(x, null) :- r(x, y, null, _), s(y, _, _).",
    "h(x, n) :- r(x, _, _, _), n = count : { r(x, y, _, _), s(y, _, _) }.",
    "h(x, sum(v)) :- r(x, y, _, _), s(y, v, d), d >= 1.",
    "g(x, y) :- r(x, y, _, _), s(y, 2, _). h(x) :- g(x, y), r(y, _, _, _).",
    "h(x, count()) :- r(x, y, a, _), s(y, v, d), r(a, _, _, v).",
    "h(x, count()) :- r(x, _, _, _), s(_, _, _), !r(x, x, _, _).",
    "h(x, mean(v)) :- r(x, y, _, _), s(y, v, d), d != x.",
    "h(n) :- n = sum z : { r(x, y, _, _), s(y, v, _), z = x + v }.",
    "g(x, y, v, d) :- r(x, y, _, _), s(y, v, d). h(n) :- n = count : { g(x, y, v, d) }.",
    "h(x, max(v)) :- r(x, y, _, _), s(y, v, _), v > 0.",
    "h(x, min(v)) :- r(x, y, a, _), s(y, v, a), s(_, a, _), !r(y, y, y, y).",
    "h(x?, max(v)) :- r(x?, y, _, _), s(y, v, _).",
    "g(x, v) :- r(x, y, _, _), s(y, v, _). h(x, v) :- r(x, _, _, _), v = min w : { g(x, w) }.",
)


def rows_of(chance: random.Random, width: int, n: int) -> list[tuple[int | None, ...]]:
    return [tuple(None if chance.random() < 0.08 else chance.randrange(4) for _ in range(width)) for _ in range(n)]


@pytest.mark.drawn("bag")
@pytest.mark.parametrize("bag", [False, True])
@pytest.mark.parametrize("text", RULES)
def test_answers_are_the_same_at_every_tick(text, bag):
    chance = random.Random(text)
    rules = parse(f"{text} .output h")
    with tune(off=frozenset({"projections"})):
        plain_program = gw.Program(rules, bag=bag, backend="cpu")
    programs = [plain_program, gw.Program(narrow_inputs(rules) if bag else rules, bag=bag, backend="cpu")]
    held: dict[str, list[tuple[int | None, ...]]] = {"r": [], "s": []}
    seen = 0
    for _ in range(6):
        changes = {}
        for name, width in (("r", 4), ("s", 3)):
            come = rows_of(chance, width, 12)
            gone = [held[name].pop(chance.randrange(len(held[name]))) for _ in range(min(6, len(held[name])))]
            held[name] += come
            columns = {f"c{i}": pa.array([row[i] for row in come + gone], pa.int64()) for i in range(width)}
            changes[name] = pa.table(columns | {"weight": [1] * len(come) + [-1] * len(gone)})
        known = {name: rows for name, rows in changes.items() if name in rules.inputs}
        plain, other = (program.step(known)["h"].to_dict() for program in programs)
        assert plain == other
        seen += len(plain)
    assert seen, "there are answers"


@pytest.mark.drawn("bag")
@pytest.mark.parametrize("bag", [False, True])
@pytest.mark.parametrize("text", RULES)
def test_one_answer_is_the_same(text, bag):
    """Rows come in any order, and several times."""
    chance = random.Random(text)
    rules = parse(f"{text} .output h")
    widths = {"r": 4, "s": 3}
    for n in (3, 12, 60):
        rows = {name: rows_of(chance, widths[name], n) for name in rules.inputs}
        answers = []
        for off in (frozenset[str](), frozenset({"projections"}), frozenset({"early aggregates"})):
            with tune(off=off):
                answers.append(gw.query(rules, rows, bag=bag, backend="cpu").to_zset().to_dict())
        assert answers[0] == answers[1] == answers[2]


def test_bindings_that_are_merged_on_the_way_all_count():
    chance = np.random.default_rng(5)
    rows = {name: np.unique(chance.integers(0, 60, (3_000, 2)), axis=0) for name in "rst"}
    product = np.ones(60, np.int64)
    for name in "tsr":
        product = np.bincount(rows[name][:, 0], product[rows[name][:, 1]], minlength=60).astype(np.int64)
    text = "q(x, count()) :- r(x, y), s(y, z), t(z, _)."
    answer = gw.query(text, {name: rows[name] for name in rows}, language="datalog", backend="cpu")
    assert dict(answer.rows()) == {key: n for key, n in enumerate(product.tolist()) if n}


def stored_rows(program):
    """Return the rows that heads keep."""
    return sum(len(index) for head in program._lowered.circuit.heads.values() for index in head.state)


@pytest.mark.parametrize("op", ["count()", "sum(w)", "mean(w)", "min(w)", "max(w)"])
def test_an_aggregate_of_a_join_lists_and_keeps_no_bindings(op):
    """Half of the rows meet at one key: there are 250,000 bindings, and four groups."""
    n_rows = 1_000
    row = np.arange(n_rows)
    keys = np.where(row % 2, 0, row)
    rows = {"r": pa.table({"g": row // 2 % 4, "i": row, "k": keys}), "s": pa.table({"k": keys, "w": row})}
    text = f"t(g, {op}) :- r(g, i, k), s(k, w)."
    program = gw.Program(text, backend="cpu")
    with tune(off=frozenset({"early aggregates"})):
        plain = gw.Program(text, backend="cpu")
    for change in (
        rows,
        {"r": pa.table({"g": [9], "i": [0], "k": [0]})},
        {"r": pa.table({"g": [0], "i": [1], "k": [0], "weight": [-1]})},
    ):
        assert program.step(change)["t"].to_dict() == plain.step(change)["t"].to_dict()
    assert len(program.relation("t")) == 5
    assert stored_rows(program) <= 6 * n_rows
    assert stored_rows(plain) > 100 * n_rows or op in ("min(w)", "max(w)")


@pytest.mark.parametrize("key", ["b.v, a.k", "b.v"])
def test_a_minimum_is_taken_before_the_join(key):
    n_rows = 2_000
    keys = np.where(np.arange(n_rows) % 2, 0, np.arange(n_rows))
    tables = {"a": pa.table({"k": keys, "v": np.arange(n_rows)}), "b": pa.table({"k": keys, "v": np.arange(n_rows)})}
    text = f"SELECT {key}, min(a.v) AS n FROM a, b WHERE a.k = b.k GROUP BY {key}"
    view = gw.view(text, tables, backend="cpu", threads=1)
    assert proposed_by(view.program.last_tick.work) <= 4 * n_rows
    view.apply(a=pa.table({"k": [0], "v": [-1]}))
    assert {row["n"] for row in view.snapshot().to_dicts() if row["v"] in (0, 1, 3)} == {-1}
    view.apply(a=pa.table({"k": [0, 0], "v": [-1, 1], "weight": [-1, -1]}))
    assert {row["n"] for row in view.snapshot().to_dicts() if row["v"] in (0, 1, 3)} == {0}


def test_what_is_aggregated_early():
    text = "h(x, max(v)) :- r(x, y), s(y, v, _), v > 2, y < x. g(n) :- n = min v : { s(y, v, _), r(y, 3) }."
    core = desugar(parse(text))
    assert str(aggregate_early(core, ["h", "g"], is_single=True)).splitlines() == [
        "rule#1#values(y, v) :- s(y, v, _), v > 2.",
        "rule#1(x, v) :- rule#1#max(y, v), r(x, y), y < x.",
        "rule#2(v) :- s(y, v, _), r(y, 3).",
        "g(n) :- agg#2(n).",
        "h: max of rule#1 by its first column",
        "agg#2: min of rule#2 by nothing",
        "rule#1#max: max of rule#1#values by its first column",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "h(x, max(v)) :- r(x, y), s(y, v), v < x.",
        "h(x, max(v)) :- r(x, y), s(y, v), t(v).",
        "h(x, max(v)) :- r(x, y), s(y, v), !t(v).",
        "h(y, max(v)) :- r(_, y), s(y, v).",
        "h(x, max(v)) :- r(x, y), s(y, v). h(x, max(v)) :- r(x, v).",
        "h(x, sum(v)) :- r(x, y), s(y, v).",
    ],
)
def test_what_is_not_aggregated_early(text):
    core = desugar(parse(text))
    assert aggregate_early(core, ["h"]) is core


@pytest.mark.parametrize(
    "text",
    [
        "h(x, count()) :- r(x, _).",
        "h(x, max(v)) :- r(x, y), s(y, v).",
        "h(x, y, count()) :- r(x, y), s(y, x).",
        "g(x, v) :- r(x, y), s(y, v). g(x, x) :- r(x, _). h(x, sum(v)) :- g(x, v).",
    ],
)
def test_what_keeps_its_bindings(text):
    core = desugar(parse(text))
    assert group_derivations(core, ["h"]) is core


def test_what_is_cut_down():
    text = 'h(x, v) :- r(x, y, _, "a"), s(y, v, d), t(v, d), year(d) = 2000, like(y, "a%") = true, d < "2000-06-01".'
    assert str(narrow_inputs(parse(text))).splitlines() == [
        'r#cut1(c0, c1) :- r(c0, c1, _, "a"), like(c1, "a%") = true.',
        's#cut2(c0, c1, c2) :- s(c0, c1, c2), year(c2) = 2000, c2 < "2000-06-01".',
        "h(x, v) :- r#cut1(x, y), s#cut2(y, v, d), t(v, d).",
    ]
    assert str(narrow_inputs(parse("h(x) :- r(x), s(_, v), v < 3."))).splitlines() == [
        "s#cut1(0) :- s(_, c1), c1 < 3.",
        "h(x) :- r(x), s#cut1(0).",
    ]


def test_what_a_set_projects():
    text = 'h(x, v) :- r(x, y, _, "a"), s(y, v, d), t(v, d, u), u(_, z), d < "2000-06-01", z > 3. g(x) :- s(x, _, _).'
    assert str(project_sets(parse(text))).splitlines() == [
        'r#some1(c0, c1) :- r(c0, c1, _, "a").',
        "t#some2(c0, c1) :- t(c0, c1, _).",
        "u#some3(0) :- u(_, c1), c1 > 3.",
        'h(x, v) :- r#some1(x, y), s(y, v, d), t#some2(v, d), u#some3(0), d < "2000-06-01".',
        "g(x) :- s(x, _, _).",
    ]


def test_a_recursion_is_not_projected():
    text = "p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z), p(_, x), e(z, _)."
    assert str(project_sets(parse(text))).splitlines() == [
        "e#some1(c0) :- e(c0, _).",
        "p(x, y) :- e(x, y).",
        "p(x, z) :- p(x, y), e(y, z), p(_, x), e#some1(z).",
    ]


@pytest.mark.parametrize("turned", [False, True])
def test_a_column_that_only_has_to_exist_multiplies_nothing(turned):
    """A tick of rows that agree in what is read costs what one of them costs."""
    chance = np.random.default_rng(7)
    n_rows = 5_000
    s = np.stack([np.arange(n_rows), chance.integers(0, 10, n_rows)], axis=1)
    t = np.stack([chance.integers(0, 10, n_rows), np.arange(n_rows)], axis=1)
    body = ["t(k, w)", "s(_, k)"]
    program = gw.Program(f"q(k, w) :- {', '.join(body[::-1] if turned else body)}.", threads=1, backend="cpu")
    program.step_counts({"s": s[1_000:], "t": t})
    assert proposed_by(program.last_tick.work) <= 2 * n_rows
    assert program.step_counts({"s": s[:1_000]})["q"].net == 0
    assert proposed_by(program.last_tick.work) == 0
    assert program.step_counts({"s": [(tuple(row), -1) for row in s.tolist()]})["q"].net == -n_rows


@pytest.mark.parametrize(
    "text",
    [
        "h(x) :- r(x, _).",
        "h(x, y) :- r(x, y), s(y, x).",
        "h(x) :- r(x, y), s(y, z), x < z.",
        "h(x) :- r(x, y), s(y, z), 10 / z > x.",
        "h(x, z) :- r(x, y), s(y, z), abs(x) > 2.",
        "p(x, y) :- r(x, y). h(x) :- p(x, _), p(_, x).",
    ],
)
def test_what_is_not(text):
    rules = parse(text)
    assert narrow_inputs(rules) == rules


@pytest.mark.parametrize(
    "text", ["h(x) :- r(x, _).", "h(x, y) :- r(x, y), s(y, x), x < 3.", "h(x) :- r(x, y), s(y, x), !t(x, _)."]
)
def test_what_a_set_does_not_project(text):
    rules = parse(text)
    assert project_sets(rules) == rules


def test_equal_needs_share_a_helper():
    rules = narrow_inputs(parse("h(x, z) :- r(x, y, _), r(y, z, _)."))
    assert [str(rule) for rule in rules.rules] == [
        "r#cut1(c0, c1) :- r(c0, c1, _).",
        "h(x, z) :- r#cut1(x, y), r#cut1(y, z).",
    ]
