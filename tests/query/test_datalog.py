"""Datalog text: what it means."""

import subprocess
import sys
from pathlib import Path

import pytest

from gpu_wcoj.data.schema import SPELLINGS
from gpu_wcoj.errors import (
    DatalogSyntaxError,
    UsageError,
)
from gpu_wcoj.query.datalog import NAME_LENGTH, TEXT_BYTES, parse
from gpu_wcoj.query.ir import (
    COMPARISONS,
    Atom,
    Call,
    Comparison,
    Constant,
    Declaration,
    Directive,
    Rule,
    Rules,
    Span,
    Variable,
)


def variables(*names):
    return tuple(map(Variable, names))


def only_rule(text):
    (rule,) = parse(text).rules
    return rule


class TestMeaning:
    def test_triangle(self):
        rules = parse("triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c).")
        atoms = tuple(Atom("edge", variables(*pair)) for pair in ("ab", "bc", "ac"))
        assert rules == Rules((Rule(Atom("triangle", variables(*"abc")), atoms),))
        assert rules.inputs == ("edge",)
        assert rules.heads == ("triangle",)

    def test_upper_and_lower_case_are_alike(self):
        rule = only_rule("Head(X, y) :- Rel(X), rel(y).")
        assert rule == Rule(
            Atom("Head", variables("X", "y")), (Atom("Rel", variables("X")), Atom("rel", variables("y")))
        )

    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("5", 5),
            ("-5", -5),
            ("007", 7),
            ("0" * 5000, 0),
            ("9223372036854775807", 2**63 - 1),
            ("-9223372036854775808", -(2**63)),
            ("1.5", 1.5),
            ("-0.25", -0.25),
            ("1e3", 1000.0),
            ("2.5E-3", 0.0025),
            ("true", True),
            ("false", False),
            ('""', ""),
            ('"a, b) % no // comment /* here"', "a, b) % no // comment /* here"),
            (r'"\" \\ \n \t \r A \U0001F642"', '" \\ \n \t \r A 🙂'),
            (r'"\\n"', "\\n"),
            ('"größe 🙂\ttab"', "größe 🙂\ttab"),
        ],
    )
    def test_constants(self, text, value):
        rule = only_rule(f"h(x) :- r(x, {text}), x != {text}.")
        assert rule.atoms[0].terms[1] == Constant(value)
        assert rule.comparisons == (Comparison("!=", Variable("x"), Constant(value)),)

    def test_each_wildcard_is_a_variable_of_its_own(self):
        rules = parse("h(x) :- r(x, _, _), s(_). g(x) :- r(x, _, x).")
        first, second = rules.rules
        assert first.atoms == (Atom("r", variables("x", "_#1", "_#2")), Atom("s", variables("_#3")))
        assert second.atoms == (Atom("r", variables("x", "_#1", "x")),)

    @pytest.mark.parametrize("operator", COMPARISONS)
    def test_comparisons(self, operator):
        rule = only_rule(f"h(x) :- r(x, y), x{operator}y, 3 {operator} x, x {operator}-1.")
        x, y = variables("x", "y")
        assert rule.comparisons == (
            Comparison(operator, x, y),
            Comparison(operator, Constant(3), x),
            Comparison(operator, x, Constant(-1)),
        )

    def test_a_comparison_may_stand_before_the_relation_that_binds(self):
        rule = only_rule("h(x) :- x < 5, r(x, _).")
        assert rule.atoms == (Atom("r", variables("x", "_#1")),)

    def test_comments_and_space_do_not_count(self):
        text = """\ufeff% a line
            h(x) // another
                :- /* one
                that goes on % // */ r(x, y) /**/, s(y)./* stars **//***/
            """
        assert parse(text) == parse("h(x):-r(x,y),s(y).")
        assert parse("h(x) :- r(x).\r\ng(x) :- r(x).\r\n% end").heads == ("h", "g")

    def test_rules_may_follow_each_other_without_space(self):
        assert parse("h(x):-r(x).g(x):-h(x).").heads == ("h", "g")

    def test_constants_may_stand_in_heads(self):
        assert only_rule('h(x, 5, "a") :- r(x).').head.terms == (Variable("x"), Constant(5), Constant("a"))

    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("a + b * c", "a + (b * c)"),
            ("a - b - c", "(a - b) - c"),
            ("a * b / c % d", "((a * b) / c) % d"),
            ("(a + b) * c", "(a + b) * c"),
            ("a -1", "a - 1"),
            ("a - -1", "a - -1"),
            ("a--b", "a - (-b)"),
            ("-a * b", "(-a) * b"),
            ("-(a + b)", "-(a + b)"),
            ("- 5", "-5"),
            ("--5", "--5"),
            ("-(5)", "-(5)"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("2 * -1.5", "2 * -1.5"),
            ('cat(a, "x", b)', 'cat(a, "x", b)'),
            ("strlen(substr(a, 1, b)) % 2", "strlen(substr(a, 1, b)) % 2"),
            ("((a))", "a"),
            ("count : { s(a, _) }", "count : { s(a, _) }"),
            ("count : s(a, _)", "count : { s(a, _) }"),
            ("1 + sum x * 2 : { s(a, x), x != b, !t(x) }", "1 + sum x * 2 : { s(a, x), !t(x), x != b }"),
            ("min (x + 1) * 2 : s(a, x)", "min (x + 1) * 2 : { s(a, x) }"),
            ("max (-x) : s(a, x)", "max (-x) : { s(a, x) }"),
            ("max (count) : s(a, count)", "max (count) : { s(a, count) }"),
            ("sum 1 + (min) : s(a, min)", "sum (1 + min) : { s(a, min) }"),
            ("mean n : { s(x), n = count : { u(x) } }", "mean n : { s(x), n = count : { u(x) } }"),
        ],
    )
    def test_expressions(self, text, shown):
        rule = only_rule(f"h(y) :- r(a, b, c, d), y = {text}.")
        assert str(rule.comparisons[0].right) == shown
        assert only_rule(str(rule)) == rule
        assert only_rule(f"h({text}) :- r(a, b, c, d).").head.terms == (rule.comparisons[0].right,)

    def test_expressions_may_stand_in_atoms(self):
        rule = only_rule("h(x) :- r(x, x + 1), !s(-x), not t(cat(x, x), _), not (u(x)).")
        x = Variable("x")
        assert rule.atoms[0].terms == (x, Call("+", (x, Constant(1))))
        assert [str(atom) for atom in rule.negated] == ["s(-x)", "t(cat(x, x), _)", "u(x)"]

    def test_heads_may_aggregate(self):
        terms = only_rule("h(x, sum(v * 2)) :- r(x, v).").head.terms
        assert terms[1] == Call("sum", (Call("*", (Variable("v"), Constant(2))),))
        assert str(only_rule("h(count()) :- r(x, v).")) == "h(count()) :- r(x, v)."
        assert only_rule("h(count(_)) :- r(x).") == only_rule("h(count()) :- r(x).")

    def test_facts(self):
        rules = parse('edge(1, -2). edge(3, 2 * 2). name(1, "a, b.") . one(x) :- x = 1.')
        assert [str(rule) for rule in rules.rules] == [
            "edge(1, -2).",
            "edge(3, 2 * 2).",
            'name(1, "a, b.").',
            "one(x) :- x = 1.",
        ]
        assert rules.inputs == ()
        assert rules.heads == ("edge", "name", "one")

    def test_names_of_aggregates_are_names_elsewhere(self):
        rule = only_rule("h(count, sum) :- r(count, sum, min), max = min, count - 1 < sum, mean = 5, mean < max.")
        assert [variable.name for variable in rule.variables] == ["count", "sum", "min"]
        assert parse(".decl r(count: int64)\nh(x) :- r(x).").declarations[0].columns == ("count",)

    def test_a_percent_sign_is_a_rest_after_an_operand_only(self):
        text = "% one\nh(x % 2) :- % two\n r(x), % three\n s(x) % four\n , y = (x + 1) % 3, z = y % x. % five % six"
        assert str(only_rule(text)) == "h(x % 2) :- r(x), s(x), y = (x + 1) % 3, z = y % x."

    def test_parameters_of_directives(self):
        text = """
            .input edge(IO=file, filename="a b.csv", delimiter="\\t", skip=1, headers=true)
            .input node
            .output h(filename="h.csv")
            .output g
            h(x) :- edge(x), node(x). g(x) :- h(x).
            """
        rules = parse(text)
        given = (("IO", "file"), ("filename", "a b.csv"), ("delimiter", "\t"), ("skip", "1"), ("headers", "true"))
        assert rules.directives == (
            Directive("input", "edge", given),
            Directive("input", "node"),
            Directive("output", "h", (("filename", "h.csv"),)),
        )
        assert rules.outputs == ("h", "g")
        assert parse(str(rules)) == rules
        assert parse("h(x) :- r(x), s(x).\n.input r, s(a=b)").directives == tuple(
            Directive("input", name, (("a", "b"),)) for name in "rs"
        )
        turned = parse(".output h(a=b)\nh(x) :- r(x).\n.input r")
        assert [directive.kind for directive in turned.directives] == ["input", "output"]
        assert parse(str(turned)) == turned
        assert parse(".input r .input r(a=b) .input r h(x) :- r(x).").directives[0].parameters == (("a", "b"),)

    def test_an_input_may_be_a_head(self):
        rules = parse(".input edge\nedge(x, y) :- edge(y, x).")
        assert (rules.inputs, rules.heads) == (("edge",), ("edge",))

    def test_directives(self):
        rules = parse(
            """
            .decl edge(src: int64, dst: symbol, since)
            .input edge
            h(x) :- edge(x, _, _), node(x).   .input node
            g(x) :- h(x).
            .output g, h
            .output g
            """
        )
        assert rules.declarations == (Declaration("edge", ("src", "dst", "since"), ("int64", "string", None)),)
        assert rules.outputs == ("g", "h")
        assert rules.inputs == ("edge", "node")

    def test_heads_may_be_declared(self):
        assert parse(".decl h(x: int64)\nh(x) :- r(x).").declarations[0].relation == "h"

    @pytest.mark.parametrize(
        ("text", "name"),
        [
            *SPELLINGS.items(),
            ("int8", "int8"),
            ("uint64", "uint64"),
            ("float", "float"),
            ("double", "double"),
            ("bool", "bool"),
            ("large_string", "large_string"),
            ("date32[day]", "date32[day]"),
            ("timestamp[us]", "timestamp[us]"),
            ("timestamp[ ns , tz=Europe/Berlin ]", "timestamp[ns, tz=Europe/Berlin]"),
            ("timestamp[s, tz=+01:00]", "timestamp[s, tz=+01:00]"),
            ("decimal(10, 2)", "decimal128(10, 2)"),
            ("decimal64(18,-2)", "decimal64(18, -2)"),
            ("/* a comment */ int16", "int16"),
        ],
    )
    def test_types_of_declarations(self, text, name):
        assert parse(f".decl r(x:{text}, y)\nh(x) :- r(x, _).").declarations[0].types == (name, None)

    def test_places_are_kept(self):
        text = "h(x) :-\n  r(x,\n    y), x <\n y."
        rule = only_rule(text)
        assert rule.head.span == Span(1, 1, 4)
        assert rule.atoms[0].span == Span(2, 3, len("r(x,\n    y)"))
        assert rule.comparisons[0].span == Span(3, 9, len("x <\n y"))
        assert parse(text).text == text

    def test_names_may_be_long_but_not_longer(self):
        name = "n" * NAME_LENGTH
        assert parse(f"{name}(x) :- r(x).").heads == (name,)
        for text in (f"{name}n(x) :- r(x).", f"h({name}n) :- r(x).", f".decl r({name}n)\nh(x) :- r(x)."):
            with pytest.raises(DatalogSyntaxError, match="the name has 256 characters; 255 are allowed"):
                parse(text)

    def test_text_may_be_long_but_not_longer(self):
        rule = "h(x) :- r(x)."
        assert parse(rule + "%" + "ü" * ((TEXT_BYTES - len(rule) - 1) // 2)).heads == ("h",)
        with pytest.raises(
            UsageError, match="the program text is too long: got 1,000,001 bytes, expected at most 1,000,000"
        ):
            parse(rule + " " * (TEXT_BYTES - len(rule) + 1))

    def test_only_text_is_read(self):
        with pytest.raises(UsageError, match=r"the program has the wrong type: got bytes .*, expected text \(str\)"):
            parse(b"h(x) :- r(x).")

    def test_the_grammar_library_is_loaded_by_the_first_text(self):
        code = (
            "import sys; from gpu_wcoj.query.datalog import parse; assert 'lark' not in sys.modules;"
            "parse('h(x) :- r(x).'); assert 'lark' in sys.modules"
        )
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=Path(__file__).parents[2])
