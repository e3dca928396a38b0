"""Null and null-safe variables in Datalog text: parsing, printing, errors."""

from __future__ import annotations

import pytest

from gpu_wcoj.errors import UnsupportedError
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


def test_rules_that_no_text_gave_are_checked_too():
    rule = Rule(Atom("h", (X,)), (Atom("r", (X, SAFE)),))
    with pytest.raises(UnsupportedError, match="with and without"):
        check(Rules((rule,)))
