"""Datalog texts with rules, relations and types that contradict each other."""

import pytest

from gpu_wcoj.errors import (
    ArityError,
    DatalogSyntaxError,
    UnsafeRuleError,
)
from gpu_wcoj.query.check import check, unnamed_inputs
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.ir import Atom, Rule, Rules, Variable


def variables(*names):
    return tuple(map(Variable, names))


class TestChecks:
    @pytest.mark.parametrize(
        "text",
        [
            "h(x, y) :- r(x), y = 5.",
            'h(x, y) :- r(x), "a" = y.',
            "h(x, y) :- r(x), y = x.",
            "h(x, y) :- r(x), x = y.",
            "h(w) :- w = z, z = y, y = x, r(x).",
            "h(x, y) :- r(x), z = 5, y = z, y < 6.",
            "h(x) :- r(x), _ = x.",
        ],
    )
    def test_equality_binds(self, text):
        assert parse(text).heads == ("h",)

    @pytest.mark.parametrize(
        "text",
        [
            "h(z) :- z = y * 2, y = x + 1, r(x).",
            "h(y) :- y = 1 + 2.",
            "h(y) :- r(x), y = n + x, n = count : { s(x, _) }.",
            "h(x) :- r(x), !s(x, _), !t(y), y = x + 1.",
            "h(x) :- r(x), x = count : { s(y), y < x }.",
            "h(a, b) :- a = count : { r(x) }, b = count : { s(x) }.",
            "h(n) :- n = count : { s(x), m = count : { t(y), y < x }, m > 2 }.",
            "h(x, sum(v + w)) :- r(x, v), w = v * 2.",
        ],
    )
    def test_calculation_and_aggregates_bind(self, text):
        assert parse(text).heads == ("h",)

    def test_recursion_is_read(self):
        assert parse("h(x) :- h(x).").heads == ("h",)
        assert parse("a(x) :- b(x), r(x). b(x) :- a(x). b(x) :- s(x). c(x) :- t(x), !a(x).").inputs == ("r", "s", "t")

    BASE = "d(x, min(0)) :- s(x). "

    @pytest.mark.parametrize(
        "text",
        [
            "d(y, min(v + w)) :- d(x, v), e(x, y, w).",
            "d(y, min(v - w)) :- d(x, v), e(x, y, w), v < 4, w > v.",
            "d(y, min(c)) :- d(x, v), e(x, y, w), c = (v + w) * 2, c <= 100 - w.",
            "d(y, min(v / 2)) :- d(x, v), d(y, _), e(x, y, _).",
            "d(y, min(w - -v)) :- d(x, v), e(x, y, w), 2 * v < w.",
            "d(y, min(w)) :- p(y), q(y, w). p(y) :- d(x, _), e(x, y, _).",
            "d(y, min(a + b)) :- d(x, a), d(y, b), e(x, y, _).",
        ],
    )
    def test_least_values_through_recursion(self, text):
        assert "d" in parse(self.BASE + text).heads
        turned = text.replace("min", "max").replace("<", "?").replace(">", "<").replace("?", ">")
        assert "d" in parse(self.BASE.replace("min", "max") + turned).heads

    def test_integers_and_floats_may_bound_one_variable(self):
        assert parse("h(x, 1) :- r(x), x > 1, x < 2.5. h(x, 1.5) :- r(x).").heads == ("h",)

    def test_constants_of_one_type_compare(self):
        assert parse('h(x) :- r(x), 1 < 2, "a" != "b", true = true, 0.5 < 1e3.').heads == ("h",)

    def test_rules_that_no_text_spelled_are_checked_too(self):
        head, atom = Atom("h", variables("x")), Atom("r", variables("y"))
        with pytest.raises(UnsafeRuleError, match="variable 'x' in the head"):
            check(Rules((Rule(head, (atom,)),)))
        with pytest.raises(ArityError, match=r"has 1 column in 'r\(y\)', but 2 columns in 'r\(y, x\)'$"):
            check(Rules((Rule(atom, (Atom("r", variables("y", "x")),)),)))
        with pytest.raises(UnsafeRuleError, match=r"variable 'x' in the head of 'h\(x\)\.' is not bound"):
            check(Rules((Rule(head, ()),)))

    def test_a_long_chain_of_heads_is_read(self):
        text = "".join(f"h{i + 1}(x) :- h{i}(x)." for i in range(5000))
        assert parse(text).inputs == ("h0",)


@pytest.mark.parametrize("word", ["ord", "range", "to_string", "band", "lnot", "autoinc", "unpack_n"])
def test_relations_may_have_the_names_of_functors(word):
    for text in (f"h(x) :- r(x), {word}(x, 1).", f"h(x) :- r(x), !{word}(x).", f"h(n) :- n = count : {word}(_)."):
        assert word in parse(text).inputs
    for text in (f"{word}(x) :- r(x).", f"{word}(1). h(x) :- {word}(x).", f".decl {word}(x) h(x) :- {word}(x)."):
        assert word not in unnamed_inputs(parse(text))


@pytest.mark.parametrize("word", ["match", "contains"])
def test_constraints_are_no_relations(word):
    for text in (f"{word}(x) :- r(x).", f'{word}("a", "b").', f".decl {word}(x, y)\nh(x) :- r(x)."):
        with pytest.raises(DatalogSyntaxError, match=f"'{word}' is a function; no relation can have this name"):
            parse(text)
    with pytest.raises(DatalogSyntaxError, match=f"'{word}' takes a (pattern|part) and a text: got 1 arg"):
        parse(f"h(x) :- r(x), {word}(x).")
    found = parse(f'h(x) :- r(x), !{word}("a", x), {word}("b", x).')
    assert found.inputs == ("r",)
    assert str(found) == f'h(x) :- r(x), {word}("a", x) = false, {word}("b", x) = true.'
    assert parse(str(found)) == found
    with pytest.raises(UnsafeRuleError, match="variable 'y' in the comparison"):
        parse(f'h(x) :- r(x), {word}("a", y).')
