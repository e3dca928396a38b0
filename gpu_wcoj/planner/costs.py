"""Cost model of delta paths, in probes, for one changed row.

The same model evaluates candidate orders and planned paths: both are sequences of steps. Values are assumed to be
independent of each other, and smaller value sets to be contained in larger ones: at a step, the atom of the smallest
degree proposes, and another atom holds a proposed value with the probability of its degree divided by the number of
values of the variable. The atoms are searched in the order of their degrees, each for the values that the earlier ones
have left. A value that is met through rows has more rows below it than a value drawn from the distinct values; where
that degree is known (see `gpu_wcoj.planner.statistics`), it is used. Paths serve ticks that count rows and ticks that
list them, so they are compared by the geometric mean of both costs.

Many orders are compared, so sets of variables are masks; see `gpu_wcoj.planner.bits`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from gpu_wcoj.join.path import AtomUse, Branch, Calculation, Check, Condition, DeltaPath, Step, names_of
from gpu_wcoj.planner.bits import Bits
from gpu_wcoj.planner.body import Body, BodyAtom
from gpu_wcoj.planner.bushy import CHANGES, Bracketing
from gpu_wcoj.planner.charges import ALONE, LOOKUP, PREFIX, PROBE, PROPOSAL, WIDTH, copying
from gpu_wcoj.planner.draft import KnownRelations, Order
from gpu_wcoj.planner.expected import TOO_DEAR, Expected, Foreseen
from gpu_wcoj.planner.shares import share_of
from gpu_wcoj.planner.turns import in_turn, step_of
from gpu_wcoj.planner.worked import Worked

SURELY = 1 + 1e-9
"""Safety factor against float rounding when a cost is compared with a bound."""


@dataclass(eq=False)
class Estimator:
    """Estimates for the atoms that one changed row is joined with, in any order.

    Attributes
    ----------
    bits
        The variables of the changed row, and the positive atoms, by index.
    values
        Per variable, the largest number of distinct values that an atom has.
    compared
        Conditions, each with the variables of atoms that it depends on, also through calculations, and with the share
        of rows that it leaves.
    spoken
        The variables of comparisons, calculations and negated atoms.
    is_known
        True if every other relation has statistics; otherwise no method may be called.
    worked
        Cached cost terms.

    Examples
    --------
    One new edge of a graph of 10,000 edges, 100 of them at every vertex: 100 candidates, all of which close a triangle.

    >>> from gpu_wcoj.planner.passes.examples import drafted
    >>> from gpu_wcoj.planner.passes.normalise import normalised
    >>> draft = drafted("t(a, b, c) :- e(a, b), e(b, c), e(a, c).", [normalised], sizes={"e": 10_000})
    >>> estimator = Estimator.of_body(draft.rules[0].normalised, 0, draft.setting.known)
    >>> [(one.variable, one.proposed, one.rows) for one in estimator.along(Order(0, ("c",), (None,))).levels]
    [('', 1.0, 1.0), ('c', 100.0, 100.0)]
    """

    bits: Bits
    values: Mapping[str, float]
    compared: Sequence[tuple[Condition, frozenset[str], float]]
    spoken: frozenset[str]
    known: KnownRelations
    is_known: bool
    worked: Worked
    _spoken: int = field(init=False)
    _bindings: dict[int, float] = field(default_factory=dict, init=False)
    _levels: dict[tuple[int, str, int | None], tuple[float, float, float]] = field(init=False)

    def __post_init__(self) -> None:
        self._spoken = self.bits.mask(self.spoken)
        self._levels = {} if self.compared else self.worked.levels  # which values are compared depends on the row

    @classmethod
    def of_body(
        cls, body: Body, seed: int, known: KnownRelations, bits: Bits | None = None, worked: Worked | None = None
    ) -> Estimator:
        """Create the estimator of a body in which atom `seed` changes, negative for a negated one.

        Parameters
        ----------
        bits, worked
            Masks and cost terms of the other estimators of the body, if any.
        """
        absent = [atom.variables for number, atom in enumerate(body.negated, -len(body.negated)) if number != seed]
        own = body.atom(seed)
        conditions, calculations = list(body.conditions), list[Calculation]()
        for one in body.calculations:
            if one.variable in own.variables:  # both must agree
                calculations.append(replace(one, variable=f"{one.variable}'"))
                conditions.append(Condition(calculations[-1].variable, "=", one.variable))
            else:
                calculations.append(one)
        bits = Bits.of_body(body).of_change(seed, own.variables) if bits is None else bits
        if seed < 0 or body.calculations:
            worked = None
        return cls._of(own, bits, conditions, calculations, absent, known, worked or Worked(bits))

    @classmethod
    def of_path(cls, path: DeltaPath, known: KnownRelations) -> Estimator:
        """Create the estimator of a planned path."""
        checks: list[Check] = [*path.seed_conditions, *path.seed_checks]
        for step in path.steps:
            checks += [*step.conditions, *step.checks]
        solved = {one.variable for one in path.calculations if one.is_inverse}  # what they solve is checked later
        conditions = [one for one in checks if isinstance(one, Condition) and solved.isdisjoint(names_of(one))]
        bits = Bits(path.seed.variables, {use.atom: _atom(use) for use in path.others})
        absent = [names_of(one) for one in path.absent]
        return cls._of(_atom(path.seed), bits, conditions, path.calculations, absent, known, Worked(bits))

    @classmethod
    def _of(
        cls,
        own: BodyAtom,
        bits: Bits,
        conditions: Sequence[Condition],
        calculations: Sequence[Calculation],
        absent: Iterable[Collection[str]],
        known: KnownRelations,
        worked: Worked,
    ) -> Estimator:
        others = [atom for number, atom in bits.atoms.items() if number != bits.changed]
        is_known = None not in map(known.rows, [atom.relation for atom in others])
        atoms = (own, *others)
        values = worked.values
        if is_known and not values:
            for atom in atoms:
                for name in atom.variables:
                    values[name] = max(values.get(name, 1.0), known.values(atom, name) or 1.0)
        behind: dict[str, frozenset[str]] = {}
        for one in calculations:
            behind[one.variable] = _behind(names_of(one), behind)
        compared = [
            (one, _behind(names_of(one), behind), share_of(one, atoms, values, known))
            for one in (conditions if is_known else ())
        ]
        checks: tuple[Check, ...] = (*conditions, *calculations)
        spoken = frozenset[str]().union(*map(names_of, checks), *absent)
        return cls(bits, values, compared, spoken, known, is_known, worked)

    def level(self, bound: int, name: str, via: int | None = None) -> tuple[float, float, float]:
        """Return values proposed and prefixes left per prefix, and the cost, of one more variable."""
        key = bound & self._telling[name], name, via
        found = self._levels.get(key)
        if found is None:
            found = self._levels[key] = self._level(*key)
        return found

    def _level(self, bound: int, name: str, via: int | None) -> tuple[float, float, float]:
        holding, masks = self.bits.holding[name], self.bits.masks
        first = tuple(holding) if via is None else (via,)
        clipped, kept = self._shares(bound, name)
        proposed, rows, cost = self._step(name, first, False, tuple([bound & masks[one] for one in first]), clipped)
        for number in holding if via is not None else ():
            if number != via:
                cost += rows * (PREFIX + LOOKUP)
                rows *= min(self._degree(number, bound & masks[number], name) / self.values[name], 1.0)
        return proposed, rows * kept, cost

    @cached_property
    def _telling(self) -> dict[str, int]:
        """Per variable, the variables that change the cost of binding it if bound before."""
        found = dict(self.bits.around)
        for name, due in self._due.items():
            for needed, _, _ in due:
                found[name] |= needed
        return found

    def along(self, order: Order, limit: float = math.inf) -> Foreseen:
        """Return the estimates of an order, as `over` does."""
        holding = self.bits.holding
        steps = [step_of(name, tuple(holding[name])) for name in order.variables]
        return self.over(in_turn(steps, dict(zip(order.variables, order.via, strict=True))), limit=limit)

    def over(self, steps: Sequence[Step], branches: Sequence[Branch] = (), limit: float = math.inf) -> Foreseen:
        """Return the estimates of a sequence of steps, for listing rows and for counting them.

        When rows are counted, prefixes that later steps cannot distinguish are grouped, and values that no later step
        reads are not enumerated (variable elimination). The values of a last step with one atom are result rows, which
        every path lists, and cost nothing. `branches` are used when rows are listed. A path that costs more than
        `limit` is abandoned: the result is `TOO_DEAR`.
        """
        listed = counted = self._start
        listing, counting = 1.0, counted
        found = [("", 1.0, listed)]
        most = limit * limit * SURELY
        seeded, spoken, due, bit = self.bits.seeded, self._spoken, self._due, self.bits.bit
        bound = seeded
        held = {number: bound & mask for number, mask in self.bits.masks.items()}
        bracketed = None
        if branches:
            bracketed = Bracketing(steps, branches, [self.bits.mask(step.spoken) for step in steps], self._among)
        for at, (step, hanging) in enumerate(zip(steps, self._hanging(steps), strict=True), 1):
            if listing * counting > most:
                return TOO_DEAR
            name = step.variable
            own = bit[name]
            if bracketed is not None:
                listed = bracketed.before(at - 1, listed, held, bound)
            atoms, is_lookup = step.atoms, step.is_lookup
            clipped, kept = self._shares(bound, name) if name in due and not is_lookup else (1.0, 1.0)
            place = tuple([held[number] for number in atoms])
            proposed, left, cost = self._step(name, atoms, is_lookup, place, clipped)
            left *= kept
            bound |= own
            for number in atoms:
                held[number] |= own
            listing += listed * cost
            is_alone = len(atoms) == 1 and not is_lookup
            if is_alone and at == len(steps):
                listing -= copying(listed, listed * proposed)
            if is_alone and not own & (hanging | spoken):
                counting += counted * ALONE
            else:
                counting += counted * cost
                counted *= left
            found.append((name, listed * proposed, listed * left))
            listed *= left
            if bracketed is not None:
                listed = bracketed.after(at, listed)
            if at == len(steps) or steps[at].is_lookup:
                continue
            needed = hanging & bound
            counted = min(counted, self._distinct(needed & ~seeded), self._distinct(needed) / CHANGES)
        listing += bracketed.extra if bracketed is not None else 0.0
        return Foreseen(tuple(itertools.starmap(Expected, found)), listing, counting)

    def _among(self, names: int, rows: float) -> float:
        """Return the expected distinct bindings among prefixes of one of several changed rows."""
        seeded, rest = names & self.bits.seeded, names & ~self.bits.seeded
        most = min(self._distinct(names), min(self._distinct(seeded), CHANGES) * self._distinct(rest))
        return most * -math.expm1(-rows * CHANGES / most) / CHANGES

    @cached_property
    def _start(self) -> float:
        """Number of prefixes that the other atoms leave of one changed row before the first step."""
        seeded = set(self.bits.row)
        rows = 1.0
        for number, atom in self.bits.atoms.items():
            shared = [name for name in atom.variables if name in seeded]
            if shared and number != self.bits.changed:
                levels = self.known.levels(atom, [*shared, *(name for name in atom.variables if name not in seeded)])
                assert levels is not None
                chance = levels.distinct[len(shared) - 1]
                for name in shared:
                    chance /= self.values[name]
                rows *= min(chance, 1.0)
        for _, names, share in self.compared:
            if names <= seeded:
                rows *= share
        return rows

    def _step(
        self, name: str, atoms: tuple[int, ...], is_lookup: bool, held: tuple[int, ...], clipped: float
    ) -> tuple[float, float, float]:
        """Return the proposed values and left prefixes per prefix, and the cost, of one step.

        `held` are the bound variables of each atom, `clipped` is the share of its range that is read.
        """
        if is_lookup:
            return 0.0, min(self._degree(atoms[0], held[0], name) / self.values[name], 1.0), PREFIX + LOOKUP
        if len(atoms) == 1:
            proposed = self._degree(atoms[0], held[0], name) * clipped
            return proposed, proposed, (ALONE if held[0] else PREFIX + WIDTH) + copying(1.0, proposed)
        key = name, atoms, held, clipped
        found = self.worked.steps.get(key)
        if found is None:
            found = self.worked.steps[key] = self._intersection(*key)
        return found

    def _intersection(
        self, name: str, atoms: tuple[int, ...], held: tuple[int, ...], clipped: float
    ) -> tuple[float, float, float]:
        """Return `_step` of several atoms."""
        degrees = [self._degree(number, before, name) for number, before in zip(atoms, held, strict=True)]
        least, *others = sorted(degrees)
        proposed = left = least * clipped
        values = self.values[name]
        cost = PREFIX + WIDTH * len(atoms) + proposed * PROPOSAL
        for degree in others:
            cost += left * PROBE
            left *= min(degree / values, 1.0)
        return proposed, left, cost

    def _degree(self, number: int, before: int, name: str) -> float:
        """Return the number of values that an atom has for a variable below bound variables."""
        key = number, before, name
        found = self.worked.degrees.get(key)
        if found is None:
            atom, above = self.bits.atoms[number], sorted(self.bits.names(before))
            after = [one for one in atom.variables if one not in above and one != name]
            levels = self.known.levels(atom, [*above, name, *after])
            assert levels is not None
            found = self.worked.degrees[key] = levels.degree(len(above))
        return found

    def _shares(self, before: int, name: str) -> tuple[float, float]:
        """Return the shares that the due conditions leave: by clipping ranges, and afterwards.

        Comparisons by order clip ranges before anything is proposed.
        """
        clipped = kept = 1.0
        for needed, clips, share in self._due.get(name, ()):
            if not needed & ~before:
                if clips:
                    clipped *= share
                else:
                    kept *= share
        return clipped, kept

    @cached_property
    def _due(self) -> dict[str, list[tuple[int, bool, float]]]:
        """Per variable, its conditions: variables needed, if they clip its ranges, and the share."""
        found: dict[str, list[tuple[int, bool, float]]] = {}
        for one, names, share in self.compared:
            for name in names if names <= self.bits.bit.keys() else ():
                clips = one.op != "!=" and not one.textual and name in (one.variable, one.other)
                found.setdefault(name, []).append((self.bits.mask(names) & ~self.bits.bit[name], clips, share))
        return found

    def _hanging(self, steps: Sequence[Step]) -> list[int]:
        """Return, per step, the variables that later steps depend on."""
        hanging = 0
        found = []
        for step in reversed(steps):
            found.append(hanging)
            if not step.is_lookup and self.bits.bit[step.variable] & self._spoken:
                hanging |= self._spoken
            for number in step.atoms:
                hanging |= self.bits.masks[number]
        return found[::-1]

    def _distinct(self, mask: int) -> float:
        """Return an upper bound on the number of bindings of some variables."""
        found = self._bindings.get(mask)
        if found is None:
            names = self.bits.names(mask)
            found = math.prod(self.values[name] for name in names)
            if len(names) > 1:
                for number, own in self.bits.masks.items():
                    if number != self.bits.changed and (mask & own).bit_count() > 1:
                        rest = math.prod(self.values[name] for name in names if not self.bits.bit[name] & own)
                        found = min(found, rest * (self.known.rows(self.bits.atoms[number].relation) or 1.0))
            self._bindings[mask] = found
        return found


def foreseen(path: DeltaPath, known: KnownRelations) -> Foreseen | None:
    """Return the estimates of a planned path; None if a relation of it has no statistics.

    Examples
    --------
    One new edge among 10,000, at vertices that have 100 of them each: 100 candidates, all of which close a triangle.

    >>> from gpu_wcoj import Program
    >>> from gpu_wcoj.planner.known import Known
    >>> program = Program("t(a, b, c) :- e(a, b), e(b, c), e(a, c).")
    >>> path = program._planned().queries["t"][0].paths[0]
    >>> found = foreseen(path, Known.from_sizes({"e": 10_000}))
    >>> [(one.variable, one.proposed, one.rows) for one in found.levels]
    [('', 1.0, 1.0), ('c', 100.0, 100.0)]
    """
    estimator = Estimator.of_path(path, known)
    return estimator.over(path.steps, path.branches) if estimator.is_known else None


def _atom(use: AtomUse) -> BodyAtom:
    key = use.key
    return BodyAtom(key.relation, key.order, use.variables, key.constants, key.equal, key.compared)


def _behind(names: Iterable[str], behind: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return the variables that these variables are calculated from, those of atoms themselves."""
    return frozenset(one for name in names for one in behind.get(name, (name,)))
