"""The core form of programs, as text."""

import random
from inspect import cleandoc

import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import TypeMismatchError
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.desugar import desugar
from gpu_wcoj.query.ir import Rules
from gpu_wcoj.query.printer import as_datalog, serialize
from tests.reference.core import from_core
from tests.reference.fixpoint import fixpoint
from tests.reference.program_text import written

GOLDEN = {
    "a count of nothing is 0": (
        """
        fanout(x, n) :- node(x), n = count : { edge(x, _) }.
        """,
        """
        rule#1(x, any#1) :- edge(x, any#1).
        has#1(x) :- agg#1(x, _).
        fanout(x, n) :- node(x), agg#1(x, n).
        fanout(x, 0) :- node(x), !has#1(x).
        agg#1: count of rule#1 by its first column
        """,
    ),
    "an aggregate without keys": (
        """
        total(n) :- n = sum v : { r(_, v) }.
        """,
        """
        unit#facts(0).
        rule#1(v, any#1) :- r(any#1, v).
        has#1(0) :- agg#1(_).
        total(n) :- agg#1(n).
        total(0) :- unit#facts(_), !has#1(0).
        agg#1: sum of rule#1 by nothing
        """,
    ),
    "the least of nothing is nothing": (
        """
        h(x, m) :- r(x), m = min v : { s(x, v, _), v > 3 }.
        """,
        """
        rule#1(x, v, any#1) :- s(x, v, any#1), v > 3.
        h(x, m) :- r(x), agg#1(x, m).
        agg#1: min of rule#1 by its first column
        """,
    ),
    "what the braces do not bind": (
        """
        h(x + 1, n) :- r(x), n = count : { s(y), y < x }.
        """,
        """
        row#1(x) :- r(x).
        keys#1(x) :- once#1(x, _).
        rule#1(x, y) :- keys#1(x), s(y), y < x.
        has#1(x) :- agg#1(x, _).
        h(#1, n) :- r(x), agg#1(x, n), #1 = x + 1.
        h(#1, 0) :- r(x), !has#1(x), #1 = x + 1.
        once#1: count of row#1 by its first column
        agg#1: count of rule#1 by its first column
        """,
    ),
    "aggregates in comparisons, one of them twice": (
        """
        h(x) :- r(x), max v : { s(x, v) } > 2, 5 > max v : { s(x, v) }.
        """,
        """
        rule#1(x, v) :- s(x, v).
        h(x) :- r(x), agg#1(x, #1), #1 > 2, 5 > #1.
        agg#1: max of rule#1 by its first column
        """,
    ),
    "two counts": (
        """
        h(x, a, b) :- r(x), a = count : { s(x, _) }, b = count : { t(x, y), y < a }.
        """,
        """
        rule#1(x, any#1) :- s(x, any#1).
        has#1(x) :- agg#1(x, _).
        row#2(x, a) :- r(x), agg#1(x, a).
        keys#2(x, a) :- once#2(x, a, _).
        rule#2(x, a, y) :- keys#2(x, a), t(x, y), y < a.
        has#2(x, a) :- agg#2(x, a, _).
        h(x, a, b) :- r(x), agg#1(x, a), agg#2(x, a, b).
        rule#3(x, y) :- t(x, y), y < 0.
        has#3(x) :- agg#3(x, _).
        h(x, 0, b) :- r(x), agg#3(x, b), !has#1(x).
        h(x, a, 0) :- r(x), agg#1(x, a), !has#2(x, a).
        h(x, 0, 0) :- r(x), !has#1(x), !has#3(x).
        agg#1: count of rule#1 by its first column
        once#2: count of row#2 by its first 2 columns
        agg#2: count of rule#2 by its first 2 columns
        agg#3: count of rule#3 by its first column
        """,
    ),
    "aggregates of aggregates": (
        """
        h(x, m) :- r(x), m = max n : { s(x, y), n = count : { t(y, _) } }.
        """,
        """
        rule#2(y, any#1) :- t(y, any#1).
        has#2(y) :- agg#2(y, _).
        rule#1(x, n) :- s(x, y), agg#2(y, n).
        rule#1(x, 0) :- s(x, y), !has#2(y).
        h(x, m) :- r(x), agg#1(x, m).
        agg#2: count of rule#2 by its first column
        agg#1: max of rule#1 by its first column
        """,
    ),
    "heads that aggregate": (
        """
        b(x, min(v)) :- r(x, v, _).
        c(max(v), x) :- r(x, v, _).
        t(x, sum(v + 1)) :- r(x, v, _).
        k(count()) :- r(_, _, _).
        """,
        """
        rule#1(x, v, any#1) :- r(x, v, any#1).
        c(c0, c1) :- agg#2(c1, c0).
        rule#2(x, v, any#1) :- r(x, v, any#1).
        rule#3(x, #1, v, any#1) :- r(x, v, any#1), #1 = v + 1.
        rule#4(any#1, any#2, any#3) :- r(any#1, any#2, any#3).
        b: min of rule#1 by its first column
        agg#2: max of rule#2 by its first column
        t: sum of rule#3 by its first column
        k: count of rule#4 by nothing
        """,
    ),
    "counts without a column": (
        """
        k(count()) :- r(1).
        h(x) :- s(x), count : { r(2) } < 1.
        """,
        """
        rule#1(0) :- r(1).
        rule#2(0) :- r(2).
        has#2(0) :- agg#2(_).
        h(x) :- s(x), agg#2(#1), #1 < 1.
        h(x) :- s(x), !has#2(0).
        k: count of rule#1 by nothing
        agg#2: count of rule#2 by nothing
        """,
    ),
    "several rules of the least": (
        """
        b(x, min(v)) :- r(x, v, _).
        b(x, min(2 * v)) :- s(x, v).
        """,
        """
        rule#1(x, v) :- r(x, v, _).
        rule#1(x, #1) :- s(x, v), #1 = 2 * v.
        b: min of rule#1 by its first column
        """,
    ),
    "the least through recursion": (
        """
        d(x, min(0)) :- s(x).
        d(y, min(v + w)) :- d(x, v), e(x, y, w).
        """,
        """
        d(x, 0) :- s(x).
        d(y, #1) :- d(x, v), e(x, y, w), #1 = v + w.
        d: min of column 1
        """,
    ),
    "calculation in heads, atoms and negated atoms": (
        """
        h(x, y * 2) :- r(x), y = x + 1, !s(y), !t(x - 1, x), u(x, x + 1).
        """,
        """
        h(x, #3) :- r(x), u(x, #1), !s(#2), !t(#4, x), #2 = x + 1, #3 = #2 * 2, #4 = x - 1, #1 = #2.
        """,
    ),
    "equalities bind before negation": (
        """
        h(x, y, z) :- r(x), y = x, z = 5, !s(y, z).
        """,
        """
        h(x, x, 5) :- r(x), !s(x, 5).
        """,
    ),
    "texts": (
        """
        h(cat(a, b, "!"), strlen(a)) :- r(a, b), substr(a, 0, 1) = b.
        """,
        """
        h(#3, #4) :- r(a, b), #1 = substr(a, 0, 1), #2 = cat(a, b), #3 = cat(#2, "!"), #4 = strlen(a), #1 = b.
        """,
    ),
    "constants": (
        """
        h(x, 1 + 2 * 3, cat("a", "b")) :- r(x), x < 7 / -2, 1 < 2.
        h(0, 0, "") :- 2 < 1.
        h(y, y, z) :- y = 3 - 1, z = "c".
        """,
        """
        h#facts(2, 2, "c").
        h(x, 7, "ab") :- r(x), x < -3.
        h(c0, c1, c2) :- h#facts(c0, c1, c2).
        """,
    ),
    "wildcards in negated atoms": (
        """
        h(x) :- r(x), !s(x, _), !s(5, _), !s(_, x), !t(_).
        """,
        """
        some#1(c0) :- s(c0, _).
        some#2(c1) :- s(_, c1).
        some#3(0) :- t(_).
        h(x) :- r(x), !some#1(x), !some#1(5), !some#2(x), !some#3(0).
        """,
    ),
    "nothing positive": (
        """
        h(1) :- !s(2).
        g(y) :- y = 1 + 1, !s(y).
        """,
        """
        unit#facts(0).
        h(1) :- unit#facts(_), !s(2).
        g(2) :- unit#facts(_), !s(2).
        """,
    ),
    "facts": (
        """
        e(1, 2).
        e(2, 1 + 2).
        p(x, y) :- e(x, y).
        """,
        """
        e#facts(1, 2).
        e#facts(2, 3).
        p(x, y) :- e(x, y).
        e(c0, c1) :- e#facts(c0, c1).
        """,
    ),
    "an input that is a head": (
        """
        .decl e(a: int32, b)
        .input e
        e(x, y) :- e(y, x).
        e(5, 5).
        """,
        """
        .decl e(a: int32, b)
        .decl e#in(a: int32, b)
        .decl e#facts(a: int32, b)
        e#facts(5, 5).
        e(x, y) :- e(y, x).
        e(a, b) :- e#in(a, b).
        e(a, b) :- e#facts(a, b).
        """,
    ),
    "a head without rules that derive anything": (
        """
        h(x) :- x = 1, 2 = 3.
        g(x) :- r(x), !h(x).
        """,
        """
        g(x) :- r(x), !h(x).
        h(c0) :- h#facts(c0).
        """,
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name):
    text, expected = (cleandoc(part) for part in GOLDEN[name])
    assert str(desugar(parse(text))) == expected


def test_what_is_in_core_form_stays():
    plain = parse("h(x) :- r(x, _), s(x, 5), x != 3, y = x. g(x) :- h(x), !s(x, 5).")
    assert desugar(plain) is plain
    for text, _ in GOLDEN.values():
        once = desugar(parse(text))
        assert desugar(once) is once


def test_the_text_stays_that_of_the_program():
    rules = parse("h(x + 1) :- r(x).")
    assert serialize(desugar(rules)) == rules.text
    assert serialize(desugar(Rules(rules.rules))) == "h(x + 1) :- r(x)."


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("7 / 2", 3),
        ("-7 / 2", -3),
        ("7 / -2", -3),
        ("-7 / -2", 3),
        ("7 % 3", 1),
        ("-7 % 3", -1),
        ("7 % -3", 1),
        ("-7 % -3", -1),
        ("-9223372036854775808 % -1", 0),
        ("7 / 2.0", 3.5),
        ("-7.5 % 2", -1.5),
        ("1 + 0.5 * 2", 2.0),
        ("-(-5)", 5),
        ("2 - 3 - 4", -5),
        ("quotient(-7, 2)", -3),
        ("quotient(7, 2.0)", 3.5),
        ("rest(-7.5, 2)", -1.5),
        ('strlen("größe")', 5),
        ('substr("größe", 1, 2)', "rö"),
        ('substr("abc", 2, 9)', "c"),
        ('substr("abc", 3, 1)', ""),
        ('cat("a", "", "b")', "ab"),
        ('upper("straße")', "STRASSE"),
        ('upcase("straße")', "STRAẞE"),
        ('downcase("ΑΣ")', "ασ"),
    ],
)
def test_constants_are_worked_out(expression, value):
    (facts,) = desugar(parse(f"h({expression}).")).facts
    assert facts.rows == ((value,),)
    assert type(facts.rows[0][0]) is type(value)


