"""Null in programs: it joins nothing, and in a row it is a value like any other."""

from __future__ import annotations

import gpu_wcoj as gw
from tests.helpers.answers import answer_of, changes_of

PAIRS = "h(x, y) :- e(x, y)."


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
