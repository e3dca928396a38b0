"""Programs that are refused: options, schemas, names and texts that are wrong, and relations that are not there."""

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
)

TEXT = "h(a, c) :- edge(a, b), edge(b, c), node(a, _). p(a) :- h(a, _)."


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
