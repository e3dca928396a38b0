"""Choose the variable order of a delta path by expected cost, and steps run as branches."""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

from gpu_wcoj.costs import BRANCH_START, OFFERED_ORDER, PROPOSAL
from gpu_wcoj.functions import Calculation
from gpu_wcoj.join.plan import Branch, Condition, DeltaPath, Step, check_variables
from gpu_wcoj.planner.body import Body, inverse_of, standing_for
from gpu_wcoj.planner.cost import CHANGES, Bits, Estimator, SharedCosts, cost_of_full_join, ways_of
from gpu_wcoj.planner.ir import (
    EMPTY_CATALOG,
    TOO_DEAR,
    CatalogReader,
    Draft,
    Expected,
    Foreseen,
    Order,
    RuleDraft,
    Setting,
    Strategy,
)
from gpu_wcoj.planner.symmetry import Image, symmetry_of

CLEARLY = 0.7
"""Cost ratio: the best order replaces the default one if it costs less than this share of it."""

MAX_UNSAMPLED_ATOMS = 2
"""Positive atoms up to which a rule of a single tick is planned by the sizes of its relations: either atom starts, and
what a sample of them costs is not saved again."""

MAX_ATOMS = 24
"""Bodies with more atoms than this keep the default order."""


@dataclass(eq=False)
class ImageEstimates:
    """Estimates for a seed that is the image of another seed under an automorphism.

    Attributes
    ----------
    first
        Chooser of the other seed.
    image
        Map from the other seed to this seed.
    """

    first: Chooser
    image: Image

    @property
    def best(self) -> Order:
        """Image of the other seed's cheapest order."""
        return _map_order(self.first.best, self.image)

    def along(self, order: Order, limit: float) -> Foreseen:
        """Return the estimates of an order of this seed, in the variables of the other seed."""
        return self.first.along(_map_order(order, self.image.back), limit)

    def renamed(self, estimate: Foreseen) -> Foreseen:
        """Return estimates in the variables of this seed."""
        names = {"": "", **self.image.names}
        levels = [Expected(names[level.variable], level.proposed, level.rows) for level in estimate.levels]
        return Foreseen(tuple(levels), estimate.listing, estimate.counting)


def _map_order(order: Order, image: Image) -> Order:
    """Return the image of an order."""
    via = [None if atom_index is None else image.atoms[atom_index] for atom_index in order.via]
    return Order(image.atoms[order.seed], tuple(map(image.names.__getitem__, order.variables)), tuple(via))


