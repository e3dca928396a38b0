"""What weights mean to a program: in sets the last operation on a row wins, in bags they add and multiply."""

from __future__ import annotations

import pytest

import gpu_wcoj as gw
from tests.helpers.answers import answer_of, changes_of, zset

COPY = "h(x) :- v(x)."


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
