"""The order in which each delta path binds its variables."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from gpu_wcoj.join.path import Calculation, Condition, names_of
from gpu_wcoj.planner.bits import Bits
from gpu_wcoj.planner.body import Body, BodyAtom
from gpu_wcoj.planner.costs import Estimator
from gpu_wcoj.planner.draft import NOTHING, Draft, KnownRelations, Order, Strategy
from gpu_wcoj.planner.equalities import standing_for
from gpu_wcoj.planner.expected import Foreseen

CLEARLY = 0.7
"""An order is left for one whose expected cost is less than this share of its own."""

OFFER = 4.0
"""What it costs to offer a row another order. Listing what a row brings has to cost as much, and so many times as much
as the other order is dearer."""

MOST_ATOMS = 24
"""The orders of longer bodies are not compared."""


def ordered(draft: Draft) -> Draft:
    """Choose an order for every atom of a body as the seed, negated ones first.

    A path binds its seed's variables, then, one by one, the variable that most atoms already reach (the most
    constrained), of these one that the head keeps, of these one in the smallest relation, of these the first in the
    body. Where relations are known, that order is compared with others, one per variable that may come first and then
    greedily by expected rows, and left for one that is clearly cheaper. ``binary`` takes atoms one after the other
    instead, each with all of its variables: orders are compared by the atom that comes first. ``auto`` compares these,
    too: as they are, with all atoms at once at the levels that close a cycle, and with all atoms at once everywhere.

    Hints come first: their variables are bound in the order given, all others after them.

    No more than atoms squared times variables orders are looked at.

    Examples
    --------
    >>> from gpu_wcoj.planner.passes.examples import drafted
    >>> from gpu_wcoj.planner.passes.normalise import normalised
    >>> text = "h(a, b, c, d) :- r(a, b), s(b, c), t(c, d)."
    >>> before = drafted(text, [normalised])
    >>> print(ordered(before))
    h: h(a, b, c, d) :- r(a, b), s(b, c), t(c, d).
      0: r(a, b)
      1: s(b, c)
      2: t(c, d)
      change of 0: c, d
      change of 1: a, d
        or d, a
      change of 2: b, a
    >>> print(ordered(drafted(text, [normalised], strategy="binary")).rules[0].orders[1][0])
    change of 1: a by 0, d by 2
    >>> print(ordered(drafted(text, [normalised], order={"h": ["d", "a"]})).rules[0].orders[1][0])
    change of 1: d, a
    """
    rules, candidates = [], draft.candidates
    for one in draft.rules:
        chosen = []
        for seed in range(-len(one.normalised.negated), len(one.normalised.atoms)):
            chooser = Chooser(one.normalised, seed, draft.setting.known, draft.setting.strategy)
            chosen.append(chooser.choose(standing_for(draft.setting.hints.get(one.head, ()), one.rule)))
            candidates += chooser.candidates
        rules.append(replace(one, orders=tuple(chosen)))
    return replace(draft, rules=tuple(rules), candidates=candidates)


@dataclass(eq=False)
class Chooser:
    """Chooses for one seed.

    Attributes
    ----------
    candidates
        How many orders it has looked at.
    estimator, bits
        What orders cost, and its variables as bits.
    """

    body: Body
    seed: int
    known: KnownRelations = NOTHING
    strategy: Strategy = "auto"
    candidates: int = 0
    estimator: Estimator = field(init=False)
    bits: Bits = field(init=False)
    _foreseen: dict[Order, Foreseen] = field(default_factory=dict, init=False)
    _following: dict[int, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.estimator = Estimator.of_body(self.body, self.seed, self.known)
        self.bits = self.estimator.bits

    def choose(self, hint: Sequence[str] = ()) -> tuple[Order, ...]:
        """The order, then others that begin with a variable that as many atoms reach, as far as that may pay."""
        hinted = [name for name in hint if name in self._rest]
        if self.strategy == "binary":
            return (self._via(self._in_turn(hinted)) if hinted else self._left_deep(),)
        chosen = self._in_turn(hinted)
        if not hinted and self._may_compare:
            orders = [chosen, *map(self._greedy, self._rest)]
            if self.strategy == "auto":
                for order in self._left_deep_orders():
                    orders += [order, self._closing_together(order), replace(order, via=(None,) * len(order.via))]
            chosen = self._cheapest(orders, CLEARLY * self._along(chosen).cost) or chosen
        if hinted or len(self.body.atoms) > MOST_ATOMS:
            return (chosen,)
        others = [self._in_turn([name]) for name in self._as_constrained(chosen)]
        if others and self.estimator.is_known:
            found = self._along(chosen)
            most = found.listing * found.cost / OFFER
            others = [order for order in others if self.estimator.along(order, most).cost <= most]
        return (chosen, *others)

    def _along(self, order: Order) -> Foreseen:
        """What is expected of an order."""
        found = self._foreseen.get(order)
        if found is None:
            found = self._foreseen[order] = self.estimator.along(order)
        return found

    def _cheapest(self, orders: Iterable[Order], limit: float = math.inf) -> Order | None:
        """The first of the cheapest orders, if it costs less than the limit."""
        found = None
        for order in dict.fromkeys(orders):
            cost = self.estimator.along(order, limit).cost
            if cost < limit:
                found, limit = order, cost
        return found

    @cached_property
    def _rest(self) -> list[str]:
        """The variables that the seed does not bind."""
        return [name for name in self.body.variables if name not in self.estimator.seeded]

    @cached_property
    def _standing(self) -> dict[str, tuple[bool, float, int]]:
        """Per variable of these, what it is preferred by whatever is bound."""
        found = {}
        for place, name in enumerate(self._rest):
            smallest = min(self._rows(self.body.atoms[number]) for number in self.bits.holding(name))
            found[name] = name not in self.body.head, smallest, place
        return found

    @cached_property
    def _others(self) -> int:
        """The mask of those that it does not bind."""
        return self.bits.mask(self._rest)

    def _reached(self, names: Iterable[str]) -> int:
        """The variables of the atoms that hold one of these."""
        found = 0
        for name in names:
            found |= self.bits.around[name]
        return found

    @property
    def _may_compare(self) -> bool:
        return self.estimator.is_known and len(self._rest) > 1 and len(self.body.atoms) <= MOST_ATOMS

    def _in_turn(self, first: Sequence[str] = ()) -> Order:
        """The most constrained variable next, after the first ones."""
        self.candidates += 1
        order = list(first)
        bound = self.bits.seeded | self.bits.mask(first)
        reached = self._reached((*self.estimator.seeded, *first))
        while rest := self._others & ~bound:
            # What no atom reaches comes behind what one does, unless it is calculated.
            likely = rest if self.body.calculations else reached & rest or rest
            chosen = min(self.bits.names(likely), key=lambda name: self._preference(name, bound))  # called at once
            order.append(chosen)
            bound |= self.bits.bit[chosen]
            reached |= self.bits.around[chosen]
        return Order(self.seed, tuple(order), (None,) * len(order))

    def _preference(self, name: str, bound: int) -> tuple[int, bool, float, int]:
        body, masks = self.body, self.bits.masks
        reached = sum(bool(bound & masks[number]) for number in self.bits.holding(name))
        if body.calculations:
            names = self.bits.names(bound)
            known = _calculable(body.calculations, names)
            reached += sum(_is_fixed(condition, name, known) for condition in body.conditions)
            reached += inverse_of(body, name, names) is not None
        return -reached, *self._standing[name]

    def _rows(self, atom: BodyAtom) -> float:
        return self.known.rows(atom.relation) or 0.0

    def _greedy(self, first: str) -> Order:
        """Beginning with a variable, the one next that leaves the fewest rows, of these the cheapest."""
        self.candidates += 1
        order = [first]
        bound = self.bits.seeded | self.bits.bit[first]
        reached = self._reached((*self.estimator.seeded, first))
        while rest := self._others & ~bound:
            costs = {name: self.estimator.level(bound, name) for name in self.bits.names(reached & rest or rest)}
            chosen = min(costs, key=lambda name: (costs[name][1], costs[name][2]))  # called at once
            order.append(chosen)
            bound |= self.bits.bit[chosen]
            reached |= self.bits.around[chosen]
        return Order(self.seed, tuple(order), (None,) * len(order))

    def _left_deep(self) -> Order:
        """Atom after atom; of the orders by the first one, the cheapest."""
        if not self._may_compare:
            return self._atoms_in_turn(None)
        return self._cheapest(self._left_deep_orders()) or self._atoms_in_turn(None)

    def _left_deep_orders(self) -> list[Order]:
        """Atom after atom, for every atom that may come first."""
        joined = [number for number, mask in self.bits.masks.items() if mask & self.bits.seeded]
        return [self._atoms_in_turn(number) for number in (None, *(joined or self.bits.masks))]

    def _closing_together(self, order: Order) -> Order:
        """The same, but where an atom's last variable is bound, all atoms that hold it propose its values."""
        masks, bound = self.bits.masks, self.bits.seeded
        via: list[int | None] = []
        for name, alone in zip(order.variables, order.via, strict=True):
            bound |= self.bits.bit[name]
            others = (number for number in self.bits.holding(name) if number != alone)
            closes = any(not masks[number] & ~bound for number in others)
            via.append(None if closes else alone)
        return replace(order, via=tuple(via))

    def _atoms_in_turn(self, first: int | None) -> Order:
        self.candidates += 1
        order: list[str] = []
        via: list[int] = []
        bound = self.bits.seeded
        while self._others & ~bound:
            chosen = self._next(bound) if first is None else first
            first = None
            new = [name for name in self.body.atoms[chosen].variables if not self.bits.bit[name] & bound]
            order += new
            via += [chosen] * len(new)
            bound |= self.bits.masks[chosen]
        return Order(self.seed, tuple(order), tuple(via))

    def _next(self, bound: int) -> int:
        """The atom that comes next, of those with variables that are not bound."""
        found = self._following.get(bound)
        if found is None:
            masks = self.bits.masks
            rest = [number for number, mask in masks.items() if mask & ~bound]
            joined = [number for number in rest if masks[number] & bound]
            found = self._following[bound] = min(joined or rest, key=lambda number: self._leaving(number, bound))
        return found

    def _leaving(self, number: int, bound: int) -> tuple[float, float, int]:
        """By the rows that an atom leaves, or by how many of its variables are bound."""
        atom = self.body.atoms[number]
        if not self.estimator.is_known:
            return -(self.bits.masks[number] & bound).bit_count(), self._rows(atom), number
        rows = 1.0
        for name in atom.variables:
            if not self.bits.bit[name] & bound:
                rows *= self.estimator.level(bound, name, number)[1]
                bound |= self.bits.bit[name]
        return rows, self._rows(atom), number

    def _via(self, order: Order) -> Order:
        """The same with each variable proposed by the atom that most bound variables reach."""
        masks, bound = self.bits.masks, self.bits.seeded
        via = []
        for name in order.variables:
            holding = self.bits.holding(name)
            via.append(
                max(holding, key=lambda number: ((bound & masks[number]).bit_count(), -number))
            )  # called at once
            bound |= self.bits.bit[name]
        return replace(order, via=tuple(via))

    def _as_constrained(self, order: Order) -> Iterator[str]:
        """The later variables that as many atoms reach from the seed as reach the first."""
        touched = {number for number, mask in self.bits.masks.items() if mask & self.bits.seeded}
        reached = [sum(number in touched for number in self.bits.holding(name)) for name in order.variables]
        for name, count in zip(order.variables[1:], reached[1:], strict=True):
            if count == reached[0] > 0:
                yield name


