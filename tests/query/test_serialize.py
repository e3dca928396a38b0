"""Serialization of rules, and checkpoints of programs in languages other than Datalog."""

from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal

import pytest

import gpu_wcoj as gw
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.desugar import desugar
from gpu_wcoj.query.ir import Atom, Constant, Declaration, Directive, Rule, Rules, Variable
from gpu_wcoj.query.printer import deserialize, serialize
from tests.reference.random_programs import chance_text


def test_a_text_in_datalog_is_its_own():
    text = "h(x) :- r(x). // as written"
    assert serialize(parse(text)) == text
    assert deserialize(text) == parse(text)


@pytest.mark.parametrize("seed", range(20))
def test_programs_in_core_form(seed):
    source = parse(chance_text(random.Random(f"stored {seed}")))
    spelled = Rules(source.rules, source.declarations, source.outputs)
    assert serialize(spelled) == str(spelled)
    lowered = desugar(spelled)
    if lowered is not spelled:
        bare = Rules(lowered.rules, groupings=lowered.groupings, extremes=lowered.extremes, facts=lowered.facts)
        assert deserialize(serialize(bare)) == bare
        assert deserialize(serialize(lowered)) == spelled


def test_every_constant():
    values = (5, True, 1.5, -0.0, 1e300, "\ud83d", 'a"\n', None, Decimal("0.050"), -(2**63))
    terms = tuple(map(Constant, values))
    declared = Declaration("my table", tuple(f"c {i}" for i in range(len(terms))), (None,) * len(terms))
    rules = Rules(
        (Rule(Atom("h#1", (Variable("x?"),)), (Atom("my table", (*terms[:-1], Variable("x?"))),)),), (declared,)
    )
    again = deserialize(serialize(rules))
    assert again == rules
    assert [str(term) for term in again.rules[0].atoms[0].terms] == [
        str(term) for term in rules.rules[0].atoms[0].terms
    ]


def test_lines_that_name_files():
    x = Variable("x")
    named = Directive("input", "once#1", (("filename", "a.csv"),))
    rules = Rules((Rule(Atom("h", (x,)), (Atom("once#1", (x,)),)),), (Declaration("once#1", ("x",), (None,)),))
    rules = replace(rules, directives=(named,))
    assert deserialize(serialize(rules)) == rules


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("SELECT DISTINCT e.src FROM edges e LEFT JOIN edges f ON e.dst = f.src WHERE f.src IS NULL", "sql"),
        ("SELECT COUNT(*) AS n FROM edges", "sql"),
        ("[:find ?a (count ?b) :where [$edges ?a ?b] (not [$edges ?b ?a])]", "edn"),
    ],
)
def test_a_program_of_another_language_goes_on_from_a_checkpoint(text, language, tmp_path):
    view = gw.view(text, edges={"src": [1, 2, 3], "dst": [2, 3, 1]}, language=language)
    view.program.checkpoint(tmp_path)
    again = gw.Program.restore(tmp_path)
    (output,) = view.program.outputs
    assert again.relation(output) == view.snapshot().to_zset()
    change = {"edges": [((1, 2), -1), ((2, 1), 1), ((5, 5), 1)]}
    expected = view.apply(change)
    assert again.step(change)[output] == expected
    assert len(expected) > 0
    again.checkpoint(tmp_path)
    assert gw.Program.restore(tmp_path).relation(output) == view.snapshot().to_zset()
