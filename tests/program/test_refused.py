"""Programs that are refused: options, schemas, names and texts that are wrong, and relations that are not there."""

from __future__ import annotations

import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import (
    SchemaError,
    TypeMismatchError,
    UnknownRelationError,
    UnsupportedTypeError,
    UsageError,
)

TEXT = "h(a, c) :- edge(a, b), edge(b, c), node(a, _). p(a) :- h(a, _)."


class TestPrograms:
    def test_types_that_are_not_there_are_refused_at_once(self):
        for kind in ("integer", "varchar", int):
            with pytest.raises(SchemaError, match=r"the schema of relation 'edge': unknown type .*; allowed are"):
                gw.Program(TEXT, schema={"edge": {"src": kind, "dst": "int64"}})
            with pytest.raises(UnsupportedTypeError, match="unknown type"):
                gw.view("SELECT a FROM e", schema={"e": {"a": kind}})
            with pytest.raises(UnsupportedTypeError, match="unknown type"):
                gw.Circuit().source("edge", {"src": kind})
        with pytest.raises(TypeMismatchError, match=r"type 'integer' is not supported.\n  Types are spelled as Arrow"):
            gw.ZSet.empty(["a"], ["integer"])
        program = gw.Program("h(a) :- r(a, b).", schema={"r": ["symbol", "date32"]})
        assert program.step({"r": {"a": ["x"], "b": pa.array([1], pa.date32())}})["h"].rows() == [(("x",), 1)]


MISSPELT = """.decl link(a: number, b: number)
way(a, b) :- link(a, b).
free(a) :- link(a, _), !blokked(a).
blocked(1).
"""
KNOWN = r"given or defined are: 'blocked', 'free', 'link', 'way'. Did you mean 'blocked'\?"


class TestRelationsThatNothingNames:
    @pytest.mark.parametrize("way", ["step", "step_counts", "load", "step_pieces"])
    def test_the_first_change_has_to_name_them(self, way):
        program = gw.Program(MISSPELT)
        take = getattr(program, way)
        sink = [lambda name, piece: None] if way == "step_pieces" else []
        place = r"unknown relation 'blokked' \(line 3, column 25\)\n  free\(a\).*\n +~{10}\n"
        for changes in ({}, {"link": [(1, 2)]}):
            with pytest.raises(
                UnknownRelationError, match=f"{place}(?s:.*){KNOWN}(?s:.*)inputs=\\['blokked'\\]"
            ) as caught:
                take(changes, *sink)
            assert caught.value.relation == "blokked"
            assert (program.last_tick.tick, program.count("link"), program.count("free")) == (-1, 0, 0)
        take({"link": [(1, 2), (2, 3)], "blokked": []}, *sink)
        assert program.relation("free").to_dict() == {(1,): 1, (2,): 1}
        program.step({"blokked": [(2,)]})
        assert program.relation("free").to_dict() == {(1,): 1}

    @pytest.mark.parametrize(
        "program",
        [
            lambda: gw.Program("h(a) :- r(a), !s(a).", inputs=["r", "s"]),
            lambda: gw.Program("h(a) :- r(a), !s(a).", schema={"r": ["int64"], "s": ["int64"]}),
            lambda: gw.Program(".decl r(a) .decl s(a) h(a) :- r(a), !s(a)."),
            lambda: gw.Program(".decl r(a) .decl s(a) .input s h(a) :- r(a), !s(a)."),
            lambda: gw.Program(".decl r(a) h(a) :- r(a), !s(a).", inputs=["s"]),
        ],
    )
    def test_what_is_named_may_come_later(self, program):
        later = program()
        assert later.step({})["h"].rows() == []
        assert later.step({"r": [(1,), (2,)]})["h"].to_dict() == {(1,): 1, (2,): 1}
        assert later.step({"s": [(2,)]})["h"].to_dict() == {(2,): -1}

    def test_a_program_is_asked_once(self, tmp_path):
        program = gw.Program("h(a) :- r(a), !s(a).")
        start = program.mark()
        program.step({"r": [(1,)], "s": []})
        program.step({})
        program.checkpoint(tmp_path)
        assert gw.Program.restore(tmp_path).step({"s": [(1,)]})["h"].to_dict() == {(1,): -1}
        with pytest.raises(UsageError, match="the option 'inputs' is stored in the checkpoint"):
            gw.Program.restore(tmp_path, inputs=["r"])
        program.return_to(start)
        with pytest.raises(UnknownRelationError, match="'s'"):
            program.step({"r": [(1,)]})

    def test_a_checkpoint_of_before_the_first_tick_is_past_it(self, tmp_path):
        gw.Program("h(a) :- r(a), !s(a).", inputs=["r", "s"]).checkpoint(tmp_path)
        assert gw.Program.restore(tmp_path).step({"r": [(1,)]})["h"].to_dict() == {(1,): 1}
