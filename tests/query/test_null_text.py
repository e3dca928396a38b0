"""Null and null-safe variables in Datalog text: parsing, printing, errors."""

from __future__ import annotations

import pytest

from gpu_wcoj.errors import DatalogSyntaxError, UnsafeRuleError, UnsupportedError
from gpu_wcoj.query.check import check
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.desugar import desugar
from gpu_wcoj.query.ir import NULL, Atom, Comparison, Constant, Rule, Rules, Variable

X, Y, SAFE = Variable("x"), Variable("y"), Variable("x?")


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("f(1, null).", Rule(Atom("f", (Constant(1), NULL)), ())),
        (
            "h(x, null) :- r(x, null), !s(null, x).",
            Rule(Atom("h", (X, NULL)), (Atom("r", (X, NULL)),), (), (Atom("s", (NULL, X)),)),
        ),
        (
            "h(x) :- r(x, y), y = null, null != x.",
            Rule(Atom("h", (X,)), (Atom("r", (X, Y)),), (Comparison("=", Y, NULL), Comparison("!=", NULL, X))),
        ),
        ("h(x?) :- r(x?, x?).", Rule(Atom("h", (SAFE,)), (Atom("r", (SAFE, SAFE)),))),
    ],
)
def test_text(text, rule):
    rules = parse(text)
    assert rules.rules == (rule,)
    assert str(rules) == text
    assert parse(str(rules)) == rules


@pytest.mark.parametrize(
    "text",
    [
        "h(count?, not?, true_?) :- r(count?, not?), s(true_?).",
        "h(x?, n) :- q(x?), n = count : { r(x?, _), !s(null) }.",
        "h(x?, sum(y)) :- r(x?, y), z? = null, s(z?).",
        "h(nullable, null_) :- r(nullable, null_).",
        "h(x) :- r(x, y), y + 1 != null.",
    ],
)
def test_texts_that_parse_again(text):
    rules = parse(text)
    assert parse(str(rules)) == rules


def test_the_core_form_keeps_them():
    rules = desugar(parse("h(x?, n) :- q(x?), n = count : { r(x?, _) }, !s(_, null)."))
    shown = str(rules)
    assert "agg#2(x?, n)" in shown or "agg#1(x?, n)" in shown
    assert "!has#" in shown
    assert "null" in shown


@pytest.mark.parametrize(
    ("text", "what", "column"),
    [
        ("h(x) :- r(x, y), y < null.", "null has no order", 18),
        ("h(x) :- r(x), 5 = null.", "asks a constant for null", 15),
        ("h(x) :- r(x), null = null.", "asks a constant for null", 15),
        ("h(x) :- r(x, y?), y? < 5.", "'y\\?' may be null, and cannot be compared", 19),
        ("h(x) :- r(x, y?), y? = 5.", "cannot be compared", 19),
        ("h(x) :- r(x?, x), s(x).", "'x' stands here with and without '\\?'", 1),
        ("h(n) :- n = count : { r(x?, _) }, q(x).", "with and without '\\?'", 1),
        ("h(z) :- r(x?), z = x? + 1.", "'x\\?' may be null, and 'x\\? \\+ 1' calculates with it; write 'x'", 20),
        ("h(x, z) :- r(x), z = strlen(null).", "null has no value, and 'strlen\\(null\\)' calculates with it", 22),
        ("h(null + 1) :- r(_).", "null has no value", 3),
        ("h(x) :- r(x, -y?), s(y?).", "'y\\?' may be null, and '-y\\?' calculates", 14),
        ("h(x, sum(y?)) :- r(x, y?).", "'sum\\(y\\?\\)' aggregates it", 6),
        ("h(x, min(null)) :- r(x).", "aggregates it", 6),
        ("h(n) :- n = sum y? : { r(y?) }.", "'sum' aggregates it", 13),
        ("h(x) :- r(x, y), z = y, z = null.", "what no relation binds", 25),
        ("h(x) :- r(x, y), y + 1 = null.", "what is calculated", 18),
        ("h(n) :- q(x), n = count : { r(_), x = null }.", "ask outside of them", 35),
        ("h(n) :- n = count : { r(y), y < null }.", "null has no order", 29),
    ],
)
def test_what_null_cannot_do(text, what, column):
    with pytest.raises(UnsupportedError, match=what) as raised:
        parse(text)
    assert f"(line 1, column {column})" in str(raised.value)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("null(x) :- r(x).", "'null' is a constant and cannot be a name"),
        ("h(x) :- null(x).", "'null' is a constant and cannot be a name"),
        (".decl r(null)\nh(x) :- r(x).", "'null' is a constant and cannot be a name"),
        ("h(x) :- r(null?).", "'null' is a constant and cannot be a name"),
        ("h(x) :- r(x, _?).", "'_' stands for a value and cannot be a name"),
        ("h(x) :- r?(x).", r"expected a comparison .* after 'r\?'"),
        (f"h(x) :- r({'x' * 256}?).", "the name has 256 characters"),
    ],
)
def test_what_is_no_name(text, what):
    with pytest.raises(DatalogSyntaxError, match=what):
        parse(text)


@pytest.mark.parametrize("text", ["h(x) :- r(x), y = null.", "h(x) :- r(x), y != null.", "h(x?) :- r(x), !s(x?)."])
def test_a_test_binds_nothing(text):
    with pytest.raises((UnsafeRuleError, UnsupportedError), match="is not bound|with and without"):
        parse(text)


def test_rules_that_no_text_gave_are_checked_too():
    rule = Rule(Atom("h", (X,)), (Atom("r", (X, SAFE)),))
    with pytest.raises(UnsupportedError, match="with and without"):
        check(Rules((rule,)))
