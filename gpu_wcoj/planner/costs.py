"""What a delta path costs, as far as relations are known: in probes, for one changed row.

One model serves orders that are still to be chosen and paths that are planned: both are steps, and one loop goes over
them. Values are taken to be independent of each other, and the values that fewer rows have to be among those that more
have: at a step, the atom of the smallest degree proposes, and another one holds a proposed value with the probability
of its own degree by the number of values that the variable has. They are asked in the order of their degrees, each one
for what those before it have left. A value that was met through rows has more rows below it than one drawn from the
distinct values; where that degree is known (see `gpu_wcoj.planner.statistics`), it is taken. Paths serve ticks that
count rows and ticks that list them, so they are compared by the geometric mean of both costs.

Many orders are compared, so sets of variables are masks; see `gpu_wcoj.planner.bits`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from gpu_wcoj.join.path import AtomUse, Branch, Calculation, Check, Condition, DeltaPath, Step, names_of
from gpu_wcoj.planner.bits import Bits
from gpu_wcoj.planner.body import Body, BodyAtom
from gpu_wcoj.planner.bushy import CHANGES, Bracketing
from gpu_wcoj.planner.draft import KnownRelations, Order
from gpu_wcoj.planner.expected import TOO_DEAR, Expected, Foreseen
from gpu_wcoj.planner.shares import share_of
from gpu_wcoj.planner.turns import in_turn

PREFIX, WIDTH, PROPOSAL, PROBE, LOOKUP = 0.7, 0.25, 1.0, 0.5, 0.5
"""What it costs to bring a prefix to a step, to ask an atom for its width there, to look at a proposed value, to
search it in another atom, and to search it in an atom alone, afterwards."""

ALONE, COPY = 0.3, 0.35
"""What a prefix and its first value cost at a step of one atom that something is bound of; values are only copied.

