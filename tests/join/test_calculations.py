"""Calculation in rules: values, types, and when a missing value is an error."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import CalculationError
from gpu_wcoj.functions import Calculation, evaluate_calculation
from gpu_wcoj.kernels.protocol import PROPOSALS
from tests.helpers.answers import named
from tests.helpers.kernel_kinds import KINDS, needed
from tests.reference.functions import UndefinedError, called

MOST, LEAST = 2**63 - 1, -(2**63)
ROOTS = (3037000499, 3037000500, -3037000500)
EDGES = (0, 1, -1, 2, -2, 7, -7, *ROOTS, 2**31, 2**32, 2**62, -(2**62), MOST, MOST - 1, LEAST, LEAST + 1)


@pytest.fixture(params=KINDS)
def backend(request):
    return needed(request.param).backend()


@pytest.mark.parametrize("op", ["+", "-", "*", "/", "%"])
def test_integers(op, backend):
    pairs = list(itertools.product(EDGES, repeat=2))
    pairs += [tuple(pair) for pair in np.random.default_rng(1).integers(LEAST, MOST, (200, 2)).tolist()]
    pairs += [tuple(pair) for pair in np.random.default_rng(2).integers(-(2**33), 2**33, (200, 2)).tolist()]
    left, right = (backend.asarray(np.array(column, np.int64)) for column in zip(*pairs, strict=True))
    _check(op, pairs, [left, right], backend)


def test_a_minus(backend):
    _check("-", [(one,) for one in EDGES], [backend.asarray(np.array(EDGES, np.int64))], backend)


def _check(op, rows, columns, backend):
    calculation = Calculation("z", op, ("x", "y")[: len(columns)], ("integer",) * len(columns), "integer")
    codes, failed = evaluate_calculation(calculation, columns, backend.xp.ones(len(rows), bool), backend)
    for row, found, lacks in zip(rows, backend.to_host(codes).tolist(), backend.to_host(failed).tolist(), strict=True):
        try:
            right = called(op, row)
        except UndefinedError:
            right = None
        assert (None if lacks else found) == right, (op, row)


def stepped(text, changes, backend, **options):
    return gw.Program(text, backend=backend, **options).step(changes)["h"].to_dict()


def test_floats_follow_ieee(backend):
    body = "e(x, y), s = x + y, d = x - y, p = x * y, q = x / y, r = x % y, n = -x"
    text = f"h(x, y, s, d, p, q, r, n) :- {body}. .output h"
    values = (0.0, 1.5, -2.25, 1e308, -1e308, 5e-324, math.inf, math.nan)
    rows = list(itertools.product(values, repeat=2))
    found = stepped(text, {"e": rows}, backend)
    assert len(found) == len(rows)
    with np.errstate(all="ignore"):
        for row in found:
            x, y = np.float64(row[0]), np.float64(row[1])
            right = (x + y, x - y, x * y, x / y, np.fmod(x, y), -x)
            for one, other in zip(row[2:], right, strict=True):
                assert one == other or (math.isnan(one) and math.isnan(other)), row


@pytest.mark.parametrize(("name", "op"), [("quotient", "/"), ("rest", "%")])
def test_division_that_fails_by_zero_for_floats_too(name, op, backend):
    values = (0.0, -0.0, 1.5, -2.25, 1e308, 5e-324, math.inf, math.nan)
    rows = list(itertools.product(values, repeat=2))
    text = f"h(x, y, {name}(x, y)) :- e(x, y), y != 0. .output h"
    whole = [row for row in rows if row[1] != 0]
    plain = stepped(text.replace(f"{name}(x, y)", f"x {op} y"), {"e": rows}, backend)
    assert str(stepped(text, {"e": rows}, backend)) == str(plain)
    assert {str((x + 0.0, y)) for x, y, _ in plain} == {str((x + 0.0, y)) for x, y in whole}
    text = text.replace(", y != 0", "")
    for row in rows:
        if row[1] == 0:
            shown = f"{name}({row[0]}, {row[1]}) has no value: it divides by zero"
            with pytest.raises(CalculationError, match=re.escape(shown)):
                stepped(text, {"e": [(1.0, 2.0), row]}, backend)
    single = pa.table({"x": pa.array([1.5], pa.float32()), "y": pa.array([0.0], pa.float32())})
    with pytest.raises(CalculationError, match=rf"{name}\(1.5, 0.0\) has no value"):
        stepped(text, {"e": single}, backend)
    program = gw.Program(f"h(x, {name}(x, y)) :- e(x, y).", backend=backend)
    assert program.step({"e": [(-7, 2)]})["h"].to_dict() == {(-7, -3 if op == "/" else -1): 1}
    with pytest.raises(CalculationError, match=rf"{name}\(7, 0\) has no value"):
        program.step({"e": [(7, 0)]})


def test_a_float_and_a_constant(backend):
    text = "h(x, z) :- e(x), z = x / 2 + 0.5, z > 1. .output h"
    for kind in (pa.float32(), pa.float64()):
        rows = pa.table({"x": pa.array([0.5, 1.0, 1.5, 3.0], kind)})
        assert stepped(text, {"e": rows}, backend) == {(1.5, 1.25): 1, (3.0, 2.0): 1}


def test_narrow_integers_are_calculated_with_as_int64(backend):
    rows = pa.table({"x": pa.array([100, -128, 127], pa.int8())})
    assert stepped("h(z) :- e(x), z = x * x * x.", {"e": rows}, backend) == {(x**3,): 1 for x in (100, -128, 127)}


def test_texts(backend):
    text = 'h(x, y, z, n, p) :- e(x, y), z = cat(x, "-", y), n = strlen(z), p = substr(z, n / 2, 3), x != p. .output h'
    program = gw.Program(text, backend=backend)
    state = {}
    for rows in ([("ab", "c"), ("größe", ""), ("", "")], [("größe", "größe"), ("x", "-x")], [("größe", "")]):
        gone = [row for row in rows if row in state]
        change = [(row, -1) if row in gone else (row, 1) for row in rows]
        found = program.step({"e": change})["h"].to_dict()
        right = {}
        for (x, y), weight in change:
            z = f"{x}-{y}"
            right[x, y, z, len(z), z[len(z) // 2 :][:3]] = weight
        assert found == right
        state.update(dict.fromkeys(rows))


def test_calculated_texts_join_and_compare(backend):
    text = 'h(x, y) :- e(x), f(y), y = cat(x, "!"), y > "b", !g(y). .output h'
    program = gw.Program(text, backend=backend, inputs=named(text))
    program.step({"f": [("a!",), ("b!",), ("c!",), ("d!",), ("d",)], "g": [("c!",)]})
    assert program.step({"e": [("a",), ("b",), ("c",), ("d",)]})["h"].to_dict() == {("b", "b!"): 1, ("d", "d!"): 1}
    assert program.step({"g": [(("c!",), -1), ("b!",)]})["h"].to_dict() == {("b", "b!"): -1, ("c", "c!"): 1}


def test_a_tick_that_fails_takes_its_texts_back(backend):
    program = gw.Program('h(z, w) :- e(x, y), z = cat(x, "?"), w = substr(x, 0, y). .output h', backend=backend)
    program.step({"e": [("a", 1)]})
    sizes = [len(one) for one in program.dictionaries]
    with pytest.raises(CalculationError, match=r"w = substr\('new', 0, -1\) has no value: a begin or a length"):
        program.step({"e": [("new", -1), ("newer", 1)]})
    assert [len(one) for one in program.dictionaries] == sizes
    assert program.relation("h").to_dict() == {("a?", "a"): 1}


def test_an_equal_calculated_value_is_searched_for():
    program = gw.Program("h(x, y) :- a(x), b(y), y = x * 3. .output h", inputs=["a", "b"])
    program.load({"b": np.arange(100_000).reshape(-1, 1)})
    assert program.step({"a": [(5,), (7,)]})["h"].to_dict() == {(5, 15): 1, (7, 21): 1}
    counted = [work for paths in program.last_tick.work["h"].values() for work in paths.values()]
    work = sum(int(each[PROPOSALS]) for variables in counted for each in variables.values())
    assert work < 10
    assert "y: look up b(y) before, by b[c0] where y = #1" in program.explain()


EQUATIONS = ("y = x + 3", "x + 3 = y", "x = y - 3", "3 = y - x", "y - x = 3", "-3 = x - y", "y = 3 + x")


@pytest.mark.parametrize("equation", EQUATIONS)
def test_sums_and_differences_are_solved(equation):
    """From either side, without a look at the other relation's rows that do not fit."""
    program = gw.Program(f"h(x, y) :- a(x), b(y), {equation}. .output h")
    program.load({"a": np.arange(0, 50_000).reshape(-1, 1), "b": np.arange(100_000, 150_000).reshape(-1, 1)})
    assert program.step({"b": [(8,), (99,)]})["h"].to_dict() == {(5, 8): 1, (96, 99): 1}
    assert program.step({"a": [(100_000,), (MOST,)]})["h"].to_dict() == {(100_000, 100_003): 1}
    assert program.step({"b": [(LEAST + 2,), (LEAST,)]})["h"].to_dict() == {}
    assert program.step({"b": [((8,), -1)]})["h"].to_dict() == {(5, 8): -1}
    counted = [work for paths in program.last_tick.work["h"].values() for work in paths.values()]
    assert sum(int(each[PROPOSALS]) for variables in counted for each in variables.values()) < 10


