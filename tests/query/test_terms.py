"""Terms and rules: equality of constants, text of every part, relations of a program."""

import pytest

from gpu_wcoj.errors import UnsupportedTypeError
from gpu_wcoj.query.ir import Atom, Comparison, Constant, Declaration, Rule, Rules, Variable

X, Y = Variable("x"), Variable("y")


def test_constants_are_equal_to_constants_of_their_own_type_only():
    assert Constant(1) == Constant(1)
    assert Constant(1) != Constant(True)
    assert Constant(1) != Constant(1.0)
    assert Constant("1") != Constant(1)
    assert Constant(1) != 1
    assert len({Constant(1), Constant(1), Constant(True), Constant(1.0)}) == 3


@pytest.mark.parametrize("value", [-(2**63), 2**63 - 1, 0, -0.0, 1e-300, 1.7976931348623157e308, True, "", "\ud83d"])
def test_a_constant_holds_the_whole_range_of_its_type(value):
    assert Constant(value).value == value


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_integers_beyond_int64_are_no_constants(value):
    with pytest.raises(UnsupportedTypeError, match=f"integer {value} is outside int64"):
        Constant(value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_floats_that_are_no_numbers_are_no_constants(value):
    with pytest.raises(UnsupportedTypeError, match="is not a finite number"):
        Constant(value)


@pytest.mark.parametrize("value", [b"x", 1j, (1,), ()])
def test_other_types_are_no_constants(value):
    with pytest.raises(UnsupportedTypeError, match=f"a constant of type {type(value).__name__} is not supported"):
        Constant(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "5"),
        (-5, "-5"),
        (1.5, "1.5"),
        (1e22, "1e+22"),
        (True, "true"),
        (False, "false"),
        ("plain", '"plain"'),
        ('a"b\\c\nd\te\rf', r'"a\"b\\c\nd\te\rf"'),
        ("\x00\x1b\u2028", r'"\u0000\u001b\u2028"'),
        ("\U000e0001", r'"\U000e0001"'),
        ("größe 🙂", '"größe 🙂"'),
    ],
)
def test_text_of_constants(value, text):
    assert str(Constant(value)) == text


def test_wildcards_are_shown_as_they_were_written():
    wildcard = Variable("_#1")
    assert wildcard.is_wildcard
    assert not Variable("_x").is_wildcard
    assert str(Atom("r", (X, wildcard))) == "r(x, _)"


def test_variables_are_listed_once_in_the_order_in_which_they_stand():
    atom = Atom("r", (Y, Constant(1), X, Y))
    assert atom.variables == (Y, X)
    assert Comparison("<", X, X).variables == (X,)
    assert Comparison("<", X, Constant(1)).variables == (X,)
    rule = Rule(Atom("h", (X,)), (Atom("r", (X,)), Atom("s", (Y, X))))
    assert rule.variables == (X, Y)


def test_relations_of_a_program():
    rules = Rules(
        (
            Rule(Atom("h", (X,)), (Atom("r", (X, Y)), Atom("s", (Y,)))),
            Rule(Atom("g", (X,)), (Atom("h", (X,)), Atom("t", (X,)))),
            Rule(Atom("h", (X,)), (Atom("t", (X,)),)),
        )
    )
    assert rules.heads == ("h", "g")
    assert rules.inputs == ("r", "s", "t")


def test_text_of_a_program():
    rules = Rules(
        (Rule(Atom("h", (X,)), (Atom("r", (X, Y)),), (Comparison("!=", X, Y),)),),
        (Declaration("r", ("left", "right"), ("int64", None)),),
        ("h",),
    )
    assert str(rules) == ".decl r(left: int64, right)\nh(x) :- r(x, y), x != y.\n.output h"


def test_places_do_not_count_when_comparing():
    from gpu_wcoj.query.ir import Span

    assert Atom("r", (X,), Span(1, 2, 3)) == Atom("r", (X,), Span(4, 5, 6))