@dataclass(eq=False)
class Chooser:
    """Choose the orders of one seed.

    Attributes
    ----------
    like
        Estimates of the seed that this seed is the image of, if any.
    worked
        Cost terms that the choosers of a body share.
    is_load
        Whether all rows of the seed's relation start the path.
    candidates
        Number of orders that were compared.
    bits
        Masks of its variables.
    rest
        The variables that the seed does not bind.
    is_known
        True if every other relation has statistics.
    """

    body: Body
    seed: int
    known: CatalogReader = EMPTY_CATALOG
    strategy: Strategy = "auto"
    like: ImageEstimates | None = None
    worked: SharedCosts | None = None
    is_load: bool = False
    candidates: int = 0
    bits: Bits = field(init=False)
    rest: list[str] = field(init=False)
    is_known: bool = field(init=False)
    _may_compare: bool = field(init=False)
    _foreseen: dict[Order, Foreseen] = field(default_factory=dict, init=False)
    _following: dict[int, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        bits = Bits.of_body(self.body) if self.worked is None else self.worked.bits
        self.bits = bits.of_change(self.seed, self.body.atom(self.seed).variables)
        self.rest = [name for name in self.body.variables if name not in self.bits.row]
        self.is_known = self.estimator.is_known if self.like is None else self.like.first.is_known
        self._may_compare = self.is_known and len(self.rest) > 1 and len(self.body.atoms) <= MAX_ATOMS

    def choose(self, hint: Sequence[str] = (), only_best: bool = False) -> tuple[Order, ...]:
        """Return the chosen order and, unless `only_best`, variants that may suit some rows better.

        Variants begin with a variable that as many atoms reach.
        """
        hinted = [name for name in hint if name in self.rest]
        if self.strategy == "binary":
            return (self._via(self._in_turn(hinted)) if hinted else self.best,)
        chosen = self._in_turn(hinted) if hinted else self._most_constrained
        if not hinted and self._may_compare and self._is_clearly_dearer(chosen):
            chosen = self.best
        if only_best or hinted or len(self.body.atoms) > MAX_ATOMS:
            return (chosen,)
        variants = [self._in_turn([name]) for name in self._as_constrained(chosen)]
        if variants and self.is_known:
            estimate = self.along(chosen)
            max_cost = estimate.listing * estimate.cost / OFFERED_ORDER
            variants = [order for order in variants if self.along(order, max_cost).cost <= max_cost]
        return (chosen, *variants)

    def _is_clearly_dearer(self, order: Order) -> bool:
        """Return True if the order costs clearly more than the best one."""
        if self.like is not None:
            return self.like.first._is_clearly_dearer(_map_order(order, self.like.image.back))
        return self.along(self.best).cost < CLEARLY * self.along(order).cost

    @cached_property
    def best(self) -> Order:
        """First of the cheapest of the compared orders.

        The most constrained order if none can be clearly cheaper.
        """
        if self.like is not None and self._may_compare:
            return self.like.best
        if not self._may_compare:
            return self._atoms_in_turn(None) if self.strategy == "binary" else self._most_constrained
        best, limit = None, math.inf
        if self.strategy != "binary":
            best = self._most_constrained
            limit = self.along(best).cost
        for order in self._compared() if CLEARLY * limit > self.estimator.min_cost else ():
            cost = self.along(order, limit).cost
            if best is None or cost < limit:
                best, limit = order, cost
        assert best is not None
        return best

    def _compared(self) -> Iterator[Order]:
        """Yield the orders that are compared, each once and when it is asked for."""
        if self.strategy == "binary":
            yield from self._left_deep_orders()
            return
        seen = {self._most_constrained}
        waiting = set(self._after.values())
        for name in (name for name in self.rest if name not in waiting):
            order = self._greedy(name)
            if order not in seen:
                seen.add(order)
                yield order
        for order in self._left_deep_orders() if self.strategy == "auto" else ():
            together = Order(order.seed, order.variables, (None,) * len(order.via))
            for similar in (order, self._cheaper_at_each(order), together):
                if similar not in seen:
                    seen.add(similar)
                    yield similar

    def foreseen(self, order: Order) -> Foreseen | None:
        """Return the estimates of an order; None without statistics."""
        if not self.is_known:
            return None
        estimate = self.along(order)
        return estimate if self.like is None else self.like.renamed(estimate)

    def along(self, order: Order, limit: float = math.inf) -> Foreseen:
        """Return the estimates of an order, or `TOO_DEAR` if it costs more than the limit."""
        if self.like is not None:
            return self.like.along(order, limit)
        estimate = self._foreseen.get(order)
        if estimate is None:
            estimate = self.estimator.along(order, limit)
            if estimate is not TOO_DEAR:
                self._foreseen[order] = estimate
        return estimate

    @cached_property
    def estimator(self) -> Estimator:
        """Estimator of the costs of orders."""
        estimator = Estimator.of_body(self.body, self.seed, self.known, self.bits, self.worked)
        if self.is_load and self.seed >= 0:
            estimator.n_seeds = max(1.0, self.known.rows(self.body.atoms[self.seed].relation) or 1.0)
        return estimator

    @cached_property
    def _standing(self) -> dict[str, tuple[bool, float, int]]:
        """Per unbound variable, the part of its preference that does not depend on bound variables."""
        preference = {}
        for place, name in enumerate(self.rest):
            smallest = min(map(self._rows.__getitem__, self.bits.holding[name]))
            preference[name] = name not in self.body.head, smallest, place
        return preference

    def _reached(self, names: Iterable[str]) -> int:
        """Return the variables of the atoms that hold one of these."""
        mask = 0
        for name in names:
            mask |= self.bits.around[name]
        return mask

    @cached_property
    def _most_constrained(self) -> Order:
        return self._in_turn()

    def _in_turn(self, first: Sequence[str] = ()) -> Order:
        """Return the order that binds the most constrained variable next, after the first ones."""
        self.candidates += 1
        if len(self.rest) == 1:
            return Order(self.seed, tuple(self.rest), (None,))
        order = list(first)
        bound = self.bits.seeded | self.bits.mask(first)
        reached = self._reached((*self.bits.row, *first))
        while unbound := self.bits.rest & ~bound:
            # Variables of reached atoms come first, unless something is calculated.
            likely = unbound if self.body.calculations else reached & unbound or unbound
            names = self.bits.names(likely)
            chosen = names[0] if len(names) == 1 else min(names, key=lambda name: self._preference(name, bound))
            order.append(chosen)
            bound |= self.bits.bit[chosen]
            reached |= self.bits.around[chosen]
        return Order(self.seed, tuple(order), (None,) * len(order))

    def _preference(self, name: str, bound: int) -> tuple[int, bool, float, int]:
        body, masks = self.body, self.bits.masks
        reached = 0
        for atom_index in self.bits.holding[name]:
            reached += bool(bound & masks[atom_index])
        if body.calculations:
            names = self.bits.names(bound)
            calculable = _calculable(body.calculations, names)
            reached += sum(_is_fixed(condition, name, calculable) for condition in body.conditions)
            reached += inverse_of(body, name, names) is not None
        return -reached, *self._standing[name]

    @cached_property
    def _rows(self) -> list[float]:
        """Per positive atom, the rows of its relation; 0 if unknown."""
        if self.like is not None:
            return self.like.first._rows
        return [self.known.rows(atom.relation) or 0.0 for atom in self.body.atoms]

    @cached_property
    def _after(self) -> dict[str, str]:
        """Per variable that one atom alone reads, the next such variable of that atom.

        Their order changes no other step, so each is tried only after the one before, the one of fewest values first:
        a wide relation of which a bag needs every row costs few estimates.
        """
        body, bits = self.body, self.bits
        read = {*body.head, *(name for atom in body.negated for name in atom.variables)}
        read.update(side for condition in body.conditions for side in (condition.variable, condition.operand))
        read.update(name for calculation in body.calculations for name in check_variables(calculation))
        alone: dict[int, list[str]] = {}
        for name in self.rest:
            if name not in read and len(bits.holding[name]) == 1:
                alone.setdefault(bits.holding[name][0], []).append(name)
        following: dict[str, str] = {}
        for names in alone.values():
            if len(names) > 2:
                names.sort(key=lambda name: self.estimator.level(bits.seeded, name)[1])  # called at once
                following.update(pairwise(names))
        return following

    def _greedy(self, first: str) -> Order:
        """Return the order that binds next the variable that leaves the fewest rows, ties by cost."""
        self.candidates += 1
        order: list[str] = []
        waiting = self.bits.mask(self._after.values())
        bound, reached, chosen = self.bits.seeded, self._reached(self.bits.row), first
        while True:
            order.append(chosen)
            bound |= self.bits.bit[chosen]
            reached |= self.bits.around[chosen]
            if chosen in self._after:
                waiting &= ~self.bits.bit[self._after[chosen]]
            unbound = self.bits.rest & ~bound & ~waiting
            if not unbound:
                break
            costs = {name: self.estimator.level(bound, name) for name in self.bits.names(reached & unbound or unbound)}
            chosen = min(costs, key=lambda name: (costs[name][1], costs[name][2]))  # called at once
        return Order(self.seed, tuple(order), (None,) * len(order))

    def _left_deep_orders(self) -> list[Order]:
        """Return an order of atoms for each possible first atom, the greedy choice first."""
        masks, seeded = self.bits.masks, self.bits.seeded
        unbound = [atom_index for atom_index, mask in masks.items() if mask & ~seeded]
        joined = [atom_index for atom_index in unbound if masks[atom_index] & seeded] or unbound
        joined.sort(key=self._next(seeded).__ne__)
        return [self._atoms_in_turn(atom_index) for atom_index in joined]

    def _cheaper_at_each(self, order: Order) -> Order:
        """Return the order with all atoms of a variable proposing wherever that is cheaper."""
        bound, level = self.bits.seeded, self.estimator.level
        via: list[int | None] = []
        for name, proposer in zip(order.variables, order.via, strict=True):
            several = len(self.bits.holding[name]) > 1
            via.append(None if several and level(bound, name)[2] <= level(bound, name, proposer)[2] else proposer)
            bound |= self.bits.bit[name]
        return Order(order.seed, order.variables, tuple(via))

    def _atoms_in_turn(self, first: int | None) -> Order:
        self.candidates += 1
        order: list[str] = []
        via: list[int] = []
        bound = self.bits.seeded
        while self.bits.rest & ~bound:
            chosen = self._next(bound) if first is None else first
            first = None
            new = [name for name in self.body.atoms[chosen].variables if not self.bits.bit[name] & bound]
            order += new
            via += [chosen] * len(new)
            bound |= self.bits.masks[chosen]
        return Order(self.seed, tuple(order), tuple(via))

    def _next(self, bound: int) -> int:
        """Return the atom that binds variables next."""
        atom_index = self._following.get(bound)
        if atom_index is None:
            masks = self.bits.masks
            unbound = [index for index, mask in masks.items() if mask & ~bound]
            joined = [index for index in unbound if masks[index] & bound]
            atom_index = self._following[bound] = min(
                joined or unbound, key=lambda number: self._leaving(number, bound)
            )
        return atom_index

    def _leaving(self, atom_index: int, bound: int) -> tuple[float, float, int]:
        """Return the sort key of an atom: the rows it leaves, or its number of bound variables."""
        atom = self.body.atoms[atom_index]
        if not self.is_known:
            return -(self.bits.masks[atom_index] & bound).bit_count(), self._rows[atom_index], atom_index
        rows = 1.0
        for name in atom.variables:
            if not self.bits.bit[name] & bound:
                rows *= self.estimator.level(bound, name, atom_index)[1]
                bound |= self.bits.bit[name]
        return rows, self._rows[atom_index], atom_index

    def _via(self, order: Order) -> Order:
        """Return the order with each variable proposed by the atom with the most bound variables."""
        masks, bound = self.bits.masks, self.bits.seeded
        via = []
        for name in order.variables:
            holding = self.bits.holding[name]
            via.append(
                max(holding, key=lambda number: ((bound & masks[number]).bit_count(), -number))
            )  # called at once
            bound |= self.bits.bit[name]
        return order._replace(via=tuple(via))

    def _as_constrained(self, order: Order) -> Iterator[str]:
        """Yield the later variables that as many seed-bound atoms reach as reach the first."""
        touched = {atom_index for atom_index, mask in self.bits.masks.items() if mask & self.bits.seeded}
        reached = [len(touched.intersection(self.bits.holding[name])) for name in order.variables]
        for name, count in zip(order.variables[1:], reached[1:], strict=True):
            if count == reached[0] > 0:
                yield name


def _calculable(calculations: Sequence[Calculation], bound: Collection[str]) -> set[str]:
    """Return the calculated variables that bound variables determine."""
    determined = set(bound)
    for calculation in calculations:
        if determined.issuperset(check_variables(calculation)):
            determined.add(calculation.variable)
    return determined.difference(bound)


def _is_fixed(condition: Condition, name: str, names: Collection[str]) -> bool:
    """Return True if the condition equates the variable with one of these."""
    sides = (condition.variable, condition.operand)
    return condition.op == "=" and name in sides and any(side in names for side in sides)


# Variable orders of delta paths.


def order_variables(draft: Draft) -> Draft:
    """Choose a variable order for every atom of a body as the seed, negated ones first.

    A path binds its seed's variables, then, one by one, the variable that the most atoms already reach (the most
    constrained); ties go to a variable that the head keeps, then to a variable of the smallest relation, then to the
    first in the body. With statistics, that order is compared with others, one per possible first variable, continued
    greedily by expected rows, and replaced by an order that is clearly cheaper. ``binary`` orders atoms one after the
    other instead, each with all of its variables: one order per possible first atom is compared. ``auto`` compares
    these, too: as they are, with all atoms at once at the levels where that is cheaper, and with all atoms at once
    everywhere.

    Hinted variables are bound first, in the order of the hint.

    Automorphic atoms (see `gpu_wcoj.planner.symmetry`) cost the same: the orders of one of them are compared, and the
    others use the images of its order, if the images of the variables that the head keeps are these variables.

    At most atoms squared times variables orders are compared.

    Examples
    --------
    >>> from tests.planner.examples import draft_program
    >>> from gpu_wcoj.planner.passes.simplify import normalise_rules
    >>> text = "h(a, b, c, d) :- r(a, b), s(b, c), t(c, d)."
    >>> before = draft_program(text, [normalise_rules])
    >>> print(before)
    h: h(a, b, c, d) :- r(a, b), s(b, c), t(c, d).
      0: r(a, b)
      1: s(b, c)
      2: t(c, d)
    >>> print(order_variables(before))
    h: h(a, b, c, d) :- r(a, b), s(b, c), t(c, d).
      0: r(a, b)
      1: s(b, c)
      2: t(c, d)
      change of 0: c, d
      change of 1: a, d
        or d, a
      change of 2: b, a
    >>> print(order_variables(draft_program(text, [normalise_rules], strategy="binary")).rules[0].orders[1][0])
    change of 1: a by 0, d by 2
    >>> print(order_variables(draft_program(text, [normalise_rules], order={"h": ["d", "a"]})).rules[0].orders[1][0])
    change of 1: d, a
    """
    rules, candidates = [], draft.candidates
    for rule_draft in draft.rules:
        body, renaming = rule_draft.normalised, symmetry_of(rule_draft.normalised)
        hint = standing_for(draft.setting.hints.get(rule_draft.head, ()), rule_draft.rule)
        kept_names = set(body.head)
        head_variables = {term for term in body.head if isinstance(term, str)}
        choosers: dict[int, Chooser] = {}
        shared_costs = SharedCosts(Bits.of_body(body))
        orders: dict[int, tuple[Order, ...]] = {}
        foreseen: dict[int, Foreseen | None] = {}
        min_costs, cheapest = _min_costs(body, draft.setting), math.inf
        for seed in sorted(min_costs, key=lambda seed: (min_costs[seed], seed)):
            known = draft.setting.known if min_costs[seed] < cheapest else EMPTY_CATALOG
            image = None if renaming is None or hint else renaming.onto(seed)
            if image is not None and not body.keeps_all and head_variables != {image.names[i] for i in head_variables}:
                image = None  # what the head keeps decides which steps are counted
            like = None if image is None else ImageEstimates(choosers[image.first], image)
            chooser = choosers[seed] = Chooser(
                body, seed, known, draft.setting.strategy, like, shared_costs, draft.setting.single_tick
            )
            has_variants = not draft.setting.single_tick and "path variants" not in draft.setting.off
            orders[seed] = chooser.choose(hint, not (has_variants and kept_names.issuperset(chooser.rest)))
            estimate = foreseen[seed] = chooser.foreseen(orders[seed][0])
            candidates += chooser.candidates
            if draft.setting.single_tick and estimate is not None and seed >= 0:
                rows = known.rows(body.atoms[seed].relation) or 0.0
                proposed = sum(level.proposed for level in estimate.levels[1:])
                cheapest = min(cheapest, min_costs[seed] + PROPOSAL * rows * proposed)
        in_order = sorted(min_costs)
        rules.append(
            replace(
                rule_draft, orders=tuple(map(orders.__getitem__, in_order)),
                foreseen=tuple(map(foreseen.__getitem__, in_order)), renaming=renaming,
            )
        )  # fmt: skip
    return replace(draft, rules=tuple(rules), candidates=candidates)


def _min_costs(body: Body, setting: Setting) -> dict[int, float]:
    """Return, per seed, the least cost in nanoseconds of a single tick that joins from it.

    It is infinite for seeds whose orders need not be compared. A program of many ticks needs the orders of all seeds.
    """
    seeds = range(-len(body.negated), len(body.atoms))
    if not setting.single_tick:
        return dict.fromkeys(seeds, 0.0)
    rows = {atom.relation: setting.known.rows(atom.relation) for atom in (*body.atoms, *body.negated)}
    max_unsampled = 1 if setting.is_load else MAX_UNSAMPLED_ATOMS  # the delta paths of a load have been sampled
    is_planned_by_size = len(body.atoms) <= max_unsampled
    if is_planned_by_size or None in rows.values():
        return dict.fromkeys(seeds, math.inf if is_planned_by_size else 0.0)
    costs = dict.fromkeys(seeds, math.inf)
    for seed, atom in enumerate(body.atoms):
        others = (*body.atoms[:seed], *body.atoms[seed + 1 :], *body.negated)
        indexed = 0.0
        if not setting.is_load:  # which keeps most arrangements in any case
            indexed = sum(rows[relation] or 0.0 for relation in {other.relation for other in others})
        n_steps = 1 + len(body.variables) - len(atom.variables)
        costs[seed] = cost_of_full_join(indexed, rows[atom.relation] or 0.0, n_steps)
    return costs


# Bushy plans: take independent steps of a path as branches.


MAX_BUSHY_FRACTION = 0.8
"""Cost ratio: branches are used if listing costs less than this share of listing without them."""


def make_bushy(draft: Draft) -> Draft:
    r"""Take independent steps as branches where that lowers the expected cost of listing rows.

    Steps that do not depend on each other after some step can run separately, each for its distinct prefixes, before
    their rows are joined. The pass considers every step: the independent parts of all later steps, or of the longest
    run of next steps that has at least two parts. A part that can drop nothing does not become a branch. Orders within
    each part are unchanged; ``wcoj``, hinted rules, and paths that already have branches are unchanged.

    Examples
    --------
    >>> from gpu_wcoj.planner.passes import PASSES, make_bushy
    >>> from tests.planner.examples import draft_program
    >>> text = "h(a, b, x, u, y, v) :- f(a, b), d(a, x), g(x, u), k(u), d(b, y), g(y, v), k(v)."
    >>> sizes = {"f": 10_000, "d": 400, "g": 400, "k": 3}
    >>> before = draft_program(text, PASSES[: PASSES.index(make_bushy)], sizes=sizes)
    >>> print("\n".join(str(before).splitlines()[8:13]))
      change of 0, f[0, 1] or f[1, 0]
        x: intersect 1 by d[0, 1] with 2 by g[0, 1]
        u: intersect 2 by g[0, 1] with 3 by k[0]
        y: intersect 4 by d[0, 1] with 5 by g[0, 1]
        v: intersect 5 by g[0, 1] with 6 by k[0]
    >>> print("\n".join(str(make_bushy(before)).splitlines()[8:15]))
      change of 0, f[0, 1] or f[1, 0]
        branch
          x: intersect 1 by d[0, 1] with 2 by g[0, 1]
          u: intersect 2 by g[0, 1] with 3 by k[0]
        branch
          y: intersect 4 by d[0, 1] with 5 by g[0, 1]
          v: intersect 5 by g[0, 1] with 6 by k[0]
    """
    setting = draft.setting
    if setting.strategy == "wcoj":
        return draft
    rules, candidates = [], draft.candidates
    for rule_draft in draft.rules:
        if rule_draft.head in setting.hints or len(rule_draft.normalised.atoms) > MAX_ATOMS:
            rules.append(rule_draft)
            continue
        paths, foreseen = list(rule_draft.paths), list(rule_draft.foreseen)
        for path_index, (path, flat) in enumerate(zip(paths, foreseen, strict=True)):
            if flat is not None and not path.branches:
                paths[path_index], foreseen[path_index], looked_at = _choose_branches(
                    path, flat, rule_draft, setting.known, setting.is_load
                )
                candidates += looked_at
        is_same = all(map(operator.is_, paths, rule_draft.paths))
        rules.append(rule_draft if is_same else replace(rule_draft, paths=tuple(paths), foreseen=tuple(foreseen)))
    return replace(draft.with_rules(rules), candidates=candidates)


def _choose_branches(
    path: DeltaPath, flat: Foreseen, rule_draft: RuleDraft, catalog: CatalogReader, is_load: bool
) -> tuple[DeltaPath, Foreseen, int]:
    """Return the path with branches if they pay, its estimates, and the number of candidates."""
    kept_names = {term for term in rule_draft.normalised.head if isinstance(term, str)}
    first = path.steps[: path.depth_of(kept_names)]
    if not first or MAX_BUSHY_FRACTION * flat.listing <= BRANCH_START / CHANGES:
        return path, flat, 0
    ways = [way for way in dict.fromkeys(ways_of(first)) if len(way[1]) > 1 or _hides(path, *way)]
    if not ways:
        return path, flat, 0
    estimator = Estimator.of_path(path, catalog, kept_names)
    if is_load:
        estimator.n_seeds = max(1.0, catalog.rows(path.seed.key.relation) or 1.0)
    later_steps = path.steps[len(first) :]
    costs = [estimator.over((*steps, *later_steps), branches) for steps, branches in ways]
    cheapest = min(costs, key=lambda way: way.listing)
    if cheapest.listing >= MAX_BUSHY_FRACTION * flat.listing:
        return path, flat, len(ways)
    steps, branches = ways[costs.index(cheapest)]
    return replace(path, steps=(*steps, *later_steps), branches=branches), cheapest, len(ways)


def _hides(path: DeltaPath, steps: tuple[Step, ...], branches: tuple[Branch, ...]) -> bool:
    """Return True if a branch reads fewer variables than are bound before it."""
    (branch,) = branches
    branch_steps = steps[branch.begin : branch.end]
    seen = {
        name
        for use in path.other_atoms
        if any(use.atom in step.atoms for step in branch_steps)
        for name in use.variables
    }
    seen = seen.union(*(step.read_variables for step in branch_steps))
    return not seen.issuperset((*path.seed.variables, *(step.variable for step in steps[: branch.begin])))