def test_a_change_of_a_negated_relation_is_solved_for():
    program = gw.Program("h(x, y) :- e(x, y), !n(y + 1). .output h", inputs=["e", "n"])
    rows = np.stack([np.arange(50_000), np.arange(50_000) % 1000], axis=1)
    program.load({"e": rows})
    gone = program.step({"n": [(6,), (2_000,)]})["h"].to_dict()
    assert gone == {(x, 5): -1 for x in range(5, 50_000, 1000)}
    counted = [work for paths in program.last_tick.work["h"].values() for work in paths.values()]
    assert sum(int(each[PROPOSALS]) for variables in counted for each in variables.values()) < 200
    assert program.step({"n": [((6,), -1)]})["h"].to_dict() == dict.fromkeys(gone, 1)


RULE = "h(x, z) :- e(x, y), z = 10 / y"
FAILS = {
    "nothing else": (f"{RULE}.", True),
    "guarded before": ("h(x, z) :- y != 0, e(x, y), z = 10 / y.", False),
    "guarded behind": (f"{RULE}, y != 0.", False),
    "by a later atom": (f"{RULE}, f(x).", False),
    "not by a later atom": (f"{RULE}, g(x).", True),
    "by a negated atom": (f"{RULE}, !g(x).", False),
    "not by a negated atom": (f"{RULE}, !f(x).", True),
    "not by what it calculates": (f"{RULE}, z > 100.", True),
    "not by what is calculated from it": (f"{RULE}, w = z + 1, w > 100.", True),
    "not by a negated atom of it": (f"{RULE}, !f(z).", True),
    "by what else is calculated": (f"{RULE}, w = x + 1, w > 2.", False),
    "not where nothing can be equal": ("h(x, z) :- e(x, y), f(z), z = x + 9223372036854775805.", False),
    "where it need not be equal": ("h(x, x) :- e(x, y), f(v), z = x + 9223372036854775805, v != z.", True),
    "unused": ("h(x, x) :- e(x, y), z = 10 / y.", True),
}


