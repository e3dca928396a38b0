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
from gpu_wcoj.query.ir import Atom, Rule, Rules, Variable

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
            SchemaError, match=r"schema\['edge'\] has the wrong type: got str(?s:.*)Write \{'edge': \['int64', ...\]"
        ):
            gw.Program(TEXT, schema={"edge": "int64"})

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

    @pytest.mark.parametrize(("option", "value"), [("strategy", "binary"), ("chunk_rows", 5), ("replan", None)])
    def test_options_that_query_does_not_have(self, option, value):
        with pytest.raises(UsageError, match=f"query has no option '{option}'(?s:.*)to gpu_wcoj.Program"):
            gw.query("h(a) :- r(a, b).", r=[(1, 2)], **{option: value})

    def test_a_misspelled_option_of_query(self):
        with pytest.raises(UsageError, match=r"query has no option 'thread'(?s:.*)Did you mean 'threads'\?"):
            gw.query("h(a) :- r(a, b).", r=[(1, 2)], thread=2)

    @pytest.mark.parametrize("rows", ["r.csv", None, 3])
    def test_what_is_no_table_of_a_relation_that_is_read(self, rows):
        with pytest.raises(TypeMismatchError, match="relation 'r' is not a table: got (?s:.*)(Pass any|Read the f)"):
            gw.query("h(a) :- r(a, b).", r=rows)

    @pytest.mark.parametrize("name", ["\ud800", "a\udcff", 1])
    def test_names_that_no_file_can_take(self, name):
        said = f"the column name {name!a} contains" if isinstance(name, str) else "a column name has the wrong type"
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
        with pytest.raises(gw.GpuWcojError, match="unknown relation 'edges'"):
            gw.Program(TEXT).step({"edges": []})

    def test_a_program_that_is_no_text(self):
        for wrong in (None, Path("rules.dl")):
            with pytest.raises(
                UsageError, match="expected program text or Rules(?s:.*)To run a file, pass its contents"
            ):
                gw.Program(wrong)
            with pytest.raises(UsageError, match="expected query text or Rules(?s:.*)To run a file, pass its contents"):
                gw.query(wrong)

    @pytest.mark.parametrize("option", ["keep", "outputs"])
    def test_heads_that_are_not_there(self, option):
        with pytest.raises(UnknownRelationError, match=r"(?s)unknown relation 'hh'.*Did you mean 'h'"):
            gw.Program(TEXT, **{option: ["hh"]})

    @pytest.mark.parametrize("ask", ["relation", "count", "arity"])
    def test_relations_that_are_not_there(self, ask):
        with pytest.raises(UnknownRelationError, match=r"(?s)unknown relation 'edges'.*Did you mean 'edge'"):
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
        with pytest.raises(UnknownRelationError, match="unknown relation 'edge'"):
            gw.query("h(x) :- edge(x, _).", edges=[(1, 2)])
        with pytest.raises(UnknownRelationError, match="unknown relation 'edges'"):
            gw.view(".decl edge(a, b) h(x) :- edge(x, _).", edges=[(1, 2)])

    def test_every_error_is_caught_by_one_class(self):
        with pytest.raises(GpuWcojError, match="expected ':-'"):
            gw.Program("h(x)")


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

    def test_with_inputs_all_is_checked_at_once(self):
        with pytest.raises(UnknownRelationError, match=f"'blokked'(?s:.*){KNOWN}(?s:.*)Add 'blokked' to inputs="):
            gw.Program(MISSPELT, inputs=["link"])
        with pytest.raises(
            UnknownRelationError, match="unknown relation 'blocket'(?s:.*)are: 'blokked', 'link'"
        ) as caught:
            gw.Program(MISSPELT, inputs=["link", "blocket"])
        assert "Did you mean 'blokked'" in str(caught.value)
        with pytest.raises(UnknownRelationError, match="unknown relation 'way'"):
            gw.Program(MISSPELT, inputs=["link", "blokked", "way"])

    @pytest.mark.parametrize("wrong", ["link", b"link", {"link": ["int64"]}, 5])
    def test_inputs_that_are_no_list(self, wrong):
        with pytest.raises(
            UsageError, match=r"the option 'inputs' has the wrong type(?s:.*)expected a list of names(?s:.*)schema="
        ):
            gw.Program(MISSPELT, inputs=wrong)

    @pytest.mark.parametrize(
        "body", ["lnik(b, c)", "!lnik(b, c)", "n = count : { lnik(b, _) }", "n = sum z : { r(z), !lnik(z, b) }"]
    )
    def test_wherever_an_atom_stands(self, body):
        program = gw.Program(f"h(b) :- link(b, c), {body}.", inputs=None)
        with pytest.raises(UnknownRelationError, match="'lnik'(?s:.*)Did you mean 'link'"):
            program.step({"link": [(1, 2)], **({"r": [(1,)]} if "r(" in body else {})})

    def test_rules_without_a_text_name_the_rule(self):
        x = Variable("x")
        program = gw.Program(Rules((Rule(Atom("h", (x,)), (Atom("r", (x,)), Atom("rr", (x,)))),)))
        with pytest.raises(UnknownRelationError, match=re.escape("unknown relation 'rr', in 'h(x) :- r(x), rr(x).'.")):
            program.step({"r": [(1,)]})

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

    @pytest.mark.parametrize("ask", [gw.query, gw.view])
    def test_query_and_view_say_the_same_and_know_the_heads(self, ask):
        with pytest.raises(
            UnknownRelationError, match=r"unknown relation 'wya' \(line 1, column 46\)(?s:.*)mean 'way'"
        ):
            ask("way(a, b) :- edge(a, b). h(a) :- edge(a, _), wya(a, _).", edge=[(1, 2)])
        with pytest.raises(UnknownRelationError, match=r"'link'(?s:.*)Give its rows, as link=\["):
            ask("h(a) :- link(a, _).")
