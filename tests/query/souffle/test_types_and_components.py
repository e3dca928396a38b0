"""Types and components: what is found before any row is there, and limits of texts that grow."""

from __future__ import annotations

import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import DatalogSyntaxError
from gpu_wcoj.query.datalog import parse


def test_disjunctions_are_limited():
    choice = "(a(x) ; b(x))"
    assert len(parse(f"h(x) :- r(x), {', '.join([choice] * 9)}.").rules) == 512
    with pytest.raises(DatalogSyntaxError, match="stands for more than 1,000 rules"):
        parse(f"h(x) :- r(x), {', '.join([choice] * 10)}.")
    with pytest.raises(DatalogSyntaxError, match="bodies nest more than 100 deep"):
        parse(f"h(x) :- {'(' * 200}r(x){')' * 200}.")


def test_components_are_limited():
    levels = "".join(f".comp C{i} {{ .init a = C{i + 1} .init b = C{i + 1} }}" for i in range(40))
    with pytest.raises(DatalogSyntaxError, match="expand to more than 20,000 statements"):
        parse(f"{levels} .comp C40 {{ .decl r(x: number) r(1). }} .init c = C0")


def test_names_in_components():
    rules = parse("""
        .comp A { .decl r(x: number) .decl unused(x: number) r(1). }
        .init a = A
        h(x) :- a.r(x), b.s(x).
    """)
    assert rules.heads == ("a.r", "h")
    assert rules.inputs == ("b.s",)
    assert [declaration.relation for declaration in rules.declarations] == ["a.r"]


def test_relations_of_instances_are_read_from_a_text():
    rules = parse(".decl a.r(x: int64)\na.r(1).\nh(x) :- a.r(x), !a.s(x).\n.output h")
    assert parse(str(rules)) == rules
    assert rules.inputs == ("a.s",)


def test_a_point_without_a_space_still_ends_a_rule():
    assert parse("h(x) :- r(x), x = y, s(y).g(x) :- r(x), y = x.k(z) :- r(z).").heads == ("h", "g", "k")


def test_a_record_that_a_rule_makes_itself_is_not_taken_apart():
    """Parts are the values that it is made of; nulls and other branches are as they are of a stored record."""
    text = """
        .type S = A {x: number, y: symbol} | B {z: number}
        .decl t(x: number, y: symbol)
        .decl made(s: S)
        .decl {names}
        made($A(x, y)) :- t(x, y).
        {rules}
        .output q
        .output none
    """
    own = "q(y) :- t(x, y), s = $A(x, y), $A(1, y) = s. none(x) :- t(x, y), s = $A(x, y), $B(_) = s."
    stored = "q(y) :- made(s), $A(1, y) = s. none(x) :- made(s), t(x, _), $B(_) = s."
    names = "q(y: symbol) .decl none(x: number)"
    rows = [(1, "a"), (2, "b"), (1, "c"), (None, "d"), (1, None)]
    answers = []
    for rules in (own, stored):
        program = gw.Program(text.replace("{names}", names).replace("{rules}", rules))
        answers.append({name: rows.to_dict() for name, rows in program.step({"t": rows}).items()})
    assert answers[0] == answers[1] == {"q": {("a",): 1, ("c",): 1}, "none": {}}
    rules = text.replace("{names}", names).replace(
        "{rules}", own.split(" none", maxsplit=1)[0] + " none(x) :- t(x, _), x < 0."
    )
    assert "unpack" not in gw.Program(rules).explain()
