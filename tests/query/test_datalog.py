"""Datalog text: what it means, what is refused and in which words, and that no text whatever breaks the reader."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpu_wcoj.errors import (
    ArityError,
    DatalogSyntaxError,
    GpuWcojError,
    SchemaError,
    TypeMismatchError,
    UnknownRelationError,
    UnsafeRuleError,
    UnsupportedError,
    UnsupportedTypeError,
    UsageError,
)
from gpu_wcoj.query.checks import check
from gpu_wcoj.query.datalog import NAME_LENGTH, TEXT_BYTES, parse
from gpu_wcoj.query.declared import SPELLINGS
from gpu_wcoj.query.rules import Declaration, Directive, Rule, Rules
from gpu_wcoj.query.terms import COMPARISONS, Aggregate, Atom, Call, Comparison, Constant, Span, Variable


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
        assert [one.kind for one in turned.directives] == ["input", "output"]
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
        with pytest.raises(UsageError, match="the program text has 1,000,001 bytes; 1,000,000 are allowed"):
            parse(rule + " " * (TEXT_BYTES - len(rule) + 1))

    def test_only_text_is_read(self):
        with pytest.raises(UsageError, match=r"a program is text \(str\), not bytes"):
            parse(b"h(x) :- r(x).")

    def test_the_grammar_library_is_loaded_by_the_first_text(self):
        code = (
            "import sys; from gpu_wcoj.query.datalog import parse; assert 'lark' not in sys.modules;"
            "parse('h(x) :- r(x).'); assert 'lark' in sys.modules"
        )
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=Path(__file__).parents[2])


class TestMistakes:
    """Texts that cannot be read: the words, the place and the marker."""

    @pytest.mark.parametrize(
        ("text", "what", "line", "column", "width"),
        [
            ("h(x) :- r(x).\nh(x) :- e(X, Y p(Y).", "expected ',' or ')' after 'Y'", 2, 16, 1),
            ("h(x) :- e(X, Y path(Y).", "expected ',' or ')' after 'Y'", 1, 16, 4),
            ("h(x) :- r(x)", "expected ',' or '.' after ')', where the text ends", 1, 13, 1),
            ("h(x) :- r(x)\n\n% end\n", "expected ',' or '.' after ')', where the text ends", 1, 13, 1),
            ("h(x) :- r(x,).", "expected a variable or a constant after ','", 1, 13, 1),
            ("h(x) :- r(x,,y).", "expected a variable or a constant after ','", 1, 13, 1),
            ("h(x :- r(x).", "expected ',' or ')' after 'x'", 1, 5, 1),
            ("h(x) r(x).", "expected ':-' or '.' after ')'", 1, 6, 1),
            ("h(x) <- r(x).", "expected ':-' or '.' after ')'", 1, 6, 1),
            ("h(x), g(x) :- r(x).", "expected ':-' or '.' after ')'", 1, 5, 1),
            ("h", "expected '(' after 'h', where the text ends", 1, 2, 1),
            ("h(", "expected a variable or a constant after '(', where the text ends", 1, 3, 1),
            ("h(x) :-", "expected a relation or a comparison after ':-', where the text ends", 1, 8, 1),
            ("h(x) :- .", "expected a relation or a comparison after ':-'", 1, 9, 1),
            ("h(x) :- r(x), .", "expected a relation or a comparison after ','", 1, 15, 1),
            ("h(x) :- r(x) s(x).", "expected ',' or '.' after ')'", 1, 14, 1),
            ("h(x) :- r(x), flag.", "expected a comparison (=, !=, <, <=, >, >=) or '(' after 'flag'", 1, 19, 1),
            ("h(x) :- r(x), 5.", "expected a comparison (=, !=, <, <=, >, >=) after '5'", 1, 16, 1),
            ("h(x) :- r(x), x = .", "expected a variable or a constant after '='", 1, 19, 1),
            ("h(x) :- r(x), 1 < x < 5.", "expected ',' or '.' after 'x'", 1, 21, 1),
            ("h(x) :- r(x, 5abc).", "expected ',' or ')' after '5'", 1, 15, 3),
            ("h(x) :- r(x | y).", "expected ',' or ')' after 'x'", 1, 13, 1),
            (":- r(x).", "expected a rule or a declaration", 1, 1, 2),
            ("?- r(x).", "expected a rule or a declaration", 1, 1, 1),
            ("h(x) :- r(x)..", "expected a rule or a declaration after '.'", 1, 14, 1),
            ("\ud800", "expected a rule or a declaration", 1, 1, 6),
            ("", "there is no rule; write one such as 'h(x) :- r(x, y).'", 1, 1, 1),
            (" % nothing", "there is no rule; write one such as 'h(x) :- r(x, y).'", 1, 1, 1),
            (".decl r(x)", "there is no rule; write one such as 'h(x) :- r(x, y).'", 1, 1, 1),
            (".decl", "expected the name of a relation after '.decl', where the text ends", 1, 6, 1),
            (".output h,", "expected the name of a relation after ',', where the text ends", 1, 11, 1),
            (".decl r", "expected '(' after 'r', where the text ends", 1, 8, 1),
            (".decl r(", "expected the name of a column after '(', where the text ends", 1, 9, 1),
            (".decl r(5)", "expected the name of a column after '('", 1, 9, 1),
            (".decl r(x", "expected ':', ',' or ')' after 'x', where the text ends", 1, 10, 1),
            (".decl r(x:)", "expected a type after ':'", 1, 11, 1),
            (".decl r(x: decimal(a, 2))", "expected a number after '('", 1, 20, 1),
            (".decl r(x: timestamp[us)", "this '[' is not closed by ']' on its line", 1, 21, 1),
            ("h(x) :- r(x), s('a').", 'texts stand in double quotes: write "..."', 1, 17, 1),
            ('h(x) :- r(x, "abc).\n"', "this text is not closed by '\"' on its line", 1, 14, 1),
            ("h(x) :- r(x). /* open *", "this comment is not closed by '*/'", 1, 15, 2),
            ("h(x) :- r(x), x == 5.", "'==' is no comparison; write '='", 1, 17, 2),
            ("h(x) :- r(x), x =< 5.", "'=<' is no comparison; write '<='", 1, 17, 2),
            ("h(x) :- r(x), x => 5.", "'=>' is no comparison; write '>='", 1, 17, 2),
            ("h(x) :- r(x), x <> 5.", "'<>' is no comparison; write '!='", 1, 17, 2),
            ("true(x) :- r(x).", "'true' is a constant; it is no name", 1, 1, 4),
            ("h(x) :- false(x).", "'false' is a constant; it is no name", 1, 9, 5),
            ("_(x) :- r(x).", "'_' stands for a value; it is no name", 1, 1, 1),
            (".output _\nh(x) :- r(x).", "'_' stands for a value; it is no name", 1, 9, 1),
            ("h(x) :- r(x, 9223372036854775808).", "integer 9223372036854775808 is outside int64, -2^63", 1, 14, 19),
            ("h(x) :- r(x, -9223372036854775809).", "integer -9223372036854775809 is outside int64, -2", 1, 15, 19),
            (f"h(x) :- r(x, {'9' * 5000}).", f"integer {'9' * 30}... is outside int64", 1, 14, 147),
            ("h(x) :- r(x, 1e999).", "float inf is not a finite number", 1, 14, 5),
            (r'h(x) :- r(x, "a\qb").', r"there is no escape '\q'; allowed are \\ \" \n \t \r", 1, 16, 2),
            (r'h(x) :- r(x, "a\u12").', r"there is no escape '\u'; allowed are", 1, 16, 2),
            (r'h(x) :- r(x, "\ud800").', r"there is no escape '\ud800'; allowed are", 1, 15, 6),
            (r'h(x) :- r(x, "\U00110000").', r"there is no escape '\U00110000'; allowed are", 1, 15, 10),
            ('h(x) :- r(x, "a\udc00").', "half a surrogate pair is no character", 1, 16, 6),
            ("count(x) :- r(x).", "'count' is an aggregate; no relation can have this name", 1, 1, 5),
            ("h(x) :- r(x). strlen(x) :- r(x).", "'strlen' is a function; no relation can have this name", 1, 15, 6),
            ("not(x) :- r(x).", "'not' is negation; no relation can have this name", 1, 1, 3),
            (".decl r(false)\nh(x) :- r(x).", "'false' is a constant; it is no name", 1, 9, 5),
            ("h(x) :- s(x), not(x).", "expected '(' after 'x'", 1, 20, 1),
            ("h(x) :- r(x), not 5.", "expected the name of a relation or '(' after 'not'", 1, 19, 1),
            ("h(x) :- r(x), y = x + .", "expected a variable or a constant after '+'", 1, 23, 1),
            ("h(x) :- r(x), y = (x + 1.", "expected ')' after '1'", 1, 25, 1),
            ("h(x) :- r(x) + 1.", "expected ',' or '.' after ')'", 1, 14, 1),
            ("h(x) :- r(x), (x).", "expected a comparison (=, !=, <, <=, >, >=) after ')'", 1, 18, 1),
            ("h(count(x)) :- r(x).", "'count' counts the ways to satisfy the body: write count(), and", 1, 3, 5),
            ("h(sum()) :- r(x).", "'sum' takes a value, as sum(x)", 1, 3, 3),
            ("h(x) :- r(x), y = sum(x).", "expected ':' and the body of the aggregate, as in sum x : {", 1, 25, 1),
            ("h(x) :- r(x), n = count x : r(x).", "'count' takes no value: count : { ... }", 1, 19, 5),
            ("h(x) :- r(x), n = sum : { r(x) }.", "'sum' takes a value: sum x : { ... }", 1, 19, 3),
            ("h(x) :- r(x), n = count : { }.", "expected a relation or a comparison after '{'", 1, 29, 1),
            ("h(x) :- r(x), n = count : { r(x).", "expected '}' after ')'", 1, 33, 1),
            ("h(x) :- r(x), x = strlen(x, x).", "'strlen' takes a text, and here are 2 arguments", 1, 19, 6),
            ("h(x) :- r(x), x = substr(x, 1).", "'substr' takes a text, a start and a length, and here", 1, 19, 6),
            ("h(x) :- r(x), x = cat(x).", "'cat' takes two texts or more, and here are 1 arguments", 1, 19, 3),
            (".input r(5)\nh(x) :- r(x).", "expected the name of a parameter after '('", 1, 10, 1),
            (".input r(a=)\nh(x) :- r(x).", "expected a name, a number or a text after '='", 1, 12, 1),
            (".input r(a=b c)\nh(x) :- r(x).", "expected ',' or ')' after 'b'", 1, 14, 1),
            (".input r(a=b, a=c)\nh(x) :- r(x).", "the parameter 'a' is given twice", 1, 15, 1),
            (f"h(x) :- r(x), x = {'-' * 102}x.", "calculations nest more than 100 deep", 1, 120, 2),
            ("h(x) :- r(x, \x00).", "expected a variable or a constant after ','", 1, 14, 4),
        ],
    )
    def test_words_and_place(self, text, what, line, column, width):
        with pytest.raises(DatalogSyntaxError) as caught:
            parse(text)
        error = caught.value
        message, _, marker = str(error).split("\n")
        assert message.startswith(what)
        assert message.endswith(f"(line {line}, column {column})")
        assert (error.lineno, error.offset, error.filename) == (line, column, "<text>")
        assert error.text == text.split("\n")[line - 1]
        assert marker.strip() == "~" * width

    def test_the_marker_stands_below_the_mistake(self):
        with pytest.raises(DatalogSyntaxError) as caught:
            parse("% first\r\n\t path(X, Z) :- edge(X, Y path(Y, Z).\r\n")
        assert str(caught.value) == (
            "expected ',' or ')' after 'Y' (line 2, column 27)\n"
            "  path(X, Z) :- edge(X, Y path(Y, Z).\n"
            "                          ~~~~"
        )

    def test_the_marker_stands_below_the_mistake_in_a_long_line(self):
        with pytest.raises(DatalogSyntaxError) as caught:
            parse("h(x) :- " + "r(x), " * 10_000 + "s(x" + " t(x)" * 10_000)
        _, line, marker = str(caught.value).split("\n")
        assert line[marker.index("~")] == "t"
        assert line.startswith("  ...")
        assert line.endswith("...")
        assert len(line) < 250

    def test_what_moves_the_cursor_is_escaped(self):
        with pytest.raises(DatalogSyntaxError) as caught:
            parse('h(x) :- r(x, "\x1b[2J\u202e") 5.')
        _, line, marker = str(caught.value).split("\n")
        assert line == '  h(x) :- r(x, "\\x1b[2J\\u202e") 5.'
        assert line[marker.index("~")] == "5"

    def test_the_source_is_named(self):
        with pytest.raises(DatalogSyntaxError, match=r"\(line 1, column 3 of rules\.dl\)") as caught:
            parse("h(,x) :- r(x).", source="rules.dl")
        assert caught.value.filename == "rules.dl"

    @pytest.mark.parametrize(
        ("text", "what", "line", "column"),
        [
            (
                "h(x) :- r(x), n = avg x : { r(x) }.",
                "the aggregate 'avg' is not supported; count, sum, min, max, m",
                1,
                19,
            ),
            ("h(x) :- r(f(x)).", r"functions such as 'f\(...\)' are not supported; cat, substr, strlen, .* are", 1, 11),
            ("h(x) :- r(x), y = f(x).", r"functions such as 'f\(...\)' are not supported", 1, 19),
            ("h(x) :- r(x), x = 2 ^ 3.", r"'\^' is not supported; \+ - \* / % are", 1, 21),
            ("h :- r(x).", "relation 'h' has no columns; relations without columns are not supported", 1, 1),
            ("h.", "relation 'h' has no columns; relations without columns are not supported", 1, 1),
            ("h() :- r(x).", "relation 'h' has no columns", 1, 1),
            ("h(x) :- r(x), s().", "relation 's' has no columns", 1, 15),
            ("h(x) :- r(x), !s().", "relation 's' has no columns", 1, 16),
            (".decl r()\nh(x) :- r(x).", "relation 'r' has no columns", 1, 1),
            ("h(x) :- r(x); s(x).", r"';' \(or\) is not supported; write one rule with the same head", 1, 13),
            (".type x", r"'\.type' is not supported; \.decl, \.input, \.output are ", 1, 1),
            (".Decl r(x)", r"'\.Decl' is not supported; .*Did you mean '\.decl'\?", 1, 1),
        ],
    )
    def test_what_is_not_supported_says_so(self, text, what, line, column):
        with pytest.raises(UnsupportedError, match=what) as caught:
            parse(text)
        assert f"(line {line}, column {column})" in str(caught.value)

    def test_a_long_cycle_is_named_in_short(self):
        text = "".join(f"h{i}(x) :- h{(i + 1) % 500}(x)." for i in range(500)) + "h7(x) :- r(x), !h9(x)."
        with pytest.raises(UnsupportedError, match=r"'h7' negates 'h9' .* reads '\.\.\.' reads .* 'h6' reads 'h7'"):
            parse(text)

    @pytest.mark.parametrize(
        ("type_name", "what"),
        [
            ("int65", "there is no type 'int65'; .* Did you mean 'int64'"),
            ("timestamp", r"there is no type 'timestamp'; .* Did you mean 'timestamp\[us\]'"),
            ("timestamp[fortnight]", "there is no type"),
            ("list[int64]", "there is no type"),
            ("halffloat", "there is no type"),
            ("decimal(19, 2)", r"type 'decimal\(19, 2\)' has 19 digits; 1 to 18 are allowed"),
            ("decimal(0, 0)", r"type 'decimal\(0, 0\)' has 0 digits; 1 to 18 are allowed"),
        ],
    )
    def test_types_that_are_not_there(self, type_name, what):
        with pytest.raises(UnsupportedTypeError, match=what) as caught:
            parse(f".decl r(x: {type_name})\nh(x) :- r(x).")
        assert "(line 1, column 12)\n" in str(caught.value)
        assert str(caught.value).endswith("~" * len(type_name))


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
        with pytest.raises(UnknownRelationError, match=r"there is no relation 'egde'(?s:.*)Did you mean 'edge'"):
            parse(".decl egde(x)\nh(x) :- edge(x).")
        with pytest.raises(UnknownRelationError, match=r"there is no relation 'tri'(?s:.*)heads of rules are: 'trip'"):
            parse("trip(x) :- edge(x).\n.output tri")
        with pytest.raises(UnknownRelationError, match=r"there is no relation 'edges'(?s:.*)inputs are: 'edge'"):
            parse(".input edges\nh(x) :- edge(x).")
        with pytest.raises(UnsupportedError, match="'edge' is an input, and only what rules define is put out"):
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


NAMES = st.from_regex(r"[A-Za-z_äß][A-Za-z0-9_é]{0,5}", fullmatch=True).filter(
    lambda name: name not in ("_", "true", "false", "not")
)
CONSTANTS = (
    st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False)).map(Constant),
    st.booleans().map(Constant),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8).map(Constant),
)


@st.composite
def programs(draw):
    """Safe programs without recursion: relation names say their arity, heads read inputs or earlier heads."""
    rules = []
    constants = draw(st.sampled_from(CONSTANTS))
    arities = {
        f"in{name}{arity}": arity for name, arity in draw(st.lists(st.tuples(NAMES, st.integers(1, 3)), min_size=1))
    }
    for number in range(draw(st.integers(1, 3))):
        pool = [Variable(name) for name in draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))]
        known = dict(arities)
        atoms = []
        n_wildcards = 0
        for relation in draw(st.lists(st.sampled_from(sorted(known)), min_size=1, max_size=3)):
            terms = []
            for _ in range(known[relation]):
                term = draw(st.sampled_from([*pool, None]) | constants)
                if term is None:
                    n_wildcards += 1
                    term = Variable(f"_#{n_wildcards}")
                terms.append(term)
            atoms.append(Atom(relation, tuple(terms)))
        bound = [variable for atom in atoms for variable in atom.variables if not variable.is_wildcard]
        terms = st.sampled_from(bound) if bound else constants
        comparisons = draw(st.lists(st.tuples(st.sampled_from(COMPARISONS), terms, constants), max_size=2))
        comparisons = [pair for pair in comparisons if isinstance(pair[1], Variable)]
        head = draw(st.lists(terms | constants, min_size=1, max_size=3))
        name = f"head{number}_{len(head)}"
        rules.append(Rule(Atom(name, tuple(head)), tuple(atoms), tuple(Comparison(*one) for one in comparisons)))
        arities[name] = len(head)
    used = {atom.relation: len(atom.terms) for rule in rules for atom in rule.atoms}
    declared = draw(st.lists(st.sampled_from(sorted(used)), unique=True, max_size=2))
    types = st.sampled_from([None, "int64", "timestamp[us, tz=UTC]", "decimal128(9, 2)", "date32[day]"])
    declarations = tuple(
        Declaration(name, tuple(f"c{i}" for i in range(used[name])), tuple(draw(types) for _ in range(used[name])))
        for name in declared
    )
    heads = list(dict.fromkeys(rule.head.relation for rule in rules))
    return Rules(tuple(rules), declarations, tuple(draw(st.lists(st.sampled_from(heads), unique=True))))


@given(programs())
@settings(max_examples=200, deadline=None)
def test_the_text_of_a_program_reads_as_the_program(rules):
    check(rules)
    assert parse(str(rules)) == rules


class _Chance:
    """Draws the pieces of a rule, and numbers its wildcards in the order in which a reader meets them."""

    def __init__(self, draw, relations):
        self.draw = draw
        self.relations = relations
        self.n_wildcards = 0

    def atom(self, terms, wildcards=True):
        relation = self.draw(st.sampled_from(sorted(self.relations)))
        return Atom(relation, tuple(self.term(terms, wildcards) for _ in range(self.relations[relation])))

    def term(self, terms, wildcards):
        term = self.draw(st.sampled_from([*terms, None]) if wildcards else st.sampled_from(terms))
        if term is not None:
            return term
        self.n_wildcards += 1
        return Variable(f"_#{self.n_wildcards}")

    def expression(self, variables, aggregates, depth=3):
        kind = self.draw(st.sampled_from(["variable", "constant", "minus", "calculate", "call", "aggregate"]))
        if depth == 0 or kind == "variable":
            return self.draw(st.sampled_from(variables))
        if kind == "constant":
            return self.draw(st.one_of(*CONSTANTS))
        if kind == "aggregate" and aggregates:
            return self.aggregate(variables, depth)
        op, least, most = ("-", 1, 1) if kind == "minus" else (self.draw(st.sampled_from("+-*/%")), 2, 2)
        if kind == "call":
            op, least, most = self.draw(st.sampled_from([("cat", 2, 4), ("substr", 3, 3), ("strlen", 1, 1)]))
        n_arguments = self.draw(st.integers(least, most))
        return Call(op, tuple(self.expression(variables, aggregates, depth - 1) for _ in range(n_arguments)))

    def aggregate(self, variables, depth):
        own = [Variable(f"own{depth}"), Variable("count")]
        op = self.draw(st.sampled_from(["count", "sum", "min", "max", "mean"]))
        value = None if op == "count" else self.expression([*variables, *own], False, depth - 1)
        atoms = (
            Atom("pair", tuple(own)),
            *(self.atom([*variables, *own]) for _ in range(self.draw(st.integers(0, 2)))),
        )
        comparisons = self.comparisons([*variables, *own], depth - 1, 1)
        negated = tuple(self.atom([*variables, *own]) for _ in range(self.draw(st.integers(0, 1))))
        return Aggregate(op, value, atoms, comparisons, negated)

    def comparisons(self, variables, depth, most):
        return tuple(
            Comparison(
                self.draw(st.sampled_from(COMPARISONS)),
                Call("+", (self.expression(variables, False, depth), self.draw(st.sampled_from(variables)))),
                self.expression(variables, True, depth),
            )
            for _ in range(self.draw(st.integers(0, most)))
        )


@st.composite
def full_programs(draw):
    """Safe programs with everything but recursion."""
    relations = {"one": 1, "two": 2, "three": 3}
    rules = []
    for number in range(draw(st.integers(1, 3))):
        names = draw(
            st.lists(NAMES.filter(lambda name: not name.startswith("own")), min_size=2, max_size=3, unique=True)
        )
        variables = [Variable(name) for name in names if name != "count"]
        chance = _Chance(draw, relations)
        head = [chance.expression(variables, False) for _ in range(draw(st.integers(1, 3)))]
        if draw(st.booleans()):
            op = draw(st.sampled_from(["count", "sum", "min", "max", "mean"]))
            head.append(Call(op, () if op == "count" else (chance.expression(variables, False),)))
        binding = tuple(Atom("one", (variable,)) for variable in variables)
        atoms = (*binding, *(chance.atom([*variables, chance.expression(variables, False)]) for _ in range(2)))
        comparisons = chance.comparisons(variables, 3, 2)
        negated = tuple(chance.atom([*variables, Constant(5)]) for _ in range(draw(st.integers(0, 2))))
        name = f"head{number}"
        rules.append(Rule(Atom(name, tuple(head)), atoms, comparisons, negated))
        if not isinstance(head[-1], Call) or head[-1].op not in ("count", "sum", "min", "max", "mean"):
            relations[name] = len(head)
    fact = Rule(Atom("fact", tuple(draw(st.lists(st.one_of(*CONSTANTS), min_size=1, max_size=3)))), ())
    inputs = draw(st.lists(st.sampled_from(["one", "fact"]), unique=True))
    values = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
    directives = tuple(
        Directive("input", name, tuple(draw(st.dictionaries(NAMES, values, max_size=2)).items())) for name in inputs
    )
    return Rules((*rules, fact), directives=directives)


@given(full_programs())
@settings(max_examples=200, deadline=None)
def test_the_text_of_a_full_program_reads_as_the_program(rules):
    check(rules)
    assert parse(str(rules)) == rules


def reads_or_refuses(text):
    try:
        rules = parse(text)
    except GpuWcojError as error:
        shown = str(error)
        tokens = ("_LPAR", "_COMMA", "_DOT", "$END", "OPERATOR", "INTEGER", "STRING", "BRACKET", "Token(")
        assert not [token for token in tokens if token in shown and token not in text]
        return
    assert parse(str(rules)) == rules


PIECES = (
    *(
        "h(x) :- r(x).",
        "h",
        "r",
        "x",
        "_",
        "(",
        ")",
        ",",
        ".",
        ":-",
        ":",
        "=",
        "!=",
        "<",
        "!",
        "not",
        "count",
        "sum ",
        "min(",
        "strlen(",
        "cat",
        "+",
        "-",
        "{ r(x) }",
    ),
    *("/*", "*/", "//", "%", '"', '"a"', "\\", "5", "-5", "1.5", "1e", "true", "[", "]", "{", "}", ";", "'", "\n", " "),
    *("*", "/", "(x)", "5 ", "=5", "file", ".input r(a=b)", "count : { r(x) }", "!r(x)", ", "),
    *(".decl", ".input", ".output", ".x", "int64", "timestamp[us]", "decimal(", "\r", "\t", "\x00", "\ufeff", "²", "ü"),
)


@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
@settings(max_examples=600, deadline=None)
@example("h(x):-r(x).h(x):-!")
def test_no_text_of_known_pieces_breaks_the_reader(text):
    reads_or_refuses(text)


@given(st.text(max_size=60))
@settings(max_examples=200, deadline=None)
def test_no_text_breaks_the_reader(text):
    reads_or_refuses(text)


@given(programs(), st.data())
@settings(max_examples=200, deadline=None)
def test_no_damaged_program_breaks_the_reader(rules, data):
    text = str(rules)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 4)))
    reads_or_refuses(text[:start] + data.draw(st.sampled_from(["", *PIECES])) + text[end:])


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("SELECT src FROM edges", "It begins as SQL does: ask with gpu_wcoj.query or view, or with --language sql."),
        ("(a)-[e]->(b)", "It begins as a motif does: ask with gpu_wcoj.find or view, or with --language motif."),
        (
            "[:find ?a :where [?a :x _]]",
            "It begins as EDN does: ask with gpu_wcoj.query or view, or with --language edn.",
        ),
        ("rules/rings.dl", "this is the name of a file, and a program is its text (line 1, column 1)"),
        (r"C:\my views\x.SQL", "this is the name of a file, and a program is its text (line 1, column 1)"),
    ],
)
def test_what_is_written_for_another_reader_is_told(text, hint):
    with pytest.raises(DatalogSyntaxError) as raised:
        parse(text)
    assert hint in str(raised.value)
    with pytest.raises(DatalogSyntaxError) as raised:
        parse("select(x) :- ")  # begins as two languages may
    assert "begins as" not in str(raised.value)


@pytest.mark.parametrize(
    "piece", ["(", "h(", "r(x),", "[", "/*", '"\\', "!", "not ", ".decl ", "h(x) :- r(x), ", "-", "{"]
)
def test_deep_and_long_texts_are_refused_in_words(piece):
    with pytest.raises(GpuWcojError):
        parse("h(x) :- " + piece * 20_000)
