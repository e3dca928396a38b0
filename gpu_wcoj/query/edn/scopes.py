"""Scoping: an evaluation order of clauses, and the variables on which they join.

A clause binds its variables (a pattern, a rule), or needs some of them bound (a predicate, a function's arguments, the
variables that an ``or`` or ``not`` only tests). The order of clauses in the text does not matter.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from gpu_wcoj.query.edn.ast import (
    Branch,
    Clause,
    Function,
    FunctionCall,
    Not,
    Or,
    Predicate,
    RuleSet,
    Text,
    Var,
    variables_of,
)
from gpu_wcoj.query.edn.parse import ClauseReader, substitute

Vars = frozenset[Var]


@dataclass(frozen=True)
class _Order:
    """An evaluation order of clauses, as far as their variables can be bound.

    Attributes
    ----------
    steps
        The clauses that can be evaluated, in order.
    bound
        The variables that are bound after all steps.
    waiting
        The other clauses, with their unbound variables.
    """

    steps: tuple[Clause, ...]
    bound: Vars
    waiting: tuple[tuple[Clause, Vars], ...]


class Scopes:
    """Resolver of scopes: orders clauses, and renames local variables.

    Attributes
    ----------
    needs
        Per rule, the arguments that its clauses do not bind and its callers must bind.
    """

    def __init__(self, rules: Mapping[str, RuleSet], reader: ClauseReader) -> None:
        self.rules, self.reader = rules, reader
        self.needs: dict[str, frozenset[int]] = dict.fromkeys(rules, frozenset())
        self.memo: dict[tuple[int, Vars], tuple[tuple[Clause, ...], _Order]] = {}
        changed = True
        orders = itertools.cycle((list(rules.items()), list(rules.items())[::-1]))
        while changed:
            changed = False
            for name, rule in next(orders):
                unbound = frozenset(place for branch in rule.branches for place in self._unbound_places(branch))
                if not unbound <= self.needs[name]:
                    self.needs[name] |= unbound
                    self.memo.clear()
                    changed = True

    def resolve(self, text: Text, clauses: tuple[Clause, ...], outer: Vars = frozenset()) -> tuple[Clause, ...]:
        """Return clauses in evaluation order, recursively within ``or`` and ``not``."""
        order = self._order(clauses, outer)
        self._refuse_waiting(text, order)
        return tuple(self._resolve_clause(text, step, order.bound) for step in order.steps)

    def rule(self, name: str) -> RuleSet:
        """Return a rule with its clauses in evaluation order."""
        rule = self.rules[name]
        branches = []
        for branch in rule.branches:
            needed = frozenset(
                variable
                for place, variable in enumerate(branch.head)
                if rule.required[place] or place in self.needs[name]
            )
            order = self._order(branch.clauses, needed)
            self._refuse_waiting(branch.text, order)
            clauses = tuple(self._resolve_clause(branch.text, step, order.bound) for step in order.steps)
            branches.append(replace(branch, clauses=clauses))
        return replace(rule, branches=tuple(branches))

    def bound(self, clauses: tuple[Clause, ...]) -> Vars:
        """Return the variables that clauses bind."""
        return self._order(clauses, frozenset()).bound

    def _unbound_places(self, branch: Branch) -> Iterable[int]:
        """Return the positions in a rule's head that a branch needs bound."""
        bound: Vars = frozenset()
        while True:
            order = self._order(branch.clauses, bound)
            missing = frozenset(variable for _, each in order.waiting for variable in each) | (
                set(branch.head) - order.bound
            )
            needed = frozenset(branch.head) & missing - bound
            if not needed:
                return [place for place, variable in enumerate(branch.head) if variable in bound]
            bound |= needed - _bindable(order) or needed

    def _order(self, clauses: tuple[Clause, ...], outer: Vars) -> _Order:
        key = id(clauses), outer
        if key not in self.memo:
            preliminary = self._compute_order(clauses, outer, frozenset())
            self.memo[key] = clauses, self._compute_order(clauses, outer, preliminary.bound)
        return self.memo[key][1]

    def _compute_order(self, clauses: tuple[Clause, ...], outer: Vars, final: Vars) -> _Order:
        """Compute the order, given that the variables of `final` will be bound at the end."""
        bound = set(outer)
        steps: list[Clause] = []
        ready: deque[int] = deque()  # calls and ``or`` come last, when their arguments are restricted
        deferred = deque(position for position, clause in enumerate(clauses) if isinstance(clause, (FunctionCall, Or)))
        ready.extend(
            position for position, clause in enumerate(clauses) if not isinstance(clause, (FunctionCall, Or, Not))
        )
        missing: dict[int, Vars] = {}
        asking: dict[Var, list[int]] = {}
        while ready or deferred:
            position = ready.popleft() if ready else deferred.popleft()
            needed, provided = self._links(clauses[position], bound, final)
            missing[position] = needed - bound
            if missing[position]:
                for variable in missing[position]:
                    asking.setdefault(variable, []).append(position)
                continue
            del missing[position]
            steps.append(clauses[position])
            for variable in provided - bound:
                bound.add(variable)
                for dependent in asking.pop(variable, ()):
                    queue = deferred if isinstance(clauses[dependent], (FunctionCall, Or)) else ready
                    if dependent in missing and dependent not in queue:
                        queue.append(dependent)
        for position, clause in enumerate(clauses):
            if isinstance(clause, Not):
                needed, _ = self._links(clause, bound, final)
                if needed - bound:
                    missing[position] = needed - bound
                else:
                    steps.append(clause)
        waiting = tuple((clauses[position], missing[position]) for position in sorted(missing))
        return _Order(tuple(steps), frozenset(bound), waiting)

    def _links(self, clause: Clause, bound: AbstractSet[Var], final: Vars) -> tuple[Vars, Vars]:
        """Return the variables that a clause needs, and the variables that it binds."""
        used = frozenset(variables_of(clause))
        if isinstance(clause, Predicate):
            return used, frozenset()
        if isinstance(clause, Function):
            arguments = frozenset(term for term in clause.terms if isinstance(term, Var))
            return arguments, used
        if isinstance(clause, FunctionCall):
            unbound_places = self.needs[clause.name]
            required = self.rules[clause.name].required
            needed = frozenset(
                term
                for place, term in enumerate(clause.terms)
                if isinstance(term, Var) and (place in unbound_places or required[place])
            )
            return needed, used
        if isinstance(clause, Or):
            effect = self._or(clause, used & bound)
            weak = used & final - effect.provided
            return effect.missing | weak, effect.provided
        if isinstance(clause, Not):
            order = self._order(clause.clauses, used & bound)
            missing = frozenset(variable for _, each in order.waiting for variable in each)
            if clause.variables is not None or not used & bound:
                missing |= used
            return missing, frozenset()
        return frozenset(), used

    def _or(self, clause: Or, bound: Vars) -> _Or:
        used = frozenset(variables_of(clause))
        orders = [self._order(branch, bound) for branch in clause.branches]
        missing = frozenset(variable for order in orders for _, each in order.waiting for variable in each)
        ends = [order.bound & used for order in orders]
        some = frozenset(variable for end in ends for variable in end)
        every = frozenset(variable for variable in some if all(variable in end for end in ends))
        missing |= some - every
        missing |= frozenset(clause.required) - bound
        if clause.variables is not None:
            missing |= used - every
        return _Or(missing, every)

    def _resolve_clause(self, text: Text, clause: Clause, bound: Vars) -> Clause:
        """Return a clause for a scope that binds `bound`, with its local variables renamed."""
        if not isinstance(clause, (Not, Or)):
            return clause
        used = tuple(dict.fromkeys(variables_of(clause)))
        joins = tuple(variable for variable in used if variable in bound)
        scope = next(self.reader.scopes)
        replacements = {variable: replace(variable, scope=scope) for variable in used if variable not in bound}
        if isinstance(clause, Not):
            inner = tuple(substitute(inner_clause, replacements) for inner_clause in clause.clauses)
            return replace(clause, variables=joins, clauses=self.resolve(text, inner, frozenset(joins)))
        branches = []
        joined = frozenset(joins)
        for branch in clause.branches:
            inner = tuple(substitute(inner_clause, replacements) for inner_clause in branch)
            branches.append(self.resolve(text, inner, joined))
        return replace(clause, variables=joins, branches=tuple(branches))

    def _refuse_waiting(self, text: Text, order: _Order) -> None:
        for clause, missing in order.waiting:
            if isinstance(clause, Not) and not missing & frozenset(variables_of(clause)):
                self._refuse_waiting(text, self._order(clause.clauses, order.bound))
            elif isinstance(clause, Or) and not missing & frozenset(variables_of(clause)):
                for branch in clause.branches:
                    self._refuse_waiting(text, self._order(branch, order.bound))
            names = list(dict.fromkeys(map(str, sorted(missing - _bindable(order) or missing, key=str))))
            listing = ", ".join(f"'{name}'" for name in names)
            what = f"insufficient bindings: {listing} {'is' if len(names) == 1 else 'are'} not bound by another clause"
            raise text.error(what, clause.span)


def _bindable(order: _Order) -> Vars:
    """Return the variables that the waiting clauses would bind."""
    variables: set[Var] = set()
    for clause, missing in order.waiting:
        if isinstance(clause, Function):
            variables |= {clause.result} - set(clause.terms) if isinstance(clause.result, Var) else set()
        elif isinstance(clause, (FunctionCall, Or)):
            variables |= set(variables_of(clause)) - missing
    return frozenset(variables)


@dataclass(frozen=True)
class _Or:
    """The variables that an ``or`` needs, and the variables that it binds."""

    missing: Vars
    provided: Vars
