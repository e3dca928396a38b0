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

from gpu_wcoj.join.plan import AtomUse, Branch, Calculation, Check, Condition, DeltaPath, Step, check_variables
from gpu_wcoj.planner.bits import Bits
from gpu_wcoj.planner.body import Body, BodyAtom
from gpu_wcoj.planner.bushy import CHANGES, Bracketing
from gpu_wcoj.planner.charges import ALONE, LOOKUP, PREFIX, PROBE, PROPOSAL, WIDTH, copying
from gpu_wcoj.planner.expected import TOO_DEAR, Expected, Foreseen
from gpu_wcoj.planner.ir import CatalogReader, Order
from gpu_wcoj.planner.shares import share_of
from gpu_wcoj.planner.turns import in_turn, step_of
from gpu_wcoj.planner.worked import SharedCosts

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

    >>> from tests.planner.examples import draft_program
    >>> from gpu_wcoj.planner.passes.normalise import normalise_rules
    >>> draft = draft_program("t(a, b, c) :- e(a, b), e(b, c), e(a, c).", [normalise_rules], sizes={"e": 10_000})
    >>> estimator = Estimator.of_body(draft.rules[0].normalised, 0, draft.setting.known)
    >>> [(one.variable, one.proposed, one.rows) for one in estimator.along(Order(0, ("c",), (None,))).levels]
    [('', 1.0, 1.0), ('c', 100.0, 100.0)]
    """

    bits: Bits
    values: Mapping[str, float]
    compared: Sequence[tuple[Condition, frozenset[str], float]]
    spoken: frozenset[str]
    known: CatalogReader
    is_known: bool
    worked: SharedCosts
    _spoken: int = field(init=False)
    _bindings: dict[int, float] = field(default_factory=dict, init=False)
    _levels: dict[tuple[int, str, int | None], tuple[float, float, float]] = field(init=False)

    def __post_init__(self) -> None:
        self._spoken = self.bits.mask(self.spoken)
        self._levels = {} if self.compared else self.worked.levels  # which values are compared depends on the row

    @classmethod
    def of_body(
        cls,
        body: Body,
        seed: int,
        catalog: CatalogReader,
        bits: Bits | None = None,
        shared_costs: SharedCosts | None = None,
    ) -> Estimator:
        """Create the estimator of a body in which atom `seed` changes, negative for a negated one.

        Parameters
        ----------
        bits, shared_costs
            Masks and cost terms of the other estimators of the body, if any.
        """
        absent = [
            atom.variables for atom_index, atom in enumerate(body.negated, -len(body.negated)) if atom_index != seed
        ]
        row_atom = body.atom(seed)
        conditions, calculations = list(body.conditions), list[Calculation]()
        for calculation in body.calculations:
            if calculation.variable in row_atom.variables:  # both must agree
                calculations.append(replace(calculation, variable=f"{calculation.variable}'"))
                conditions.append(Condition(calculations[-1].variable, "=", calculation.variable))
            else:
                calculations.append(calculation)
        bits = Bits.of_body(body).of_change(seed, row_atom.variables) if bits is None else bits
        if seed < 0 or body.calculations:
            shared_costs = None
        return cls._of(row_atom, bits, conditions, calculations, absent, catalog, shared_costs or SharedCosts(bits))

    @classmethod
    def of_path(cls, path: DeltaPath, catalog: CatalogReader) -> Estimator:
        """Create the estimator of a planned path."""
        checks: list[Check] = [*path.seed_conditions, *path.seed_checks]
        for step in path.steps:
            checks += [*step.conditions, *step.checks]
        solved = {
            calculation.variable for calculation in path.calculations if calculation.is_inverse
        }  # what they solve is checked later
        conditions = [
            check for check in checks if isinstance(check, Condition) and solved.isdisjoint(check_variables(check))
        ]
        bits = Bits(path.seed.variables, {use.atom: _atom(use) for use in path.other_atoms})
        absent = [check_variables(negated) for negated in path.absent]
        return cls._of(_atom(path.seed), bits, conditions, path.calculations, absent, catalog, SharedCosts(bits))

    @classmethod
    def _of(
        cls,
        row_atom: BodyAtom,
        bits: Bits,
        conditions: Sequence[Condition],
        calculations: Sequence[Calculation],
        absent: Iterable[Collection[str]],
        catalog: CatalogReader,
        shared_costs: SharedCosts,
    ) -> Estimator:
        joined_atoms = [atom for atom_index, atom in bits.atoms.items() if atom_index != bits.changed]
        is_known = None not in map(catalog.rows, [atom.relation for atom in joined_atoms])
        atoms = (row_atom, *joined_atoms)
        values = shared_costs.values
        if is_known and not values:
            for atom in atoms:
                for name in atom.variables:
                    values[name] = max(values.get(name, 1.0), catalog.values(atom, name) or 1.0)
        behind: dict[str, frozenset[str]] = {}
        for calculation in calculations:
            behind[calculation.variable] = _behind(check_variables(calculation), behind)
        compared = [
            (condition, _behind(check_variables(condition), behind), share_of(condition, atoms, values, catalog))
            for condition in (conditions if is_known else ())
        ]
        checks: tuple[Check, ...] = (*conditions, *calculations)
        spoken = frozenset[str]().union(*map(check_variables, checks), *absent)
        return cls(bits, values, compared, spoken, catalog, is_known, shared_costs)

    def level(self, bound: int, name: str, via: int | None = None) -> tuple[float, float, float]:
        """Return values proposed and prefixes left per prefix, and the cost, of one more variable."""
        key = bound & self._telling[name], name, via
        costs = self._levels.get(key)
        if costs is None:
            costs = self._levels[key] = self._level(*key)
        return costs

    def _level(self, bound: int, name: str, via: int | None) -> tuple[float, float, float]:
        holding, masks = self.bits.holding[name], self.bits.masks
        first = tuple(holding) if via is None else (via,)
        clipped, share_after = self._shares(bound, name)
        proposed, rows, cost = self._step(
            name, first, False, tuple([bound & masks[atom_index] for atom_index in first]), clipped
        )
        for searched in holding if via is not None else ():
            if searched != via:
                cost += rows * (PREFIX + LOOKUP)
                rows *= min(self._degree(searched, bound & masks[searched], name) / self.values[name], 1.0)
        return proposed, rows * share_after, cost

    @cached_property
    def _telling(self) -> dict[str, int]:
        """Per variable, the variables that change the cost of binding it if bound before."""
        masks = dict(self.bits.around)
        for name, due in self._due.items():
            for needed, _, _ in due:
                masks[name] |= needed
        return masks

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
        levels = [("", 1.0, listed)]
        max_product = limit * limit * SURELY
        seeded, spoken, due, bit = self.bits.seeded, self._spoken, self._due, self.bits.bit
        bound = seeded
        bound_in = {atom_index: bound & mask for atom_index, mask in self.bits.masks.items()}
        bracketed = None
        if branches:
            bracketed = Bracketing(
                steps, branches, [self.bits.mask(step.read_variables) for step in steps], self._among
            )
        for n_done, (step, hanging) in enumerate(zip(steps, self._hanging(steps), strict=True), 1):
            if listing * counting > max_product:
                return TOO_DEAR
            name = step.variable
            variable_bit = bit[name]
            if bracketed is not None:
                listed = bracketed.before(n_done - 1, listed, bound_in, bound)
            atoms, is_lookup = step.atoms, step.is_lookup
            clipped, share_after = self._shares(bound, name) if name in due and not is_lookup else (1.0, 1.0)
            place = tuple([bound_in[atom_index] for atom_index in atoms])
            proposed, left, cost = self._step(name, atoms, is_lookup, place, clipped)
            left *= share_after
            bound |= variable_bit
            for index in atoms:
                bound_in[index] |= variable_bit
            listing += listed * cost
            is_alone = len(atoms) == 1 and not is_lookup
            if is_alone and n_done == len(steps):
                listing -= copying(listed, listed * proposed)
            if is_alone and not variable_bit & (hanging | spoken):
                counting += counted * ALONE
            else:
                counting += counted * cost
                counted *= left
            levels.append((name, listed * proposed, listed * left))
            listed *= left
            if bracketed is not None:
                listed = bracketed.after(n_done, listed)
            if n_done == len(steps) or steps[n_done].is_lookup:
                continue
            needed = hanging & bound
            counted = min(counted, self._distinct(needed & ~seeded), self._distinct(needed) / CHANGES)
        listing += bracketed.extra if bracketed is not None else 0.0
        return Foreseen(tuple(itertools.starmap(Expected, levels)), listing, counting)

    def _among(self, names: int, rows: float) -> float:
        """Return the expected distinct bindings among prefixes of one of several changed rows."""
        seeded, others = names & self.bits.seeded, names & ~self.bits.seeded
        n_bindings = min(self._distinct(names), min(self._distinct(seeded), CHANGES) * self._distinct(others))
        return n_bindings * -math.expm1(-rows * CHANGES / n_bindings) / CHANGES

    @cached_property
    def _start(self) -> float:
        """Number of prefixes that the other atoms leave of one changed row before the first step."""
        seeded = set(self.bits.row)
        rows = 1.0
        for atom_index, atom in self.bits.atoms.items():
            shared = [name for name in atom.variables if name in seeded]
            if shared and atom_index != self.bits.changed:
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
        self, name: str, atoms: tuple[int, ...], is_lookup: bool, bound_masks: tuple[int, ...], clipped: float
    ) -> tuple[float, float, float]:
        """Return the proposed values and left prefixes per prefix, and the cost, of one step.

        `bound_masks` are the bound variables of each atom, `clipped` is the share of its range that is read.
        """
        if is_lookup:
            return 0.0, min(self._degree(atoms[0], bound_masks[0], name) / self.values[name], 1.0), PREFIX + LOOKUP
        if len(atoms) == 1:
            proposed = self._degree(atoms[0], bound_masks[0], name) * clipped
            return proposed, proposed, (ALONE if bound_masks[0] else PREFIX + WIDTH) + copying(1.0, proposed)
        key = name, atoms, bound_masks, clipped
        costs = self.worked.steps.get(key)
        if costs is None:
            costs = self.worked.steps[key] = self._intersection(*key)
        return costs

    def _intersection(
        self, name: str, atoms: tuple[int, ...], bound_masks: tuple[int, ...], clipped: float
    ) -> tuple[float, float, float]:
        """Return `_step` of several atoms."""
        degrees = [
            self._degree(atom_index, before, name) for atom_index, before in zip(atoms, bound_masks, strict=True)
        ]
        smallest, *larger = sorted(degrees)
        proposed = left = smallest * clipped
        values = self.values[name]
        cost = PREFIX + WIDTH * len(atoms) + proposed * PROPOSAL
        for degree in larger:
            cost += left * PROBE
            left *= min(degree / values, 1.0)
        return proposed, left, cost

    def _degree(self, atom_index: int, before: int, name: str) -> float:
        """Return the number of values that an atom has for a variable below bound variables."""
        key = atom_index, before, name
        degree = self.worked.degrees.get(key)
        if degree is None:
            atom, above = self.bits.atoms[atom_index], sorted(self.bits.names(before))
            after = [variable for variable in atom.variables if variable not in above and variable != name]
            levels = self.known.levels(atom, [*above, name, *after])
            assert levels is not None
            degree = self.worked.degrees[key] = levels.degree(len(above))
        return degree

    def _shares(self, before: int, name: str) -> tuple[float, float]:
        """Return the shares that the due conditions leave: by clipping ranges, and afterwards.

        Comparisons by order clip ranges before anything is proposed.
        """
        clipped = share_after = 1.0
        for needed, clips, share in self._due.get(name, ()):
            if not needed & ~before:
                if clips:
                    clipped *= share
                else:
                    share_after *= share
        return clipped, share_after

    @cached_property
    def _due(self) -> dict[str, list[tuple[int, bool, float]]]:
        """Per variable, its conditions: variables needed, if they clip its ranges, and the share."""
        due: dict[str, list[tuple[int, bool, float]]] = {}
        for condition, names, share in self.compared:
            for name in names if names <= self.bits.bit.keys() else ():
                clips = (
                    condition.op != "!=" and not condition.textual and name in (condition.variable, condition.operand)
                )
                due.setdefault(name, []).append((self.bits.mask(names) & ~self.bits.bit[name], clips, share))
        return due

    def _hanging(self, steps: Sequence[Step]) -> list[int]:
        """Return, per step, the variables that later steps depend on."""
        hanging = 0
        masks = []
        for step in reversed(steps):
            masks.append(hanging)
            if not step.is_lookup and self.bits.bit[step.variable] & self._spoken:
                hanging |= self._spoken
            for atom_index in step.atoms:
                hanging |= self.bits.masks[atom_index]
        return masks[::-1]

    def _distinct(self, mask: int) -> float:
        """Return an upper bound on the number of bindings of some variables."""
        n_bindings = self._bindings.get(mask)
        if n_bindings is None:
            names = self.bits.names(mask)
            n_bindings = math.prod(self.values[name] for name in names)
            if len(names) > 1:
                for atom_index, atom_mask in self.bits.masks.items():
                    if atom_index != self.bits.changed and (mask & atom_mask).bit_count() > 1:
                        n_outside = math.prod(
                            self.values[name] for name in names if not self.bits.bit[name] & atom_mask
                        )
                        n_bindings = min(
                            n_bindings, n_outside * (self.known.rows(self.bits.atoms[atom_index].relation) or 1.0)
                        )
            self._bindings[mask] = n_bindings
        return n_bindings


def foreseen(path: DeltaPath, catalog: CatalogReader) -> Foreseen | None:
    """Return the estimates of a planned path; None if a relation of it has no statistics.

    Examples
    --------
    One new edge among 10,000, at vertices that have 100 of them each: 100 candidates, all of which close a triangle.

    >>> from gpu_wcoj import Program
    >>> from gpu_wcoj.planner.catalog import Catalog
    >>> program = Program("t(a, b, c) :- e(a, b), e(b, c), e(a, c).")
    >>> path = program._planned().queries["t"][0].paths[0]
    >>> found = foreseen(path, Catalog.from_sizes({"e": 10_000}))
    >>> [(one.variable, one.proposed, one.rows) for one in found.levels]
    [('', 1.0, 1.0), ('c', 100.0, 100.0)]
    """
    estimator = Estimator.of_path(path, catalog)
    return estimator.over(path.steps, path.branches) if estimator.is_known else None


def _atom(use: AtomUse) -> BodyAtom:
    key = use.key
    return BodyAtom(key.relation, key.order, use.variables, key.constants, key.equal, key.compared)


def _behind(names: Iterable[str], behind: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return the variables that these variables are calculated from, those of atoms themselves."""
    return frozenset(source for name in names for source in behind.get(name, (name,)))
