"""Types of calculations, aggregates and constants, before and after rows are known."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.data.schema import DataType
from gpu_wcoj.errors import TypeMismatchError
from gpu_wcoj.planner.types import Types
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.desugar import desugar
from tests.helpers.answers import named

ARROW = {
    "int8": pa.int8(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bool": pa.bool_(),
    "date32[day]": pa.date32(),
    "timestamp[us]": pa.timestamp("us"),
    "decimal128(9, 2)": pa.decimal128(9, 2),
}


def column(kind, *values):
    return pa.table({"x": pa.array(values, ARROW[kind])})


def types_of(text, **inputs):
    """The types of every head's columns, once the inputs have shown theirs."""
    rules = parse(text)
    types = Types(desugar(rules))
    for name, kinds in inputs.items():
        types.bind(name, [DataType(kind) for kind in kinds])
    found = {name: [types.type_of(name, i) for i in range(rules.arity[name])] for name in rules.heads}
    return {name: [kind and kind.name for kind in kinds] for name, kinds in found.items()}


@pytest.mark.parametrize(
    ("expression", "given", "result"),
    [
        ("x + 1", "int8", "int64"),
        ("-x", "int32", "int64"),
        ("x / 2 * x", "int64", "int64"),
        ("x + 1", "double", "double"),
        ("x + 1", "float", "double"),
        ("x * 2.5 - x", "double", "double"),
        ("strlen(x)", "string", "int64"),
        ("cat(x, x, x)", "string", "string"),
        ("substr(x, 1, strlen(x) - 1)", "string", "string"),
        ("count : { s(x, _) }", "date32[day]", "int64"),
        ("sum y : { s(x, y) }", "int8", "int64"),
        ("sum y : { s(x, y) }", "float", "double"),
        ("mean y : { s(x, y) }", "int8", "double"),
        ("min y : { s(x, y) }", "timestamp[us]", "timestamp[us]"),
        ("max y : { s(x, y) }", "string", "string"),
        ("1 + sum y * y : { s(x, y) }", "int32", "int64"),
    ],
)
def test_results(expression, given, result):
    types = types_of(f"h(x, {expression}) :- r(x).", r=[given], s=[given, given])
    assert types["h"][1] == result
    assert types_of(f"h(z) :- r(x), w = {expression}, z = w.", r=[given], s=[given, given])["h"] == [result]


def test_the_least_of_constants_has_their_type():
    program = gw.Program("l(min(2.0m)) :- r(_). h(y - 1) :- l(y).")
    assert program.step({"r": [(5,)]})["h"].rows() == [((Decimal("1.0"),), 1)]


def test_unknown_types_become_known():
    text = "h(x + y) :- r(x), s(y). g(z) :- h(z). d(x, min(0)) :- t(x). d(y, min(v + w)) :- d(x, v), e(x, y, w)."
    assert types_of(text) == {"h": [None], "g": [None], "d": [None, None]}
    assert types_of(text, r=["int32"]) == {"h": ["int64"], "g": ["int64"], "d": [None, None]}
    assert types_of(text, r=["int32"], e=["string", "string", "double"])["d"] == ["string", "double"]


