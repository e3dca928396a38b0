"""The judges of full Datalog: answers worked out by hand, and each judge against the other on what chance writes."""

from __future__ import annotations

import random

import pytest

from tests.helpers.long_tests import IS_LONG
from tests.reference.asp import answer_set
from tests.reference.fixpoint import NoEndError, NotStratifiedError, fixpoint
from tests.reference.functions import UndefinedError, called
from tests.reference.program_text import Written, written
from tests.reference.random_programs import INPUTS, chance_text

Row = tuple[object, ...]


def rows(*rows: Row) -> dict[Row, int]:
    return dict.fromkeys(rows, 1)


def both(text: str, **given: dict[Row, int]) -> dict[str, dict[Row, int]]:
    """What both judges say."""
    program = written(text)
    found = fixpoint(program, given)
    assert answer_set(program, given) == found
    return found


EDGES = rows((1, 2), (2, 3), (3, 1), (3, 4))


def test_closure():
    inside = {(a, b) for a in (1, 2, 3) for b in (1, 2, 3, 4)}
    for step in ("reach(x, y), edge(y, z)", "edge(x, y), reach(y, z)", "reach(x, y), reach(y, z)"):
        found = both(f"reach(x, y) :- edge(x, y). reach(x, z) :- {step}.", edge=EDGES)
        assert found == {"reach": rows(*inside)}


def test_negation_over_recursion():
    text = "reach(x, y) :- edge(x, y). reach(x, z) :- reach(x, y), edge(y, z)."
    text += " apart(x, y) :- node(x), node(y), !reach(x, y)."
    found = both(text, edge=rows((1, 2)), node=rows((1,), (2,)))
    assert found["apart"] == rows((1, 1), (2, 1), (2, 2))


def test_a_wildcard_under_negation_is_anything():
    assert both("end(x) :- node(x), !edge(x, _).", edge=rows((1, 2)), node=rows((1,), (2,)))["end"] == rows((2,))


def test_mutual_recursion():
    text = "even(x) :- zero(x). odd(y) :- even(x), next(x, y). even(y) :- odd(x), next(x, y)."
    found = both(text, zero=rows((0,)), next=rows((0, 1), (1, 2), (2, 3)))
    assert found == {"even": rows((0,), (2,)), "odd": rows((1,), (3,))}


def test_aggregates_in_bodies():
    text = "n(x, n) :- node(x), n = count : { edge(x, _) }. s(x, n) :- node(x), n = sum y : { edge(x, y) }."
    text += " l(x, n) :- node(x), n = min y : { edge(x, y) }. g(x, n) :- node(x), n = max y : { edge(x, y) }."
    found = both(text, edge=rows((1, 5), (1, 7)), node=rows((1,), (2,)))
    assert found == {"n": rows((1, 2), (2, 0)), "s": rows((1, 12), (2, 0)), "l": rows((1, 5)), "g": rows((1, 7))}


def test_what_counts_is_every_way_to_satisfy_the_body():
    text = "n(n) :- n = count : { e(x, y), e(y, _) }. s(s) :- s = sum x : { e(x, _) }. a(sum(x)) :- e(x, _)."
    found = both(text, e=rows((1, 2), (1, 3), (2, 5), (2, 6)))
    assert found == {"n": rows((2,)), "s": rows((6,)), "a": rows((6,))}


def test_a_variable_of_two_aggregates_is_two():
    text = "h(n, m) :- n = count : { e(x, y) }, m = sum y : { f(x, y) }."
    assert both(text, e=rows((1, 2)), f=rows((3, 4), (5, 6))) == {"h": rows((1, 10))}


def test_the_mean_of_nothing_is_nothing():
    text = "h(x, n) :- node(x), n = mean y : { e(x, y) }."
    given = {"e": rows((1, 2), (1, 5)), "node": rows((1,), (2,))}
    assert fixpoint(written(text), given) == {"h": rows((1, 3.5))}


def test_aggregates_in_heads():
    found = both("n(x, count()) :- edge(x, y). l(min(y), x) :- edge(x, y).", edge=rows((1, 5), (1, 7), (2, 1)))
    assert found == {"n": rows((1, 2), (2, 1)), "l": rows((5, 1), (1, 2))}
    assert both("n(count()) :- edge(x, _).", edge={}) == {"n": {}}


def test_least_values_through_recursion():
    text = "dist(x, min(0)) :- start(x). dist(y, min(d + w)) :- dist(x, d), edge(x, y, w)."
    found = both(text, start=rows((1,)), edge=rows((1, 2, 5), (2, 1, 0), (1, 3, 1), (3, 2, 1), (2, 4, 2)))
    assert found == {"dist": rows((1, 0), (2, 2), (3, 1), (4, 4))}
    text = "comp(x, min(x)) :- edge(x, _). comp(y, min(l)) :- comp(x, l), edge(x, y). big(l, count()) :- comp(x, l)."
    found = both(text, edge=rows((1, 2), (2, 1), (3, 4), (4, 3), (4, 5), (5, 4)))
    assert found["big"] == rows((1, 2), (3, 3))


def test_arithmetic():
    found = both("h(x / 2, x % 3, -x, x * 2 + 1) :- u(x).", u=rows((-7,), (7,)))
    assert found == {"h": rows((-3, -1, 7, -13), (3, 1, -7, 15))}
    assert both("h(y) :- u(x), f(x + 1, y).", u=rows((1,)), f=rows((2, 9), (1, 8))) == {"h": rows((9,))}
    assert [called(op, [-7, -2]) for op in "/%"] == [3, -1]
    assert [called(op, [-7.0, 2]) for op in "/%"] == [-3.5, -1.0]


