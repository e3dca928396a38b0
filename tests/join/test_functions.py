"""Decimals, dates and patterns in rules, against Python's own."""

from __future__ import annotations

import datetime as dt
import itertools
import random
import re
from decimal import Decimal, localcontext

import numpy as np
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import (
    AggregateOverflowError,
    CalculationError,
    DatalogSyntaxError,
    TypeMismatchError,
    UnsupportedTypeError,
)
from gpu_wcoj.functions import calendar_of, like
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.ir import Constant
from tests.helpers.kernel_kinds import KINDS, needed


@pytest.fixture(params=KINDS)
def backend(request):
    return needed(request.param).backend()


def decimals(values, precision, scale):
    return pa.array([Decimal(value) for value in values], pa.decimal128(precision, scale))


def stepped(text, changes, backend, head="h", **options):
    return gw.Program(text, backend=backend, **options).step(changes)[head].to_dict()


def some_decimals(seed, precision, scale, n):
    chance = random.Random(seed)
    edges = [0, 1, -1, 10**precision - 1, 1 - 10**precision, 10**scale, -(10**scale)]
    codes = edges + [chance.randint(-(10 ** chance.randint(0, precision)), 10**precision - 1) for _ in range(n)]
    return [Decimal(code).scaleb(-scale) for code in codes]


@pytest.mark.parametrize("bag", [False, True])
def test_arithmetic_of_decimals_is_exact(backend, bag):
    left, right = some_decimals(1, 9, 2, 10), some_decimals(2, 8, 4, 10)
    pairs = sorted(set(itertools.product(left, right)))
    table = {"x": decimals([one for one, _ in pairs], 9, 2), "y": decimals([one for _, one in pairs], 8, 4)}
    text = "h(x, y, x + y, x - y, x * y, -x, abs(y), 1 - x, y * 3, x + 0.125, 0.001m * y) :- r(x, y)."
    found = stepped(text, {"r": table}, backend, bag=bag)
    with localcontext() as context:
        context.prec = 60
        wanted = {
            (x, y, x + y, x - y, x * y, -x, abs(y), 1 - x, y * 3, x + Decimal("0.125"), Decimal("0.001") * y)
            for x, y in pairs
        }
    assert found == dict.fromkeys(wanted, 1)


def test_a_rest_of_decimals_has_the_sign_of_the_dividend(backend):
    pairs = [(x, y) for x, y in itertools.product(some_decimals(3, 9, 2, 8), some_decimals(4, 9, 3, 8)) if y]
    table = {"x": decimals([x for x, _ in pairs], 9, 2), "y": decimals([y for _, y in pairs], 9, 3)}
    found = stepped("h(x, y, x % y) :- r(x, y), y != 0.", {"r": table}, backend)
    assert found == dict.fromkeys({(x, y, x % y) for x, y in pairs}, 1)


def test_types_of_decimal_results():
    text = "h(x + y, x * y, 1 - x, x - 0.5, sum(x)) :- r(x, y, k)."
    table = {"x": decimals(["1.25"], 5, 2), "y": decimals(["0.5"], 4, 1), "k": [7]}
    answer = gw.Program(text).step({"r": table})["h"]
    kinds = [str(kind) for kind in answer.to_arrow().schema.types[:5]]
    scales = [kind.partition(", ")[2] for kind in kinds]
    assert all(kind.startswith("decimal128") for kind in kinds)
    assert scales == ["2)", "3)", "2)", "2)", "2)"]
    assert kinds[1] == "decimal128(9, 3)"
    assert kinds[4] == "decimal128(18, 2)"


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("x + 1", "999999999999999999"),
        ("x * 10", "123456789012345678"),
        ("x * x", "9999999999"),
        ("x - 2", "-999999999999999999"),
        ("x + 0.01", "99999999999999999"),
    ],
)
def test_more_than_eighteen_digits_are_an_error(expression, values, backend):
    program = gw.Program(f"h({expression}) :- r(x).", backend=backend)
    with pytest.raises(CalculationError, match="more than 18 digits"):
        program.step({"r": {"x": decimals([values], 18, 0)}})
    assert len(program.step({"r": {"x": decimals(["1"], 18, 0)}})["h"].to_dict()) == 1


