"""What a program means beyond joining integers: order of rows, sets and bags, types, nulls, heads, laziness."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import ColumnError, SchemaError, TypeMismatchError
from gpu_wcoj.query.datalog import parse

COPY = "h(x) :- v(x)."
PAIRS = "h(x, y) :- e(x, y)."
JOIN = "h(x, y, z) :- r(x, y), s(y, z)."


def zset(weights):
    return gw.ZSet.from_rows(list(weights.items()))


def changes_of(program, **changes):
    return {name: found.to_dict() for name, found in program.step(changes).items()}


def answer_of(program, name="h"):
    return program.relation(name).to_dict()


def joined(left, right, text=JOIN):
    """The answer over r(x, y) and s(y, z), where y comes from the Arrow arrays `left` and `right`."""
    program = gw.Program(text)
    program.step(
        {"r": pa.table({"x": range(len(left)), "y": left}), "s": pa.table({"y": right, "z": range(len(right))})}
    )
    return program.relation("h")


class TestSets:
    def test_the_last_operation_on_a_row_wins(self):
        program = gw.Program(COPY)
        program.step({"v": [(1,), (2,)]})
        rows = {"x": [1, 3, 1, 3, 4, 2], "weight": [-1, 1, 1, -1, 1, 0]}
        assert changes_of(program, v=rows) == {"h": {(4,): 1}}
        assert answer_of(program) == {(1,): 1, (2,): 1, (4,): 1}

    @pytest.mark.parametrize("size", [1, 2, 3, 100])
    def test_a_tick_may_be_split_or_merged(self, size):
        rows = [((x % 3,), (1, -1, 1, 1, -1, 0, -2)[x % 7]) for x in range(40)]
        program = gw.Program(COPY)
        for start in range(0, len(rows), size):
            program.step({"v": rows[start : start + size]})
        last = {row: weight for row, weight in rows if weight}
        assert answer_of(program) == {row: 1 for row, weight in last.items() if weight > 0}

    def test_of_a_zset_the_net_weight_decides(self):
        program = gw.Program(COPY)
        program.step({"v": [(1,), (2,), (5,)]})
        changes = zset({(1,): -3, (2,): 2, (3,): 5, (4,): -1})
        assert changes_of(program, v=changes) == {"h": {(1,): -1, (3,): 1}}
        cancelled = gw.ZSet.from_rows([((5,), -1), ((5,), 1), ((6,), 1), ((6,), -1)])
        assert changes_of(program, v=cancelled) == {"h": {}}

    def test_any_weight_above_zero_inserts_and_below_zero_deletes(self):
        program = gw.Program(COPY)
        assert changes_of(program, v=[((1,), 7), ((2,), 0)]) == {"h": {(1,): 1}}
        assert changes_of(program, v=[((1,), -9)]) == {"h": {(1,): -1}}

    def test_rows_that_change_nothing_are_reported(self):
        program = gw.Program("h(x) :- v(x), w(x).")
        program.step({"v": [(1,), (2,)], "w": [(1,)]})
        assert sum(program.last_tick.ignored.values()) == 0
        program.step({"v": [((1,), 1), ((3,), -1), ((4,), 1)], "w": [(2,)]})
        assert {name: n for name, n in program.last_tick.ignored.items() if n} == {"v": 2}
        program.step({"v": zset({(1,): 2, (9,): -1}), "w": zset({(1,): 1})})
        assert {name: n for name, n in program.last_tick.ignored.items() if n} == {"v": 2, "w": 1}

    def test_ignored_rows_change_no_answer(self):
        program = gw.Program("h(x, z) :- e(x, y), e(y, z).")
        program.step({"e": [(1, 2), (2, 3)]})
        assert changes_of(program, e=[((1, 2), 1), ((5, 5), -1)]) == {"h": {}}
        assert changes_of(program, e=[((1, 2), -1)]) == {"h": {(1, 3): -1}}
        assert changes_of(program, e=[((1, 2), -1)]) == {"h": {}}


class TestDistinct:
    def test_a_projection_keeps_a_row_as_long_as_one_way_derives_it(self):
        program = gw.Program("h(x) :- e(x, _).")
        assert changes_of(program, e=[(1, 5), (1, 6)]) == {"h": {(1,): 1}}
        assert changes_of(program, e=[((1, 5), -1), (1, 7)]) == {"h": {}}
        assert changes_of(program, e=[((1, 6), -1)]) == {"h": {}}
        assert changes_of(program, e=[((1, 7), -1)]) == {"h": {(1,): -1}}

    def test_a_union_keeps_a_row_as_long_as_one_rule_derives_it(self):
        program = gw.Program("h(x) :- v(x). h(x) :- w(x). h(x) :- e(_, x).")
        assert changes_of(program, v=[(1,)], w=[(1,)], e=[(9, 1)]) == {"h": {(1,): 1}}
        assert changes_of(program, v=[((1,), -1)], e=[((9, 1), -1)]) == {"h": {}}
        assert changes_of(program, v=[(1,)], w=[((1,), -1)]) == {"h": {}}
        assert changes_of(program, v=[((1,), -1)]) == {"h": {(1,): -1}}

    def test_a_head_that_another_rule_reads_is_distinct_for_it(self):
        program = gw.Program("p(x) :- e(x, _). h(x, y) :- p(x), p(y). .output h")
        assert changes_of(program, e=[(1, 5), (1, 6), (2, 5)]) == {"h": {(1, 1): 1, (1, 2): 1, (2, 1): 1, (2, 2): 1}}
        assert changes_of(program, e=[((1, 5), -1)]) == {"h": {}}
        assert changes_of(program, e=[((1, 6), -1)]) == {"h": {(1, 1): -1, (1, 2): -1, (2, 1): -1}}

    def test_counting_is_distinct_too(self):
        program = gw.Program("h(x) :- e(x, _).")
        assert program.step_counts({"e": [(1, 5), (1, 6), (2, 5)]})["h"].net == 2
        assert program.step_counts({"e": [((1, 5), -1), ((2, 5), -1)]})["h"].net == -1
        assert program.count("h") == 1


class TestBags:
    def test_weights_multiply_and_add(self):
        program = gw.Program("h(x) :- r(x, y), s(y).", bag=True)
        found = changes_of(program, r=zset({(1, 5): 2, (1, 6): -1, (2, 5): -1}), s=zset({(5,): 3, (6,): 6}))
        assert found == {"h": {(2,): -3}}
        assert changes_of(program, s=zset({(6,): -5})) == {"h": {(1,): 5}}
        assert program.count("h") == 2

    def test_rows_of_a_table_add(self):
        program = gw.Program(COPY, bag=True)
        assert changes_of(program, v={"x": [1, 2, 1], "weight": [2, -1, 3]}) == {"h": {(1,): 5, (2,): -1}}
        assert changes_of(program, v=[(1,), (1,)]) == {"h": {(1,): 2}}
        assert answer_of(program) == {(1,): 7, (2,): -1}

    def test_an_atom_that_only_validates_counts_too(self):
        program = gw.Program("h(x, y) :- e(x, y), e(x, y), v(x).", bag=True)
        assert changes_of(program, e=zset({(1, 2): 3}), v=zset({(1,): -2})) == {"h": {(1, 2): -18}}
        assert changes_of(program, e=zset({(1, 2): -1})) == {"h": {(1, 2): 10}}

    def test_weights_reach_the_ends_of_int64(self):
        program = gw.Program("h(x) :- v(x), w(x).", bag=True)
        assert changes_of(program, v=zset({(1,): 2**62}), w=zset({(1,): -2})) == {"h": {(1,): -(2**63)}}
        assert changes_of(program, w=zset({(1,): 1})) == {"h": {(1,): 2**62}}
        assert changes_of(program, v=zset({(1,): 2**62 - 1})) == {"h": {(1,): -(2**62) + 1}}
        assert changes_of(program, w=zset({(1,): 1})) == {"h": {(1,): 2**63 - 1}}
        assert changes_of(program, w=zset({(1,): 1})) == {"h": {(1,): 2**63 - 1}}
        assert answer_of(program) == {(1,): 2**63 - 1}

    def test_products_beyond_int64_may_cancel(self):
        program = gw.Program("h(x) :- r(x, y), s(y).", bag=True)
        rows = {(1, 1): 2**62, (1, 2): -(2**62), (1, 3): 1}
        assert changes_of(program, r=zset(rows), s=zset({(1,): 8, (2,): 8, (3,): 5})) == {"h": {(1,): 5}}

    def test_unions_add(self):
        program = gw.Program("h(x) :- v(x). h(x) :- w(x).", bag=True)
        assert changes_of(program, v=zset({(1,): 2, (2,): 1}), w=zset({(1,): 1, (2,): -1})) == {"h": {(1,): 3}}


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
        program = gw.Program("h(t, x) :- r(t, x). k(t) :- r(t, _), s(t).", keep=keep, bag=bag)
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

    def test_decimal_scales(self):
        program = gw.Program("h(x) :- r(x), s(x).")
        program.step({"r": pa.table({"x": pa.array([Decimal("1.5"), Decimal("2.5")], pa.decimal128(3, 1))})})
        fine = pa.table({"x": pa.array([Decimal("1.500"), Decimal("2.501")], pa.decimal128(5, 3))})
        assert changes_of(program, s=fine) == {"h": {(Decimal("1.500"),): 1}}
        assert answer_of(program, "r") == {(Decimal("1.5"),): 1, (Decimal("2.5"),): 1}

    def test_integers(self):
        program = gw.Program("h(x) :- r(x), s(x).")
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
        program = gw.Program("h(t) :- r(t), s(t).")
        far = pa.table({"t": pa.array([2**62], pa.int64()).cast(pa.timestamp("s"))})
        program.step({"r": far})
        before = program.relation("r").to_arrow()
        with pytest.raises(SchemaError, match="4611686018427387904 does not fit the finer unit"):
            program.step({"s": pa.table({"t": pa.array([1], pa.timestamp("ns"))})})
        assert program.relation("r").to_arrow() == before
        assert len(program.relation("s")) == 0


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


class TestNulls:
    EDGES = ((1, None), (None, 2), (None, None), (1, 2), (2, 1))

    def test_null_never_joins(self):
        program = gw.Program("h(x, z) :- e(x, y), e(y, z).")
        program.step({"e": list(self.EDGES)})
        assert answer_of(program) == {(1, 1): 1, (2, 2): 1, (2, None): 1, (None, 1): 1}

    def test_null_survives_where_a_variable_stands_once(self):
        program = gw.Program("h(y, x) :- e(x, y), v(_).")
        program.step({"e": list(self.EDGES), "v": [(7,)]})
        assert answer_of(program) == {(y, x): 1 for x, y in self.EDGES}

    def test_null_equals_null_for_distinct(self):
        program = gw.Program("h(y) :- e(_, y).")
        assert changes_of(program, e=list(self.EDGES)) == {"h": {(None,): 1, (2,): 1, (1,): 1}}
        assert changes_of(program, e=[((1, None), -1)]) == {"h": {}}
        assert changes_of(program, e=[((None, None), -1)]) == {"h": {(None,): -1}}

    def test_a_row_with_null_is_present_or_absent(self):
        program = gw.Program(PAIRS)
        assert changes_of(program, e=[(1, None), (1, None), (1, 0)]) == {"h": {(1, None): 1, (1, 0): 1}}
        assert changes_of(program, e=[((1, None), -1)]) == {"h": {(1, None): -1}}
        assert answer_of(program) == {(1, 0): 1}

    def test_null_is_neither_equal_nor_unequal(self):
        program = gw.Program("same(x) :- e(x, y), y = 2. other(x) :- e(x, y), y != 2. twice(x) :- e(x, x).")
        program.step({"e": [*self.EDGES, (3, 3)]})
        assert answer_of(program, "same") == {(None,): 1, (1,): 1}
        assert answer_of(program, "other") == {(2,): 1, (3,): 1}
        assert answer_of(program, "twice") == {(3,): 1}

    def test_null_of_text(self):
        program = gw.Program(PAIRS)
        program.step({"e": [("a", None), (None, "b"), (None, None)]})
        assert answer_of(program) == {("a", None): 1, (None, "b"): 1, (None, None): 1}


class TestHeads:
    TEXT = "p(a, c) :- e(a, b), e(b, c). q(a) :- p(a, a). h(a, b) :- q(a), e(a, b)."
    TICKS = ([(1, 2), (2, 1), (2, 3)], [(3, 3), ((1, 2), -1)], [(1, 2)], [((2, 1), -1), ((3, 3), -1)])

    def test_outputs_are_the_heads_that_no_rule_reads(self):
        program = gw.Program(self.TEXT)
        assert (program.inputs, program.heads, program.outputs) == (("e",), ("p", "q", "h"), ("h",))
        assert program.step({"e": [(1, 1)]}).keys() == {"h"}

    def test_outputs_are_what_the_text_says_unless_the_call_does(self):
        text = self.TEXT + " .output q .output p"
        assert set(gw.Program(text).outputs) == {"q", "p"}
        program = gw.Program(text, outputs=["h", "p"])
        assert set(program.outputs) == {"h", "p"}
        assert changes_of(program, e=[(1, 1)]) == {"h": {(1, 1): 1}, "p": {(1, 1): 1}}

    def test_relations_that_are_kept_and_not_kept_are_equal(self):
        kept = gw.Program(self.TEXT, keep=["p", "q", "h"])
        other = gw.Program(self.TEXT)
        for rows in self.TICKS:
            kept.step({"e": rows})
            other.step_counts({"e": rows})
            for head in kept.heads:
                assert kept.relation(head) == other.relation(head)
                assert kept.count(head) == other.count(head) == len(kept.relation(head))
        assert answer_of(kept) == {}

    def test_inputs_are_relations_too(self):
        program = gw.Program(self.TEXT)
        for rows in self.TICKS:
            program.step({"e": rows})
        assert answer_of(program, "e") == {(2, 3): 1, (1, 2): 1}
        assert program.count("e") == 2

    def test_arity(self):
        program = gw.Program(self.TEXT)
        assert [program.arity(name) for name in ("e", "p", "q", "h")] == [2, 2, 1, 2]

    def test_rules_may_be_given_instead_of_text(self):
        assert changes_of(gw.Program(parse(PAIRS)), e=[(1, 2)]) == {"h": {(1, 2): 1}}


class TestTicks:
    def test_before_the_first_tick_everything_is_empty(self):
        program = gw.Program(JOIN)
        assert len(program.relation("h")) == 0
        assert program.count("h") == 0
        assert changes_of(program) == {"h": {}}

    def test_types_are_learnt_when_the_first_rows_come(self):
        program = gw.Program(JOIN)
        assert changes_of(program, r=[("a", 1)]) == {"h": {}}
        assert changes_of(program, r=[("b", 2)]) == {"h": {}}
        assert changes_of(program, s=[(1, dt.date(2024, 1, 1))]) == {"h": {("a", 1, dt.date(2024, 1, 1)): 1}}

    def test_empty_changes_change_nothing(self):
        program = gw.Program(JOIN)
        program.step({"r": [(1, 2)], "s": [(2, 3)]})
        for changes in ({}, {"r": []}, {"r": np.empty((0, 2), np.int64)}, {"s": gw.ZSet.from_rows([((2, 3), 0)])}):
            assert {name: found.to_dict() for name, found in program.step(changes).items()} == {"h": {}}
            assert program.step_counts(changes)["h"].net == 0
        assert answer_of(program) == {(1, 2, 3): 1}

    def test_the_report_of_a_tick(self):
        program = gw.Program(JOIN)
        program.step({"r": [(1, 2)]})
        first = program.last_tick
        program.step({"s": [(2, 3)]})
        assert program.last_tick.tick == first.tick + 1
        assert program.last_tick.seconds > 0

    def test_pieces_sum_to_the_changes(self):
        rows = [(x, y) for x in range(6) for y in range(6)]
        whole, cut = (gw.Program("h(a, b, c) :- e(a, b), e(b, c), e(a, c).", chunk_rows=n) for n in (None, 5))
        pieces = []
        counts = cut.step_pieces({"e": rows}, lambda name, piece: pieces.append((name, piece.to_dict())))
        changes = changes_of(whole, e=rows)
        assert counts["h"].net == len(changes["h"]) == 216
        assert len(pieces) > 1
        assert {name for name, _ in pieces} == {"h"}
        assert sorted(row for _, piece in pieces for row in piece) == sorted(changes["h"])

    def test_what_a_step_returns_is_not_touched_by_the_next(self):
        program = gw.Program(PAIRS)
        first = program.step({"e": [(1, 2)]})["h"]
        whole = program.relation("h")
        program.step({"e": [(0, 0), ((1, 2), -1)]})
        assert first.to_dict() == whole.to_dict() == {(1, 2): 1}

    def test_what_a_step_is_given_is_not_touched(self):
        program = gw.Program(PAIRS)
        rows = np.array([[3, 1], [1, 2], [3, 1]])
        program.step({"e": rows})
        assert rows.tolist() == [[3, 1], [1, 2], [3, 1]]
        rows[:] = 0
        assert answer_of(program) == {(3, 1): 1, (1, 2): 1}


class TestWaysIn:
    ROWS = ((1, 2), (2, 3), (1, 3))
    TRIANGLE = "h(a, b, c) :- e(a, b), e(b, c), e(a, c)."

    @pytest.mark.parametrize(
        "make",
        [
            lambda rows: list(rows),
            lambda rows: np.array(rows),
            lambda rows: {"a": [row[0] for row in rows], "b": np.array([row[1] for row in rows])},
            lambda rows: pa.table({"a": [row[0] for row in rows], "b": [row[1] for row in rows]}),
            lambda rows: pa.RecordBatch.from_pydict({"a": [row[0] for row in rows], "b": [row[1] for row in rows]}),
            lambda rows: pytest.importorskip("pandas").DataFrame(rows, columns=["a", "b"]),
            lambda rows: pytest.importorskip("polars").DataFrame(rows, schema=["a", "b"], orient="row"),
            lambda rows: gw.ZSet.from_rows(rows),
        ],
        ids=["rows", "numpy", "dict", "arrow", "batch", "pandas", "polars", "zset"],
    )
    def test_tables_of_every_kind(self, make):
        program = gw.Program(self.TRIANGLE)
        assert changes_of(program, e=make(self.ROWS)) == {"h": {(1, 2, 3): 1}}

    def test_a_weight_column_may_stand_anywhere(self):
        for names in (["weight", "a", "b"], ["a", "weight", "b"], ["a", "b", "weight"]):
            program = gw.Program(PAIRS)
            program.step({"e": [(1, 2), (3, 4)]})
            columns = {"a": [1, 5], "b": [2, 6], "weight": [-1, 1]}
            changes = changes_of(program, e=pa.table({name: columns[name] for name in names}))
            assert changes == {"h": {(1, 2): -1, (5, 6): 1}}

    def test_a_column_called_weight_is_data_where_the_relation_needs_it(self):
        program = gw.Program(PAIRS)
        assert changes_of(program, e=pa.table({"src": [1, 2], "weight": [-1, 0]})) == {"h": {(1, -1): 1, (2, 0): 1}}

    def test_an_answer_can_be_fed_on(self):
        first = gw.Program("h(a, c) :- e(a, b), e(b, c).")
        second = gw.Program("g(a) :- h(a, a).")
        for rows in ([(1, 2), (2, 1)], [(3, 3)], [((1, 2), -1)]):
            second.step(first.step({"e": rows}))
        assert answer_of(second, "g") == {(3,): 1}

    def test_query_answers_once(self):
        found = gw.query(self.TRIANGLE, e=list(self.ROWS))
        assert found.to_dict() == {(1, 2, 3): 1}
        both = gw.query("g(a) :- e(a, _). h(b) :- e(_, b).", e=list(self.ROWS))
        assert {name: zset.to_dict() for name, zset in both.items()} == {
            "g": {(1,): 1, (2,): 1},
            "h": {(2,): 1, (3,): 1},
        }


class TestExplain:
    def test_explain_names_relations_and_variables(self):
        shown = gw.Program("h(a, b, c) :- edge(a, b), edge(b, c), edge(a, c).").explain()
        for word in ("edge", "h(a, b, c)", "a", "b", "c"):
            assert word in shown