def test_texts():
    program = written('h(cat(x, "-", y), strlen(x), substr(y, 1, 2)) :- r(x, y).')
    assert fixpoint(program, {"r": rows(("größe", "abcd"))}) == {"h": rows(("größe-abcd", 5, "bc"))}
    assert both('h(x) :- r(x, "a\\"b").', r=rows(("q", 'a"b'), ("p", "b"))) == {"h": rows(("q",))}


def test_facts_and_inputs_that_are_heads():
    found = both("edge(1, 2). edge(x, y) :- edge(y, x).", edge=rows((5, 6)))
    assert found == {"edge": rows((1, 2), (2, 1), (5, 6), (6, 5))}
    assert both("n(x) :- x = 3. m(x) :- n(y), x = y.") == {"n": rows((3,)), "m": rows((3,))}


def test_weights_of_bags():
    text = "p(x, z) :- e(x, y), e(y, z). q(x) :- p(x, _)."
    text += " r(x, y) :- e(x, y). r(x, z) :- r(x, y), r(y, z). s(x) :- r(x, _)."
    found = fixpoint(written(text), {"e": {(1, 2): 2, (2, 3): 3, (3, 4): -1}}, bag=True)
    assert found["p"] == {(1, 3): 6, (2, 4): -3}
    assert found["q"] == {(1,): 6, (2,): -3}
    assert found["r"] == rows((1, 2), (2, 3), (1, 3))
    assert found["s"] == {(1,): 2, (2,): 1}
    counted = "n(count()) :- e(x, _). s(sum(x)) :- e(x, _). l(x, min(y)) :- e(x, y)."
    found = fixpoint(written(counted), {"e": {(1, 2): 2, (2, 3): 3}}, bag=True)
    assert found == {"n": rows((5,)), "s": rows((8,)), "l": rows((1, 2), (2, 3))}


def test_null_is_joined_compared_negated_and_calculated_in_vain():
    given = {"e": rows((1, None), (None, 2), (None, None), (1, 2)), "u": rows((None,), (1,))}
    text = "a(y, x) :- e(x, y). b(x, z) :- e(x, y), e(y, z). c(x) :- u(x), !e(x, 2). d(x + 1) :- u(x). f(x, x) :- u(x)."
    found = fixpoint(written(text), given)
    assert found["a"] == rows((None, 1), (2, None), (None, None), (2, 1))
    assert (found["b"], found["c"], found["d"], found["f"]) == ({}, {}, rows((2,)), rows((None, None), (1, 1)))
    text = "n(x, count()) :- e(x, _). s(x, sum(y)) :- e(x, y). m(x, m) :- u(x), m = sum y : { e(x, y) }."
    found = fixpoint(written(text), given)
    assert found["n"] == rows((1, 2), (None, 2))
    assert found["s"] == rows((1, 2), (None, 2))
    assert found["m"] == rows((1, 2))


def test_what_has_no_value():
    for text in ("h(1 / x) :- u(x).", "h(x * 9223372036854775807) :- u(x), f(x, _).", "h(1 % x) :- u(x)."):
        with pytest.raises(UndefinedError):
            fixpoint(written(text), {"u": rows((0,), (2,)), "f": rows((2, 2))})
    with pytest.raises(NoEndError):
        fixpoint(written("h(x) :- u(x). h(x + 1) :- h(x)."), {"u": rows((0,))}, limit=50)
    for text in ("h(x) :- u(x), !h(x).", "h(x) :- u(x), 0 = count : { g(x) }. g(x) :- h(x).", "h(count()) :- h(x)."):
        with pytest.raises(NotStratifiedError):
            fixpoint(written(text), {"u": rows((0,))})


@pytest.mark.parametrize("block", range(4))
def test_both_judges_say_the_same_of_what_chance_writes(block):
    held: dict[str, int] = {}
    for seed in range(block, 400 if IS_LONG else 80, 4):
        chance = random.Random(seed)
        negative = seed % 3 > 0
        text = chance_text(chance, negative)
        values = (0, 1, 2, 3, -2, 7) if negative else (0, 1, 2, 3, 4, 7)
        program = written(text)
        for _ in range(2):
            given = {
                name: rows(*(tuple(chance.choices(values, k=width)) for _ in range(chance.randint(0, 9))))
                for name, width in INPUTS.items()
            }
            found = fixpoint(program, given)
            assert answer_set(program, given) == found, f"{seed}: {text}"
            held["some"] = held.get("some", 0) + any(found.values())
            _note_features(program, text, held)
    assert held["some"] > 25, held
    assert min(held[one] for one in ("!", "count", "sum", "min", "max", "%", "/", "recursion")) > 2, held


def _note_features(program: Written, text: str, held: dict[str, int]) -> None:
    for one in ("!", "count", "sum", "min", "max", "%", "/"):
        held[one] = held.get(one, 0) + (one in text.replace("!=", ""))
    own = any(
        rule.head.relation == literal.relation
        for rule in program.rules
        for literal in rule.body
        if hasattr(literal, "relation")
    )
    held["recursion"] = held.get("recursion", 0) + own