@pytest.mark.parametrize(
    ("rule", "kinds", "match"),
    [
        ("h(x + y) :- r(x), s(y)", ("int32", "double"), "'x \\+ y' mixes an integer and a float"),
        ("h(x) :- r(x), x * 2.5 > 1.0", ("int64", None), "'x \\* 2.5' mixes an integer and a float"),
        ("h(x + 1) :- r(x)", ("string", None), "'x' is of type 'string', and 'x \\+ 1' calculates with it"),
        ("h(x + 1) :- r(x)", ("bool", None), "'x' is of type 'bool', and 'x \\+ 1' calculates with it"),
        ("h(x - y) :- r(x), s(y)", ("date32[day]", "date32[day]"), "is of type 'date32\\[day\\]', and 'x - y' calc"),
        ("h(x / 2) :- r(x)", ("decimal128(9, 2)", None), "'x / 2' divides decimals, which has no exact result"),
        ('h(x) :- r(x), x + "a" > 1', ("int64", None), "'\"a\"' is not a number, and 'x \\+ \"a\"' calc"),
        ('h(cat(x, "a")) :- r(x)', ("int64", None), "'cat' takes a text, and 'x' is of type 'int64'"),
        ("h(strlen(x)) :- r(x)", ("date32[day]", None), "'strlen' takes a text, and"),
        (
            "h(substr(x, y, 1)) :- r(x), s(y)",
            ("string", "double"),
            "'substr' takes an integer, and 'y' is of type 'double'",
        ),
        (
            'h(substr(x, "a", 1)) :- r(x)',
            ("string", None),
            "'substr' takes an integer, and '\"a\"' is a constant of another type",
        ),
        ("h(x) :- r(x), s(y), x + 1 < y", ("int64", "double"), "a value of type 'int64' with a value of type 'double'"),
        ("h(x) :- r(x), s(y), x = cat(y, y)", ("int64", "string"), "compares a value of type 'int64' with a value of"),
        ("h(x) :- r(x), x + 1 > 2.5", ("int64", None), "the calculated 'x \\+ 1' is of type 'int64', and .* with 2.5"),
        ("h(sum(x)) :- r(x)", ("string", None), "the sum of 'h' aggregates values of type 'string'"),
        ("h(mean(x)) :- r(x)", ("date32[day]", None), "the mean of 'h' aggregates values of type 'date32"),
        ("h(x) :- r(x). h(y + 1) :- s(y)", ("string", "int64"), "int64.*|string"),
        (
            "h(x) :- r(x), s(y), x < y",
            ("int64", "string"),
            "is of type 'string', and the rule 'h.*' compares it with relation 'r', column 0, of type 'int64'",
        ),
        ("h(x) :- r(x), s(x)", ("int64", "string"), "and joins relation 'r', column 0 of type 'int64'"),
    ],
)
def test_types_that_do_not_fit(rule, kinds, match):
    changes = {name: column(kind) for name, kind in zip("rs", kinds, strict=True) if kind}
    with pytest.raises(TypeMismatchError, match=match):
        gw.Program(f"{rule}.").step(changes)


@pytest.mark.parametrize(
    ("text", "rows", "place", "marked"),
    [
        ("h(x) :-\n  r(x), s(y),\n  x + y > 3.", {"r": [(1,)], "s": [("a",)]}, "line 3, column 3", "x + y"),
        (".decl r(x: int64)\nh(x, x * 2.0) :- r(x).", {"r": [(1,)]}, "line 2, column 6", "x * 2.0"),
        ("h(x) :- r(x), strlen(x) > 3.", {"r": [(1,)]}, "line 1, column 15", "strlen(x)"),
        ("h(x) :- r(x), s(x).", {"r": [(1,)], "s": [("a",)]}, "line 1, column 15", "s(x)"),
        ("h(x) :- r(x). h(x) :- s(x).", {"r": [(1,)], "s": [("a",)]}, "line 1, column 23", "s(x)"),
        ("h(x) :- r(x), s(y), x < y.", {"r": [(1,)], "s": [("a",)]}, "line 1, column 21", "x < y"),
        ("h(x) :- r(x), s(y), x + 1 != y.", {"r": [(1,)], "s": [("a",)]}, "line 1, column 21", "x + 1 != y"),
        ('h(x) :- r(x, "a").', {"r": [(1, 2)]}, "line 1, column 9", 'r(x, "a")'),
        ('h(x) :- r(x, y), y = "a".', {"r": [(1, 2)]}, "line 1, column 18", 'y = "a"'),
        ('h(x) :- r(x, y), y < "a".', {"r": [(1, dt.date(2026, 1, 1))]}, "line 1, column 18", 'y < "a"'),
        ('.decl h(x: date32)\nh("tomorrow").', {}, "line 2, column 1", 'h("tomorrow")'),
        ("h(sum(x)) :- r(x).", {"r": [("a",)]}, "line 1, column 3", "sum(x)"),
        ("h(n) :- n = sum x : { r(x) }.", {"r": [("a",)]}, "line 1, column 13", "sum x : { r(x) }"),
        ("h(x) :- r(x), x + 1 > 2.5.", {"r": [(1,)]}, "line 1, column 15", "x + 1 > 2.5"),
    ],
)
def test_errors_show_the_place(text, rows, place, marked):
    with pytest.raises(TypeMismatchError) as raised:
        gw.Program(text, inputs=[*rows]).step(rows)
    first, line, marker, *_ = str(raised.value).split("\n")
    assert first.endswith(f"({place})")
    assert line[marker.index("~") : marker.rindex("~") + 1] == marked
    assert "#" not in str(raised.value)


