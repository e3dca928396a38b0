"""Rules printed as Datalog parse to equal rules, or to renamed ones with equal answers."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import UsageError
from gpu_wcoj.query.datalog import NAME_LENGTH, parse
from gpu_wcoj.query.desugar import desugar
from gpu_wcoj.query.ir import NULL, Aggregate, Atom, Call, Constant, Declaration, Directive, Rule, Rules, Variable
from gpu_wcoj.query.printer import as_datalog
from tests.helpers import recursive_programs
from tests.helpers.long_tests import IS_LONG
from tests.reference.core import with_demands
from tests.reference.fixpoint import fixpoint
from tests.reference.program_text import written
from tests.reference.random_programs import INPUTS, chance_text

LOOPS = {**recursive_programs.CLOSURES, **recursive_programs.SETS}


@pytest.mark.drawn("seed", share=2)
@pytest.mark.parametrize("seed", range(40))
def test_programs_of_chance_are_equal(seed):
    rules = parse(chance_text(random.Random(f"printed {seed}")))
    assert parse(as_datalog(rules)) == rules


@pytest.mark.parametrize("name", LOOPS)
def test_loops_are_equal(name):
    rules = parse(LOOPS[name])
    assert parse(as_datalog(rules)) == rules


@pytest.mark.drawn("bag")
@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
def test_programs_in_core_form_answer_alike(bag):
    """Their helpers have names that no text can spell, and groupings and extremes are no rules."""
    helpers, n_programs = 0, 120 if IS_LONG else 16
    for seed in range(n_programs):
        chance = random.Random(f"printed core {seed}")
        text = chance_text(chance)
        lowered = desugar(parse(text))
        printed = as_datalog(lowered)
        helpers += "#" in str(lowered)
        assert "#" not in printed
        again = written(re.sub(r", \w+ != null", "", str(parse(printed))))  # no input has a null, and the judge none
        demands = {head.replace("#", "_"): name.replace("#", "_") for head, name in lowered.demands.items()}
        given = {
            name: {tuple(chance.choices((0, 1, 2, 3, -2, 7), k=width)): 1 for _ in range(chance.randint(0, 9))}
            for name, width in INPUTS.items()
        }
        expected, found = fixpoint(written(text), given, bag), with_demands(again, demands, given, bag)
        assert {head: found[head] for head in expected} == expected, f"{seed}: {text}\n{printed}"
    assert helpers > n_programs / 2


ODD = (
    "once#1", "once_1", "agg#1", "_", "true", "null", "not", "count", "sum", "strlen", "a b", "a-b", "a_b", "1st", "",
    "#", "größe", '"', "\n", "x?y", "x" * (NAME_LENGTH + 1), "x" * (NAME_LENGTH + 2), "π", "½", "select",
)  # fmt: skip


@pytest.mark.drawn("seed", share=4)
@pytest.mark.parametrize("seed", range(60))
def test_names_that_datalog_cannot_spell(seed):
    """Printed programs with odd names differ only by a one-to-one renaming."""
    chance = random.Random(seed)
    rules = parse(chance_text(chance))
    relations = sorted({atom.relation for rule in rules.rules for atom in (rule.head, *rule.read)})
    names = dict(zip(relations, chance.sample([*ODD, *relations], len(relations)), strict=True))
    variables = sorted(
        {variable.name for rule in rules.rules for variable in every_variable(rule) if not variable.is_wildcard}
    )
    odd = [name for name in ODD if not name.endswith("?")]
    others = dict(zip(variables, chance.sample([*odd, *variables], len(variables)), strict=True))
    spoilt = renamed(rules, names, others)
    again = parse(as_datalog(spoilt))
    assert numbered(again) == numbered(spoilt)


def test_null_safe_variables_keep_their_mark_and_what_may_be_two_stays_two():
    x, y, z = Variable("a#1?"), Variable("a_1?"), Variable("a.1")
    rules = Rules((Rule(Atom("h", (x, y, z)), (Atom("r", (x, y)), Atom("s", (y, z, NULL)))),))
    assert as_datalog(rules) == "h(a_1_2?, a_1?, a_1_3) :- r(a_1_2?, a_1?), s(a_1?, a_1_3, null)."


def test_wildcards_that_stand_twice_are_variables():
    wild, other = Variable("_#1"), Variable("_#2")
    rules = Rules((Rule(Atom("h", (wild,)), (Atom("r", (wild, other)),)),))
    assert as_datalog(rules) == "h(x1) :- r(x1, _)."


def test_what_a_user_knows_by_another_name_is_said():
    x = Variable("x")
    rule = Rule(Atom("my answer", (x,)), (Atom("Order Lines", (x, Variable("_#1"))), Atom("once#1", (x,))))
    declared = Declaration("Order Lines", ("order", 'a "b"\n'), ("int64", None))
    unused = Declaration("nothing", ("x",), (None,))
    named = Directive("input", "Order Lines", (("filename", "a b"),))
    rules = Rules((rule,), (declared, unused), ("my answer",), directives=(named,))
    assert as_datalog(rules, bag=True) == "\n".join(
        [
            "// of bags: run it with bag=True, or --bag",
            '// my_answer is "my answer"',
            '// Order_Lines is "Order Lines"',
            r'.decl Order_Lines(order: int64, "a \"b\"\n")',
            '.input Order_Lines(filename="a b")',
            "my_answer(x) :- Order_Lines(x, _), once_1(x).",
            ".output my_answer",
        ]
    )
    assert parse(as_datalog(rules)).declarations[0].columns == declared.columns


def test_every_kind_of_constant_is_read_as_it_is_shown():
    values = (5, -5, 1.5, -0.0, 1e300, True, False, 'say "hi"\n', "", "\u2028", -(2**63), None)
    terms = tuple(map(Constant, values))
    rules = Rules((Rule(Atom("h", (Variable("x"),)), (Atom("r", (Variable("x"), *terms)),)),))
    assert parse(as_datalog(rules)) == rules


class TestExplain:
    TEXT = "path(a, c) :- edge(a, b), edge(b, c). loop(a) :- path(a, a). far(a) :- path(a, b), b > a."

    def test_a_program_says_itself(self):
        program = gw.Program(self.TEXT)
        assert parse(program.explain(format="datalog")) == program.rules

    def test_chosen_outputs_are_said(self):
        program = gw.Program(self.TEXT, outputs=["far", "path"])
        again = gw.Program(program.explain(format="datalog"))
        assert again.outputs == ("far", "path")
        rows = {"edge": [(1, 2), (2, 1), (2, 3)]}
        assert again.step(rows) == program.step(rows)

    @pytest.mark.parametrize("option", [{"analyze": True}, {"bounds": True}, {"statistics": "here"}])
    def test_it_says_nothing_of_a_plan(self, option):
        with pytest.raises(UsageError, match="Datalog text has no plan"):
            gw.Program(self.TEXT).explain(format="datalog", **option)


def every_variable(body):
    parts = [*body.head.terms] if isinstance(body, Rule) else [body.value]
    parts += [term for atom in (*body.atoms, *body.negated) for term in atom.terms]
    parts += [side for comparison in body.comparisons for side in (comparison.left, comparison.right)]
    while parts:
        part = parts.pop(0)
        if isinstance(part, Variable):
            yield part
        elif isinstance(part, Call):
            parts = [*part.arguments, *parts]
        elif isinstance(part, Aggregate):
            yield from every_variable(part)


def renamed(rules, relations, variables):
    """Return the rules with all names of relations and variables replaced."""

    def term(one):
        if isinstance(one, Variable):
            return one if one.is_wildcard else Variable(variables[one.name])
        if isinstance(one, Call):
            return replace(one, arguments=tuple(map(term, one.arguments)))
        return body(replace(one, value=term(one.value))) if isinstance(one, Aggregate) else one

    def atom(one):
        return replace(one, relation=relations[one.relation], terms=tuple(map(term, one.terms)))

    def body(one):
        return replace(
            one,
            atoms=tuple(map(atom, one.atoms)),
            negated=tuple(map(atom, one.negated)),
            comparisons=tuple(replace(two, left=term(two.left), right=term(two.right)) for two in one.comparisons),
        )

    return Rules(tuple(body(replace(rule, head=atom(rule.head))) for rule in rules.rules))


def numbered(rules):
    """The rules with relations and variables numbered in the order in which they first stand."""
    relations = {}
    for rule in rules.rules:
        for atom in (rule.head, *rule.read):
            relations.setdefault(atom.relation, f"r{len(relations)}")
    found = []
    for rule in rules.rules:
        variables = {}
        for variable in every_variable(rule):
            variables.setdefault(variable.name, f"v{len(variables)}")
        found += renamed(Rules((rule,)), relations, variables).rules
    return found
