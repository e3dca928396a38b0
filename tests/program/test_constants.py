"""Constants in rules: those in heads, and those beside columns of another type."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.arrow import encode_constant
from gpu_wcoj.data.schema import DataType
from gpu_wcoj.errors import CalculationError, TypeMismatchError
from tests.helpers.answers import answer_of, changes_of


class TestConstantsInHeads:
    @pytest.mark.parametrize(
        ("text", "value", "kind"),
        [("-5", -5, pa.int64()), ('"a"', "a", pa.string()), ("1.5", 1.5, pa.float64()), ("true", True, pa.bool_())],
    )
    def test_constants_come_out_as_what_they_are(self, text, value, kind):
        for rule in (f"h(x, {text}) :- v(x).", f"h(x, y) :- v(x), y = {text}."):
            program = gw.Program(rule)
            assert changes_of(program, v=[(1,)]) == {"h": {(1, value): 1}}
            assert program.relation("h").to_arrow().schema.types[1] == kind

    def test_a_column_of_constants_only(self):
        program = gw.Program('h("a") :- v(_). h("b") :- w(_).')
        assert changes_of(program, v=[(1,)], w=[(2,)]) == {"h": {("a",): 1, ("b",): 1}}

    def test_constants_join_what_the_head_is_read_with(self):
        program = gw.Program('g(x, "a") :- v(x). h(x, y) :- g(x, y), w(y).')
        assert changes_of(program, v=[(1,)], w=[("a",), ("b",)]) == {"h": {(1, "a"): 1}}
        with pytest.raises(TypeMismatchError, match="'a'"):
            gw.Program('g("a") :- v(_). h(y) :- g(y), w(y).').step({"v": [(1,)], "w": [(1,)]})


class TestConstantsOfATypesKind:
    def kept(self, condition, values):
        program = gw.Program(f"h(x) :- v(x), {condition}.")
        program.step({"v": pa.table({"x": values})})
        return [row[0] for row in answer_of(program)]

    def test_integers_beside_floats(self):
        assert self.kept("x < 2", pa.array([1.5, 2.0, -7.25])) == [-7.25, 1.5]
        assert self.kept("x = 2", pa.array([1.5, 2.0])) == [2.0]

    def test_integers_beyond_a_narrow_type(self):
        assert self.kept("x < 1000", pa.array([1, 127], pa.int8())) == [1, 127]
        assert self.kept("x = 257", pa.array([1], pa.uint8())) == []

    @pytest.mark.parametrize(
        ("condition", "expected"),
        [
            ("x = 1.23", ["1.23"]),
            ("x != 1.24", ["1.23", "2.00"]),
            ("x < 1.24", ["1.23"]),
            ("x <= 1.24", ["1.23", "1.24"]),
            ("1.24 <= x", ["1.24", "2.00"]),
            ("x >= 2", ["2.00"]),
            ("x > -1.5", ["1.23", "1.24", "2.00"]),
        ],
    )
    def test_numbers_beside_decimals(self, condition, expected):
        values = pa.array([Decimal("1.23"), Decimal("1.24"), Decimal("2.00")], pa.decimal128(5, 2))
        assert self.kept(condition, values) == [Decimal(one) for one in expected]

    @pytest.mark.parametrize(
        ("condition", "is_kept"), [("x < 1.234", True), ("x > 1.234", False), ("x = 1.234", False), ("x < 12345", True)]
    )
    def test_numbers_of_more_digits_than_decimals_have(self, condition, is_kept):
        values = [Decimal("1.23")]
        assert self.kept(condition, pa.array(values, pa.decimal128(5, 2))) == values * is_kept

    def test_texts_beside_dates(self):
        days = pa.array([dt.date(2024, 2, 29), dt.date(2024, 3, 1)])
        assert self.kept('x > "2024-02-29"', days) == [dt.date(2024, 3, 1)]

    def test_texts_beside_timestamps(self):
        when = dt.datetime(2024, 2, 29, 12)
        assert self.kept('x = "2024-02-29 12:00:00"', pa.array([when], pa.timestamp("us"))) == [when]

    @pytest.mark.parametrize(
        ("condition", "kept"),
        [("<", [28, 29]), ("<=", [28, 29]), (">", [30]), (">=", [30]), ("=", []), ("!=", [28, 29, 30])],
    )
    def test_times_beside_dates(self, condition, kept):
        days = pa.array([dt.date(2024, 1, day) for day in (28, 29, 30)])
        found = self.kept(f'x {condition} "2024-01-29 12:00:00"', days)
        assert sorted(day.day for day in found) == kept
        at_midnight = self.kept(f'x {condition} "2024-01-29 00:00:00"', days)
        assert at_midnight == self.kept(f'x {condition} "2024-01-29"', days)

    def test_finer_times_beside_seconds(self):
        when = dt.datetime(2024, 2, 29, 12)
        moments = pa.array([when], pa.timestamp("s"))
        assert self.kept('x < "2024-02-29 12:00:00.000001"', moments) == [when]
        assert self.kept('x >= "2024-02-29 12:00:00.000001"', moments) == []

    def test_texts_that_are_no_dates(self):
        with pytest.raises(TypeMismatchError, match="soon"):
            self.kept('x > "soon"', pa.array([dt.date(2024, 2, 29)]))

    @pytest.mark.parametrize(
        ("number", "kind", "said"),
        [
            ("9007199254740993", pa.float64(), "is not exactly a value of type 'double'"),
            ("16777217", pa.float32(), "is not exactly a value of type 'float'"),
            ("1e300", pa.float32(), "is too large for type 'float'"),
        ],
    )
    def test_numbers_that_no_float_of_the_column_is(self, number, kind, said):
        for condition in (f"x = {number}", f"x < {number}"):
            with pytest.raises(TypeMismatchError, match=said):
                self.kept(condition, pa.array([1.0], kind))

    def test_numbers_beside_floats(self):
        assert self.kept("x = 9007199254740992", pa.array([2.0**53, 1.0])) == [2.0**53]
        assert len(self.kept("x = 0.1", pa.array([0.1, 1.0], pa.float32()))) == 1

    @pytest.mark.parametrize(
        ("value", "kind"),
        [(1.5, "int64"), (1.0, "int64"), ("1", "int64"), ("1", "double"), (True, "double"), ("true", "bool"),
         (1, "date32[day]"), (1, "timestamp[us]"), ("\ud800", "date32[day]")],
    )  # fmt: skip
    def test_nothing_is_converted(self, value, kind):
        with pytest.raises(TypeMismatchError, match="is not a value of type"):
            encode_constant(value, DataType(kind))


class TestCountsOfNothing:
    """The 0 that a count or sum of nothing is, is a value as others: only a tick that divides by it is refused."""

    @pytest.mark.parametrize("op", ["/", "%"])
    @pytest.mark.parametrize("count", ["count : { e(x, _) }", "sum y : { e(x, y) }"])
    def test_a_rule_that_divides_by_it(self, op, count, backend):
        program = gw.Program(f"h(x, 6 {op} n) :- u(x), n = {count}.", backend=backend.name)
        expected = {"h": {(1, 6 if op == "/" else 0): 1}}
        assert changes_of(program, u=[(1,)], e=[(1, 1)]) == expected
        with pytest.raises(CalculationError, match="divides by zero"):
            program.step({"u": [(2,)]})
        assert program.relation("h").to_dict() == expected["h"]
        assert changes_of(program, u=[(2,)], e=[(2, 1)]) == {"h": {(2, 6 if op == "/" else 0): 1}}

    def test_a_condition_that_leaves_it_out(self, backend):
        for condition in ("n != 0", "n > 0"):
            text = f"h(x, z) :- u(x), n = count : {{ e(x, _) }}, {condition}, z = 6 / n."
            program = gw.Program(text, backend=backend.name)
            assert changes_of(program, u=[(1,), (2,)], e=[(1, 1), (1, 2)]) == {"h": {(1, 3): 1}}

    def test_a_count_of_all(self, backend):
        program = gw.Program("h(6 / n) :- n = count : { e(_, _) }.", backend=backend.name)
        assert changes_of(program, e=[(1, 1), (1, 2)]) == {"h": {(3,): 1}}
        with pytest.raises(CalculationError, match="divides by zero"):
            program.step({"e": [((1, 1), -1), ((1, 2), -1)]})