def ticks(text, *changes):
    program = gw.Program(text, inputs=named(text))
    for change in changes:
        answers = program.step(change)
    (name,) = answers
    return program.relation(name).to_arrow().schema.types[:-1], program.relation(name).to_dict()


DAY = dt.date(2024, 2, 29)


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(
    ("constant", "kind", "value"),
    [
        ("5", "double", 5.0),
        ("5", "float", 5.0),
        ("2.5", "float", 2.5),
        ("5", "decimal128(9, 2)", 5),
        ('"2024-02-29"', "date32[day]", DAY),
        ('"b"', "string", "b"),
        ("5", "int8", 5),
    ],
)
def test_constants_become_values_of_a_type_that_shows_up_later(constant, kind, value, order):
    text = f"h({constant}) :- s(_). h(x) :- r(x)."
    changes = [{"s": [(1,)]}, {"r": column(kind, value)}]
    assert ticks(text, *changes[::order]) == ([ARROW[kind]], {(value,): 1})


def test_constants_without_a_type_are_shown_as_they_are():
    assert ticks('h(2.5, 1, "b") :- s(_). h(x, y, z) :- r(x, y, z).', {"s": [(1,)]}) == (
        [pa.float64(), pa.int64(), pa.string()],
        {(2.5, 1, "b"): 1},
    )


@pytest.mark.parametrize(
    ("text", "kinds", "rows"),
    [
        ("h(1). h(2).", [pa.int64()], [(1,), (2,)]),
        ('h(1, "a", true). h(2.5, "b", false).', [pa.float64(), pa.string(), pa.bool_()], None),
        (".decl h(x: int8)\nh(1).", [pa.int8()], [(1,)]),
        (".decl h(x: double)\nh(1).", [pa.float64()], [(1.0,)]),
        ('.decl h(x: date32)\nh("2024-02-29").', [pa.date32()], [(DAY,)]),
        (".decl h(x: decimal(9, 2))\nh(1.5).", [pa.decimal128(9, 2)], None),
        ("h(x) :- f(x), r(x). f(5). f(6).", [pa.float64()], [(5.0,)]),
    ],
)
def test_facts(text, kinds, rows):
    change = {"r": column("double", 5.0)} if "r(" in text else {}
    found = ticks(text, change)
    assert found[0] == kinds
    assert len(found[1]) == text.count("h(") - text.count(".decl")
    if rows is not None:
        assert list(found[1]) == rows


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (".decl h(x: int8)\nh(300).", "column 0 is declared as 'int8', -128 to 127, and .* has 300"),
        (".decl h(x: decimal(4, 2))\nh(1.125m).", "declared as 'decimal128.4, 2.', -99.99 to 99.99, and .* has 1.125"),
        (".decl h(x: uint8)\nh(-1) :- r(_).", "column 0 is declared as 'uint8', 0 to 255, and .* has -1"),
        ('.decl h(x: int8)\nh("a").', "is of type 'int8', and a fact of the text gives it 'a'"),
        ('.decl h(x: date32)\nh("tomorrow").', "the constant 'tomorrow' is not a value of type 'date32"),
    ],
)
def test_facts_that_are_no_values_of_their_declared_type(text, match):
    with pytest.raises(TypeMismatchError, match=match):
        gw.Program(text).step({})


def test_facts_and_rows_of_types_that_do_not_join():
    program = gw.Program("f(5). h(x) :- f(x), r(x).", inputs=["r"])
    program.step({})
    with pytest.raises(
        TypeMismatchError, match=r"relation 'r', column 0 .* joins relation 'f', column 0 of type 'int64'"
    ):
        program.step({"r": [("a",)]})
    assert program.step({"r": [(5,)]})["h"].to_dict() == {(5,): 1}