@pytest.mark.drawn("bag")
@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
@pytest.mark.parametrize("name", [name for name in GOLDEN if name not in ("texts", "constants")])
def test_the_core_form_means_what_the_text_means(name, bag):
    text = cleandoc(GOLDEN[name][0])
    rules = parse(text)
    for seed in range(20):
        chance = random.Random(f"{name} {seed}")
        given = {
            name: {
                tuple(chance.choices(range(5), k=rules.arity[name])): chance.choice((1, 1, 3) if bag else (1,))
                for _ in range(chance.randint(0, 8))
            }
            for name in rules.inputs
        }
        expected = fixpoint(written(text), given, bag)
        lowered = desugar(rules)
        inputs = {name if name in lowered.inputs else f"{name}#in": rows for name, rows in given.items()}
        found = fixpoint(from_core(lowered), inputs, bag)
        assert {head: found[head] for head in expected} == expected


def test_inputs_that_are_declared_and_not_read():
    program = gw.Program(".decl t(a: int64, s: string)\n.input t\nh(x) :- r(x).")
    assert program.inputs == ("r", "t")
    assert program.step({"t": [(1, "x")], "r": [(2,)]})["h"].to_dict() == {(2,): 1}
    assert program.step({"t": [((1, "x"), -1), ((3, None), 1)]})["h"].to_dict() == {}
    assert program.relation("t").to_dict() == {(3, None): 1}
    assert "t#unread   (lets t take rows, which no rule reads that can hold)" in program.explain()
    assert "  t[a, s, s is null]" in program.explain()
    with pytest.raises(TypeMismatchError):
        program.step({"t": [("y", 2)]})
    assert parse(as_datalog(program.rules)) == program.rules


def test_inputs_that_only_rules_read_which_derive_nothing():
    text = "m(a) :- v(a), e(a, b), !e(_, a), 0 != 0. t(count()) :- z(x), 1 > 2."
    lowered = desugar(parse(text))
    assert {"v", "e", "z"} <= set(lowered.inputs)
    program = gw.Program(text)
    program.step({"v": [(1,)], "e": [(1, 2)], "z": [("a",)]})
    assert program.relation("z").to_dict() == {("a",): 1}
    assert program.relation("m").to_dict() == program.relation("t").to_dict() == {}
