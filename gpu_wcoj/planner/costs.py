"""What orders of a delta path cost, as far as relations are known: in probes, for one changed row.

Values are taken to be independent of each other, and the values that fewer rows have to be among those that more have:
at a level, the atom of the smallest degree proposes, and another one holds a proposed value with the probability of
its own degree by the number of values that the variable has. A value that was met through rows has more rows below it
than one drawn from the distinct values; where that degree is known (see `gpu_wcoj.planner.statistics`), it is taken.
Orders serve ticks that count rows and ticks that list them, so they are compared by the geometric mean of both costs.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from gpu_wcoj.join.path import Check, Condition, names_of
from gpu_wcoj.planner.body import Body, BodyAtom
from gpu_wcoj.planner.draft import KnownRelations, Order
from gpu_wcoj.planner.expected import Expected

PREFIX, WIDTH, PROPOSAL, PROBE, LOOKUP = 0.7, 0.25, 1.0, 0.5, 0.5
"""What it costs to bring a prefix to a level, to ask an atom for its width there, to look at a proposed value, to
search it in another atom, and to search it in an atom alone, afterwards."""

CHANGES = 100.0
"""Changed rows that are taken to come together: what they bind may look alike."""

RANGE = 0.5
"""The share of rows that a comparison by order leaves."""


@dataclass(eq=False)
class Estimator:
    """One delta path of a body.

    Attributes
    ----------
    seed
        The atom that starts it, negative for a negated one.

    Examples
    --------
    One new edge of a graph of 10,000 edges, 100 of them at every vertex: 100 candidates, all of which close a triangle.

    >>> from gpu_wcoj.planner.passes.examples import drafted
    >>> from gpu_wcoj.planner.passes.normalise import normalised
    >>> draft = drafted("t(a, b, c) :- e(a, b), e(b, c), e(a, c).", [normalised], sizes={"e": 10_000})
    >>> estimator = Estimator(draft.rules[0].normalised, 0, draft.setting.known)
    >>> [(one.variable, one.proposed, one.rows) for one in estimator.levels(Order(0, ("c",), (None,)))]
    [('', 1.0, 1.0), ('c', 100.0, 100.0)]
    """

    body: Body
    seed: int
    known: KnownRelations
    is_known: bool = field(init=False)
    _others: dict[int, BodyAtom] = field(init=False)
    _values: dict[str, float] = field(init=False)
    _degrees: dict[tuple[int, frozenset[str], str], float] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._others = {number: atom for number, atom in enumerate(self.body.atoms) if number != self.seed}
        self._values = {}
        self.is_known = all(self.known.rows(atom.relation) is not None for atom in self.body.atoms)
        if self.is_known:
            for atom in self.body.atoms:
                for name in atom.variables:
                    found = self.known.values(atom, name) or 1.0
                    self._values[name] = max(self._values.get(name, 1.0), found)

    @property
    def seeded(self) -> tuple[str, ...]:
        """The seed's variables."""
        atoms = self.body.atoms if self.seed >= 0 else self.body.negated
        return atoms[self.seed].variables

    def holding(self, name: str) -> list[int]:
        """The other atoms that hold a variable."""
        return [number for number, atom in self._others.items() if name in atom.variables]

    def start(self) -> float:
        """Prefixes that the other atoms leave of one changed row, as far as its variables tell."""
        seeded = set(self.seeded)
        rows = 1.0
        for atom in self._others.values():
            shared = [name for name in atom.variables if name in seeded]
            if shared:
                levels = self.known.levels(atom, [*shared, *(name for name in atom.variables if name not in seeded)])
                assert levels is not None
                chance = levels.distinct[len(shared) - 1]
                for name in shared:
                    chance /= self._values[name]
                rows *= min(chance, 1.0)
        return rows * self._kept((), seeded)

    def level(self, bound: Collection[str], name: str, via: int | None = None) -> tuple[float, float, float]:
        """Binding one more variable: the values proposed for a prefix, the prefixes left of it, and the cost."""
        holding = self.holding(name)
        degrees = {number: self._degree(number, bound, name) for number in holding}
        first = via if via is not None else min(holding, key=lambda number: (degrees[number], number))
        proposed = rows = degrees[first]
        if via is None:
            cost = PREFIX + WIDTH * len(holding) + proposed * (PROPOSAL + PROBE * (len(holding) - 1))
        else:
            cost = PREFIX + WIDTH + proposed * PROPOSAL
        for number in holding:
            if number != first:
                if via is not None:
                    cost += rows * (PREFIX + LOOKUP)
                rows *= min(degrees[number] / self._values[name], 1.0)
        return proposed, rows * self._kept(bound, {*bound, name}), cost

    def levels(self, order: Order) -> tuple[Expected, ...]:
        """What is expected of each level."""
        return self._along(order)[0]

    def cost(self, order: Order) -> float:
        """What the path is expected to cost: the geometric mean of counting its rows and of listing them."""
        return math.sqrt(self.cost_of_counting(order) * self._along(order)[1])

    def cost_of_counting(self, order: Order) -> float:
        """What it costs where prefixes that look alike to what is left to bind go on as one.

        Values that nothing further hangs on are not looked at.
        """
        total = rows = self.start()
        bound = set(self.seeded)
        left = list(order.variables)
        for name, via in zip(order.variables, order.via, strict=True):
            left.remove(name)
            needed = self._needed({*bound, name}, left)
            if len(self.holding(name)) == 1 and name not in needed and name not in self._spoken:
                total += rows * (PREFIX + WIDTH)
            else:
                _, kept, cost = self.level(bound, name, via)
                total += rows * cost
                rows *= kept
            bound.add(name)
            free = [one for one in needed if one not in self.seeded]
            rows = min(rows, self._distinct(free), self._distinct(needed) / CHANGES)
        return total

    @cached_property
    def _spoken(self) -> frozenset[str]:
        """The variables that are compared, calculated with or looked for in negated atoms."""
        checks: tuple[Check, ...] = (*self.body.conditions, *self.body.calculations)
        read = [name for check in checks for name in names_of(check)]
        return frozenset((*read, *(name for atom in self.body.negated for name in atom.variables)))

    def _needed(self, bound: Collection[str], left: Collection[str]) -> list[str]:
        """The bound variables that what is left to bind hangs on."""
        found = set(self._spoken) if not self._spoken.isdisjoint(left) else set()
        for atom in self._others.values():
            if not set(atom.variables).isdisjoint(left):
                found.update(atom.variables)
        return [name for name in self._values if name in found and name in bound]

    def _distinct(self, names: Collection[str]) -> float:
        """How many bindings of some variables there can be."""
        found = math.prod(self._values[name] for name in names)
        for atom in self._others.values():
            if sum(name in names for name in atom.variables) > 1:
                rest = math.prod(self._values[name] for name in names if name not in atom.variables)
                found = min(found, rest * (self.known.rows(atom.relation) or 1.0))
        return found

    def _along(self, order: Order) -> tuple[tuple[Expected, ...], float]:
        rows = self.start()
        found, total = [Expected("", 1.0, rows)], 1.0
        bound = set(self.seeded)
        for name, via in zip(order.variables, order.via, strict=True):
            proposed, left, cost = self.level(bound, name, via)
            if name == order.variables[-1] and len(self.holding(name)) == 1:
                cost -= proposed * PROPOSAL  # these are rows of the answer, which every order lists
            total += rows * cost
            found.append(Expected(name, rows * proposed, rows * left))
            rows *= left
            bound.add(name)
        return tuple(found), total

    def _degree(self, number: int, bound: Collection[str], name: str) -> float:
        """Values of a variable that an atom has below what is bound."""
        atom = self._others[number]
        before = frozenset(one for one in atom.variables if one in bound)
        key = number, before, name
        if key not in self._degrees:
            after = [one for one in atom.variables if one not in before and one != name]
            levels = self.known.levels(atom, [*sorted(before), name, *after])
            assert levels is not None
            self._degrees[key] = levels.degree(len(before))
        return self._degrees[key]

    def _kept(self, before: Collection[str], after: Collection[str]) -> float:
        """The share of rows that the conditions leave that are due now."""
        share = 1.0
        for one in _due(self.body.conditions, before, after):
            if one.op == "=":
                share /= self._values.get(one.variable, 1.0)
            elif one.op != "!=":
                share *= RANGE
        return share


def _due(conditions: Sequence[Condition], before: Collection[str], after: Collection[str]) -> Iterable[Condition]:
    for one in conditions:
        names = [name for name in (one.variable, one.other) if isinstance(name, str)]
        if all(name in after for name in names) and not all(name in before for name in names):
            yield one
