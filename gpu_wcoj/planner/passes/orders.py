"""The order in which each delta path binds its variables."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from gpu_wcoj.join.path import Calculation, Condition, names_of
from gpu_wcoj.planner.body import Body, BodyAtom
from gpu_wcoj.planner.costs import Estimator
from gpu_wcoj.planner.draft import NOTHING, Draft, KnownRelations, Order, Strategy
from gpu_wcoj.planner.equalities import standing_for

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
    """

    body: Body
    seed: int
    known: KnownRelations = NOTHING
    strategy: Strategy = "auto"
    candidates: int = 0
    estimator: Estimator = field(init=False)

    def __post_init__(self) -> None:
        self.estimator = Estimator.of_body(self.body, self.seed, self.known)

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
            costs = {order: self.estimator.along(order).cost for order in dict.fromkeys(orders)}
            best = min(costs, key=costs.__getitem__)
            chosen = best if costs[best] < CLEARLY * costs[chosen] else chosen
        if hinted or len(self.body.atoms) > MOST_ATOMS:
            return (chosen,)
        others = [self._in_turn([name]) for name in self._as_constrained(chosen)]
        if others and self.estimator.is_known:
            found = self.estimator.along(chosen)
            most = found.listing * found.cost / OFFER
            others = [order for order in others if self.estimator.along(order).cost <= most]
        return (chosen, *others)

    @property
    def _rest(self) -> list[str]:
        """The variables that the seed does not bind."""
        return [name for name in self.body.variables if name not in self.estimator.seeded]

    @property
    def _may_compare(self) -> bool:
        return self.estimator.is_known and len(self._rest) > 1 and len(self.body.atoms) <= MOST_ATOMS

    def _in_turn(self, first: Sequence[str] = ()) -> Order:
        """The most constrained variable next, after the first ones."""
        self.candidates += 1
        rest = [name for name in self._rest if name not in first]
        order = list(first)
        while rest:
            bound = {*self.estimator.seeded, *order}
            chosen = min(rest, key=lambda name: self._preference(name, bound, rest))  # called at once
            rest.remove(chosen)
            order.append(chosen)
        return Order(self.seed, tuple(order), (None,) * len(order))

    def _preference(self, name: str, bound: set[str], rest: Sequence[str]) -> tuple[int, bool, float, int]:
        body = self.body
        holding = [body.atoms[number] for number in self.estimator.holding(name)]
        reached = sum(bool(bound & set(atom.variables)) for atom in holding)
        if body.conditions:
            known = _calculable(body.calculations, bound)
            reached += sum(_is_fixed(condition, name, known) for condition in body.conditions)
        if body.calculations:
            reached += inverse_of(body, name, bound) is not None
        smallest = min(self._rows(atom) for atom in holding)
        return -reached, name not in body.head, smallest, rest.index(name)

    def _rows(self, atom: BodyAtom) -> float:
        return self.known.rows(atom.relation) or 0.0

    def _greedy(self, first: str) -> Order:
        """Beginning with a variable, the one next that leaves the fewest rows, of these the cheapest."""
        self.candidates += 1
        order = [first]
        rest = [name for name in self._rest if name != first]
        while rest:
            bound = {*self.estimator.seeded, *order}
            joined = [name for name in rest if any(self._touches(number, bound) for number in self._holding(name))]
            costs = {name: self.estimator.level(bound, name) for name in joined or rest}
            chosen = min(costs, key=lambda name: (costs[name][1], costs[name][2]))  # called at once
            order.append(chosen)
            rest.remove(chosen)
        return Order(self.seed, tuple(order), (None,) * len(order))

    def _holding(self, name: str) -> list[int]:
        return self.estimator.holding(name)

    def _touches(self, number: int, bound: Collection[str]) -> bool:
        return not set(self.body.atoms[number].variables).isdisjoint(bound)

    def _left_deep(self) -> Order:
        """Atom after atom; of the orders by the first one, the cheapest."""
        if not self._may_compare:
            return self._atoms_in_turn(None)
        return min(self._left_deep_orders(), key=lambda order: self.estimator.along(order).cost)

    def _left_deep_orders(self) -> list[Order]:
        """Atom after atom, for every atom that may come first."""
        bound = set(self.estimator.seeded)
        others = [number for number in range(len(self.body.atoms)) if number != self.seed]
        joined = [number for number in others if self._touches(number, bound)]
        return [self._atoms_in_turn(number) for number in (None, *(joined or others))]

    def _closing_together(self, order: Order) -> Order:
        """The same, but where an atom's last variable is bound, all atoms that hold it propose its values."""
        bound = set(self.estimator.seeded)
        via: list[int | None] = []
        for name, alone in zip(order.variables, order.via, strict=True):
            bound.add(name)
            others = (number for number in self._holding(name) if number != alone)
            closes = any(bound.issuperset(self.body.atoms[number].variables) for number in others)
            via.append(None if closes else alone)
        return replace(order, via=tuple(via))

    def _atoms_in_turn(self, first: int | None) -> Order:
        self.candidates += 1
        order: list[str] = []
        via: list[int] = []
        rest = [number for number in range(len(self.body.atoms)) if number != self.seed]
        while rest:
            bound = {*self.estimator.seeded, *order}
            chosen = (
                first if first is not None else min(rest, key=lambda number: self._next(number, bound))
            )  # called at once
            first = None
            rest.remove(chosen)
            new = [name for name in self.body.atoms[chosen].variables if name not in bound]
            order += new
            via += [chosen] * len(new)
        return Order(self.seed, tuple(order), tuple(via))

    def _next(self, number: int, bound: set[str]) -> tuple[bool, float, float, int]:
        """Atoms that are joined with what is bound come first, then by the rows that they leave or by what is bound."""
        atom = self.body.atoms[number]
        shared = sum(name in bound for name in atom.variables)
        if not self.estimator.is_known:
            return not shared, -shared, self._rows(atom), number
        rows, inside = 1.0, set(bound)
        for name in (name for name in atom.variables if name not in bound):
            rows *= self.estimator.level(inside, name, number)[1]
            inside.add(name)
        return not shared, rows, self._rows(atom), number

    def _via(self, order: Order) -> Order:
        """The same with each variable proposed by the atom that most bound variables reach."""
        bound = set(self.estimator.seeded)
        via = []
        for name in order.variables:
            holding = self._holding(name)
            via.append(
                max(holding, key=lambda number: (len(bound & set(self.body.atoms[number].variables)), -number))
            )  # called at once
            bound.add(name)
        return replace(order, via=tuple(via))

    def _as_constrained(self, order: Order) -> Iterator[str]:
        """The later variables that as many atoms reach from the seed as reach the first."""
        bound = set(self.estimator.seeded)
        reached = [sum(self._touches(number, bound) for number in self._holding(name)) for name in order.variables]
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
