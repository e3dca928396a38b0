"""Constants in rules: those in heads, and those beside columns of another type."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import TypeMismatchError
from tests.answers import answer_of, changes_of


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

    def test_texts_that_are_no_dates(self):
        with pytest.raises(TypeMismatchError, match="soon"):
            self.kept('x > "soon"', pa.array([dt.date(2024, 2, 29)]))
