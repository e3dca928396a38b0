"""Full Datalog through programs: facts, inputs that are heads, and the helpers that nobody sees."""

from __future__ import annotations

import numpy as np
import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import (
    CalculationError,
    SchemaError,
    TypeMismatchError,
    UnknownRelationError,
    WeightOverflowError,
)
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.ir import Rules

EXAMPLE = """
    reach(x, y) :- edge(x, y).
    reach(x, z) :- reach(x, y), edge(y, z).
    orphan(x)   :- node(x), !reach(0, x).
    fanout(x, n) :- node(x), n = count : { edge(x, _) }.      // 0 for a node without edges
"""
FACTS = """
    start(1). weight(2, "two"). weight(3, "three" ).
    hop(y) :- start(x), edge(x, y).
    hop(z) :- hop(y), edge(y, z).
    named(x, s) :- hop(x), weight(x, s).
"""


def rows(answers):
    return {name: answer.to_dict() for name, answer in answers.items()}


class TestFacts:
    def test_they_come_with_the_first_tick_and_once(self):
        program = gw.Program(FACTS)
        assert program.inputs == ("edge",)
        assert rows(program.step({"edge": [(1, 2), (2, 3)]})) == {"named": {(2, "two"): 1, (3, "three"): 1}}
        assert program.relation("start").to_dict() == {(1,): 1}
        assert rows(program.step({"edge": [((1, 2), -1)]})) == {"named": {(2, "two"): -1, (3, "three"): -1}}
        assert rows(program.step({"edge": [(1, 3)]})) == {"named": {(3, "three"): 1}}

    @pytest.mark.parametrize("first", ["step", "load", "step_counts", "step_pieces"])
    @pytest.mark.parametrize("changes", [{}, {"edge": []}, {"edge": gw.ZSet.from_rows([])}, {"edge": [(1, 2)]}])
    def test_whatever_the_first_tick_is(self, first, changes):
        program = gw.Program(FACTS, outputs=["weight", "named"], inputs=["edge"])
        ways = {"step_pieces": lambda given: program.step_pieces(given, lambda name, piece: None)}
        found = ways.get(first, getattr(program, first))(changes)
        if first == "step":
            assert len(found["weight"]) == 2
        elif first != "load":
            assert found["weight"].inserted == 2
        assert program.count("weight") == 2
        program.step({"edge": [(1, 2)]})
        assert program.relation("named").to_dict() == {(2, "two"): 1}
        assert program.relation("weight").to_dict() == {(2, "two"): 1, (3, "three"): 1}

    def test_before_the_first_tick_there_is_nothing(self):
        program = gw.Program(FACTS)
        assert program.count("start") == 0
        assert len(program.relation("weight")) == 0

    def test_a_first_tick_that_fails_does_not_take_them_in(self):
        program = gw.Program(FACTS)
        with pytest.raises(TypeMismatchError):
            program.step({"edge": [("a", "b")]})
        assert program.last_tick.tick == -1
        assert program.count("weight") == 0
        assert rows(program.step({"edge": [(1, 2)]})) == {"named": {(2, "two"): 1}}

    def test_after_a_restart(self, tmp_path):
        program = gw.Program(FACTS)
        program.checkpoint(tmp_path / "before")
        program.step({"edge": [(1, 2)]})
        program.checkpoint(tmp_path / "after")
        for place, expected in (("before", {(2, "two"): 1, (3, "three"): 1}), ("after", {(3, "three"): 1})):
            again = gw.Program.restore(tmp_path / place)
            assert again.inputs == ("edge",)
            assert rows(again.step({"edge": [(1, 2), (2, 3)]})) == {"named": expected}
            assert again.relation("named").to_dict() == {(2, "two"): 1, (3, "three"): 1}

    def test_in_bags(self):
        program = gw.Program("f(1). f(1). f(2). h(x) :- f(x), r(y).", bag=True)
        assert rows(program.step({"r": [((5,), 3)]})) == {"h": {(1,): 3, (2,): 3}}

    def test_a_query_needs_no_relations(self):
        assert gw.query('h(1, "a"). h(2, "b").').rows(weights=True) == [((1, "a"), 1), ((2, "b"), 1)]
        assert gw.query("h(x) :- x = 2 * 3, x > 5.").rows(weights=True) == [((6,), 1)]
        assert gw.query("h(n) :- n = count : { r(_) }.", r=np.empty((0, 1), np.int64)).rows(weights=True) == [((0,), 1)]
        assert gw.query("h(1) :- !r(5).", r=[(4,)]).rows(weights=True) == [((1,), 1)]
        assert gw.query("h(1) :- !r(5).", r=[(5,)]).rows(weights=True) == []


