"""Bad input: a clear error, and the state exactly as before."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import (
    ArityError,
    BackendUnavailableError,
    DatalogSyntaxError,
    GpuWcojError,
    SchemaError,
    TypeMismatchError,
    UnknownRelationError,
    UnsafeRuleError,
    UnsupportedError,
    UnsupportedTypeError,
    UsageError,
    WeightError,
    WeightOverflowError,
)

TEXT = "h(a, c) :- edge(a, b), edge(b, c), node(a, _). p(a) :- h(a, _)."
FIRST = {"edge": [(1, 2), (2, 3), (2, 2)], "node": [(1, "one"), (2, "two")]}
NEXT = {"edge": [(3, 1), ((1, 2), -1)], "node": [(3, "three")]}
GOOD = [(7, 7), ((1, 2), -1), (2, 7)]


def state(program):
    """All that a user can see of the state."""
    relations = (*program.inputs, *program.heads)
    return (
        {name: program.relation(name).rows() for name in relations},
        {name: program.relation(name).to_arrow().schema for name in relations},
        {name: program.count(name) for name in relations},
        program.last_tick,
    )


def ways(program):
    return program.step, program.step_counts, lambda changes: program.step_pieces(changes, lambda name, piece: None)


def assert_refused(changes, error, match, text=TEXT, first=FIRST, following=NEXT, **options):
    """Every way to step refuses `changes`, leaves the state as it was, and works on as if nothing had been."""
    program, untouched = (gw.Program(text, **options) for _ in range(2))
    for one in (program, untouched):
        one.step(first)
    before = state(program)
    for step in ways(program):
        with pytest.raises(error, match=match):
            step(changes)
        assert state(program) == before
    assert program.step(following) == untouched.step(following)
    assert state(program)[:3] == state(untouched)[:3]


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
            ([(1, 2, 3)], SchemaError, "relation 'edge' has 2 columns, and the rows have 3"),
            ([(1, 2, 3, 4)], ArityError, "relation 'edge' has 2 columns, and the rows have 4"),
            (np.zeros((2, 5), np.int64), ArityError, "relation 'edge' has 2 columns, and the rows have 5"),
            ({"a": [1], "b": [2], "w": [1]}, SchemaError, "(?s)edge.*weight"),
            ([(1, 2), (3,)], ArityError, "row 1"),
            ([(1, "x")], TypeMismatchError, "edge"),
            ([(1, 2.5)], TypeMismatchError, "edge"),
            ([(1, True)], TypeMismatchError, "edge"),
            ([(1, 2), (3, "x")], TypeMismatchError, "mixes types"),
            ([(1, 2**63)], TypeMismatchError, "9223372036854775808"),
            (pa.table({"a": [1], "b": pa.array([2**63], pa.uint64())}), UnsupportedTypeError, "9223372036854775808"),
            (pa.table({"a": [1], "b": [[1]]}), UnsupportedTypeError, "list"),
            ({"a": [1, 2], "b": [1]}, SchemaError, "column 'b' has 1"),
            ([1, 2], TypeMismatchError, "row 0 is 1"),
            ([{"a": 1, "b": 2}], TypeMismatchError, "Dicts come in as columns"),
            (7, TypeMismatchError, "no table"),
            (None, TypeMismatchError, "no table"),
            ("1,2", TypeMismatchError, "no table"),
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
            assert_refused({"edge": [((1, 2), weight)]}, WeightError, "must be integers")

    def test_unknown_relations(self):
        with_nearest = "(?s)there is no relation 'egde'.*Did you mean 'edge'"
        assert_refused({"edge": GOOD, "egde": [(1, 2)]}, UnknownRelationError, with_nearest)

    def test_heads_take_no_rows(self):
        assert_refused({"edge": GOOD, "h": [(1, 2)]}, SchemaError, "'h'")

    def test_changes_that_are_no_mapping(self):
        assert_refused([("edge", [(1, 2)])], (UsageError, TypeMismatchError), "list")

    def test_types_that_clash_across_relations(self):
        program = gw.Program("h(x, z) :- r(x, y), s(y, z).")
        program.step({"r": [(1, 2)]})
        before = state(program)
        with pytest.raises(TypeMismatchError, match="and joins relation 'r', column 1 of type 'int64'"):
            program.step({"s": [("a", 1)], "r": [(5, 5)]})
        assert state(program) == before
        assert program.step({"s": [(2, "z")]})["h"].to_dict() == {(1, "z"): 1}

    def test_constants_of_another_type(self):
        program = gw.Program('h(x) :- r(x, "a").')
        with pytest.raises(TypeMismatchError, match=r"is of type 'int64', and the rule .* compares it with 'a'"):
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


class TestOverflow:
    TEXT = "h(x) :- r(x, y), s(y). k(x) :- r(x, _)."

    def refused(self, changes, match):
        first = {"r": [((1, 1), 2**62), ((2, 2), -(2**62))], "s": [((1,), 1)]}
        following = {"s": [((2,), 2)]}
        assert_refused(changes, WeightOverflowError, match, self.TEXT, first, following, bag=True)

    def test_of_the_state(self):
        self.refused({"r": [((1, 1), 2**62)]}, r"(?s)'r'.*\(1, 1\).*outside int64")
        self.refused({"r": [((2, 2), -(2**62) - 1)]}, r"(?s)'r'.*\(2, 2\).*outside int64")

    def test_of_a_product(self):
        self.refused({"s": [((1,), 1)]}, r"(?s)'h'.*\(1,\).*outside int64")
        self.refused({"s": [((2,), 3)]}, r"(?s)'h'.*\(2,\).*outside int64")

    def test_of_a_sum(self):
        self.refused({"r": [((1, 9), 2**62)]}, r"(?s)'k'.*\(1,\).*outside int64")

    def test_of_a_product_far_beyond(self):
        self.refused({"s": [((1,), 2**63 - 2)]}, r"(?s)'h'.*\(1,\).*outside int64")

    def test_of_a_change_between_two_weights_that_fit(self):
        program = gw.Program("h(x) :- v(x), w(x).", bag=True)
        program.step({"v": gw.ZSet.from_rows([((1,), 2**63 - 1)]), "w": gw.ZSet.from_rows([((1,), -1)])})
        with pytest.raises(WeightOverflowError, match=r"(?s)'h'.*\(1,\).*outside int64"):
            program.step({"w": gw.ZSet.from_rows([((1,), 2)])})
        assert program.relation("h").to_dict() == {(1,): -(2**63) + 1}

    @pytest.mark.parametrize("n", [1, 32])
    @pytest.mark.parametrize("rest", ["", ", y != x", ", !g(x, y)"])
    def test_of_a_sum_that_is_counted(self, n, rest):
        """The sum is 2^64, which is 0 for who adds in int64."""
        rows = gw.ZSet.from_rows([((x, y), 2**57) for x in range(n) for y in range(200, 328)])
        for way in ("step", "step_counts"):
            program = gw.Program(f"h(x) :- u(x), e(x, y){rest}.", bag=True)
            program.load({"e": rows})
            with pytest.raises(WeightOverflowError, match=r"outside int64"):
                getattr(program, way)({"u": [(x,) for x in range(n)]})
            assert program.count("h") == 0

    def test_of_rows_that_add_up_within_a_table(self):
        program = gw.Program("h(x) :- v(x).", bag=True)
        with pytest.raises(WeightOverflowError, match="outside int64"):
            program.step({"v": {"x": [1, 1], "weight": [2**63 - 1, 1]}})
        assert program.count("v") == 0

    def test_sets_never_overflow(self):
        program = gw.Program("h(x) :- v(x), v(x).")
        for _ in range(3):
            program.step({"v": [((1,), 2**63 - 1), ((2,), 2**63 - 1), ((2,), -(2**63))]})
        assert program.relation("h").to_dict() == {(1,): 1}


class TestPrograms:
    @pytest.mark.parametrize(
        ("options", "match"),
        [
            ({"chunk_rows": 0}, "chunk_rows.*0"),
            ({"chunk_rows": -1}, "chunk_rows.*-1"),
            ({"chunk_rows": 1.5}, "chunk_rows.*1.5"),
            ({"chunk_rows": True}, "chunk_rows.*True"),
            ({"threads": 0}, "threads.*0"),
            ({"threads": -2}, "threads.*-2"),
            ({"threads": 1.5}, "threads.*1.5"),
            ({"backend": "gpu"}, "backend.*'gpu'"),
        ],
    )
    def test_options_outside_what_is_allowed(self, options, match):
        with pytest.raises((UsageError, BackendUnavailableError), match=match):
            gw.Program(TEXT, **options)

    def test_types_of_a_relation_that_are_one_text(self):
        with pytest.raises(
            SchemaError, match=r"schema=\{'edge': 'int64'\} is a text(?s:.*)Write \{'edge': \['int64', ...\]"
        ):
            gw.Program(TEXT, schema={"edge": "int64"})

    def test_types_that_are_not_there_are_refused_at_once(self):
        for kind in ("integer", "varchar", int):
            with pytest.raises(SchemaError, match=r"the schema of relation 'edge': there is no type .*; allowed are"):
                gw.Program(TEXT, schema={"edge": {"src": kind, "dst": "int64"}})
            with pytest.raises(UnsupportedTypeError, match="there is no type"):
                gw.view("SELECT a FROM e", schema={"e": {"a": kind}})
            with pytest.raises(UnsupportedTypeError, match="there is no type"):
                gw.Circuit().source("edge", {"src": kind})
        with pytest.raises(TypeMismatchError, match=r"type 'integer' is not supported.\n  Types are spelled as Arrow"):
            gw.ZSet.empty(["a"], ["integer"])
        program = gw.Program("h(a) :- r(a, b).", schema={"r": ["symbol", "date32"]})
        assert program.step({"r": {"a": ["x"], "b": pa.array([1], pa.date32())}})["h"].rows() == [(("x",), 1)]

    @pytest.mark.parametrize(("option", "value"), [("strategy", "binary"), ("iterations", 5), ("replan", None)])
    def test_options_that_query_does_not_have(self, option, value):
        with pytest.raises(UsageError, match=f"query has no option '{option}'(?s:.*)those of gpu_wcoj.Program"):
            gw.query("h(a) :- r(a, b).", r=[(1, 2)], **{option: value})

    @pytest.mark.parametrize("name", ["\ud800", "a\udcff", 1])
    def test_names_that_no_file_can_take(self, name):
        said = f"the name {name!a} of a column {'has half a' if isinstance(name, str) else 'is no text'}"
        with pytest.raises(SchemaError, match=re.escape(f"the schema of relation 'r': {said}")):
            gw.Program("h(x) :- r(x, y).", schema={"r": {name: "int64", "b": "int64"}})
        if isinstance(name, str):
            with pytest.raises(SchemaError, match=re.escape(f"the Z-set: {said}")):
                gw.ZSet.from_rows([(1, 2)], names=[name, "b"])
            for rows in ({name: [1], "b": [2]}, np.zeros(1, [(name, np.int64), ("b", np.int64)])):
                with pytest.raises(SchemaError, match=re.escape(f"relation 'r': {said}")):
                    gw.Program("h(x) :- r(x, y).").step({"r": rows})

    def test_every_error_is_one_that_the_package_names(self):
        assert issubclass(UsageError, gw.GpuWcojError)
        with pytest.raises(gw.GpuWcojError, match="there is no relation 'edges'"):
            gw.Program(TEXT).step({"edges": []})

    def test_a_program_that_is_no_text(self):
        for wrong in (None, Path("rules.dl")):
            with pytest.raises(UsageError, match="a program is text or Rules(?s:.*)Of a file, give the text"):
                gw.Program(wrong)
            with pytest.raises(UsageError, match="a query is text or Rules(?s:.*)Of a file, give the text"):
                gw.query(wrong)

    @pytest.mark.parametrize("option", ["keep", "outputs"])
    def test_heads_that_are_not_there(self, option):
        with pytest.raises(UnknownRelationError, match=r"(?s)there is no relation 'hh'.*Did you mean 'h'"):
            gw.Program(TEXT, **{option: ["hh"]})

    @pytest.mark.parametrize("ask", ["relation", "count", "arity"])
    def test_relations_that_are_not_there(self, ask):
        with pytest.raises(UnknownRelationError, match=r"(?s)there is no relation 'edges'.*Did you mean 'edge'"):
            getattr(gw.Program(TEXT), ask)("edges")

    @pytest.mark.parametrize(
        ("text", "error"),
        [
            ("h(x) :- r(x", DatalogSyntaxError),
            ("h(x, y) :- r(x).", UnsafeRuleError),
            ("h(x) :- r(x), !h(x).", UnsupportedError),
            ("h(x) :- r(x), r(x, x).", ArityError),
            ("h(x) :- r(x). .output g", UnknownRelationError),
            (b"h(x) :- r(x).", UsageError),
        ],
    )
    def test_texts_that_are_wrong(self, text, error):
        with pytest.raises(error, match=r"."):
            gw.Program(text)

    def test_query_names_the_relation_that_is_missing_or_unknown(self):
        with pytest.raises(UnknownRelationError, match="there is no relation 'edge'"):
            gw.query("h(x) :- edge(x, _).", edges=[(1, 2)])
        with pytest.raises(UnknownRelationError, match="there is no relation 'edges'"):
            gw.query("h(x) :- edge(x, _).", edge=[(1, 2)], edges=[(1, 2)])

    def test_every_error_is_caught_by_one_class(self):
        with pytest.raises(GpuWcojError, match="expected ':-'"):
            gw.Program("h(x)")


def star(n_arms, degree, hubs):
    """Rows of g, that lead to hubs, and of the arms of each."""
    arms = {f"r{i}": [(hub, leaf) for hub in range(hubs) for leaf in range(degree)] for i in range(n_arms)}
    return {"g": [(0, hub) for hub in range(hubs)], **arms}


@pytest.mark.parametrize("bag", [True, False])
@pytest.mark.parametrize("way", ["step", "step_counts", "relation"])
def test_products_that_fit_and_whose_sum_does_not(bag, way):
    """Six arms of 1,200 leaves: each hub gives 1200^6 derivations, which int64 holds for three hubs, not for four."""
    arms = ", ".join(f"r{i}(a, x{i})" for i in range(6))
    program = gw.Program(f"h(k) :- g(k, a), {arms}.", bag=bag)
    rows = star(6, 1200, 4)
    last = {"g": [rows["g"].pop()]}
    program.load(rows) if way == "relation" else getattr(program, way)(rows)
    weight = 3 * 1200**6
    assert weight < 1 << 63 < 4 * 1200**6
    assert program.relation("h").rows() == [((0,), weight if bag else 1)]
    with pytest.raises(WeightOverflowError, match="weight 11943936000000000000"):
        program.step_counts(last) if way == "step_counts" else program.step(last)
    assert program.relation("h").rows() == [((0,), weight if bag else 1)]
    assert program.count("g") == 3


NARROW = [
    (".decl r(x: unsigned, y)\nh(x) :- r(x, _).", {}, -1, r"column 'x': the value -1 \(row 1\) is no 'uint64'"),
    (".decl r(x: int8, y)\nh(x) :- r(x, _).", {}, 128, r"column 'x': the value 128 \(row 1\) .*: -128 to 127"),
    (".decl r(x: uint8, y)\n.input r\nr(x, y) :- s(x, y). h(x) :- r(x, _).", {}, -1, r"column 'x': the value -1"),
    ("h(x) :- r(x, _).", {"schema": {"r": ["uint16", "string"]}}, 65536, r"the value 65536 \(row 1\) is no 'uint16'"),
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
