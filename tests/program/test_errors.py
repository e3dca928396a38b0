"""Changes that are refused: a clear error, and the state exactly as before."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import (
    ArityError,
    SchemaError,
    TypeMismatchError,
    UnknownRelationError,
    UnsupportedTypeError,
    UsageError,
    WeightError,
)
from tests.helpers.refused_changes import FIRST, TEXT, assert_refused, state

GOOD = [(7, 7), ((1, 2), -1), (2, 7)]


def test_an_empty_table_without_types_leaves_them_open():
    program = gw.Program(TEXT)
    program.step(
        {"edge": {"a": [], "b": []}, "node": pa.table({"a": pa.array([], pa.null()), "b": pa.array([], "int8")})}
    )
    edges = {"edge": [("x", "y"), ("y", "z")], "node": {"a": ["x"], "b": np.array([1], np.int8)}}
    assert program.step(edges)["p"].rows() == [(("x",), 1)]


class TestChanges:
    @pytest.mark.parametrize(
        ("edges", "error", "match"),
        [
            ([(1,)], ArityError, "relation 'edge' has 2 columns, and the rows have 1"),
            ([()], ArityError, "relation 'edge' has 2 columns, and the rows have 0: none"),
            ([(1, 2, 3)], SchemaError, "relation 'edge' has 2 columns, and the rows have 3"),
            ([(1, 2, 3, 4)], ArityError, "relation 'edge' has 2 columns, and the rows have 4"),
            (np.zeros((2, 5), np.int64), ArityError, "relation 'edge' has 2 columns, and the rows have 5"),
            ({"a": [1], "b": [2], "w": [1]}, SchemaError, "(?s)edge.*weight"),
            ([(1, 2), (3,)], ArityError, "row 1"),
            ([(1, "x")], TypeMismatchError, "edge"),
            ([(1, 2.5)], TypeMismatchError, "edge"),
            ([(1, True)], TypeMismatchError, "edge"),
            ([(1, 2), (3, "x")], TypeMismatchError, "mixes types"),
            ([(1, 2**64)], TypeMismatchError, "18446744073709551616"),
            (pa.table({"a": [1], "b": [[1]]}), TypeMismatchError, "list"),
            (
                pa.table({"a": [1], "b": pa.array([1.5], pa.float16())}),
                UnsupportedTypeError,
                "column 'b'(?s:.*)halffloat",
            ),
            ({"a": [1, 2], "b": [1]}, SchemaError, "column 'b' has 1"),
            ([1, 2], TypeMismatchError, "row 0 is not a row: got 1"),
            ([{"a": 1, "b": 2}, (3, 4)], SchemaError, "row 1 has other columns than row 0"),
            ([(3, 4), {"a": 1, "b": 2}], TypeMismatchError, "Write all rows as dicts, or all as tuples"),
            (7, TypeMismatchError, "is not a table"),
            (None, TypeMismatchError, "is not a table"),
            ("1,2", TypeMismatchError, "is not a table"),
        ],
    )
    def test_rows_that_do_not_fit(self, edges, error, match):
        assert_refused({"edge": edges, "node": [(9, "new")]}, error, match)
        assert_refused({"node": [(9, "new")], "edge": edges}, error, match)

    def test_zsets_that_do_not_fit(self):
        assert_refused(
            {"edge": gw.ZSet.from_rows([(1, 2, 3)])}, ArityError, "relation 'edge' has 2 columns, and the rows have 3"
        )
        assert_refused({"edge": gw.ZSet.from_rows([(1, "x")])}, TypeMismatchError, "edge")
        assert_refused({"node": gw.ZSet.from_rows([(1, 2)])}, TypeMismatchError, "node")

    @pytest.mark.parametrize(
        "weights",
        [
            [1.0, 1.0],
            [1, None],
            [True, False],
            ["1", "1"],
            pa.array([1, 2**63], pa.uint64()),
            np.array([1, 2**64 - 1], np.uint64),
            np.array([1.5, 1.0]),
            [1, 2**63],
        ],
        ids=lambda weights: f"{type(weights).__name__} {list(weights)}",
    )
    def test_weights_that_are_no_integers(self, weights):
        table = {"a": [1, 5], "b": [2, 6], "weight": weights}
        assert_refused({"node": [(9, "new")], "edge": table}, (WeightError, TypeMismatchError), r"(?s)weight.*2\^63")

    def test_weights_of_rows_that_are_no_integers(self):
        for weight in (1.5, None, True, "1"):
            assert_refused({"edge": [((1, 2), weight)]}, WeightError, "expected integers")

    def test_unknown_relations(self):
        with_nearest = "(?s)unknown relation 'egde'.*Did you mean 'edge'"
        assert_refused({"edge": GOOD, "egde": [(1, 2)]}, UnknownRelationError, with_nearest)

    def test_heads_take_no_rows(self):
        assert_refused({"edge": GOOD, "h": [(1, 2)]}, SchemaError, "'h'")

    def test_changes_that_are_no_mapping(self):
        assert_refused([("edge", [(1, 2)])], (UsageError, TypeMismatchError), "list")

    def test_types_that_clash_across_relations(self):
        program = gw.Program("h(x, z) :- r(x, y), s(y, z).", inputs=["r", "s"])
        program.step({"r": [(1, 2)]})
        before = state(program)
        with pytest.raises(TypeMismatchError, match="and joins relation 'r', column 1 of type 'int64'"):
            program.step({"s": [("a", 1)], "r": [(5, 5)]})
        assert state(program) == before
        assert program.step({"s": [(2, "z")]})["h"].to_dict() == {(1, "z"): 1}

    def test_constants_of_another_type(self):
        program = gw.Program('h(x) :- r(x, "a").')
        with pytest.raises(
            TypeMismatchError, match=r"is of type 'int64', and is compared with 'a' \(line 1, column 9\)"
        ):
            program.step({"r": [(1, 2)]})
        assert program.count("r") == 0
        assert program.step({"r": [(1, "a")]})["h"].to_dict() == {(1,): 1}

    def test_comparisons_of_different_types(self):
        program = gw.Program("h(x) :- r(x, y), x < y.")
        with pytest.raises(TypeMismatchError, match=r"(?s)int64.*string|string.*int64"):
            program.step({"r": [(1, "a")]})
        assert program.count("r") == 0

    def test_declared_types(self):
        text = ".decl edge(src: int64, dst: string)\nh(x) :- edge(x, _)."
        program = gw.Program(text)
        with pytest.raises(TypeMismatchError, match=r"(?s)edge.*string"):
            program.step({"edge": [(1, 2)]})
        assert program.step({"edge": [(1, "x")]})["h"].to_dict() == {(1,): 1}

    @pytest.mark.parametrize("good", [0, 1])
    def test_a_sink_that_fails(self, good):
        program = gw.Program(TEXT, chunk_rows=1, outputs=["h"])
        program.step(FIRST)
        before = state(program)
        pieces = []

        def fails(name, piece):
            if len(pieces) == good:
                raise RuntimeError("the disk is full")
            pieces.append(piece)

        with pytest.raises(RuntimeError, match="the disk is full"):
            program.step_pieces({"edge": [(2, 9), (2, 8)]}, fails)
        assert len(pieces) == good
        assert state(program) == before
        assert len(program.step({"edge": [(2, 9)]})["h"]) == 2


NARROW = [
    (
        ".decl r(x: unsigned, y)\nh(x) :- r(x, _).",
        {},
        -1,
        r"column 'x': the value -1 \(row 1\) is outside the declared type 'uint64'",
    ),
    (".decl r(x: int8, y)\nh(x) :- r(x, _).", {}, 128, r"column 'x': the value 128 \(row 1\) .*: expected -128 to 127"),
    (
        ".decl r(x: uint8, y)\n.input r\nr(x, y) :- s(x, y). h(x) :- r(x, _).",
        {"inputs": ["s"]},
        -1,
        r"column 'x': the value -1",
    ),
    (
        "h(x) :- r(x, _).",
        {"schema": {"r": ["uint16", "string"]}},
        65536,
        r"the value 65536 \(row 1\) is outside the declared type 'uint16'",
    ),
    ("h(x) :- r(x, _).", {"schema": {"r": {"a": "int32", "b": "string"}}}, 2**31, "column 'a': the value 2147483648"),
]


@pytest.mark.parametrize(("text", "options", "beyond", "match"), NARROW)
def test_integers_outside_the_declared_type(text, options, beyond, match):
    first, following = {"r": [(1, "a"), (2, "b")]}, {"r": [(3, "c"), ((1, "a"), -1)]}
    assert_refused({"r": [(3, "a"), (beyond, "b")]}, TypeMismatchError, match, text, first, following, **options)
    assert_refused({"r": [(3, "a"), ((beyond, "b"), -1)]}, TypeMismatchError, match, text, first, following, **options)


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int16(), pa.int64(), pa.uint64()])
def test_integers_that_fit_are_of_the_declared_type(kind):
    rows = pa.table({"x": pa.array([0, 5, 127, None], kind)})
    for text, options in ((".decl r(x: int8)\nh(x) :- r(x).", {}), ("h(x) :- r(x).", {"schema": {"r": ["int8"]}})):
        for given in (rows, gw.ZSet.from_arrow(rows)):
            answer = gw.Program(text, **options).step({"r": given})["h"]
            assert answer.to_arrow().schema.field("x").type == pa.int8()
            assert answer.to_dict() == {(0,): 1, (5,): 1, (127,): 1, (None,): 1}


def test_tables_of_sql_are_not_held_to_the_widths_that_they_have_had(tmp_path):
    narrow = pa.table({"a": pa.array([1], pa.int8())})
    view = gw.view("SELECT a FROM r", r=narrow)
    view.program.checkpoint(tmp_path / "checkpoint")
    for program in (view.program, gw.Program.restore(tmp_path / "checkpoint")):
        assert program.step({"r": {"a": [300]}})["answer"].rows() == [((300,), 1)]
    view = gw.view("SELECT a FROM r", r=narrow, schema={"r": {"a": "int8"}})
    with pytest.raises(TypeMismatchError, match="column 'a': the value 300"):
        view.apply(r={"a": [300]})


def test_a_pair_of_arrays_is_told_what_to_be():
    rows, weights = np.array([[1, 2], [2, 3]]), np.array([1, -1])
    program = gw.Program("h(x, y) :- e(x, y).", bag=True)
    with pytest.raises(TypeMismatchError, match=r"array of shape \(2, 2\)(.|\n)*'weight'(.|\n)*from_numpy\(rows, w"):
        program.step({"e": (rows, weights)})
    expected = [((1, 2), 1), ((2, 3), -1)]
    assert program.step({"e": gw.ZSet.from_numpy(rows, weights)})["h"].rows() == expected
    columns = {"src": rows[:, 0], "dst": rows[:, 1], "weight": weights}
    assert program.step({"e": columns})["h"].rows() == expected
