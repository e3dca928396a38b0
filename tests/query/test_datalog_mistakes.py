"""Datalog text that is none: what is refused, where, and in which words."""

import pytest

from gpu_wcoj.errors import (
    DatalogSyntaxError,
    UnsupportedError,
    UnsupportedTypeError,
)
from gpu_wcoj.query.datalog import parse


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
            ("h(x) r(x).", "expected ':-', ',' or '.' after ')'", 1, 6, 1),
            ("h(x) <- r(x).", "expected ':-', ',' or '.' after ')'", 1, 6, 1),
            ("h(x), g(x) r(x).", "expected ':-', ',' or '.' after ')'", 1, 12, 1),
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
            ("", "the program has no rule; write one such as 'h(x) :- r(x, y).'", 1, 1, 1),
            (" % nothing", "the program has no rule; write one such as 'h(x) :- r(x, y).'", 1, 1, 1),
            (".decl r(x)", "the program has no rule; write one such as 'h(x) :- r(x, y).'", 1, 1, 1),
            (".decl", "expected the name of a relation after '.decl', where the text ends", 1, 6, 1),
            (".output h,", "expected the name of a relation after ',', where the text ends", 1, 11, 1),
            (".decl r", "expected '(' or ',' after 'r', where the text ends", 1, 8, 1),
            (".decl r(", "expected the name of a column after '(', where the text ends", 1, 9, 1),
            (".decl r(5)", "expected the name of a column after '('", 1, 9, 1),
            (".decl r(x", "expected ':', ',' or ')' after 'x', where the text ends", 1, 10, 1),
            (".decl r(x:)", "expected a type after ':'", 1, 11, 1),
            (".decl r(x: decimal(a, 2))", "expected a number after '('", 1, 20, 1),
            (".decl r(x: timestamp[us)", "this '[' is not closed by ']' on its line", 1, 21, 1),
            ("h(x) :- r(x), s('a').", 'texts stand in double quotes: write "..."', 1, 17, 1),
            ('h(x) :- r(x, "abc).\n"', "this text is not closed by '\"' on its line", 1, 14, 1),
            ("h(x) :- r(x). /* open *", "this comment is not closed by '*/'", 1, 15, 2),
            ("h(x) :- r(x), x == 5.", "'==' is not a comparison operator; write '='", 1, 17, 2),
            ("h(x) :- r(x), x =< 5.", "'=<' is not a comparison operator; write '<='", 1, 17, 2),
            ("h(x) :- r(x), x => 5.", "'=>' is not a comparison operator; write '>='", 1, 17, 2),
            ("h(x) :- r(x), x <> 5.", "'<>' is not a comparison operator; write '!='", 1, 17, 2),
            ("true(x) :- r(x).", "'true' is a constant and cannot be a name", 1, 1, 4),
            ("h(x) :- false(x).", "'false' is a constant and cannot be a name", 1, 9, 5),
            ("_(x) :- r(x).", "'_' stands for a value and cannot be a name", 1, 1, 1),
            (".output _\nh(x) :- r(x).", "'_' stands for a value and cannot be a name", 1, 9, 1),
            ("h(x) :- r(x, 9223372036854775808).", "integer 9223372036854775808 is outside int64, -2^63", 1, 14, 19),
            ("h(x) :- r(x, -9223372036854775809).", "integer -9223372036854775809 is outside int64, -2", 1, 15, 19),
            (f"h(x) :- r(x, {'9' * 5000}).", f"integer {'9' * 30}... is outside int64", 1, 14, 147),
            ("h(x) :- r(x, 1e999).", "float inf is not a finite number", 1, 14, 5),
            (r'h(x) :- r(x, "a\qb").', r"unknown escape '\q'; allowed are \\ \" \n \t \r", 1, 16, 2),
            (r'h(x) :- r(x, "a\u12").', r"unknown escape '\u'; allowed are", 1, 16, 2),
            (r'h(x) :- r(x, "\ud800").', r"unknown escape '\ud800'; allowed are", 1, 15, 6),
            (r'h(x) :- r(x, "\U00110000").', r"unknown escape '\U00110000'; allowed are", 1, 15, 10),
            ('h(x) :- r(x, "a\udc00").', "the text contains an unpaired surrogate (U+DC00)", 1, 16, 6),
            ("count(x) :- r(x).", "'count' is an aggregate; no relation can have this name", 1, 1, 5),
            ("h(x) :- r(x). strlen(x) :- r(x).", "'strlen' is a function; no relation can have this name", 1, 15, 6),
            ("not(x) :- r(x).", "'not' is negation; no relation can have this name", 1, 1, 3),
            (".decl r(false)\nh(x) :- r(x).", "'false' is a constant and cannot be a name", 1, 9, 5),
            ("h(x) :- s(x), not(x).", "expected a relation or a comparison in the parentheses", 1, 19, 1),
            ("h(x) :- r(x), not 5.", "expected a comparison (=, !=, <, <=, >, >=) after '5'", 1, 20, 1),
            ("h(x) :- r(x), y = x + .", "expected a variable or a constant after '+'", 1, 23, 1),
            ("h(x) :- r(x), y = (x + 1.", "expected ')' after '1'", 1, 25, 1),
            ("h(x) :- r(x) + 1.", "expected ',' or '.' after ')'", 1, 14, 1),
            ("h(x) :- r(x), (x).", "expected a relation or a comparison in the parentheses", 1, 16, 1),
            ("h(count(x)) :- r(x).", "'count' counts the ways to satisfy the body: write count(), and", 1, 3, 5),
            ("h(sum()) :- r(x).", "'sum' takes a value, as sum(x)", 1, 3, 3),
            ("h(x) :- r(x), y = sum(x).", "expected ':' and the body of the aggregate, as in sum x : {", 1, 25, 1),
            ("h(x) :- r(x), n = count x : r(x).", "'count' takes no value: count : { ... }", 1, 19, 5),
            ("h(x) :- r(x), n = sum : { r(x) }.", "'sum' takes a value: sum x : { ... }", 1, 19, 3),
            ("h(x) :- r(x), n = count : { }.", "expected a relation or a comparison after '{'", 1, 29, 1),
            ("h(x) :- r(x), n = count : { r(x).", "expected '}' after ')'", 1, 33, 1),
            ("h(x) :- r(x), x = strlen(x, x).", "'strlen' takes a text: got 2 arguments", 1, 19, 6),
            (
                "h(x) :- r(x), x = substr(x, 1).",
                "'substr' takes a text, a start and a length: got 2 arguments",
                1,
                19,
                6,
            ),
            ("h(x) :- r(x), x = cat(x).", "'cat' takes two texts or more: got 1 argument", 1, 19, 3),
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
            parse("h(x) :- " + "r(x), " * 2_000 + "s(x" + " t(x)" * 2_000)
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
            ("h :- r(x).", r"'h' has no parentheses; a relation without columns is 'h\(\)'", 1, 1),
            ("h.", r"'h' has no parentheses; a relation without columns is 'h\(\)'", 1, 1),
            ("h(x) :- r(x). #define N 5", "lines of the C preprocessor are not read; .* 'cpp -P'", 1, 15),
            ("h(x) :- r(x), x = @f(x).", "'@' calls a functor .* gpu_wcoj.function", 1, 19),
            ("h(x, $) :- r(x).", "'[$]' numbers rows in the order in which", 1, 6),
            ("h(autoinc(), x) :- r(x).", r"autoinc\(\) numbers rows .* derive a number from the row", 1, 3),
            ("h(x) :- r(x). h(x) <= h(y) :- x <= y.", "subsumption is not supported; .*min", 1, 20),
            (".decl h(x) choice-domain x\nh(x) :- r(x).", "'choice-domain' keeps any one row of several", 1, 12),
            (".limitsize h(n=5)\nh(x) :- r(x).", "'.limitsize' ends a recursion, and 'h' is not recursive", 1, 1),
            (".limitsize h(n=5)\nh(min(x)) :- r(x). h(min(x + 1)) :- h(x).", "'h', which keeps one value", 1, 1),
            (".limitsize h(n=5)\nh(x) :- r(x). h(y) :- h(x), y = range(x, 9).", r"recursion through range", 1, 1),
            (".decl h(x, y) eqrel\n.limitsize h(n=5)\nh(x, y) :- h(y, x), r(x).", "closed to an equivalence", 2, 1),
            ('.include "a.dl"\nh(x) :- r(x).', "'.include' is read by the command line only", 1, 1),
            (".functor f(number): number\nh(x) :- r(x).", "declare a Python function with gpu_wcoj.function", 1, 1),
            (".lattice A<> { }\nh(x) :- r(x).", "'.lattice' is not supported; min and max in heads", 1, 1),
            ("h(n) :- n = count : { r(x) ; s(x) }.", "an aggregate has no ';' in its braces", 1, 23),
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
            ("int65", "unknown type 'int65'; .* Did you mean 'int64'"),
            ("int", "unknown type 'int'; .* Did you mean 'int64'"),
            ("VARCHAR", "unknown type 'VARCHAR'; .* Did you mean 'string'"),
            ("timestamp", r"unknown type 'timestamp'; .* Did you mean 'timestamp\[us\]'"),
            ("timestamp[fortnight]", "unknown type"),
            ("list[int64]", "unknown type"),
            ("halffloat", "unknown type"),
            ("decimal(39, 2)", r"type 'decimal\(39, 2\)' has .* digits: got 39, expected 1 to 38"),
            ("decimal(0, 0)", r"type 'decimal\(0, 0\)' has .* digits: got 0, expected 1 to 38"),
        ],
    )
    def test_types_that_are_not_there(self, type_name, what):
        with pytest.raises(UnsupportedTypeError, match=what) as caught:
            parse(f".decl r(x: {type_name})\nh(x) :- r(x).")
        assert "(line 1, column 12)\n" in str(caught.value)
        assert str(caught.value).endswith("~" * len(type_name))
