"""Equivalence relations: the rules that close a relation to a reflexive, symmetric and transitive one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpu_wcoj.query.ir import Atom, Directive, Rule, Rules, Variable

_X, _Y, _Z = map(Variable, "xyz")


def with_equivalences(program: Rules, relations: Iterable[str]) -> Rules:
    """Return a program in which these relations of two columns are closed to equivalences.

    What rules derive goes to a relation of pairs, which the closure follows in both directions: for a class of n
    elements with m pairs that takes n * m derivations. A relation that takes rows is joined with itself instead.

    Examples
    --------
    >>> x, y = map(Variable, "xy")
    >>> program = Rules((Rule(Atom("same", (x, y)), (Atom("edge", (x, y)),)),), outputs=("same",))
    >>> print(with_equivalences(program, ["same"]))
    same_pairs(x, y) :- edge(x, y).
    same(x, y) :- same_pairs(x, y).
    same(y, x) :- same_pairs(x, y).
    same(x, z) :- same(x, y), same_pairs(y, z).
    same(x, z) :- same(x, y), same_pairs(z, y).
    .output same
    """
    for relation in relations:
        taken = {*program.heads, *program.inputs, *program.arity}
        if relation in program.inputs or relation not in program.heads:
            closure = (
                Rule(Atom(relation, (_Y, _X)), (Atom(relation, (_X, _Y)),)),
                Rule(Atom(relation, (_X, _Z)), (Atom(relation, (_X, _Y)), Atom(relation, (_Y, _Z)))),
            )
            line = Directive("input", relation)
            is_named = any((one.kind, one.relation) == ("input", relation) for one in program.directives)
            directives = program.directives if is_named else (line, *program.directives)
            program = replace(program, rules=(*program.rules, *closure), directives=directives)
            continue
        suffix, pairs = 1, f"{relation}_pairs"
        while pairs in taken:
            suffix += 1
            pairs = f"{relation}_pairs_{suffix}"
        rules = [
            replace(rule, head=replace(rule.head, relation=pairs)) if rule.head.relation == relation else rule
            for rule in program.rules
        ]
        pair = Atom(pairs, (_X, _Y))
        closure = (
            Rule(Atom(relation, (_X, _Y)), (pair,)),
            Rule(Atom(relation, (_Y, _X)), (pair,)),
            Rule(Atom(relation, (_X, _Z)), (Atom(relation, (_X, _Y)), Atom(pairs, (_Y, _Z)))),
            Rule(Atom(relation, (_X, _Z)), (Atom(relation, (_X, _Y)), Atom(pairs, (_Z, _Y)))),
        )
        program = replace(program, rules=(*rules, *closure))
    return program
