"""Heads of a program: which of them are outputs, which are kept, and what can be asked of them."""

from __future__ import annotations

import gpu_wcoj as gw
from gpu_wcoj.query.datalog import parse
from tests.helpers.answers import answer_of, changes_of

PAIRS = "h(x, y) :- e(x, y)."


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


class TestExplain:
    def test_explain_names_relations_and_variables(self):
        shown = gw.Program("h(a, b, c) :- edge(a, b), edge(b, c), edge(a, c).").explain()
        for word in ("edge", "h(a, b, c)", "a", "b", "c"):
            assert word in shown
