"""What binds the variables of a query: an order in which its clauses can be worked out, and which variables join.

A clause binds its variables (a pattern, a rule), or needs some of them bound (a predicate, a function's arguments, the
variables that an ``or`` or ``not`` only asks about). Where a text puts a clause does not matter.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from gpu_wcoj.query.edn.clauses import (
    Branch,
    Call,
    Clause,
    Function,
    Not,
    Or,
    Predicate,
    RuleSet,
    Text,
    Var,
    variables_of,
)
from gpu_wcoj.query.edn.where import Clauses, inside

Vars = frozenset[Var]


@dataclass(frozen=True)
class _Order:
    """How far clauses can be worked out.

    Attributes
    ----------
    steps
        Those that can be, in order.
    bound
        The variables that are bound in the end.
    waiting
        Those that cannot be, with what they miss.
    """

    steps: tuple[Clause, ...]
    bound: Vars
    waiting: tuple[tuple[Clause, Vars], ...]


class Scopes:
    """Puts clauses in order, and gives variables that do not join names of their own.

    Attributes
    ----------
    needs
        Per rule, the places that its clauses do not bind, so that callers must.
    """

    def __init__(self, rules: Mapping[str, RuleSet], reader: Clauses) -> None:
        self.rules, self.reader = rules, reader
        self.needs: dict[str, frozenset[int]] = dict.fromkeys(rules, frozenset())
        self.known: dict[tuple[int, Vars], tuple[tuple[Clause, ...], _Order]] = {}
        changed = True
        ways = itertools.cycle((list(rules.items()), list(rules.items())[::-1]))
        while changed:
            changed = False
            for name, rule in next(ways):
                found = frozenset(at for branch in rule.branches for at in self._needed(branch))
                if not found <= self.needs[name]:
                    self.needs[name] |= found
                    self.known.clear()
                    changed = True

    def resolved(self, text: Text, clauses: tuple[Clause, ...], given: Vars = frozenset()) -> tuple[Clause, ...]:
        """Clauses in an order in which they can be worked out; those in ``or`` and ``not``, too."""
        order = self._order(clauses, given)
        self._refuse_waiting(text, order)
        return tuple(self._resolved(text, one, order.bound) for one in order.steps)

    def rule(self, name: str) -> RuleSet:
        """A rule whose clauses are in order."""
        rule = self.rules[name]
        branches = []
        for branch in rule.branches:
            asked = frozenset(
                variable for at, variable in enumerate(branch.head) if rule.required[at] or at in self.needs[name]
            )
            order = self._order(branch.clauses, asked)
            self._refuse_waiting(branch.text, order)
            clauses = tuple(self._resolved(branch.text, one, order.bound) for one in order.steps)
            branches.append(replace(branch, clauses=clauses))
        return replace(rule, branches=tuple(branches))

    def bound(self, clauses: tuple[Clause, ...]) -> Vars:
        """The variables that clauses bind."""
        return self._order(clauses, frozenset()).bound

    def _needed(self, branch: Branch) -> Iterable[int]:
        """The places of a rule's head that a branch needs bound."""
        given: Vars = frozenset()
        while True:
            order = self._order(branch.clauses, given)
            missing = frozenset(one for _, each in order.waiting for one in each) | (set(branch.head) - order.bound)
            wanted = frozenset(branch.head) & missing - given
            if not wanted:
                return [at for at, one in enumerate(branch.head) if one in given]
            given |= wanted - _hoped(order) or wanted

    def _order(self, clauses: tuple[Clause, ...], given: Vars) -> _Order:
        key = id(clauses), given
        if key not in self.known:
            last = self._ordered(clauses, given, frozenset())
            self.known[key] = clauses, self._ordered(clauses, given, last.bound)
        return self.known[key][1]

    def _ordered(self, clauses: tuple[Clause, ...], given: Vars, final: Vars) -> _Order:
        """The order, where variables of `final` are known to be bound in the end."""
        bound = set(given)
        steps: list[Clause] = []
        ready: deque[int] = deque()  # rules and branches are asked last, when all that narrows them down is there
        last = deque(at for at, one in enumerate(clauses) if isinstance(one, (Call, Or)))
        ready.extend(at for at, one in enumerate(clauses) if not isinstance(one, (Call, Or, Not)))
        missing: dict[int, Vars] = {}
        asking: dict[Var, list[int]] = {}
        while ready or last:
            at = ready.popleft() if ready else last.popleft()
            needed, provided = self._links(clauses[at], bound, final)
            missing[at] = needed - bound
            if missing[at]:
                for one in missing[at]:
                    asking.setdefault(one, []).append(at)
                continue
            del missing[at]
            steps.append(clauses[at])
            for one in provided - bound:
                bound.add(one)
                for other in asking.pop(one, ()):
                    queue = last if isinstance(clauses[other], (Call, Or)) else ready
                    if other in missing and other not in queue:
                        queue.append(other)
        for at, clause in enumerate(clauses):
            if isinstance(clause, Not):
                needed, _ = self._links(clause, bound, final)
                if needed - bound:
                    missing[at] = needed - bound
                else:
                    steps.append(clause)
        waiting = tuple((clauses[at], missing[at]) for at in sorted(missing))
        return _Order(tuple(steps), frozenset(bound), waiting)

    def _links(self, clause: Clause, bound: AbstractSet[Var], final: Vars) -> tuple[Vars, Vars]:
        """The variables that a clause needs, and those that it binds."""
        used = frozenset(variables_of(clause))
        if isinstance(clause, Predicate):
            return used, frozenset()
        if isinstance(clause, Function):
            arguments = frozenset(one for one in clause.terms if isinstance(one, Var))
            return arguments, used
        if isinstance(clause, Call):
            asked = self.needs[clause.name]
            required = self.rules[clause.name].required
            needed = frozenset(
                term for at, term in enumerate(clause.terms) if isinstance(term, Var) and (at in asked or required[at])
            )
            return needed, used
        if isinstance(clause, Or):
            found = self._or(clause, used & bound)
            weak = used & final - found.provided
            return found.missing | weak, found.provided
        if isinstance(clause, Not):
            order = self._order(clause.clauses, used & bound)
            missing = frozenset(one for _, each in order.waiting for one in each)
            if clause.variables is not None or not used & bound:
                missing |= used
            return missing, frozenset()
        return frozenset(), used

    def _or(self, clause: Or, bound: Vars) -> _Or:
        used = frozenset(variables_of(clause))
        orders = [self._order(branch, bound) for branch in clause.branches]
        missing = frozenset(one for order in orders for _, each in order.waiting for one in each)
        ends = [order.bound & used for order in orders]
        some = frozenset(one for end in ends for one in end)
        every = frozenset(one for one in some if all(one in end for end in ends))
        missing |= some - every
        missing |= frozenset(clause.required) - bound
        if clause.variables is not None:
            missing |= used - every
        return _Or(missing, every)

    def _resolved(self, text: Text, clause: Clause, bound: Vars) -> Clause:
        """The clause, in a scope where in the end `bound` are bound; variables that do not join are renamed."""
        if not isinstance(clause, (Not, Or)):
            return clause
        used = tuple(dict.fromkeys(variables_of(clause)))
        joins = tuple(one for one in used if one in bound)
        scope = next(self.reader.scopes)
        own = {one: replace(one, scope=scope) for one in used if one not in bound}
        if isinstance(clause, Not):
            inner = tuple(inside(one, own) for one in clause.clauses)
            return replace(clause, variables=joins, clauses=self.resolved(text, inner, frozenset(joins)))
        branches = []
        given = frozenset(joins)
        for branch in clause.branches:
            inner = tuple(inside(one, own) for one in branch)
            branches.append(self.resolved(text, inner, given))
        return replace(clause, variables=joins, branches=tuple(branches))

    def _refuse_waiting(self, text: Text, order: _Order) -> None:
        for clause, missing in order.waiting:
            if isinstance(clause, Not) and not missing & frozenset(variables_of(clause)):
                self._refuse_waiting(text, self._order(clause.clauses, order.bound))
            elif isinstance(clause, Or) and not missing & frozenset(variables_of(clause)):
                for branch in clause.branches:
                    self._refuse_waiting(text, self._order(branch, order.bound))
            names = list(dict.fromkeys(map(str, sorted(missing - _hoped(order) or missing, key=str))))
            shown = ", ".join(f"'{one}'" for one in names)
            what = f"insufficient bindings: {shown} {'is' if len(names) == 1 else 'are'} not bound by another clause"
            raise text.error(what, clause.span)


def _hoped(order: _Order) -> Vars:
    """The variables that clauses which wait would bind."""
    found: set[Var] = set()
    for clause, missing in order.waiting:
        if isinstance(clause, Function):
            found |= {clause.result} - set(clause.terms) if isinstance(clause.result, Var) else set()
        elif isinstance(clause, (Call, Or)):
            found |= set(variables_of(clause)) - missing
    return frozenset(found)


@dataclass(frozen=True)
class _Or:
    """What an ``or`` misses, and what it binds."""

    missing: Vars
    provided: Vars
