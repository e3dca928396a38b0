"""Types and components: what is found before any row is there, and limits of texts that grow."""

from __future__ import annotations

import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import DatalogSyntaxError, GpuWcojError, SchemaError, TypeMismatchError, UnsupportedError
from gpu_wcoj.query.datalog import parse


@pytest.mark.parametrize(
    ("text", "error", "what"),
    [
        (".type A = B .type B = A h(1).", SchemaError, "type 'A' is defined by itself"),
        (".type A <: A h(1).", SchemaError, "type 'A' is defined by itself"),
        (".type A <: number .type A <: symbol h(1).", SchemaError, "type 'A' is declared twice"),
        (".type number <: symbol h(1).", DatalogSyntaxError, "'number' is a built-in type"),
        (".type A = [x] h(1).", DatalogSyntaxError, "a field of a record has a type"),
        (".type A = [x: date32] h(1).", SchemaError, "fields are numbers, floats, symbols, records and sums"),
        (".type A = X {} | X {} h(1).", DatalogSyntaxError, "the branch 'X' is declared twice"),
        (".type A = X {} .type B = X {} h(x) :- r(y), x = $X().", TypeMismatchError, "branch 'X' is in several types"),
        ("h(x) :- r(x), x = [1, 2].", TypeMismatchError, "has no type here"),
        (".decl r(a: number, b: number, c: number) eqrel r(1, 2, 3).", DatalogSyntaxError, "has two columns"),
        (".type T <: symbol .decl r(x: T) h(as(x, number)) :- r(x).", UnsupportedError, "reads a value of type 'T'"),
        (".type T <: symbol h(as(x, U)) :- r(x).", DatalogSyntaxError, "unknown type 'U'"),
        (".type R = [x: number] .decl r(x: R) h(x) :- r(x), !r([_]).", UnsupportedError, "'_' in '[_]' stands for a"),
        (".comp A<T> { .decl r(x: T) } .init a = A h(1).", DatalogSyntaxError, "takes 1 parameters, and gets 0"),
        (".comp A { } .comp A { } h(1).", DatalogSyntaxError, "component 'A' is defined twice"),
        (".comp A { } .init a = A .init a = A h(1).", DatalogSyntaxError, "initialised twice"),
        (".comp A : A { } .init a = A h(1).", DatalogSyntaxError, "inherit more than 50 deep"),
        (".comp A { .override r } .init a = A h(1).", DatalogSyntaxError, "not a relation of a super-component"),
        ("h(x) :- r(x), x = as(x, 5).", DatalogSyntaxError, "has no type: as(x, number)"),
        ("h(range(1)) :- r(x).", DatalogSyntaxError, "'range' takes a start, an end and maybe a step"),
        ("h(300.1.1.1).", DatalogSyntaxError, "is not an address"),
        ("h(x) :- r(x), x = mean(1, 2).", DatalogSyntaxError, "'mean' is an aggregate"),
    ],
)
def test_mistakes(text: str, error: type[GpuWcojError], what: str):
    with pytest.raises(error) as caught:
        parse(text)
    assert what in str(caught.value)
    assert "(line 1, column " in str(caught.value)


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
