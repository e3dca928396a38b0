"""Datalog texts with rules, relations and types that contradict each other."""

import re

import pytest

from gpu_wcoj.errors import (
    ArityError,
    DatalogSyntaxError,
    SchemaError,
    TypeMismatchError,
    UnknownRelationError,
    UnsafeRuleError,
    UnsupportedError,
)
from gpu_wcoj.query.check import check, unnamed_inputs
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.ir import Atom, Rule, Rules, Variable


def variables(*names):
    return tuple(map(Variable, names))


class TestChecks:
    def test_arity(self):
        with pytest.raises(ArityError) as caught:
            parse("h(x) :- r(x).\ng(x) :- r(x), r(x, y).")
        assert str(caught.value) == (
            "relation 'r' has 1 column in 'r(x)' (line 1, column 9), but 2 columns in 'r(x, y)' (line 2, column 15)\n"
            "  g(x) :- r(x), r(x, y).\n"
            "                ~~~~~~~"
        )

    @pytest.mark.parametrize(
        "text",
        ["h(x) :- r(x). h(x, y) :- s(x, y).", ".decl r(x, y)\nh(x) :- r(x).", "g(x) :- h(x). h(x, y) :- r(x, y)."],
    )
    def test_arity_of_heads_and_declarations(self, text):
        with pytest.raises(ArityError, match=r"has \d columns? in .*, but \d columns? in "):
            parse(text)

    @pytest.mark.parametrize(
        ("text", "variable", "where"),
        [
            ("h(x, y) :- r(x).", "y", "the head"),
            ("h(_) :- r(_).", "_", "the head"),
            ("h(x) :- r(x), y < 5.", "y", "the comparison 'y < 5'"),
            ("h(x) :- r(x), x != y.", "y", "the comparison 'x != y'"),
            ("h(x) :- r(x), y = z.", "y", "the comparison 'y = z'"),
            ("h(x) :- r(x), y = y.", "y", "the comparison 'y = y'"),
            ("h(x, y) :- r(x), y = z, z = w, w = y.", "y", "the head"),
        ],
    )
    def test_unsafe(self, text, variable, where):
        with pytest.raises(UnsafeRuleError) as caught:
            parse(text)
        assert str(caught.value).startswith(f"variable '{variable}' in {where} of '{text}' is not bound")

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
        ("text", "variable", "where"),
        [
            ("h(x) :- r(x), !s(y).", "y", "the negated '!s(y)'"),
            ("h(x) :- r(x), !s(_ + 1).", "_", "the negated '!s(_ + 1)'"),
            ("h(x) :- !r(x).", "x", "the head"),
            ("h(y) :- r(x), x = y + 1.", "y", "the head"),
            ("h(x) :- r(x, y + 1).", "y", "the argument 'y + 1'"),
            ("h(x + y) :- r(x).", "y", "the head"),
            ("h(x).", "x", "the head"),
            ("h(y) :- r(x), y = z + 1, z = y - 1.", "y", "the head"),
            ("h(n) :- r(y), n = count : { s(x), y < z }.", "z", "the comparison 'y < z'"),
            ("h(x, n) :- n = count : { s(x) }.", "x", "the aggregate 'count : { s(x) }'"),
            ("h(n) :- n = sum y : { s(x) }.", "y", "the aggregate 'sum y : { s(x) }'"),
            ("h(n) :- n = count : { s(x), !t(y) }.", "y", "the negated '!t(y)'"),
            ("h(n) :- n = count : { s(x), m = count : { t(y), y < z } }.", "z", "the comparison 'y < z'"),
            ("h(y, sum(v)) :- r(v).", "y", "the head"),
            ("h(sum(v)) :- r(x).", "v", "the head"),
        ],
    )
    def test_unsafe_in_full_datalog(self, text, variable, where):
        with pytest.raises(UnsafeRuleError) as caught:
            parse(text)
        assert str(caught.value).startswith(f"variable '{variable}' in {where} of '{text}' is not bound")

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

    @pytest.mark.parametrize(
        ("text", "cycle", "column"),
        [
            ("p(x) :- e(x), !p(x).", "negation .*: 'p' negates 'p'", 16),
            ("p(x) :- e(x), !q(x). q(x) :- s(x). q(x) :- p(x).", "negation .*: 'p' negates 'q' reads 'p'", 16),
            ("p(x) :- e(x), 0 < count : { q(x) }. q(x) :- p(x).", "aggregation .*: 'p' aggregates 'q' reads 'p'", 29),
            ("p(x) :- e(x), 0 < count : { e(x), 1 < count : { p(x) } }.", "aggregation .*: 'p' aggregates 'p'", 49),
            ("p(x) :- e(x), 0 < count : { e(x), !p(x) }.", "aggregation .*: 'p' aggregates 'p'", 36),
            ("p(x, sum(v)) :- p(x, v).", "aggregation .*: 'p' aggregates 'p'", 17),
            ("p(x, n) :- e(x), n = min v : { p(x, v) }.", "aggregation .*: 'p' aggregates 'p'", 32),
        ],
    )
    def test_what_must_be_complete_before_is_not_recursive(self, text, cycle, column):
        with pytest.raises(UnsupportedError, match=f"{cycle} ") as caught:
            parse(text)
        assert f"(line 1, column {column})" in str(caught.value)

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

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("d(y, min(v + w)) :- d(x, v), e(x, y, w), v > 4.", "'v > 4', a better value may fail it"),
            ("d(y, min(v + w)) :- d(x, v), e(x, y, w), v = 4.", "'v = 4', a better value may fail it"),
            ("d(y, min(w)) :- d(x, v), e(x, y, w), !b(v).", "'b(v)', a better value may fail it"),
            ("d(y, min(w)) :- d(x, v), e(x, y, w), b(v + 1).", "'b(v + 1)', a better value may fail it"),
            ("d(y, min(v)) :- d(x, v), e(x, y, v).", "'v', it joins"),
            ("d(y, min(w)) :- d(x, 5), e(x, y, w).", "'d(x, 5)', '5' is asked of it"),
            ("d(y, min(w - v)) :- d(x, v), e(x, y, w).", "'min(w - v)', a better value may make it worse"),
            ("d(y, min(v * w)) :- d(x, v), e(x, y, w).", "'min(v * w)', a better value may make it worse"),
            ("d(y, min(v * -1)) :- d(x, v), e(x, y, _).", "'min(v * -1)', a better value may make it worse"),
            ("d(y, min(v % 3)) :- d(x, v), e(x, y, _).", "'min(v % 3)', a better value may make it worse"),
            ("d(v, min(w)) :- d(x, v), e(x, _, w).", "'v' stands in the head, and only the best value is kept"),
            ("d(y, min(w)) :- p(y, w). p(y, v) :- d(y, v).", "'v' stands in the head, and only the best value is"),
            ("d(y, min(w)) :- d(y, v), e(y, _, w), 1 < count : { b(v) }.", "it is aggregated"),
        ],
    )
    def test_where_the_least_value_does_not_decide(self, text, why):
        with pytest.raises(UnsupportedError) as caught:
            parse(self.BASE + text)
        assert "min through recursion cannot be kept here" in str(caught.value)
        assert why in str(caught.value)

    @pytest.mark.parametrize(
        ("text", "error", "why"),
        [
            ("h(min(x), max(x)) :- r(x).", UnsupportedError, "the head 'h' has two aggregates"),
            ("h(x, min(y)) :- r(x, y). h(x, y) :- s(x, y).", SchemaError, "has min in column 1 in another rule, and"),
            ("h(x, min(y)) :- r(x, y). h(1, 2).", SchemaError, "and here no aggregate; give all its rules the same"),
            ("h(x, min(y)) :- r(x, y). h(x, max(y)) :- s(x, y).", SchemaError, "and here max in column 1"),
            ("h(x, min(y)) :- r(x, y). h(min(x), y) :- s(x, y).", SchemaError, "and here min in column 0"),
            ("h(x, sum(y)) :- r(x, y). h(x, sum(y)) :- s(x, y).", UnsupportedError, "'h' is the sum over one body"),
            (".input h\nh(x, sum(y)) :- r(x, y).", SchemaError, "'h' aggregates, so it cannot be an input"),
            ("a(x, min(y)) :- b(x, y). b(x, max(y)) :- a(x, y).", UnsupportedError, "has min and max in it"),
        ],
    )
    def test_heads_that_aggregate_in_two_ways(self, text, error, why):
        with pytest.raises(error, match=why):
            parse(text)

    def test_two_lines_of_other_parameters(self):
        with pytest.raises(SchemaError, match=r"'r' has two lines \.input with other parameters \(line 2, column 8\)"):
            parse(".input r(a=b)\n.input r(a=c)\nh(x) :- r(x).")

    def test_declared_twice(self):
        with pytest.raises(SchemaError, match=r"relation 'r' is declared twice \(line 2, column 1\)"):
            parse(".decl r(x)\n.decl r(x)\nh(x) :- r(x).")
        with pytest.raises(SchemaError, match=r"relation 'r' has two columns 'x' \(line 1, column 1\)"):
            parse(".decl r(x, y, x)\nh(x) :- r(x, _, _).")

    def test_unknown_relations(self):
        with pytest.raises(UnknownRelationError, match=r"unknown relation 'egde'(?s:.*)Did you mean 'edge'"):
            parse(".decl egde(x)\nh(x) :- edge(x).")
        with pytest.raises(UnknownRelationError, match=r"unknown relation 'tri'(?s:.*)heads of rules are: 'trip'"):
            parse("trip(x) :- edge(x).\n.output tri")
        with pytest.raises(UnknownRelationError, match=r"unknown relation 'edges'(?s:.*)inputs are: 'edge'"):
            parse(".input edges\nh(x) :- edge(x).")
        with pytest.raises(
            UnsupportedError, match="'edge' is an input, and only relations that rules define can be outputs"
        ):
            parse(".output edge\nh(x) :- edge(x).")

    @pytest.mark.parametrize(
        ("text", "what"),
        [
            ("1 = 2.0", "'1 = 2.0' compares an integer with a float"),
            ('"1" < 2', "compares a text with an integer"),
            ("true != 1", "'true != 1' compares a boolean with an integer"),
        ],
    )
    def test_constants_of_two_types(self, text, what):
        with pytest.raises(TypeMismatchError, match=f"{what}; they do not compare"):
            parse(f"h(x) :- r(x), {text}.")

    @pytest.mark.parametrize(
        ("text", "what"),
        [
            ("h(x) :- r(x), x = 1, x = true.", "'x' is compared with an integer, 1, and here with a boolean"),
            ('h(x) :- r(x), 2.5 < x, "a" != x.', "'x' is compared with a float, 2.5, and here with a text"),
            ('h(1) :- r(_). h("b") :- r(_).', "column 0 of 'h' is an integer, 1, in another rule, and here a text"),
        ],
    )
    def test_constants_that_no_type_holds_both_of(self, text, what):
        with pytest.raises(TypeMismatchError, match=what):
            parse(text)

    def test_integers_and_floats_may_bound_one_variable(self):
        assert parse("h(x, 1) :- r(x), x > 1, x < 2.5. h(x, 1.5) :- r(x).").heads == ("h",)

    def test_constants_of_one_type_compare(self):
        assert parse('h(x) :- r(x), 1 < 2, "a" != "b", true = true, 0.5 < 1e3.').heads == ("h",)

    @pytest.mark.parametrize(("text", "there"), [("h(b) :- r(a, b?).", "b?"), ("h(a?) :- r(a, _), !s(a?).", "a")])
    def test_the_other_spelling_of_a_variable_is_named(self, text, there):
        with pytest.raises(UnsafeRuleError, match=re.escape(f"'{there}' is, which is another variable")):
            parse(text)

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