class TestInputsThatAreHeads:
    TEXT = ".decl edge(a: int64, b: int64)\n.input edge\nedge(y, x) :- edge(x, y). edge(8, 9). p(x) :- edge(x, x)."

    def test_its_rows_are_what_is_fed_and_what_is_derived(self):
        program = gw.Program(self.TEXT, outputs=["edge", "p"])
        assert (program.inputs, program.heads) == (("edge",), ("edge", "p"))
        found = rows(program.step({"edge": [(1, 2), (3, 3)]}))
        assert found["edge"] == {(1, 2): 1, (2, 1): 1, (3, 3): 1, (8, 9): 1, (9, 8): 1}
        assert found["p"] == {(3,): 1}
        assert rows(program.step({"edge": [(2, 1), ((8, 9), -1)]})) == {"edge": {}, "p": {}}
        assert program.last_tick.ignored == {"edge": 1}
        assert rows(program.step({"edge": [((1, 2), -1)]})) == {"edge": {}, "p": {}}
        assert rows(program.step({"edge": [((2, 1), -1)]}))["edge"] == {(1, 2): -1, (2, 1): -1}

    def test_names_and_types_are_those_that_are_declared(self):
        program = gw.Program(self.TEXT, outputs=["edge"])
        assert program.step({"edge": {"b": [2], "a": [1]}})["edge"].to_dict() == {
            (1, 2): 1, (2, 1): 1, (8, 9): 1, (9, 8): 1,
        }  # fmt: skip
        assert program.relation("edge").names == ("a", "b")
        with pytest.raises(TypeMismatchError, match=r"relation 'edge', column 0 \('a'\) is of type 'string'"):
            program.step({"edge": [("x", "y")]})

    def test_a_schema_may_say_them_too(self):
        program = gw.Program(".input e\ne(y, x) :- e(x, y).", schema={"e": {"src": "int32", "dst": "int32"}})
        found = program.step({"e": {"dst": [2], "src": [1]}})["e"]
        assert found.to_dict() == {(1, 2): 1, (2, 1): 1}
        assert found.names == ("src", "dst")

    def test_after_a_restart(self, tmp_path):
        program = gw.Program(self.TEXT)
        program.step({"edge": [(1, 2)]})
        program.checkpoint(tmp_path / "c")
        again = gw.Program.restore(tmp_path / "c")
        assert again.inputs == ("edge",)
        again.step({"edge": [((1, 2), -1)]})
        assert again.relation("edge").to_dict() == {(8, 9): 1, (9, 8): 1}

    def test_overflow_names_it(self):
        program = gw.Program(".input e\ne(x) :- r(x).", bag=True)
        program.step({"e": [((1,), 2**62)], "r": [((1,), 1)]})
        with pytest.raises(WeightOverflowError, match=r"relation 'e', row \(1,\)"):
            program.step({"e": [((1,), 2**62)]})

    def test_other_heads_take_no_rows(self):
        with pytest.raises(
            SchemaError, match=r"'p' is defined by rules(?s:.*)A line '.input p' makes the head an input, too"
        ):
            gw.Program(self.TEXT).step({"p": [(1,)]})


class TestHelpers:
    def test_nobody_sees_them(self, tmp_path):
        program = gw.Program(EXAMPLE)
        assert program.inputs == ("edge", "node")
        assert program.heads == ("reach", "orphan", "fanout")
        assert program.outputs == ("orphan", "fanout")
        found = rows(program.step({"edge": [(0, 1), (1, 2)], "node": [(1,), (2,), (3,)]}))
        assert found == {"orphan": {(3,): 1}, "fanout": {(1, 1): 1, (2, 0): 1, (3, 0): 1}}
        assert set(program.last_tick.ignored) == {"edge", "node"}
        for name in ("rule#1", "agg#1", "has#1"):
            with pytest.raises(UnknownRelationError, match=f"unknown relation '{name}'") as caught:
                program.relation(name)
            assert "#" not in str(caught.value).split("\n", 1)[1]
            with pytest.raises(UnknownRelationError):
                program.step({name: []})
            with pytest.raises(UnknownRelationError):
                gw.Program(EXAMPLE, keep=[name])
        assert "agg#1" in program.explain()
        program.checkpoint(tmp_path / "c")
        again = gw.Program.restore(tmp_path / "c")
        change = {"edge": [((0, 1), -1), (2, 1)]}
        assert rows(again.step(change)) == rows(program.step(change))
        assert again.relation("fanout").to_dict() == {(1, 1): 1, (2, 1): 1, (3, 0): 1}

    def test_rules_without_a_text_can_be_stored_too(self, tmp_path):
        rules = Rules(parse(EXAMPLE).rules)
        program = gw.Program(rules)
        program.step({"edge": [(0, 1)], "node": [(1,)]})
        program.checkpoint(tmp_path / "c")
        assert gw.Program.restore(tmp_path / "c").relation("fanout").to_dict() == {(1, 0): 1}

    def test_outputs_are_what_no_other_recursion_reads(self):
        text = "even(0) :- n(0). even(y) :- odd(x), n(y), y = x + 1. odd(y) :- even(x), n(y), y = x + 1."
        assert gw.Program(text).outputs == ("even", "odd")
        assert gw.Program(text + " h(x) :- r(x), !odd(x).").outputs == ("even", "h")
        assert gw.Program(text + " h(n) :- n = count : { even(_) }.").outputs == ("odd", "h")

    def test_names_of_columns(self):
        program = gw.Program("h(x, x + 1, y, 5) :- r(x), y = x * 2.")
        assert program.step({"r": [(1,)]})["h"].names == ("x", "c1", "y", "c3")
        assert gw.Program("h(x, sum(v)) :- r(x, v).").step({"r": [(1, 2)]})["h"].names == ("x", "c1")

    def test_what_has_no_value_undoes_the_tick(self):
        program = gw.Program("h(x / y) :- r(x, y).")
        program.step({"r": [(6, 3)]})
        with pytest.raises(CalculationError, match="divides by zero"):
            program.step({"r": [(1, 1), (1, 0)]})
        assert program.relation("r").to_dict() == {(6, 3): 1}
        assert rows(program.step({"r": [(1, 1)]})) == {"h": {(1,): 1}}