Measured along foreign keys: a key that is followed by itself takes half as long as one that is looked up. Further
values of a prefix cost `PROPOSAL`. Copying them takes less than that, but so does an intersection for a value of a wide
range, and what is copied is still to be looked up elsewhere, one value after the other.
"""

SURELY = 1 + 1e-9
"""What is dearer than a limit by this factor is so however sums are rounded."""


@dataclass(eq=False)
class Estimator:
    """The atoms that one changed row is joined with, whatever the order.

    Attributes
    ----------
    bits
        The variables of the changed row, and the other positive atoms, by number.
    values
        Per variable, how many values the atom has that has the most.
    compared
        Conditions, each with the variables of atoms that it hangs on, also through what is calculated, and with the
        share of rows that it leaves.
    spoken
        The variables that are compared, calculated with or looked for in negated atoms.
    is_known
        Whether something is known of every other relation; else nothing can be asked.

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
    _spoken: int = field(init=False)
    _together: dict[str, Step] = field(init=False)
    _degrees: dict[tuple[int, int, str], float] = field(default_factory=dict, init=False)
    _bindings: dict[int, float] = field(default_factory=dict, init=False)
    _levels: dict[tuple[int, str, int | None], tuple[float, float, float]] = field(default_factory=dict, init=False)
    _steps: dict[object, tuple[float, float, float]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._spoken = self.bits.mask(self.spoken)
        self._together = {name: Step(name, tuple(holding)) for name, holding in self.bits.holding.items()}

    @classmethod
    def of_body(cls, body: Body, seed: int, known: KnownRelations, bits: Bits | None = None) -> Estimator:
        """Of a body whose atom `seed` changes, negative for a negated one; with its bits, where these are at hand."""
        absent = [atom.variables for number, atom in enumerate(body.negated, -len(body.negated)) if number != seed]
        own = body.atoms[seed] if seed >= 0 else body.negated[seed]
        conditions, calculations = list(body.conditions), list[Calculation]()
        for one in body.calculations:
            if one.variable in own.variables:  # both must agree
                calculations.append(replace(one, variable=f"{one.variable}'"))
                conditions.append(Condition(calculations[-1].variable, "=", one.variable))
            else:
                calculations.append(one)
        return cls._of(own, bits or Bits.of_body(body, seed), conditions, calculations, absent, known)

    @classmethod
    def of_path(cls, path: DeltaPath, known: KnownRelations) -> Estimator:
        """Of a path that is planned."""
        checks: list[Check] = [*path.seed_conditions, *path.seed_checks]
        for step in path.steps:
            checks += [*step.conditions, *step.checks]
        solved = {one.variable for one in path.calculations if one.is_inverse}  # what they solve is checked later
        conditions = [one for one in checks if isinstance(one, Condition) and solved.isdisjoint(names_of(one))]
        bits = Bits(path.seed.variables, {use.atom: _atom(use) for use in path.others})
        absent = [names_of(one) for one in path.absent]
        return cls._of(_atom(path.seed), bits, conditions, path.calculations, absent, known)

    @classmethod
    def _of(
        cls,
        own: BodyAtom,
        bits: Bits,
        conditions: Sequence[Condition],
        calculations: Sequence[Calculation],
        absent: Iterable[Collection[str]],
        known: KnownRelations,
    ) -> Estimator:
        atoms = (own, *bits.atoms.values())
        is_known = None not in map(known.rows, [atom.relation for atom in atoms[1:]])
        values: dict[str, float] = {}
        for atom in atoms if is_known else ():
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
        return cls(bits, values, compared, spoken, known, is_known)

    def level(self, bound: int, name: str, via: int | None = None) -> tuple[float, float, float]:
        """Binding one more variable: the values proposed for a prefix, the prefixes left of it, and the cost."""
        key = bound & self._telling[name], name, via
        found = self._levels.get(key)
        if found is None:
            found = self._levels[key] = self._level(*key)
        return found

    def _level(self, bound: int, name: str, via: int | None) -> tuple[float, float, float]:
        holding, masks = self.bits.holding[name], self.bits.masks
        held = {number: bound & masks[number] for number in holding}
        first, rest = (holding, ()) if via is None else ([via], [one for one in holding if one != via])
        clipped, kept = self._shares(bound, name)
        proposed, rows, cost = self._step(first, False, held, name, clipped)
        for number in rest:
            cost += rows * (PREFIX + LOOKUP)
            rows *= min(self._degree(number, held[number], name) / self.values[name], 1.0)
        return proposed, rows * kept, cost

    @cached_property
    def _telling(self) -> dict[str, int]:
        """Per variable, those that tell what binding it costs, if they are bound before."""
        found = dict(self.bits.around)
        for name, due in self._due.items():
            for needed, _, _ in due:
                found[name] |= needed
        return found

    def along(self, order: Order, limit: float = math.inf) -> Foreseen:
        """What is expected of an order; as `over`."""
        steps = tuple(map(self._together.__getitem__, order.variables))
        return self.over(in_turn(steps, dict(zip(order.variables, order.via, strict=True))), limit=limit)

    def over(self, steps: Sequence[Step], branches: Sequence[Branch] = (), limit: float = math.inf) -> Foreseen:
        """What is expected of steps: of each one for all rows, and for those that are apart when rows are counted.

        Prefixes that look alike to what is left to do are counted as one, and values that nothing further hangs on are
        not looked at; values of the last step that one atom holds are rows of the answer, which every path lists.
        `branches` are steps that are taken apart when rows are listed. What costs more than `limit` is not gone through
        to the end: it is `TOO_DEAR`.
        """
        listed = counted = self._start
        listing, counting = 1.0, counted
        found = [("", 1.0, listed)]
        most = limit * limit * SURELY
        seeded, spoken, due = self.bits.seeded, self._spoken, self._due
        bound = seeded
        held = {number: bound & mask for number, mask in self.bits.masks.items()}
        bracketed = None
        if branches:
            bracketed = Bracketing(steps, branches, [self.bits.mask(step.spoken) for step in steps], self._among)
        for at, (step, hanging) in enumerate(zip(steps, self._hanging(steps), strict=True), 1):
            if listing * counting > most:
                return TOO_DEAR
            name = step.variable
            own = self.bits.bit[name]
            if bracketed is not None:
                listed = bracketed.before(at - 1, listed, held, bound)
            clipped, kept = self._shares(bound, name) if name in due and not step.is_lookup else (1.0, 1.0)
            place = name, step.atoms, step.is_lookup, tuple([held[number] for number in step.atoms]), clipped
            done = self._steps.get(place)
            if done is None:
                done = self._steps[place] = self._step(step.atoms, step.is_lookup, held, name, clipped)
            proposed, left, cost = done
            left *= kept
            bound |= own
            for number in step.atoms:
                held[number] |= own
            listing += listed * cost
            is_alone = len(step.atoms) == 1 and not step.is_lookup
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
        return Foreseen(tuple(Expected(*one) for one in found), listing, counting)

    def _among(self, names: int, rows: float) -> float:
        """How many bindings of some variables so many prefixes of one of several changed rows have, taken by chance."""
        seeded, rest = names & self.bits.seeded, names & ~self.bits.seeded
        most = min(self._distinct(names), min(self._distinct(seeded), CHANGES) * self._distinct(rest))
        return most * -math.expm1(-rows * CHANGES / most) / CHANGES

    @cached_property
    def _start(self) -> float:
        """Prefixes that the other atoms leave of one changed row, as far as its variables tell."""
        seeded = set(self.bits.row)
        rows = 1.0
        for atom in self.bits.atoms.values():
            shared = [name for name in atom.variables if name in seeded]
            if shared:
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
        self,
        atoms: Sequence[int],
        is_lookup: bool,
        held: Mapping[int, int],
        name: str,
        clipped: float = 1.0,
    ) -> tuple[float, float, float]:
        """One step: the values proposed for a prefix, the prefixes that atoms leave of it, and the cost.

        `held` are the variables that each atom has been followed by, `clipped` is the share of its range that is gone
        through.
        """
        if is_lookup:
            (number,) = atoms
            return 0.0, min(self._degree(number, held[number], name) / self.values[name], 1.0), PREFIX + LOOKUP
        if len(atoms) == 1:
            proposed = self._degree(atoms[0], held[atoms[0]], name) * clipped
            return proposed, proposed, (ALONE if held[atoms[0]] else PREFIX + WIDTH) + copying(1.0, proposed)
        least, *degrees = sorted([self._degree(number, held[number], name) for number in atoms])
        proposed = left = least * clipped
        values = self.values[name]
        cost = PREFIX + WIDTH * len(atoms) + proposed * PROPOSAL
        for degree in degrees:
            cost += left * PROBE
            left *= min(degree / values, 1.0)
        return proposed, left, cost

    def _degree(self, number: int, before: int, name: str) -> float:
        """Values of a variable that an atom has below others."""
        key = number, before, name
        found = self._degrees.get(key)
        if found is None:
            atom, above = self.bits.atoms[number], sorted(self.bits.names(before))
            after = [one for one in atom.variables if one not in above and one != name]
            levels = self.known.levels(atom, [*above, name, *after])
            assert levels is not None
            found = self._degrees[key] = levels.degree(len(above))
        return found

    def _shares(self, before: int, name: str) -> tuple[float, float]:
        """What the conditions leave that are due once a variable is bound: of the ranges that hold it, and of the rest.

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
        """Per variable the conditions that hang on it: on which others, whether they clip its ranges, and the share."""
        found: dict[str, list[tuple[int, bool, float]]] = {}
        for one, names, share in self.compared:
            for name in names if names <= self.bits.bit.keys() else ():
                clips = one.op != "!=" and not one.textual and name in (one.variable, one.other)
                found.setdefault(name, []).append((self.bits.mask(names) & ~self.bits.bit[name], clips, share))
        return found

    def _hanging(self, steps: Sequence[Step]) -> list[int]:
        """Per step, the variables that the steps behind it hang on."""
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
        """How many bindings of some variables there can be."""
        found = self._bindings.get(mask)
        if found is None:
            names = self.bits.names(mask)
            found = math.prod(self.values[name] for name in names)
            if len(names) > 1:
                for number in {number for name in names for number in self.bits.holding[name]}:
                    own = self.bits.masks[number]
                    if (mask & own).bit_count() > 1:
                        rest = math.prod(self.values[name] for name in names if not self.bits.bit[name] & own)
                        found = min(found, rest * (self.known.rows(self.bits.atoms[number].relation) or 1.0))
            self._bindings[mask] = found
        return found


def copying(prefixes: float, values: float) -> float:
    """What the values of so many prefixes cost at a step of one atom.

    Examples
    --------
    >>> copying(10.0, 10.0), copying(10.0, 12.0)
    (3.5, 5.5)
    """
    return min(values, prefixes) * COPY + max(values - prefixes, 0.0) * PROPOSAL


def foreseen(path: DeltaPath, known: KnownRelations) -> Foreseen | None:
    """What is expected of a planned path, whatever planned it; None if nothing is known of one of its relations.

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
    """What is not calculated of these variables, and of what the others are calculated from."""
    return frozenset(one for name in names for one in behind.get(name, (name,)))