def _calculable(calculations: Sequence[Calculation], bound: Collection[str]) -> set[str]:
    """What is calculated from bound variables."""
    known = set(bound)
    for one in calculations:
        if known.issuperset(names_of(one)):
            known.add(one.variable)
    return known.difference(bound)


def _is_fixed(condition: Condition, name: str, known: Collection[str]) -> bool:
    """Whether the condition says that a variable is equal to one of these."""
    sides = (condition.variable, condition.other)
    return condition.op == "=" and name in sides and any(side in known for side in sides)


def inverse_of(body: Body, name: str, bound: Collection[str]) -> Calculation | None:
    """What solves a sum or difference of integers for a variable, where its result and other argument are bound."""
    for one in body.calculations:
        if one.family != "integer" or one.op not in ("+", "-") or one.arguments.count(name) != 1:
            continue
        rest = [argument for argument in one.arguments if argument != name]
        result = one.variable if one.variable in bound else _equal_to(one.variable, body.conditions, bound)
        if result is None or not all(isinstance(argument, int) or argument in bound for argument in rest):
            continue
        if one.op == "-" and one.arguments[0] == name and rest:
            op, arguments = "+", (result, *rest)
        elif one.op == "-":
            op, arguments = "-", (*rest, result)
        else:
            op, arguments = "-", (result, *rest)
        families = ("integer",) * len(arguments)
        return Calculation(f"{name}~", op, arguments, families, "integer", is_inverse=True)
    return None


def _equal_to(name: str, conditions: Sequence[Condition], bound: Collection[str]) -> str | int | None:
    """A bound variable or a code that conditions say is equal to a variable."""
    for one in conditions:
        if one.op == "=" and name in (one.variable, one.other):
            other = one.other if one.variable == name else one.variable
            if isinstance(other, int) or other in bound:
                return other
    return None
