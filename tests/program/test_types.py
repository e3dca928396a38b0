"""Values of every type in programs: they join, compare and come out as they came in; types may widen later."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import ColumnError, SchemaError, TypeMismatchError
from tests.helpers.answers import answer_of, changes_of

JOIN = "h(x, y, z) :- r(x, y), s(y, z)."


def joined(left, right, text=JOIN):
    """The answer over r(x, y) and s(y, z), where y comes from the Arrow arrays `left` and `right`."""
    program = gw.Program(text)
    program.step(
        {"r": pa.table({"x": range(len(left)), "y": left}), "s": pa.table({"y": right, "z": range(len(right))})}
    )
    return program.relation("h")


class TestTypes:
    def test_strings_join_and_come_out_as_they_came_in(self):
        program = gw.Program(JOIN)
        program.step({"r": [("a", "größe"), ("b", "")], "s": [("größe", "z"), ("", "y"), ("x", "x")]})
        assert answer_of(program) == {("a", "größe", "z"): 1, ("b", "", "y"): 1}
        assert changes_of(program, r=[("c", "x"), (("a", "größe"), -1)]) == {
            "h": {("c", "x", "x"): 1, ("a", "größe", "z"): -1}
        }

    @pytest.mark.parametrize(
        ("left", "right"),
        [
            (pa.string(), pa.large_string()),
            (pa.dictionary(pa.int8(), pa.string()), pa.string()),
            (pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.string())),
        ],
    )
    def test_strings_of_different_encodings_join(self, left, right):
        found = joined(pa.array(["b", "a"], pa.string()).cast(left), pa.array(["a", "c", "b"], pa.string()).cast(right))
        assert found.to_dict() == {(0, "b", 2): 1, (1, "a", 0): 1}

    def test_strings_are_compared_as_text(self):
        program = gw.Program('h(x, y) :- v(x), v(y), x < y, x >= "b".')
        program.step({"v": [("c",), ("a",), ("b",)]})
        assert answer_of(program) == {("b", "c"): 1}
        program.step({"v": [("bb",), ("Z",), ("ü",)]})
        words = ["b", "bb", "c", "ü"]
        assert answer_of(program) == {(x, y): 1 for x in words for y in words if x < y}

    def test_a_string_constant_that_arrives_late_is_found(self):
        program = gw.Program('h(x) :- e(x, "late").')
        program.step({"e": [(1, "early")]})
        assert answer_of(program) == {}
        assert changes_of(program, e=[(2, "late")]) == {"h": {(2,): 1}}

    def test_bytes_join(self):
        assert joined(pa.array([b"a", b"\x00"]), pa.array([b"\x00"], pa.large_binary())).to_dict() == {
            (1, b"\x00", 0): 1
        }

    @pytest.mark.parametrize(
        ("left", "right"),
        [(pa.int8(), pa.int64()), (pa.uint16(), pa.int32()), (pa.uint64(), pa.int8()), (pa.uint8(), pa.uint32())],
    )
    def test_integers_of_different_widths_join(self, left, right):
        assert joined(pa.array([5, 100], left), pa.array([100, 7], right)).to_dict() == {(1, 100, 0): 1}

    def test_timestamps_of_different_units_join(self):
        when = dt.datetime(2024, 2, 29, 12, 30, 1)
        later = when + dt.timedelta(milliseconds=1)
        found = joined(pa.array([when], pa.timestamp("s")), pa.array([later, when], pa.timestamp("ms")))
        assert found.to_dict() == {(0, when, 1): 1}

    def test_timestamps_with_zones_join_with_their_like_only(self):
        when = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)
        kind = pa.timestamp("us", tz="UTC")
        assert list(joined(pa.array([when], kind), pa.array([when], kind)).to_dict().values()) == [1]
        with pytest.raises(TypeMismatchError, match="and joins relation 'r', column 1 of type 'timestamp"):
            joined(pa.array([when], kind), pa.array([when.replace(tzinfo=None)], pa.timestamp("us")))

    def test_dates_join(self):
        days = [dt.date(1969, 12, 31), dt.date(2024, 2, 29)]
        assert joined(pa.array(days), pa.array(days[::-1])).to_dict() == {(0, days[0], 1): 1, (1, days[1], 0): 1}

    def test_dates_join_with_timestamps_at_midnight(self):
        day, midnight = dt.date(1969, 12, 31), dt.datetime(1969, 12, 31)
        moments = pa.array([midnight, dt.datetime(1969, 12, 31, 1)], pa.timestamp("us"))
        assert joined(pa.array([day]), moments).to_dict() == {(0, midnight, 0): 1}
        assert joined(moments, pa.array([day])).to_dict() == {(0, midnight, 0): 1}

    @pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
    @pytest.mark.parametrize("rule", ["x = y", "x < y", "x >= y", "x != y"])
    def test_dates_compare_with_timestamps(self, unit, rule):
        days = [dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(2024, 3, 1)]
        moments = [dt.datetime(1969, 12, 31), dt.datetime(2024, 2, 29, 7), dt.datetime(2024, 3, 1)]
        program = gw.Program(f"h(i, j) :- r(i, x), s(j, y), {rule}.", inputs=["r", "s"])
        program.step({"r": pa.table({"i": range(3), "x": days})})
        program.step({"s": pa.table({"j": range(3), "y": pa.array(moments, pa.timestamp(unit))})})
        compare = {"x = y": "__eq__", "x < y": "__lt__", "x >= y": "__ge__", "x != y": "__ne__"}[rule]
        midnights = [dt.datetime.combine(day, dt.time()) for day in days]
        expected = [(i, j) for i in range(3) for j in range(3) if getattr(midnights[i], compare)(moments[j])]
        assert sorted(answer_of(program)) == expected

    def test_dates_that_no_timestamp_holds_are_refused(self):
        program = gw.Program("h(x) :- r(x), s(x).")
        moments = pa.table({"x": pa.array([0], pa.timestamp("ns"))})
        with pytest.raises(SchemaError, match="does not fit the finer unit"):
            program.step({"r": pa.table({"x": [dt.date(9999, 1, 1)]}), "s": moments})
        assert program.count("h") == 0

    def test_a_column_of_dates_takes_no_timestamps(self):
        program = gw.Program("h(x) :- r(x).")
        program.step({"r": pa.table({"x": [dt.date(2024, 2, 29)]})})
        with pytest.raises(TypeMismatchError, match="was declared or has been so far"):
            program.step({"r": pa.table({"x": [dt.datetime(2024, 2, 29)]})})

    def test_decimals_of_different_scales_join(self):
        left = pa.array([Decimal("1.50"), Decimal("-2.25")], pa.decimal128(5, 2))
        right = pa.array([Decimal("1.5"), Decimal("-2.2")], pa.decimal128(4, 1))
        assert joined(left, right).to_dict() == {(0, Decimal("1.50"), 0): 1}

    def test_floats_join_as_numbers_do_and_nan_with_nan(self):
        left = pa.array([0.0, float("nan"), float("inf"), 1.5])
        right = pa.array([-0.0, float("nan"), float("-inf"), 1.5])
        assert sorted(row[::2] for row in joined(left, right).to_dict()) == [(0, 0), (1, 1), (3, 3)]

    def test_floats_are_ordered_with_nan_last(self):
        program = gw.Program("h(x, y) :- e(i, x), e(j, y), x < y.")
        values = [float("nan"), -1.5, float("inf"), 0.0, -1e300]
        program.step({"e": pa.table({"i": range(5), "x": values})})
        assert program.count("h") == 10

    def test_booleans(self):
        program = gw.Program("h(x) :- e(x, true).")
        program.step({"e": [(1, True), (2, False), (3, True)]})
        assert answer_of(program) == {(1,): 1, (3,): 1}

    def test_the_ends_of_int64_are_values_like_any_other(self):
        low, high = -(2**63), 2**63 - 1
        program = gw.Program(f"h(x, y) :- e(x, y), e(y, x), x < {high}, y > {low}.")
        program.step({"e": [(low, high), (high, low), (low, low), (high, high)]})
        assert answer_of(program) == {(low, high): 1}

    def test_types_come_out_as_they_came_in(self):
        types = {
            "a": pa.int16(),
            "b": pa.timestamp("ms", tz="Europe/Rome"),
            "c": pa.decimal128(7, 3),
            "d": pa.float32(),
        }
        values = {"a": [1, None], "b": [0, 1], "c": [Decimal("1.234"), None], "d": [0.5, 1.5]}
        data = pa.table({name: pa.array(values[name], kind) for name, kind in types.items()})
        program = gw.Program("h(a, b, c, d) :- e(a, b, c, d).")
        found = program.step({"e": data})["h"].to_arrow()
        assert found.schema.types[:4] == list(types.values())
        assert sorted(map(repr, zip(*(column.to_pylist() for column in found.columns[:4]), strict=True))) == sorted(
            map(repr, zip(*(column.to_pylist() for column in data.columns), strict=True))
        )

    def test_declared_types_hold_from_the_start(self):
        program = gw.Program(".decl e(src: int32, dst: timestamp[ms])\nh(x, y) :- e(x, y).")
        assert program.relation("h").to_arrow().schema.types[:2] == [pa.int32(), pa.timestamp("ms")]

    def test_types_may_be_declared_for_some_columns_only(self):
        program = gw.Program(".decl e(src: string, dst)\nh(x, y) :- e(x, y).")
        with pytest.raises(TypeMismatchError, match="'src'.*int64.*string|'src'.*string.*int64"):
            program.step({"e": [(1, 2)]})
        assert changes_of(program, e=[("a", 2)]) == {"h": {("a", 2): 1}}

    def test_narrower_declared_types_hold(self):
        program = gw.Program(".decl e(src: int64)\nh(x) :- e(x).")
        program.step({"e": pa.table({"src": pa.array([1], pa.int8())})})
        assert program.relation("h").to_arrow().schema.types[0] == pa.int64()

    def test_declared_columns_are_found_by_name(self):
        program = gw.Program(".decl e(src: int64, dst: int64)\nh(x, y) :- e(x, y).")
        assert changes_of(program, e=pa.table({"dst": [2], "src": [1]})) == {"h": {(1, 2): 1}}
        with pytest.raises(ColumnError, match="has no column 'source'"):
            program.step({"e": pa.table({"source": [1], "dst": [2]})})


class TestTypesThatWiden:
    """Types that widen after rows have come: state, answers and kept heads move along."""

    WHEN = dt.datetime(2024, 2, 29, 12, 30, 1)
    MILLI = dt.timedelta(milliseconds=1)

    @pytest.mark.parametrize("keep", [(), ("h",)])
    @pytest.mark.parametrize("bag", [False, True])
    def test_time_units(self, keep, bag):
        program = gw.Program("h(t, x) :- r(t, x). k(t) :- r(t, _), s(t).", keep=keep, bag=bag, inputs=["r", "s"])
        early = pa.table({"t": pa.array([self.WHEN, None], pa.timestamp("s")), "x": [1, 2]})
        program.step({"r": early})
        late = [self.WHEN + self.MILLI, self.WHEN, None]
        changes = changes_of(program, s=pa.table({"t": pa.array(late, pa.timestamp("ms"))}))
        assert changes == {"h": {}, "k": {(self.WHEN,): 1}}
        assert answer_of(program) == {(self.WHEN, 1): 1, (None, 2): 1}
        later = pa.table({"t": pa.array([self.WHEN + self.MILLI], pa.timestamp("us")), "x": [3]})
        assert changes_of(program, r=later)["k"] == {(self.WHEN + self.MILLI,): 1}
        gone = pa.table({"t": pa.array([self.WHEN], pa.timestamp("s")), "x": [1], "weight": [-1]})
        assert changes_of(program, r=gone) == {"h": {(self.WHEN, 1): -1}, "k": {(self.WHEN,): -1}}
        assert answer_of(program) == {(self.WHEN + self.MILLI, 3): 1, (None, 2): 1}

    @pytest.mark.parametrize("keep", [(), ("h",)])
    @pytest.mark.parametrize("bag", [False, True])
    def test_dates_that_meet_timestamps(self, keep, bag):
        program = gw.Program("h(t, x) :- r(t, x). k(t) :- r(t, _), s(t).", keep=keep, bag=bag, inputs=["r", "s"])
        day, midnight = dt.date(2024, 2, 29), dt.datetime(2024, 2, 29)
        program.step({"r": pa.table({"t": [day, None], "x": [1, 2]})})
        changes = changes_of(program, s=pa.table({"t": pa.array([self.WHEN, midnight, None], pa.timestamp("ms"))}))
        assert changes == {"h": {}, "k": {(midnight,): 1}}
        assert answer_of(program) == {(midnight, 1): 1, (None, 2): 1}
        gone = pa.table({"t": [day], "x": [1], "weight": [-1]})
        assert changes_of(program, r=gone) == {"h": {(midnight, 1): -1}, "k": {(midnight,): -1}}

    def test_decimal_scales(self):
        program = gw.Program("h(x) :- r(x), s(x).", inputs=["r", "s"])
        program.step({"r": pa.table({"x": pa.array([Decimal("1.5"), Decimal("2.5")], pa.decimal128(3, 1))})})
        fine = pa.table({"x": pa.array([Decimal("1.500"), Decimal("2.501")], pa.decimal128(5, 3))})
        assert changes_of(program, s=fine) == {"h": {(Decimal("1.500"),): 1}}
        assert answer_of(program, "r") == {(Decimal("1.5"),): 1, (Decimal("2.5"),): 1}

    def test_integers(self):
        program = gw.Program("h(x) :- r(x), s(x).", inputs=["r", "s"])
        program.step({"r": pa.table({"x": pa.array([-1, 100], pa.int8())})})
        assert changes_of(program, s=pa.table({"x": pa.array([100, 2**40])})) == {"h": {(100,): 1}}
        assert changes_of(program, r=pa.table({"x": pa.array([2**40])})) == {"h": {(2**40,): 1}}

    def test_nulls_that_come_later(self):
        program = gw.Program("h(x, y) :- r(x, y). k(x) :- r(x, y), s(y).", keep=["h"])
        program.step({"r": [(1, 2)], "s": [(2,)]})
        assert changes_of(program, r=[(3, None), (None, 2)]) == {
            "h": {(3, None): 1, (None, 2): 1},
            "k": {(None,): 1},
        }
        assert changes_of(program, r=[((1, 2), -1)]) == {"h": {(1, 2): -1}, "k": {(1,): -1}}
        assert answer_of(program) == {(3, None): 1, (None, 2): 1}

    def test_a_unit_that_does_not_fit_the_finer_one_is_refused(self):
        program = gw.Program("h(t) :- r(t), s(t).", inputs=["r", "s"])
        far = pa.table({"t": pa.array([2**62], pa.int64()).cast(pa.timestamp("s"))})
        program.step({"r": far})
        before = program.relation("r").to_arrow()
        with pytest.raises(SchemaError, match="4611686018427387904 does not fit the finer unit"):
            program.step({"s": pa.table({"t": pa.array([1], pa.timestamp("ns"))})})
        assert program.relation("r").to_arrow() == before
        assert len(program.relation("s")) == 0