@pytest.mark.drawn("bag", "way")
@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
@pytest.mark.parametrize("way", ["step", "step_counts", "load"])
@pytest.mark.parametrize("name", FAILS)
def test_when_a_missing_value_is_an_error(name, way, bag, backend):
    text, fails = FAILS[name]
    relations = [one for one in "fg" if f"{one}(" in text]
    program = gw.Program(text + " .output h", bag=bag, backend=backend)
    program.step({"e": [(2, 5)]} | {one: [(9,)] for one in relations})
    if "g" in relations:
        program.step({"g": [(1,)]})
    before = {one: program.relation(one).rows() for one in (*program.inputs, "h")}
    change = {"e": [(1, 0), (3, 2)]}
    if fails:
        message = r"in the rule 'h\(x, .*\) :- .*', .* (has no value: it divides by zero|is outside int64)"
        with pytest.raises(CalculationError, match=message):
            getattr(program, way)(change)
        assert {one: program.relation(one).rows() for one in (*program.inputs, "h")} == before
        change = {"e": [(0, 2)]}
    getattr(program, way)(change)
    assert len(program.relation("e")) == 2 + (not fails)


BESIDE = "e(x), z = 1 / x, m = min q : { g(q), q > x }"
BY = "e(x), z = 1 / x, m = min q : { g(q), q > z }"
LOOP = "h(x) :- e(x), x > 0. h(x - 1) :- h(x)"
KEYS = {
    "beside the keys, where the aggregate drops it": (f"h(x) :- {BESIDE}, m > 8.", []),
    "beside the keys": (f"h(x) :- {BESIDE}.", None),
    "compared beside the keys": ("h(x) :- e(x), 1 / x != 7, m = min q : { g(q), q > x }.", None),
    "compared beside the keys, and dropped": ("h(x) :- e(x), 1 / x != 7, 8 < min q : { g(q), q > x }.", []),
    "two aggregates": (
        "h(x) :- e(x), z = (x / x) % 5, m = count : { g(q), q > x }, 0 = min q : { g(q), q > x - 1, q < m }.",
        [],
    ),
    "a key": (f"h(x) :- {BY}.", None),
    "a key of a count": ("h(x) :- e(x), z = 1 / x, 100 < count : { g(q), q > z }.", None),
    "a key, guarded behind": (f"h(x) :- {BY}, x != 0.", [1, 2]),
    "a key, guarded before": (f"h(x) :- x != 0, {BY}.", [1, 2]),
    "a key, negated": (f"h(x) :- {BY}, !f(x).", [1, 2]),
    "a key, not negated": (f"h(x) :- {BY}, !g(x).", None),
    "a key, where another aggregate drops it": (f"h(x) :- {BY}, 100 < count : {{ g(q), q > x }}.", []),
    "in the braces": ("h(x) :- e(x), 0 <= count : { g(q), q / x > 1 }.", None),
    "in the braces, guarded behind": ("h(x) :- e(x), 0 <= count : { g(q), q / x > 1 }, x != 0.", [1, 2]),
    "in the braces, negated": ("h(x) :- e(x), 0 <= count : { g(q), q / x > 1 }, !f(x).", [1, 2]),
    "in the braces, guarded by what is calculated": (
        "h(x) :- e(x), 0 <= count : { g(q), q / x > 1 }, c > 1, c = x + 1.",
        [1, 2],
    ),
    "in a loop": (f"{LOOP}, z = 1 / x, m = min q : {{ g(q), q > x }}.", None),
    "in a loop, where the aggregate drops it": (f"{LOOP}, z = 1 / x, 8 < min q : {{ g(q), q > x }}.", [1, 2]),
    "in a loop, a key that is guarded": (f"{LOOP}, z = 1 / x, m = min q : {{ g(q), q > z }}, x > 0.", [0, 1, 2]),
    "in a loop, braces that are guarded": (f"{LOOP}, 0 <= count : {{ g(q), q / x > x }}, x > 0.", [0, 1, 2]),
}


