"""Programs in the engine's core form, as the judge takes them, to see whether they mean what their text means."""

from __future__ import annotations

from collections.abc import Mapping

from gpu_wcoj.query import ir
from gpu_wcoj.query.ir import Rules
from tests.reference.changes import ZSet
from tests.reference.fixpoint import Facts, fixpoint
from tests.reference.program_text import Aggregate, Atom, Call, Literal, Name, Rule, Term, Test, Written


def from_core(rules: Rules) -> Written:
    """The program, rule by rule; facts are rules without a body."""
    best = {one.relation: one for one in rules.extremes}
    found = [Rule(Atom(facts.relation, facts_row)) for facts in rules.facts for facts_row in facts.rows]
    for rule in rules.rules:
        head = _atom(rule.head)
        if head.relation in best:
            column, op = best[head.relation].column, best[head.relation].op
            row = [Aggregate(op, term) if i == column else term for i, term in enumerate(head.terms)]
            head = Atom(head.relation, tuple(row))
        body: list[Literal] = [_atom(atom) for atom in rule.atoms]
        body += [_atom(atom, positive=False) for atom in rule.negated]
        body += [Test("=", Name(one.variable.name), _term(one.call)) for one in rule.computed]
        body += [Test(one.op, _term(one.left), _term(one.right)) for one in rule.comparisons]
        found.append(Rule(head, tuple(body)))
    arities = rules.arity
    for one in rules.groupings:
        names = [Name(f"c{i}") for i in range(arities[one.source])]
        value = None if one.op == "count" else names[one.keys]
        head = Atom(one.relation, (*names[: one.keys], Aggregate(one.op, value)))
        found.append(Rule(head, (Atom(one.source, tuple(names)),)))
    return Written(tuple(found), rules.outputs)


def _atom(atom: ir.Atom, positive: bool = True) -> Atom:
    return Atom(atom.relation, tuple(map(_term, atom.terms)), positive)


def _term(term: ir.Expression) -> Term:
    if isinstance(term, ir.Variable):
        return Name(term.name)
    if isinstance(term, ir.Constant):
        return term.value
    assert isinstance(term, ir.Call), f"{term} is in no core form"
    return Call(term.op, tuple(map(_term, term.arguments)))


def with_demands(program: Written, demands: Mapping[str, str], given: Facts, bag: bool) -> dict[str, ZSet]:
    """The answers, where the inputs of demanded keys hold what the heads behind the recursions find."""
    keys: dict[str, ZSet] = {name: {} for name in demands.values()}
    while True:
        found = fixpoint(program, {**given, **keys}, bag)
        news = {name: found[head] for head, name in demands.items()}
        if news == keys:
            return found
        keys = news
