"""Ways into a program: tables of every kind, columns of weights, answers of other programs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from tests.helpers.answers import answer_of, changes_of

PAIRS = "h(x, y) :- e(x, y)."


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
        assert found.rows() == [(1, 2, 3)]
        both = gw.query("g(a) :- e(a, _). h(b) :- e(_, b).", e=list(self.ROWS), outputs=["g", "h"])
        assert {name: result.to_zset().to_dict() for name, result in both.items()} == {
            "g": {(1,): 1, (2,): 1},
            "h": {(2,): 1, (3,): 1},
        }