def test_a_sum_of_more_digits_is_an_error(backend):
    program = gw.Program("h(sum(x)) :- r(x, k).", backend=backend, bag=True)
    much = Decimal("9999999999999999.99")
    assert program.step({"r": {"x": decimals([much], 18, 2), "k": [1]}})["h"].to_dict() == {(much,): 1}
    with pytest.raises(AggregateOverflowError):
        program.step({"r": {"x": decimals(["0.01"], 18, 2), "k": [2]}})
    found = program.step({"r": {"x": decimals(["-0.01"], 18, 2), "k": [2]}})["h"].to_dict()
    assert found == {(much,): -1, (much - Decimal("0.01"),): 1}


OPERATORS = {"<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b}
OPERATORS |= {"=": lambda a, b: a == b, "!=": lambda a, b: a != b}


@pytest.mark.drawn("op", "constant", each=True)
@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("constant", ["0.05", "0.055", "-0.055", "5m", "7", "0.0m", "-1000000", "123456.7891m"])
def test_comparisons_of_decimals_with_constants(op, constant, backend):
    values = [Decimal(code).scaleb(-2) for code in (-6, -5, -1, 0, 5, 6, 500, 700, 12345678, 12345679, -99999999)]
    table = {"x": decimals(values, 12, 2), "k": list(range(len(values)))}
    wanted = {(x, k): 1 for k, x in enumerate(values) if OPERATORS[op](x, Decimal(constant.rstrip("m")))}
    negative = constant.startswith("-")
    spelled = f"({constant})" if negative else constant
    assert stepped(f"h(x, k) :- r(x, k), x {op} {spelled}.", {"r": table}, backend) == wanted
    calculated = stepped(
        f"h(x, k) :- r(x, k), s(k), x * 1.000m {op} {spelled}.", {"r": table, "s": [(k,) for k in table["k"]]}, backend
    )
    assert calculated == wanted
    aliased = stepped(
        f"big(x, k) :- r(x, k), x {op} {spelled}. h(x, k) :- big(x, k), s(k). .output h",
        {"r": table, "s": [(k,) for k in table["k"]]},
        backend,
    )
    assert aliased == wanted


@pytest.mark.parametrize("op", OPERATORS)
def test_comparisons_across_scales(op, backend):
    xs, ys, ns = some_decimals(5, 18, 2, 6), some_decimals(6, 18, 6, 6), [0, 1, -1, 5, 10**17, 2**63 - 1, -(2**63)]
    r, s, n = ("r", {"x": decimals(xs, 18, 2)}), ("s", {"y": decimals(ys, 18, 6)}), ("n", {"n": ns})
    found = stepped(f"h(x, y) :- r(x), s(y), abs(x) {op} abs(y). .output h", dict([r, s]), backend)
    assert found == {(x, y): 1 for x in xs for y in ys if OPERATORS[op](abs(x), abs(y))}
    found = stepped(f"h(x, n) :- r(x), n(n), -x {op} n. .output h", dict([r, n]), backend)
    assert found == {(x, n): 1 for x in xs for n in ns if OPERATORS[op](-x, n)}
    found = stepped(f"h(y, n) :- s(y), n(n), n {op} abs(y). .output h", dict([s, n]), backend)
    assert found == {(y, n): 1 for y in ys for n in ns if OPERATORS[op](n, abs(y))}


def test_aggregates_of_decimals_over_ticks(backend):
    chance, program = random.Random(9), gw.Program(
        "s(k, sum(x)) :- r(k, x). m(k, mean(x)) :- r(k, x). a(k, max(x)) :- r(k, x). p(k, sum(x * x)) :- r(k, x).",
        backend=backend, bag=True,
    )  # fmt: skip
    held: list[tuple[int, Decimal]] = []
    kept: dict[str, dict[tuple[object, ...], int]] = {name: {} for name in "smap"}
    for _ in range(6):
        come = [(chance.randrange(3), Decimal(chance.randint(-(10**6), 10**6)).scaleb(-2)) for _ in range(20)]
        gone = [held.pop(chance.randrange(len(held))) for _ in range(min(12, len(held)))]
        held += come
        rows = pa.table({
            "k": [k for k, _ in come + gone], "x": decimals([x for _, x in come + gone], 9, 2),
            "weight": [1] * len(come) + [-1] * len(gone),
        })  # fmt: skip
        for name, change in program.step({"r": rows}).items():
            for row, weight in change.to_dict().items():
                kept[name][row] = kept[name].get(row, 0) + weight
        groups = {k: [x for own, x in held if own == k] for k in {k for k, _ in held}}
        wanted = {
            "s": {(k, sum(xs)) for k, xs in groups.items()},
            "a": {(k, max(xs)) for k, xs in groups.items()},
            "p": {(k, sum(x * x for x in xs)) for k, xs in groups.items()},
            "m": {(k, float(100 * sum(set(xs))) / (100 * len(set(xs)))) for k, xs in groups.items()},
        }
        for name, rows_of in wanted.items():
            assert {row for row, weight in kept[name].items() if weight} == rows_of


def test_a_finer_scale_that_arrives_later(backend):
    program = gw.Program("h(k, sum(x)) :- r(k, x). g(k, x * 2) :- r(k, x).", backend=backend, bag=True)
    program.step({"r": {"k": [1, 1], "x": decimals(["0.01", "0.02"], 9, 2)}})
    found = program.step({"r": {"k": [1], "x": decimals(["0.0001"], 9, 4)}})
    assert found["h"].to_dict() == {(1, Decimal("0.03")): -1, (1, Decimal("0.0301")): 1}
    assert found["g"].to_dict() == {(1, Decimal("0.0002")): 1}
    found = program.step({"r": pa.table({"k": [1], "x": decimals(["0.01"], 9, 2), "weight": [-1]})})
    assert found["h"].to_dict() == {(1, Decimal("0.0301")): -1, (1, Decimal("0.0201")): 1}


def test_decimals_of_rules_that_meet_later():
    program = gw.Program("h(x * y) :- r(x), s(y).", inputs=["r", "s"])
    program.step({"r": {"x": [3, 4]}})
    found = program.step({"s": {"y": decimals(["0.5"], 3, 1)}})["h"].to_dict()
    assert found == {(Decimal("1.5"),): 1, (Decimal("2.0"),): 1}


def test_doubles(backend):
    xs = some_decimals(7, 18, 4, 40)
    table = {"x": decimals(xs, 18, 4), "n": [2**53 + 1] * len(xs), "k": list(range(len(xs)))}
    found = stepped("h(k, double(x), double(n), double(x) / double(k)) :- r(x, n, k), k != 0.", {"r": table}, backend)
    wanted = {}
    for k, x in list(enumerate(xs))[1:]:
        code, by = int(x.scaleb(4)), 10**4
        wanted[k, code / by, float(2**53 + 1), (code / by) / k] = 1
    assert found == wanted
    single = {"x": pa.array([0.5, -2.25], pa.float32())}
    assert stepped("h(double(x), abs(x)) :- r(x).", {"r": single}, backend) == {(0.5, 0.5): 1, (-2.25, 2.25): 1}


def test_magnitudes_of_integers(backend):
    assert stepped("h(x, abs(x)) :- r(x).", {"r": [(-3,), (0,), (2**63 - 1,)]}, backend) == {
        (-3, 3): 1,
        (0, 0): 1,
        (2**63 - 1, 2**63 - 1): 1,
    }
    with pytest.raises(CalculationError, match="outside int64"):
        stepped("h(abs(x)) :- r(x).", {"r": [(-(2**63),)]}, backend)


@pytest.mark.parametrize("kind", ["date32", "date64", "timestamp[s]", "timestamp[ms]", "timestamp[us]", "zoned"])
def test_years_months_and_days(kind, backend):
    chance = random.Random(8)
    days = [chance.randrange(dt.date.max.toordinal()) + 1 for _ in range(200)]
    dates = [dt.date.fromordinal(one) for one in days]
    dates += [dt.date(*one) for one in ((1, 1, 1), (9999, 12, 31), (1970, 1, 1), (1969, 12, 31), (2000, 2, 29))]
    dates += [dt.date(year, month, 28) for year in (1900, 1996, 2000) for month in (2, 3, 12)]
    if kind.startswith("date"):
        values, of = dates, {"date32": pa.date32(), "date64": pa.date64()}[kind]
    else:
        times = [dt.time(0), dt.time(23, 59, 59), dt.time(12, 30)]
        values = [dt.datetime.combine(one, times[i % 3]) for i, one in enumerate(dates)]
        of = pa.timestamp("us", "UTC") if kind == "zoned" else pa.timestamp(kind[10:-1])
    table = {"d": pa.array(values).cast(of), "k": list(range(len(values)))}
    found = stepped("h(k, year(d), month(d), day(d)) :- r(d, k).", {"r": table}, backend)
    assert found == {(k, one.year, one.month, one.day): 1 for k, one in enumerate(dates)}


def test_the_calendar_has_no_end():
    days = np.array([-719_468, -719_469, -1_000_000_000, 1_000_000_000], np.int64)
    shown = [calendar_of(op, days, 1, np).tolist() for op in ("year", "month", "day")]
    for at, day in enumerate(days.tolist()):
        cycles, rest = divmod(day + 719_468, 146_097)
        inside = dt.date.fromordinal(dt.date(2000, 3, 1).toordinal() + rest)
        assert [own[at] for own in shown] == [inside.year - 2000 + 400 * cycles, inside.month, inside.day]


@pytest.mark.parametrize(
    ("kind", "constant"),
    [
        (pa.date32(), "1995-03-15"),
        (pa.date64(), "1995-03-15"),
        (pa.timestamp("s"), "1995-03-15"),
        (pa.timestamp("us"), "1995-03-15 00:00:00"),
    ],
)
@pytest.mark.parametrize("op", OPERATORS)
def test_dates_compare_with_text(kind, constant, op, backend):
    middle = dt.date(1995, 3, 15)
    dates = [middle, middle - dt.timedelta(1), middle + dt.timedelta(1), dt.date(1969, 12, 31)]
    found = stepped(
        f'h(k) :- r(d, k), d {op} "{constant}".', {"r": {"d": pa.array(dates).cast(kind), "k": [0, 1, 2, 3]}}, backend
    )
    assert found == {(k,): 1 for k, one in enumerate(dates) if OPERATORS[op](one, middle)}


@pytest.mark.parametrize("constant", ["1995-02-30", "15.3.1995", "1995-3-15", "yesterday", "1995-03-15 25:00", ""])
def test_nonsense_is_no_date(constant):
    program = gw.Program(f'h(d) :- r(d), d < "{constant}".')
    with pytest.raises(TypeMismatchError, match="is not a value of type 'date32"):
        program.step({"r": {"d": pa.array([dt.date(1995, 3, 15)])}})


def as_expression(pattern, escape):
    """A pattern as Python's regular expression, written anew."""
    made, place = "", 0
    while place < len(pattern):
        if escape and pattern[place] == escape:
            place += 1
            made += re.escape(pattern[place])
        else:
            made += {"%": ".*", "_": "."}.get(pattern[place], re.escape(pattern[place]))
        place += 1
    return re.compile(made, re.DOTALL)


def test_patterns_against_regular_expressions():
    chance = random.Random(3)
    seen = set()
    for _ in range(6000):
        text = "".join(chance.choices("ab%_é\n.", k=chance.randrange(7)))
        pattern = "".join(chance.choices("ab%_é\n.", k=chance.randrange(6)))
        found = like(text, pattern)
        assert found == (as_expression(pattern, "").fullmatch(text) is not None), (text, pattern)
        seen.add(found)
        escaped = "".join(chance.choices(["a", "b", "%", "_", "!%", "!_", "!!"], k=chance.randrange(5)))
        assert like(text, escaped, "!") == (as_expression(escaped, "!").fullmatch(text) is not None), (text, escaped)
    assert seen == {True, False}
    assert like("a" * 50_000, "%a" * 30 + "b") is False


@pytest.mark.parametrize("bag", [False, True])
def test_patterns_in_rules(backend, bag):
    words = ["forest green", "green", "Green tea", "teal", "", "a%b", "50%"]
    rows = {"r": [(word,) for word in words]}
    assert stepped('h(x) :- r(x), like(x, "%green%") = true.', rows, backend, bag=bag) == {(x,): 1 for x in words[:2]}
    found = stepped('h(x, like(x, "%e")) :- r(x), like(lower(x), "%green%") != false.', rows, backend, bag=bag)
    assert found == {(x, x.endswith("e")): 1 for x in words[:3]}
    assert stepped('h(upper(x)) :- r(x), like(x, "%!%", "!") = true.', rows, backend, bag=bag) == {("50%",): 1}
    found = stepped(
        "h(x, y) :- r(x), s(y), like(x, y) = true.", rows | {"s": [("%e_l",), ("_%_%_%_",)]}, backend, bag=bag
    )
    assert found == {("teal", "%e_l"): 1} | {(word, "_%_%_%_"): 1 for word in words if len(word) > 3}
    with pytest.raises(CalculationError, match="escape"):
        stepped('h(x) :- r(x), like(x, "a!", "!") = true.', rows, backend, bag=bag)


@pytest.mark.parametrize(
    ("text", "kind", "match"),
    [
        ("h(x / 2) :- r(x).", pa.decimal128(9, 2), r"write double|Write double\(x\) / double\(2\)"),
        ("h(quotient(x, 2)) :- r(x).", pa.decimal128(9, 2), r"Write quotient\(double\(x\), double\(2\)\)"),
        ("h(x * x * x) :- r(x).", pa.decimal128(9, 8), "24 digits behind the point"),
        ("h(x) :- r(x), x > 0.1234567890123456.", pa.decimal128(9, 2), "Write it as a decimal: 0.1234567890123456m"),
        ("h(year(x)) :- r(x).", pa.int64(), "'year' takes a date or a timestamp"),
        ("h(year(x)) :- r(x).", pa.timestamp("s", "Europe/Rome"), "supports no time zone except UTC"),
        ("h(x + 1) :- r(x).", pa.date32(), "is of type 'date32.*', and 'x \\+ 1' calculates with it"),
        ("h(double(x)) :- r(x).", pa.string(), "is of type 'string'"),
        ('h(like(x, "a")) :- r(x).', pa.int64(), "'like' takes a text"),
        ("h(0.123) :- r(x). h(x) :- r(x).", pa.decimal128(9, 2), "the constant 0.123 is not exactly a value of type"),
        ("h(x) :- r(x), x = true.", pa.decimal128(9, 2), "is compared with True"),
        ("h(x) :- r(x), x > 0.5m.", pa.string(), "is compared with"),
    ],
)
def test_what_is_refused(text, kind, match):
    values = {"string": ["a"], "date32[day]": [dt.date(2000, 1, 1)]}.get(str(kind), [1])
    program = gw.Program(text)
    with pytest.raises(TypeMismatchError, match=match):
        program.step({"r": {"x": pa.array(values, kind)}})


def test_decimal_literals():
    rules = parse("h(x, 0.50m) :- r(x), x > -1.5m, x < 0.1, x != 0.10000000000000000001.")
    assert parse(str(rules)) == rules
    assert Constant(Decimal("0.50")) in rules.rules[0].head.terms
    assert "0.10000000000000000001m" in str(rules)
    assert stepped("h(0.1m + 0.2m, 1 - 0.05m, 2 * 0.5m).", {}, "cpu") == {
        (Decimal("0.3"), Decimal("0.95"), Decimal(1)): 1
    }
    assert stepped("h(x) :- r(x), x > 0.5m.", {"r": [(0,), (1,)]}, "cpu") == {(1,): 1}
    assert stepped("h(x * 0.5m) :- r(x).", {"r": [(3,)]}, "cpu") == {(Decimal("1.5"),): 1}
    assert stepped("h(x * 0.5m) :- r(x), x > 0.1m.", {"r": [(3.0,), (0.1,)]}, "cpu") == {(1.5,): 1}
    with pytest.raises(UnsupportedTypeError, match="more than 60 digits"):
        Constant(Decimal("1e100"))
    with pytest.raises(UnsupportedTypeError, match="is not finite"):
        Constant(Decimal("NaN"))


def test_names_of_functions_are_names_of_relations_too():
    found = stepped("h(x, y) :- like(x, y), !year(x), y = abs(x), n = count : year(_), n > 0.", {
        "like": [(-1, 1), (-2, 2), (3, 4)], "year": [(-2,)],
    }, "cpu")  # fmt: skip
    assert found == {(-1, 1): 1}


TEXTS = ["mail.example", "www.example", "a\nb", "", "é", "aaaa", None]


PATTERNS = ["mail.*", ".*example", "a", "a|aaaa", "(?:aa)+", ".", "", r"\\w+\\.\\w+", "[^a-z]*", "a{2,4}"]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("bag", [False, True])
def test_a_text_as_a_whole_is_of_a_pattern(pattern, bag, backend):
    changes = {"r": [(one,) for one in TEXTS]}
    python = re.compile(pattern.replace("\\\\", "\\"))
    texts = [one for one in TEXTS if one is not None]
    wanted = {(one,): 1 for one in texts if python.fullmatch(one)}
    assert stepped(f'h(x) :- r(x), match("{pattern}", x).', changes, backend, bag=bag) == wanted
    others = {(one,): 1 for one in texts if (one,) not in wanted}
    assert stepped(f'h(x) :- r(x), !match("{pattern}", x).', changes, backend, bag=bag) == others


@pytest.mark.parametrize("part", ["a", "example", "", "\\n", "é", "x.e"])
def test_a_text_has_a_part(part, backend):
    changes = {"r": [(one,) for one in TEXTS]}
    texts = [one for one in TEXTS if one is not None]
    held = {(one,): 1 for one in texts if part.replace("\\n", "\n") in one}
    assert stepped(f'h(x) :- r(x), contains("{part}", x).', changes, backend) == held
    others = {(one,): 1 for one in texts if (one,) not in held}
    assert stepped(f'h(x) :- r(x), not contains("{part}", x).', changes, backend) == others


def test_patterns_and_parts_of_other_relations_under_changes(backend):
    text = "m(x, p) :- r(x), q(p), match(p, x). c(x, p) :- r(x), q(p), !contains(p, x)."
    program = gw.Program(text, backend=backend, inputs=["r", "q"])
    program.step({"r": [("ab",), ("b",)]})
    found = program.step({"q": [("b",), (".b",)]})
    assert found["m"].to_dict() == {("b", "b"): 1, ("ab", ".b"): 1}
    assert found["c"].to_dict() == {("ab", ".b"): 1, ("b", ".b"): 1}
    found = program.step({"r": [(("ab",), -1)]})
    assert (found["m"].to_dict(), found["c"].to_dict()) == ({("ab", ".b"): -1}, {("ab", ".b"): -1})
    before = program.relation("m")
    with pytest.raises(CalculationError, match=r"match\('\(', '.*'\) has no value: RE2 does not read the pattern"):
        program.step({"q": [("(",)]})
    assert program.relation("m") == before


def test_constraints_within_aggregates_and_as_values(backend):
    changes = {"r": [("ab",), ("b",), ("c",)]}
    text = 'h(n) :- n = count : { r(x), contains("b", x), !match("a.*", x) }.'
    assert stepped(text, changes, backend) == {(1,): 1}
    assert stepped('h(x, y) :- r(x), y = match("a.*", x).', changes, backend) == {
        ("ab", True): 1, ("b", False): 1, ("c", False): 1,
    }  # fmt: skip
    assert stepped('h(x) :- r(x), match("a|b", "b"), !contains("z", "abc").', changes, backend) == {
        ("ab",): 1, ("b",): 1, ("c",): 1,
    }  # fmt: skip


def test_a_pattern_that_goes_back_in_other_engines_is_linear():
    """A nested repetition over a text that it does not match: 2^n ways for an engine that tries them all."""
    assert stepped('h(x) :- r(x), match("(a+)+b", x).', {"r": [("a" * 100_000,), ("aab",)]}, "cpu") == {("aab",): 1}


@pytest.mark.parametrize("pattern", ["(", "a)(?:b", "[", "a**", r"(a)\\1", "(?=a)b", r"\\Qa"])
def test_a_constant_pattern_that_is_none_is_refused_with_its_place(pattern):
    with pytest.raises(DatalogSyntaxError, match="is not a regular expression in the syntax of RE2.*line 1, column 21"):
        parse(f'h(x) :- r(x), match("{pattern}", x).')


def test_of_numbers_there_are_no_patterns():
    for call in ('match("1", x)', 'contains("1", x)', "contains(x, x)"):
        with pytest.raises(TypeMismatchError, match=r"int64"):
            gw.Program(f"h(x) :- r(x), {call}.").step({"r": [(1,)]})
