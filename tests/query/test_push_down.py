"""Heads hold what is asked of them: answers and state stay as without push-down, and less is looked at."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import TypeMismatchError
from gpu_wcoj.join.settings import tune
from gpu_wcoj.kernels.protocol import PROBES, PROPOSALS
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.desugar import desugar
from gpu_wcoj.query.push_down import push_down
from gpu_wcoj.query.stratify import loops_of
from tests.helpers.asked_programs import TARGETS, asked_text
from tests.helpers.comparison import SMALL, check_scripts, fed, random_script, translated
from tests.helpers.counted_work import total_work
from tests.helpers.kernel_kinds import needed
from tests.helpers.long_tests import IS_LONG

OFF = {"off": frozenset({"push down"})}
BLOCKS = 4
N_PROGRAMS = 400 if IS_LONG else 48

REWRITTEN = {
    "a constant, in all rules": (
        "p(k, v) :- h(k, v), g(k, _). p(v, k) :- s(k, v). q(v) :- p(5, v).",
        "p(k, v) :- h(k, v), g(k, _), k = 5. p(v, k) :- s(k, v), v = 5. q(v) :- p(5, v).",
    ),
    "the weaker of two bounds": (
        "p(k, v) :- h(k, v), g(v, _). q(v) :- p(k, v), k < 5. r(v) :- p(k, v), k <= 7.",
        "p(k, v) :- h(k, v), g(v, _), k <= 7. q(v) :- p(k, v), k < 5. r(v) :- p(k, v), k <= 7.",
    ),
    "a constant within a bound": (
        "p(k, v) :- h(k, v), g(v, _). q(v) :- p(4, v). r(v) :- p(k, v), k < 9.",
        "p(k, v) :- h(k, v), g(v, _), k < 9. q(v) :- p(4, v). r(v) :- p(k, v), k < 9.",
    ),
    "a constant that a rule does not derive": (
        "p(3, v) :- h(_, v), s(v). p(k, v) :- h(k, v), s(k). q(v) :- p(5, v).",
        "p(3, v) :- h(_, v), s(v), 0 != 0. p(k, v) :- h(k, v), s(k), k = 5. q(v) :- p(5, v).",
    ),
    "through two helpers": (
        "o(k, v) :- h(k, v), g(v, _). p(v, k) :- o(k, v). p(v, k) :- s(k, v). q(v) :- p(v, k), k = 2.",
        ("o(k, v) :- h(k, v), g(v, _), k = 2. p(v, k) :- o(k, v). p(v, k) :- s(k, v), k = 2. q(v) :- p(v, k), k = 2."),
    ),
    "what another relation guarantees": (
        "o(k, v) :- h(k, v), k = 2. p(k, v) :- g(k, v), h(v, _). q(v) :- o(k, v), p(k, v).",
        "o(k, v) :- h(k, v), k = 2. p(k, v) :- g(k, v), h(v, _), k = 2. q(v) :- o(k, v), p(k, v).",
    ),
    "in place of the atom": (
        "p(k, v, w) :- h(k, v), g(k, w), v < w. q(k, w) :- s(k), p(k, 3, w).",
        "q(k, w) :- s(k), h(k, v#0), g(k, w), v#0 = 3, v#0 < w.",
    ),
    "values of one atom, tested by others": (
        "p(k, v) :- h(k, v), g(k, _). q(k, v) :- s(k), t(v, k), p(k, v).",
        (
            "p(k, v) :- asked#1(k, v), h(k, v), g(k, _). q(k, v) :- s(k), t(v, k), p(k, v). "
            "asked#1(k, v) :- t(v, k), s(k)."
        ),
    ),
    "the keys of groups": (
        "p(k, max(v)) :- h(k, w), g(w, v). q(k, v) :- s(k), p(k, v).",
        (
            "rule#1(k, v) :- asked#1(k), h(k, w), g(w, v). q(k, v) :- s(k), p(k, v). asked#1(k) :- s(k). "
            "p: max of rule#1 by its first column"
        ),
    ),
    "no product of two atoms": (
        "p(k, v) :- h(k, w), g(w, v). q(k, v) :- s(k), s(v), !p(k, v).",
        "p(k, v) :- asked#1(k), h(k, w), g(w, v). q(k, v) :- s(k), s(v), !p(k, v). asked#1(k) :- s(k).",
    ),
    "the beginning of a recursion that keeps it": (
        "r(x, y) :- e(x, y). r(x, z) :- r(x, y), e(y, z). q(y) :- r(5, y).",
        "r(x, y) :- e(x, y), x = 5. r(x, z) :- r(x, y), e(y, z), x = 5. q(y) :- r(5, y).",
    ),
    "several beginnings of a recursion": (
        "r(x, y) :- e(x, y). r(x, z) :- e(x, y), r(y, z). q(x, y) :- s(x), r(x, y).",
        (
            "r(x, y) :- asked#1(x), e(x, y). r(x, z) :- asked#1(x), e(x, y), r(y, z). q(x, y) :- s(x), r(x, y). "
            "asked#1(x) :- s(x). asked#1(y) :- asked#1(x), e(x, y)."
        ),
    ),
    "both sides of a square": (
        "r(x, y) :- e(x, y). r(x, z) :- r(x, y), r(y, z). q(x, y) :- s(x), r(x, y).",
        (
            "r(x, y) :- asked#1(x), e(x, y). r(x, z) :- r(x, y), r(y, z). q(x, y) :- s(x), r(x, y). "
            "asked#1(x) :- s(x). asked#1(y) :- asked#1(x), r(x, y)."
        ),
    ),
}
KEPT = {
    "one reader asks for nothing": "p(k, v) :- h(k, v), g(v, _). q(v) :- p(5, v). r(v, k) :- p(k, v).",
    "another constant": "p(k) :- h(k, v), g(v, _). q(x) :- p(null), s(x). r(x) :- p(5), s(x).",
    "the value that is aggregated": "p(k, sum(v)) :- h(k, v), g(v, _). q(k) :- p(k, 5).",
    "a calculation that may fail": "p(k, 1 / v) :- h(k, v), g(v, _). q(v) :- p(5, v).",
    "a variable that joins null": "p(k?, v) :- h(k?, w), g(w, v). q(k?, v) :- s(k?), p(k?, v).",
}


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


@pytest.mark.parametrize("name", REWRITTEN)
def test_rules_are_rewritten(name):
    text, expected = REWRITTEN[name]
    rules = desugar(parse(text))
    outputs = [head for head in ("q", "r") if head in rules.heads and not text.startswith("r(")] or ["q"]
    found = push_down(rules, outputs).rules
    assert _plain(str(found)) == _plain(expected)


@pytest.mark.parametrize("body", ["s(k, x), t(v, k, w), u(w, x)", "t(v, k, w), u(w, x), s(k, x)"])
def test_the_atom_that_binds_the_most_columns_asks(body):
    """For one answer, whatever the order of the atoms."""
    rules = desugar(parse(f"p(k, v) :- h(k, w), g(w, v). q(k, v) :- {body}, !p(k, v)."))
    found = push_down(rules, ["q"], is_single=True).rules
    assert "asked#1(k, v) :- t(v, k, w)." in str(found)


@pytest.mark.parametrize("name", KEPT)
def test_rules_are_kept(name):
    rules = desugar(parse(KEPT[name]))
    pushed = push_down(rules, [head for head in ("q", "r") if head in rules.heads])
    assert pushed.rules == rules
    assert not pushed.partial


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2)])
def test_a_helper_that_asked_values_would_read_is_written_into_its_reader(order):
    """The order of rules decides which head is visited first."""
    rules = "p(k, v, w) :- h(k, v), g(k, w).", "n(v, x) :- h(v, y), g(y, x).", "q(k, w) :- s(k), p(k, v, w), !n(v, w)."
    found = push_down(desugar(parse(" ".join(rules[number] for number in order))), ["q"], is_single=True).rules
    assert _plain(str(found)) == (
        "n(v, x) :- asked#1(v), h(v, y), g(y, x). q(k, w) :- s(k), h(k, v), g(k, w), !n(v, w). "
        "asked#1(v) :- h(k, v), s(k)."
    )


def test_two_heads_do_not_restrict_each_other():
    text = "p(y) :- e(y, w), e(w, _). r(y) :- f(y, w), f(w, _). q(y) :- p(y), r(y)."
    rules = push_down(parse(text), ["q"]).rules
    assert sum(rule.head.relation.startswith("asked#") for rule in rules.rules) == 1
    assert not loops_of(rules)
    check_scripts(text, [1, 2])


@pytest.mark.parametrize("name", [name for name, text in TARGETS.items() if "?" in text or "null" in text])
def test_programs_that_no_judge_reads_answer_as_without_push_down(name, backend):
    for seed in range(8) if IS_LONG else (0, 3, 6):
        check_against_none(TARGETS[name], seed, SMALL | {1: None, 2**40: 1}, bag=seed > 5, backend=backend.name)


def check_against_none(text: str, seed: int, values: Mapping[object, object], **options: Any) -> None:
    """Compare changes and relations with those of the program without push-down, after every tick."""
    program = gw.Program(text, **options)
    with tune(**OFF):
        other = gw.Program(text, **options)
    arities = {name: program.arity(name) for name in program.inputs}
    for tick in translated(random_script(random.Random(f"{text} {seed}"), arities), values):
        tick = {name: tick.get(name, ("rows", [])) for name in arities}
        changes = {name: fed(change, arities[name]) for name, change in tick.items()}
        expected = {name: change.to_dict() for name, change in other.step(changes).items()}
        assert {name: change.to_dict() for name, change in program.step(changes).items()} == expected
        for name in program.heads:
            assert program.relation(name).to_dict() == other.relation(name).to_dict()


@pytest.mark.drawn("block", share=2)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_one_answer_is_that_without_push_down(block):
    for seed in range(block, N_PROGRAMS, BLOCKS):
        chance = random.Random(f"single {seed}")
        text = asked_text(chance, seed % 2 == 0)
        values = (0, 1, 2, 3, None) if seed % 5 == 0 else (0, 1, 2, 3)
        arity = parse(text).arity
        tables = {}
        for name in parse(text).inputs:
            rows = [[chance.choice(values) for _ in range(arity[name])] for _ in range(chance.randint(0, 12))]
            tables[name] = pa.table({f"c{i}": pa.array([row[i] for row in rows], "int64") for i in range(arity[name])})
        answers = []
        for settings in ({}, OFF):
            with tune(**settings):
                program = gw.Program(text, bag=seed % 3 == 0, threads=1)
                answer = gw.query(text, tables, bag=seed % 3 == 0, threads=1, outputs=program.outputs)
            answers.append({name: result.to_zset().to_dict() for name, result in answer.items()})
        assert answers[0] == answers[1], text


def _hubs() -> dict[str, pa.Table]:
    chance = np.random.default_rng(7)
    tables = {}
    for name in ("h", "g"):
        keys = chance.integers(0, 800, 800)
        keys[chance.random(800) < 0.3] = 0
        tables[name] = pa.table({"k": keys, "v": chance.integers(0, 800, 800)})
    return {**tables, "s": pa.table({"k": np.arange(3) + 1})}


PAIRS = {
    "DISTINCT": (
        "SELECT DISTINCT h.k, h.v, g.v w FROM h, g WHERE h.k = g.k AND h.k = 5",
        "SELECT q.k, q.v, q.w FROM (SELECT DISTINCT h.k, h.v, g.v w FROM h, g WHERE h.k = g.k) q WHERE q.k = 5",
    ),
    "GROUP BY": (
        "SELECT h.k, h.v, min(g.v) m FROM h, g WHERE h.k = g.k AND h.k = 5 GROUP BY h.k, h.v",
        (
            "SELECT q.k, q.v, q.m FROM (SELECT h.k, h.v, min(g.v) m FROM h, g WHERE h.k = g.k GROUP BY h.k, h.v) q "
            "WHERE q.k = 5"
        ),
    ),
    "UNION": (
        "SELECT h.k, h.v, g.v w FROM h, g WHERE h.k = g.k AND h.k = 5 UNION SELECT k, k, k FROM s WHERE k = 5",
        (
            "SELECT q.k, q.v, q.w FROM (SELECT h.k, h.v, g.v w FROM h, g WHERE h.k = g.k "
            "UNION SELECT k, k, k FROM s) q WHERE q.k = 5"
        ),
    ),
    "EXISTS": (
        "SELECT h.k FROM h WHERE h.k = 5 AND EXISTS (SELECT 1 FROM g, g f WHERE g.k = 5 AND f.k = g.k)",
        "SELECT h.k FROM h WHERE h.k = 5 AND EXISTS (SELECT 1 FROM g, g f WHERE g.k = h.k AND f.k = g.k)",
    ),
    "a helper rule": (
        "q(k, v, w) :- s(k), h(k, v), g(k, w).",
        "p(k, v, w) :- h(k, v), g(k, w). q(k, v, w) :- s(k), p(k, v, w). .output q",
    ),
    "a helper that projects": (
        "q(k, v) :- s(k), h(k, v), g(k, _), !g(v, k).",
        "p(k, v) :- h(k, v), g(k, w). q(k, v) :- s(k), h(k, v), p(k, v), !g(v, k). .output q",
    ),
    "a helper that two branches read": (
        "q(k, v) :- s(k), h(k, v), g(k, w), (v < 50 ; w < 50).",
        "p(k, v, w) :- h(k, v), g(k, w). q(k, v) :- s(k), p(k, v, w), (v < 50 ; w < 50). .output q",
    ),
    "a closure": (
        "q(5, y) :- h(5, y). q(5, z) :- q(5, y), h(y, z).",
        "r(x, y) :- h(x, y). r(x, z) :- h(x, y), r(y, z). q(5, y) :- r(5, y). .output q",
    ),
    "a recursive WITH": (
        (
            "WITH RECURSIVE r(y) AS (SELECT v FROM h WHERE k = 5 UNION SELECT h.v FROM r, h WHERE h.k = r.y) "
            "SELECT y FROM r"
        ),
        (
            "WITH RECURSIVE r(x, y) AS (SELECT k, v FROM h UNION SELECT h.k, r.y FROM h, r WHERE h.v = r.x) "
            "SELECT y FROM r WHERE x = 5"
        ),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_condition_outside_costs_what_it_costs_inside(name):
    needed("numba")
    tables = _hubs()
    work, answers = [], []
    for text in PAIRS[name]:
        read = {table: rows for table, rows in tables.items() if re.search(rf"\b{table}\b[( .,)]", text)}
        view = gw.view(text, read, threads=1)
        counted = total_work(view.program)
        work.append(int(counted[PROPOSALS] + counted[PROBES]))
        answers.append(view.snapshot().to_zset().to_dict())
    assert answers[0] == answers[1]
    assert work[1] <= 2 * work[0] + 10, work


def test_a_head_in_part_is_read_in_full():
    text = "p(k, v) :- h(k, w), g(w, v). o(k, v) :- h(k, v), g(v, k). q(v) :- p(1, v). r(k, v) :- s(k), o(k, v)."
    text += " .output q .output r"
    with tune(**OFF):
        whole = gw.Program(text)
    program = gw.Program(text)
    for head in ("p", "o"):
        assert program.empty(head).rows() == program.relation(head).rows() == []
    ticks = [
        {"h": [(1, 2), (2, 3), (4, 4)], "g": [(2, 7), (3, 8), (2, 1)], "s": [(1,)]},
        {"h": [((1, 2), -1), ((3, 2), 1)], "s": [(3,)]},
    ]
    for tick in ticks:
        assert {name: change.to_dict() for name, change in program.step(tick).items()} == {
            name: change.to_dict() for name, change in whole.step(tick).items()
        }
        for head in program.heads:
            assert program.relation(head) == whole.relation(head)
            assert program.count(head) == whole.count(head)
            assert program.empty(head).names == whole.empty(head).names
    kept = gw.Program(text, keep=["p"])
    assert "p (" not in kept.explain().splitlines()[1]


def test_text_and_nulls_are_read_in_full():
    text = "p(k, v) :- h(k, w), g(w, v). q(v) :- p('b', v). .output q".replace("'", '"')
    program = gw.Program(text)
    rows = {
        "h": pa.table({"k": ["a", "b", None], "w": pa.array([1, 2, None], "int32")}),
        "g": pa.table({"w": pa.array([1, 2, 2], "int64"), "v": [1.5, None, 2.5]}),
    }
    program.step(rows)
    assert sorted(program.relation("p").rows(), key=str) == [
        (("a", 1.5), 1), (("b", 2.5), 1), (("b", None), 1),
    ]  # fmt: skip
    assert program.count("p") == 3
    assert program.empty("p").to_arrow().schema.types == program.relation("p").to_arrow().schema.types


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ('p(k, v) :- h(k, v), g(k, _). q(v) :- p("a", v). .output q', {"h": [(1, 2)], "g": [(1, 1)]}),
        ('p(k, v, w) :- h(k, v), g(k, w). q(v, w) :- p("a", v, w). .output q', {"h": [(1, 2)], "g": [(1, 1)]}),
        ('r(x, y) :- e(x, y). r(x, z) :- e(x, y), r(y, z). q(y) :- r("a", y). .output q', {"e": [(1, 2)]}),
    ],
)
def test_errors_name_rules_of_the_text(text, rows):
    place = text.index('("a"')
    with pytest.raises(TypeMismatchError, match=rf"is compared with 'a' \(line 1, column {place}\)\n") as raised:
        gw.Program(text).step(rows)
    assert "#" not in str(raised.value)


def test_explain_names_what_is_pushed_down():
    program = gw.Program("p(k, v) :- h(k, v), g(k, _). q(v) :- s(w), p(5, v). .output q")
    assert "pushed down: p (only k = 5)" in program.explain().splitlines()
    with tune(**OFF):
        program = gw.Program("p(k, v) :- h(k, v), g(k, _). q(v) :- p(5, v). .output q")
    assert "pushed down" not in program.explain()


@pytest.mark.parametrize("was_on", [False, True])
@pytest.mark.parametrize("is_on", [False, True])
def test_a_checkpoint_with_or_without(was_on, is_on, tmp_path):
    text = "r(x, y) :- e(x, y). r(x, z) :- e(x, y), r(y, z). p(x, z) :- e(x, y), e(y, z). q(y) :- r(1, y)."
    text += " t(z) :- s(x), p(x, z). .output q .output t"
    with tune(**({} if was_on else OFF)):
        program = gw.Program(text, inputs=["e", "s"])
    program.step({"e": [(1, 2), (2, 3), (5, 6), (3, 1)], "s": [(5,), (2,)]})
    program.checkpoint(tmp_path)
    program.step({"e": [(6, 7)]})
    program.checkpoint(tmp_path)
    with tune(**({} if is_on else OFF)):
        again = gw.Program.restore(tmp_path)
    for number, tick in enumerate([{"e": [(7, 8), (3, 4)]}, {"e": [((2, 3), -1)], "s": [(1,)]}]):
        expected = {name: change.to_dict() for name, change in program.step(tick).items()}
        assert {name: change.to_dict() for name, change in again.step(tick).items()} == expected, number
        again.checkpoint(tmp_path)
        again = gw.Program.restore(tmp_path)
    for head in program.heads:
        assert again.relation(head) == program.relation(head)