@pytest.mark.parametrize("name", KEYS)
def test_a_missing_value_beside_an_aggregate(name, backend):
    """An error exactly if the whole body, the aggregates too, drops nothing; wherever in the text it stands."""
    text, expected = KEYS[name]
    program = gw.Program(text, backend=backend)
    changes = {"e": [(0,), (1,), (2,)], "g": [(1,), (5,)], "f": [(0,)]}
    changes = {one: rows for one, rows in changes.items() if one in program.inputs}
    if expected is not None:
        assert program.step(changes)["h"].to_dict() == {(x,): 1 for x in expected}
        return
    with pytest.raises(CalculationError, match="divides by zero"):
        program.step(changes)
    assert [len(program.relation(one)) for one in (*program.inputs, "h")] == [0] * (len(program.inputs) + 1)


@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
def test_what_comes_and_goes_in_one_tick_is_no_error(bag, backend):
    program = gw.Program(
        "h(z) :- a(x), b(x, y), !n(x), z = 10 / y. .output h", bag=bag, backend=backend, inputs=["a", "b", "n"]
    )
    program.step({"b": [(1, 0), (2, 5)], "n": [(2,)]})
    program.step({"a": [(1,), (2,)], "b": [((1, 0), -1)]})
    program.step({"a": [((1,), -1)], "b": [(1, 0)]})
    program.step({"n": [(1,)]})
    program.step({"a": [(1,)]})
    program.step({"a": [((1,), -1)], "n": [((1,), -1)]})
    with pytest.raises(CalculationError, match="z = 10 / 0 has no value"):
        program.step({"a": [(1,)]})
    assert program.relation("h").to_dict() == {}
    assert program.step({"n": [((2,), -1)]})["h"].to_dict() == {(2,): 1}


def test_the_least_values_that_fail_are_named():
    program = gw.Program("h(z) :- e(x, y), z = x * y. .output h")
    message = r"in the rule 'h\(z\) :- .*', z = -9223372036854775808 \* -1 is outside int64, -2\^63 to"
    for order in (1, -1):
        with pytest.raises(CalculationError, match=message):
            program.step({"e": [(MOST, 2), (LEAST, -1), (5, MOST), (LEAST, 3)][::order]})


THREE_VALUED = {
    "any(eq(x, 1), gt(y, 1))": lambda x, y: either(x == 1 if x is not None else None, None if y is None else y > 1),
    "all(ne(x, 1), le(y, 1))": lambda x, y: both(x != 1 if x is not None else None, None if y is None else y <= 1),
    "eq(any(isnull(x), eq(x, y)), false)": lambda x, y: x is not None and (None if y is None else x != y),
    "among(x, 0, 2, null)": lambda x, y: True if x in (0, 2) else None,
    "among(x + y, 1, 2, 3, 4, 5, 6, 7, 8, 9)": lambda x, y: None if None in (x, y) else 1 <= x + y <= 9,
    "istrue(lt(x, y))": lambda x, y: None not in (x, y) and x < y,
    "case(eq(x, 1), gt(y, 0), isnull(x), true)": lambda x, y: (
        (None if y is None else y > 0) if x == 1 else True if x is None else None
    ),
    "case(isnull(y), false, lt(x - y, 1))": lambda x, y: False if y is None else None if x is None else x - y < 1,
    "all(ne(y, 0), ge(x / y, 1))": lambda x, y: (
        False if y == 0 else None if None in (x, y) else int(x / y) >= 1
    ),
    "any(ge(x / y, 1), eq(y, 0))": lambda x, y: True if y == 0 else None if None in (x, y) else int(x / y) >= 1,
}  # fmt: skip
"""Null-aware calls, and what each comes to; None for unknown."""


def both(one, other):
    return False if False in (one, other) else None if None in (one, other) else True


def either(one, other):
    return True if True in (one, other) else None if None in (one, other) else False


@pytest.mark.parametrize("text", THREE_VALUED)
def test_a_condition_is_true_false_or_unknown(text, backend):
    values = (None, 0, 1, 2, -3)
    rows = [(x, y) for x in values for y in values]
    columns = {"x": [x for x, _ in rows], "y": [y for _, y in rows]}
    program = f"""
        h(x, y, {text}) :- r(x, y).
        yes(x, y) :- r(x, y), {text} = true.
        no(x, y) :- r(x, y), {text} = false.
        unknown(x, y) :- r(x, y), {text} = null.
    """
    found = gw.Program(program, backend=backend).step({"r": columns})
    right = {row: THREE_VALUED[text](*row) for row in rows}
    assert found["h"].to_dict() == {(*row, truth): 1 for row, truth in right.items()}
    for head, truth in (("yes", True), ("no", False), ("unknown", None)):
        assert set(found[head].to_dict()) == {row for row, own in right.items() if own is truth}, head


def test_a_condition_is_kept_up_to_date_through_a_join(backend):
    text = "h(x, z) :- r(x, y), s(y, z), any(eq(x, 1), all(isnull(z), gt(x, 2))) = true."
    program = gw.Program(text, backend=backend, bag=True)
    found = program.step({"r": [(1, 5), (2, 5), (3, 5)], "s": {"y": [5, 5], "z": [None, 7]}})["h"].to_dict()
    assert found == {(1, None): 1, (1, 7): 1, (3, None): 1}
    gone = pa.table({"y": [5], "z": pa.array([None], pa.int64()), "weight": [-1]})
    assert program.step({"s": gone})["h"].to_dict() == {(1, None): -1, (3, None): -1}
    assert program.step({"r": [(4, 5), (1, 5)]})["h"].to_dict() == {(1, 7): 1}


def test_a_calculation_in_a_condition_fails_where_the_rest_does_not_decide():
    program = gw.Program("h(y) :- r(x, y), any(gt(10 / x, 2), eq(y, 6)) = true.")
    assert program.step({"r": [(0, 6), (2, 7)]})["h"].to_dict() == {(6,): 1, (7,): 1}
    with pytest.raises(CalculationError, match=r"10 / 0 has no value: it divides by zero"):
        program.step({"r": [(0, 5), (3, 8)]})
    assert program.relation("h").to_dict() == {(6,): 1, (7,): 1}


def test_texts_in_conditions_compare_as_texts_and_dates_as_dates():
    rows = pa.table({"s": ["b", None, "ab", "c"], "d": pa.array([0, 400, None, 800], pa.int32()).cast(pa.date32())})
    text = 'h(s, d) :- r(s, d), any(lt(s, "b"), ge(d, "1971-06-01"), eq(case(isnull(d), "ab"), s)) = true.'
    found = {row[0] for row in gw.Program(text).step({"r": rows})["h"].to_dict()}
    assert found == {"ab", "c"}
