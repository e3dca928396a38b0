"""Cost model of delta paths, in nanoseconds, for one changed row.

The same model evaluates candidate orders and planned paths: both are sequences of steps. Values are assumed to be
independent of each other, and smaller value sets to be contained in larger ones (Selinger et al.,
doi:10.1145/582095.582099): at a step, the atom of the smallest degree proposes, and another atom holds a proposed value
with the probability of its degree divided by the number of its values, or by that of an atom that was met before if
that one has more. The atoms are searched in the order of their degrees, each for the values that the earlier ones have
left. A value that is met through rows has more rows below it than a value drawn from the distinct values; where
that degree is known (see `gpu_wcoj.planner.statistics`), it is used. Paths serve ticks that count rows and ticks that
list them, so they are compared by the geometric mean of both costs.

Many orders are compared, so sets of variables are masks (`Bits`).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_wcoj.costs import (
    BRANCH_START,
    COPY,
    GROUPED_PREFIX,
    INDEXED_ROW,
    JOINED_ROW,
    LOOKUP,
    PREFIX,
    PROBE,
    PROPOSAL,
    SINGLE,
    SORTED_PREFIX,
    WIDTH,
)
from gpu_wcoj.errors import BackendUnavailableError, UsageError
from gpu_wcoj.functions import Calculation
from gpu_wcoj.join.eliminate import MIN_MERGED
from gpu_wcoj.join.generic import MAX_MERGED_FRACTION
from gpu_wcoj.join.plan import AtomUse, Branch, Check, Condition, DeltaPath, Step, check_variables, split_independent
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.planner.body import Body, BodyAtom, solvable
from gpu_wcoj.planner.ir import TOO_DEAR, CatalogReader, Expected, Foreseen, Order
from gpu_wcoj.trace.arrangement import COMPARE


def cost_of_full_join(indexed: float, rows: float, proposed: float) -> float:
    """Return the cost in nanoseconds of a join along one path whose atoms have no indices yet.

    Parameters
    ----------
    indexed
        Rows of the atoms that are looked up.
    rows
        Rows of the atom that starts the path; they are read as they are.
    proposed
        Values that the steps propose for each of these, and one for each step.
    """
    return INDEXED_ROW * indexed + PROPOSAL * rows * proposed


def expected_minimum(left: float, left_spread: float, right: float, right_spread: float) -> float:
    """Return the mean of the smaller of two degrees that are independent of each other.

    Degrees are assumed to be log-normal. The variance of the logarithm follows from two means: that over rows is
    ``exp(variance)`` times that over prefixes.

    Parameters
    ----------
    left, right
        Mean degrees over rows.
    left_spread, right_spread
        Variances of their logarithms.

    Examples
    --------
    >>> expected_minimum(5.0, 0.0, 7.0, 0.0)
    5.0
    >>> round(expected_minimum(8.0, 1.0, 8.0, 1.0), 3)
    3.836
    """
    spread = left_spread + right_spread
    if spread <= 0 or min(left, right) <= 1:
        return min(left, right)
    deviation, difference = math.sqrt(2 * spread), math.log(right / left)
    # the means of the logarithms are those of the degrees' less half of the variances
    between = difference + (left_spread - right_spread) / 2
    first = math.erfc((left_spread - between) / deviation) / 2
    second = math.erfc((right_spread + between) / deviation) / 2
    return max(left * first + right * second, 1.0)


def copying(prefixes: float, values: float) -> float:
    """Return the nanoseconds of copying the values of these prefixes at a step of one atom.

    Examples
    --------
    >>> copying(10.0, 10.0), copying(10.0, 12.0)
    (28.0, 44.0)
    """
    return min(values, prefixes) * COPY + max(values - prefixes, 0.0) * PROPOSAL


# Sets of variables as bit masks.


@dataclass(eq=False)
class Bits:
    """The variables of a changed row, and of the atoms that it is joined with.

    Attributes
    ----------
    row
        Variables of the changed row.
    atoms
        Atoms by index.
    changed
        Index of the changed atom, if it is among `atoms`: its variables are bound.
    bit
        Per variable, its bit.
    masks
        Per atom, the mask of its variables.
    seeded, rest
        Mask of the variables of the row, and of all other variables.
    holding
        Per variable, the atoms that hold it.
    around
        Per variable, the mask of all variables of the atoms that hold it.

    Examples
    --------
    >>> bits = Bits(("a", "b"), {1: BodyAtom("r", (0, 1), ("b", "c")), 2: BodyAtom("s", (0, 1), ("c", "d"))})
    >>> bits.bit, bits.masks, bits.seeded
    ({'a': 1, 'b': 2, 'c': 4, 'd': 8}, {1: 6, 2: 12}, 3)
    >>> bits.names(10), bits.holding["c"], bits.names(bits.around["c"])
    (['b', 'd'], [1, 2], ['b', 'c', 'd'])
    >>> other = bits.of_change(1, ("b", "c"))
    >>> other.names(other.seeded), other.names(other.rest)
    (['b', 'c'], ['d'])
    """

    row: tuple[str, ...]
    atoms: Mapping[int, BodyAtom]
    changed: int | None = None
    bit: dict[str, int] = field(default_factory=dict)
    masks: dict[int, int] = field(default_factory=dict)
    holding: dict[str, list[int]] = field(default_factory=dict)
    around: dict[str, int] = field(default_factory=dict)
    seeded: int = field(init=False)
    rest: int = field(init=False)

    def __post_init__(self) -> None:
        self.seeded = self._new(self.row)
        if not self.masks:
            for atom_index, atom in self.atoms.items():
                mask = self.masks[atom_index] = self._new(atom.variables)
                for name in atom.variables:
                    self.holding[name].append(atom_index)
                    self.around[name] |= mask
        self.rest = 0
        for mask in self.masks.values():
            self.rest |= mask
        self.rest &= ~self.seeded

    @classmethod
    def of_body(cls, body: Body) -> Bits:
        """Create the masks of a body before a changed atom is chosen; see `of_change`."""
        return cls((), dict(enumerate(body.atoms)))

    def of_change(self, atom_index: int, row: tuple[str, ...]) -> Bits:
        """Return the masks for a changed row of one atom, possibly negated; all else is shared."""
        return Bits(row, self.atoms, atom_index, self.bit, self.masks, self.holding, self.around)

    def _new(self, names: Iterable[str]) -> int:
        """Return the mask of these variables and assign bits to new ones."""
        mask = 0
        for name in names:
            if name not in self.bit:
                self.bit[name] = 1 << len(self.bit)
                self.holding[name] = []
                self.around[name] = 0
            mask |= self.bit[name]
        return mask

    def mask(self, names: Iterable[str]) -> int:
        """Return the mask of these variables; variables of no atom are ignored."""
        mask = 0
        for name in names:
            mask |= self.bit.get(name, 0)
        return mask

    def names(self, mask: int) -> list[str]:
        """Return the variables of a mask, in the order of their bits."""
        names = []
        for name, bit in self.bit.items():
            if bit & mask:
                names.append(name)
        return names


# Cost terms of a rule body that do not depend on the changed atom; computed once.


@dataclass(eq=False)
class SharedCosts:
    """Cost terms that the estimators of a body share; see `Estimator`.

    It serves all changes of positive atoms of a body without calculations: the changed row may bind a calculated
    variable, and a negated atom has other values.

    Attributes
    ----------
    bits
        Masks of its atoms, before a changed atom is chosen.
    values
        Values of the estimator; empty until an estimator with statistics exists.
    degrees
        Degrees by atom, variables that are bound before, and variable.
    levels
        Costs of levels without comparisons, by the bound variables that influence them, the variable, and the atom that
        proposes it alone.
    steps
        Costs of steps by variable, atoms, bound variables of each atom, and the share of its range that is read.
    """

    bits: Bits
    values: dict[str, float] = field(default_factory=dict)
    degrees: dict[tuple[int, int, str], float] = field(default_factory=dict)
    spreads: dict[tuple[int, int, str], float] = field(default_factory=dict)
    levels: dict[tuple[int, str, int | None], tuple[float, float, float]] = field(default_factory=dict)
    steps: dict[tuple[str, tuple[int, ...], tuple[int, ...], float], tuple[float, float, float]] = field(
        default_factory=dict
    )


# Selectivity of comparisons, measured on sample rows.


RANGE, CALCULATED = 0.5, 0.1
"""Assumed shares of rows that a comparison by order leaves without a sample, and that have one calculated value."""

SAMPLE_ROWS, SAMPLE_ROWS_APART = 1 << 11, 1 << 8
"""Sample sizes in rows: of an atom with both operands, and of each of two atoms."""


def share_of(
    condition: Condition, atoms: Sequence[BodyAtom], values: Mapping[str, float], catalog: CatalogReader
) -> float:
    """Return the share of rows that a condition leaves.

    Two variables are compared in the rows of an atom that holds both, else they are assumed to be independent.

    Parameters
    ----------
    atoms
        Atoms of the path.
    values
        Per variable, its number of distinct values.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> rows = np.array([[1, 1, 1, 8], [2, 3, 4, 5]])
    >>> known = SimpleNamespace(sample=lambda atom, names: rows[[atom.variables.index(name) for name in names]])
    >>> r, s = BodyAtom("r", (0, 1), ("a", "b")), BodyAtom("r", (0, 1), ("c", "d"))
    >>> [share_of(Condition("a", "<", other), [r, s], {}, known) for other in (5, "b", "d")]
    [0.75, 0.75, 0.75]
    >>> share_of(Condition("a", "<", "d", textual=True), [r, s], {}, known)
    0.5
    """
    name, op, operand = condition.variable, condition.op, condition.operand
    names = (name, operand) if isinstance(operand, str) else (name,)
    if op in ("=", "!="):
        n_values = max((values[variable] for variable in names if variable in values), default=1 / CALCULATED)
        return 1 / n_values if op == "=" else 1.0
    if condition.textual:
        return RANGE
    together = _sample_rows(names, atoms, catalog, SAMPLE_ROWS)
    if together is not None:
        return _within(COMPARE[op](together[0], together[1] if isinstance(operand, str) else operand))
    apart = [
        sample_rows
        for variable in names
        if (sample_rows := _sample_rows((variable,), atoms, catalog, SAMPLE_ROWS_APART)) is not None
    ]
    if len(apart) < 2:
        return RANGE
    left, right = np.sort(apart[0][0]), apart[1][0]
    less = np.searchsorted(left, right, side="left" if op in ("<", ">=") else "right") / len(left)
    return _within(less if op in ("<", "<=") else 1 - less)


def assumed_share(checks: Iterable[Check]) -> float:
    """Return the share of rows that checks are assumed to leave, without statistics.

    Examples
    --------
    >>> assumed_share([Condition("#1", "=", 5), Condition("x", "<", "y"), Condition("x", "!=", 3)])
    0.05
    """
    shares = {"=": CALCULATED, "!=": 1.0}
    return math.prod(shares.get(check.op, RANGE) for check in checks if isinstance(check, Condition))


def _sample_rows(
    names: Sequence[str], atoms: Sequence[BodyAtom], catalog: CatalogReader, max_rows: int
) -> Int64Array | None:
    """Return sample rows of an atom with these variables, one array row a variable, or None."""
    for atom in atoms:
        if set(names).issubset(atom.variables):
            rows = catalog.sample(atom, names)
            if rows is not None and rows.shape[1]:
                return rows[:, :: -(-rows.shape[1] // max_rows)]
    return None


def _within(satisfied: npt.NDArray[Any]) -> float:
    """Return the mean, with a positive lower bound."""
    return float(max(satisfied.mean(), 0.5 / len(satisfied)))


# Steps of orders in which one atom proposes values and the others are looked up.


@lru_cache(maxsize=1 << 12)
def step_of(
    variable: str,
    atoms: tuple[int, ...],
    conditions: tuple[Condition, ...] = (),
    checks: tuple[Check, ...] = (),
    is_lookup: bool = False,
) -> Step:
    """Return a cached step; many orders have the same steps."""
    return Step(variable, atoms, conditions, checks, is_lookup)


def in_turn(steps: Sequence[Step], via: Mapping[str, int | None]) -> tuple[Step, ...]:
    """Return the steps with lookups of the other atoms after the atom that proposes a variable.

    An atom is looked up once all of its variables are bound, or right before it proposes a variable itself.

    Examples
    --------
    >>> steps = Step("b", (0, 1)), Step("c", (1, 2))
    >>> [one.name for one in in_turn(steps, {"b": 0, "c": 2})]
    ['b', 'c', 'b@1', 'c@1']
    >>> [one.name for one in in_turn(steps, {"b": 0, "c": None})]
    ['b', 'b@1', 'c']
    """
    if set(via.values()) <= {None}:
        return tuple(steps)
    last_step = {atom_index: i for i, step in enumerate(steps) for atom_index in step.atoms}
    result: list[Step] = []
    late: dict[int, list[Step]] = {}
    for index, step in enumerate(steps):
        proposer = via.get(step.variable)
        if proposer is None or step.is_lookup or len(step.atoms) == 1:
            for due_atom in step.atoms if late else ():
                result += late.pop(due_atom, [])
            result.append(step)
            continue
        result += late.pop(proposer, [])
        result.append(step_of(step.variable, (proposer,), step.conditions, step.checks))
        for due_atom in step.atoms:
            if due_atom != proposer:
                late.setdefault(due_atom, []).append(step_of(step.variable, (due_atom,), is_lookup=True))
                if last_step[due_atom] == index:
                    result += late.pop(due_atom)
    return tuple(result)


# Cost of a path with branches (a bushy plan); see `gpu_wcoj.join.bushy`.


CHANGES = 100.0
"""Assumed number of changed rows in one batch; their prefixes may share branches."""


@dataclass(eq=False)
class Bracketing:
    """Track how many prefixes each step of a path with branches is taken for.

    The rows of a branch are assumed to be distributed over the prefixes at random: if prefixes have m rows on average,
    the share exp(-m) of them has none.

    Attributes
    ----------
    spoken
        Per step, the mask of the variables that it reads.
    distinct
        Map (mask, number of prefixes) to the number of distinct bindings of the mask's variables.
    n_changes
        Changed rows that share the start of a branch.
    extra
        Accumulated cost in nanoseconds of grouping and joining back.

    Examples
    --------
    Ten prefixes, of two kinds for the branch; each kind has three rows, so each prefix has.

    >>> steps = Step("c", (0,)), Step("d", (1,))
    >>> one = Bracketing(steps, (Branch(0, 2),), [0, 0], lambda mask, rows: 2.0)
    >>> one.before(0, 10.0, {0: 1, 1: 1}, 1), round(one.after(2, 6.0)), round(one.extra, 1)
    (2.0, 30, 640.0)
    """

    steps: Sequence[Step]
    branches: Sequence[Branch]
    spoken: Sequence[int]
    distinct: Callable[[int, float], float]
    n_changes: float = CHANGES
    extra: float = 0.0
    _alive: float = 0.0
    _begun: float = 0.0
    _waiting: list[float] = field(default_factory=list)

    def before(self, step_index: int, rows: float, bound_by_atom: Mapping[int, int], bound: int) -> float:
        """Return the number of prefixes that enter a step.

        `bound_by_atom` are the variables that each atom has bound.
        """
        for branch in self.branches:
            if branch.begin == step_index:
                seen = 0
                for place in range(branch.begin, branch.end):
                    seen |= self.spoken[place] & bound
                    for atom_index in self.steps[place].atoms:
                        seen |= bound_by_atom[atom_index]
                if not self._waiting:
                    self._alive = rows
                self.extra += self._alive * GROUPED_PREFIX + BRANCH_START / self.n_changes
                self._begun = min(self._alive, self.distinct(seen, self._alive))
                return self._begun
        return rows

    def after(self, step_index: int, rows: float) -> float:
        """Return the number of prefixes before a step, after finished branches are joined back."""
        if not any(branch.end == step_index for branch in self.branches):
            return rows
        each = rows / max(self._begun, 1e-300)
        share = -math.expm1(-each)
        self._alive *= share
        self._waiting.append(each / share if share else 1.0)
        if any(branch.begin == step_index for branch in self.branches):
            return rows  # the next branch starts from the same prefixes
        rows = self._alive
        for factor in self._waiting:
            rows *= factor
            self.extra += rows * JOINED_ROW
        self._waiting.clear()
        return rows


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
    row_values
        Per variable of the changed row, the number of distinct values that its relation has.
    compared
        Conditions, each with the variables of atoms that it depends on, also through calculations, and with the share
        of rows that it leaves.
    spoken
        The variables of comparisons, calculations and negated atoms.
    is_known
        True if every other relation has statistics; otherwise no method may be called.
    worked
        Cached cost terms.
    head_variables
        The variables that the head keeps; None if it is all of them.
    n_seeds
        Rows of a load that the path starts from together, None for changes: prefixes that are equal for the head and
        the steps to come are merged.

    Examples
    --------
    One new edge of a graph of 10,000 edges, 100 of them at every vertex: 100 candidates, all of which close a triangle.

    >>> from tests.planner.examples import draft_program
    >>> from gpu_wcoj.planner.passes.simplify import normalise_rules
    >>> draft = draft_program("t(a, b, c) :- e(a, b), e(b, c), e(a, c).", [normalise_rules], sizes={"e": 10_000})
    >>> estimator = Estimator.of_body(draft.rules[0].normalised, 0, draft.setting.known)
    >>> [(one.variable, one.proposed, one.rows) for one in estimator.along(Order(0, ("c",), (None,))).levels]
    [('', 1.0, 1.0), ('c', 100.0, 100.0)]
    """

    bits: Bits
    values: Mapping[str, float]
    row_values: Mapping[str, float]
    compared: Sequence[tuple[Condition, frozenset[str], float]]
    spoken: frozenset[str]
    known: CatalogReader
    is_known: bool
    worked: SharedCosts
    sought: frozenset[str]
    head_variables: frozenset[str] | None = None
    n_seeds: float | None = None
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
        sought = frozenset(itertools.chain.from_iterable(map(solvable, body.calculations)))
        shared_costs = shared_costs or SharedCosts(bits)
        head_variables = None
        if not body.keeps_all:
            head_variables = frozenset(term for term in body.head if isinstance(term, str))
        return cls._of(row_atom, bits, conditions, calculations, absent, catalog, shared_costs, sought, head_variables)

    @classmethod
    def of_path(
        cls, path: DeltaPath, catalog: CatalogReader, head_variables: Collection[str] | None = None
    ) -> Estimator:
        """Create the estimator of a planned path.

        `head_variables` are the variables that the head keeps, None for all.
        """
        checks: list[Check] = [*path.seed_conditions, *path.seed_checks]
        for step in path.steps:
            checks += [*step.conditions, *step.checks]
        solved = {
            calculation.variable for calculation in path.calculations if calculation.is_inverse
        }  # what they solve is checked later
        conditions = [
            check for check in checks if isinstance(check, Condition) and solved.isdisjoint(check_variables(check))
        ]
        sought = frozenset(
            check.variable for check in checks if isinstance(check, Condition) and check.operand in solved
        )
        bits = Bits(path.seed.variables, {use.atom: _atom(use) for use in path.other_atoms})
        absent = [check_variables(negated) for negated in path.absent]
        shared_costs = SharedCosts(bits)
        if head_variables is not None:
            head_variables = None if {*path.order}.issubset(head_variables) else frozenset(head_variables)
        return cls._of(
            _atom(path.seed), bits, conditions, path.calculations, absent, catalog, shared_costs, sought, head_variables
        )

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
        sought: frozenset[str] = frozenset(),
        head_variables: frozenset[str] | None = None,
    ) -> Estimator:
        joined_atoms = [atom for atom_index, atom in bits.atoms.items() if atom_index != bits.changed]
        is_known = None not in map(catalog.rows, [atom.relation for atom in joined_atoms])
        atoms = (row_atom, *joined_atoms)
        values = shared_costs.values
        if is_known and not values and (joined_atoms or conditions):
            for atom in atoms:
                for name in atom.variables:
                    values[name] = max(values.get(name, 1.0), catalog.values(atom, name) or 1.0)
        row_values = {name: catalog.values(row_atom, name) or values[name] for name in row_atom.variables if values}
        behind: dict[str, frozenset[str]] = {}
        for calculation in calculations:
            behind[calculation.variable] = _behind(check_variables(calculation), behind)
        compared = [
            (condition, _behind(check_variables(condition), behind), share_of(condition, atoms, values, catalog))
            for condition in (conditions if is_known else ())
        ]
        checks: tuple[Check, ...] = (*conditions, *calculations)
        spoken = frozenset[str]().union(*map(check_variables, checks), *absent)
        return cls(bits, values, row_values, compared, spoken, catalog, is_known, shared_costs, sought, head_variables)

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
            name, first, tuple([bound & masks[atom_index] for atom_index in first]), clipped
        )
        domain = math.inf if via is None else self._n_values(via, name)
        for searched in holding if via is not None else ():
            if searched != via:
                cost += rows * (PREFIX + LOOKUP)
                rows *= self._chance(searched, bound & masks[searched], name, domain)
                domain = min(domain, self._n_values(searched, name))
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
        reads are not enumerated (variable elimination); when rows are listed, this is so after the last variable that
        the head keeps. The values of a last step with one atom are result rows, which every path lists, and cost
        nothing, unless they repeat. `branches` are used when rows are listed. A path that costs more than `limit` is
        abandoned: the result is `TOO_DEAR`.
        """
        listed = counted = self._start
        listing, counting = PROPOSAL, PROPOSAL * counted
        levels = [("", 1.0, listed)]
        max_product = limit * limit * SURELY
        seeded, spoken, due, bit, holding = self.bits.seeded, self._spoken, self._due, self.bits.bit, self.bits.holding
        bound = seeded
        bound_in = {atom_index: bound & mask for atom_index, mask in self.bits.masks.items()}
        n_listed = self._n_listed(steps)
        is_distinct = self.head_variables is None or all(
            step.variable in self.head_variables for step in steps[:n_listed]
        )
        hanging_of = self._hanging(steps)
        is_load = self.n_seeds is not None and bool(self.values)
        may_merge = self.head_variables is not None and is_load and not branches
        kept = self.bits.mask(self.head_variables or ()) if may_merge else 0
        if may_merge:
            listed, merged_cost = self._merged(listed, (hanging_of[0] | kept) & bound)
            listing += merged_cost
        bracketed = None
        if branches:
            bracketed = Bracketing(
                steps, branches, [self.bits.mask(step.read_variables) for step in steps], self._among, self._n_changes
            )
        for n_done, (step, hanging) in enumerate(zip(steps, hanging_of[1:], strict=True), 1):
            if listing * counting > max_product:
                return TOO_DEAR
            name = step.variable
            variable_bit = bit[name]
            if bracketed is not None:
                listed = bracketed.before(n_done - 1, listed, bound_in, bound)
            atoms, is_lookup = step.atoms, step.is_lookup
            clipped, share_after = self._shares(bound, name) if name in due and not is_lookup else (1.0, 1.0)
            place = tuple([bound_in[atom_index] for atom_index in atoms])
            if is_lookup:
                met = [atom_index for atom_index in holding[name] if bound_in[atom_index] & variable_bit]
                domain = min([self._n_values(atom_index, name) for atom_index in met], default=self.values[name])
                proposed, left, cost = 0.0, self._chance(atoms[0], place[0], name, domain), PREFIX + LOOKUP
            else:
                proposed, left, cost = self._step(name, atoms, place, clipped)
            left *= share_after
            bound |= variable_bit
            for index in atoms:
                bound_in[index] |= variable_bit
            is_alone = len(atoms) == 1 and not is_lookup
            is_unread = is_alone and not variable_bit & (hanging | spoken)
            counted_cost, counted_left = (SINGLE, 1.0) if is_unread else (cost, left)
            counting += counted * counted_cost
            counted *= counted_left
            is_counted = n_done > n_listed
            levels.append((name, listed * (1.0 if is_counted and is_unread else proposed), listed * left))
            listing += listed * (counted_cost if is_counted else cost)
            if is_alone and is_distinct and n_done == n_listed:
                listing -= copying(listed, listed * proposed)
            listed *= counted_left if is_counted else left
            if bracketed is not None:
                listed = bracketed.after(n_done, listed)
            if n_done == len(steps) or steps[n_done].is_lookup:
                continue
            needed = hanging & bound
            in_row = self._distinct(needed & ~seeded)
            counted = min(counted, in_row, self._distinct(needed) / CHANGES)
            if n_done >= n_listed:
                listed = min(listed, in_row, self._distinct(needed) / (self.n_seeds or 1.0))
            elif may_merge:
                listed, merged_cost = self._merged(listed, needed | kept & bound)
                listing += merged_cost
        listing += bracketed.extra if bracketed is not None else 0.0
        return Foreseen(tuple(itertools.starmap(Expected, levels)), listing, counting)

    def _merged(self, rows: float, names: int) -> tuple[float, float]:
        """Return the prefixes per seed that differ in some variables, and the cost of merging."""
        n_seeds = self.n_seeds or 1.0
        distinct = self._distinct(names) / n_seeds
        merges = rows * n_seeds >= MIN_MERGED and distinct < MAX_MERGED_FRACTION * rows
        return (distinct, rows * SORTED_PREFIX) if merges else (rows, 0.0)

    def _n_listed(self, steps: Sequence[Step]) -> int:
        """Return the number of steps up to the last one that binds a variable which the head keeps."""
        n_listed = len(steps)
        while self.head_variables is not None and n_listed and steps[n_listed - 1].variable not in self.head_variables:
            n_listed -= 1
        return n_listed

    def _among(self, names: int, rows: float) -> float:
        """Return the expected distinct bindings among prefixes of one of several changed rows."""
        seeded, others = names & self.bits.seeded, names & ~self.bits.seeded
        n_changes = self._n_changes
        n_bindings = min(self._distinct(names), min(self._distinct(seeded), n_changes) * self._distinct(others))
        return n_bindings * -math.expm1(-rows * n_changes / n_bindings) / n_changes

    @property
    def _n_changes(self) -> float:
        """Assumed number of changed rows that share branches, at most the seeds of a load."""
        return CHANGES if self.n_seeds is None else min(CHANGES, self.n_seeds)

    @property
    def min_cost(self) -> float:
        """Cost in nanoseconds that no order is below."""
        return PROPOSAL * math.sqrt(self._start)

    @cached_property
    def _start(self) -> float:
        """Number of prefixes that the other atoms leave of one changed row before the first step."""
        domains = dict(self.row_values)
        rows = 1.0
        for atom_index, atom in self.bits.atoms.items():
            shared = [name for name in atom.variables if name in domains]
            if shared and atom_index != self.bits.changed:
                chance = self.known.prefixes(atom, shared)
                assert chance is not None
                for name in shared:
                    n_values = self._n_values(atom_index, name)
                    chance /= max(n_values, domains[name])
                    domains[name] = min(n_values, domains[name])
                rows *= min(chance, 1.0)
        for _, names, share in self.compared:
            if names <= domains.keys():
                rows *= share
        return rows

    def _n_values(self, atom_index: int, name: str) -> float:
        """Return the number of distinct values that an atom has for a variable, at least 1."""
        return max(self._degree(atom_index, 0, name), 1.0)

    def _chance(self, atom_index: int, before: int, name: str, domain: float) -> float:
        """Return the probability that an atom holds a value below bound variables.

        `domain` is the number of values that the atoms have of which the value was one.
        """
        n_values = max(self._n_values(atom_index, name), domain)
        return min(self._degree(atom_index, before, name) / n_values, 1.0)

    def _step(
        self, name: str, atoms: tuple[int, ...], bound_masks: tuple[int, ...], clipped: float
    ) -> tuple[float, float, float]:
        """Return proposed values and left prefixes per prefix, and the cost, of a step.

        The step proposes values. `bound_masks` are the bound variables of each atom, `clipped` is the share of its
        range that is read.
        """
        if len(atoms) == 1:
            proposed = self._degree(atoms[0], bound_masks[0], name) * clipped
            return proposed, proposed, (SINGLE if bound_masks[0] else PREFIX + WIDTH) + copying(1.0, proposed)
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
            (
                self._degree(atom_index, before, name),
                self._n_values(atom_index, name),
                self._spread(atom_index, before, name),
            )
            for atom_index, before in zip(atoms, bound_masks, strict=True)
        ]
        (smallest, domain, spread), *larger = sorted(degrees)
        left = smallest * clipped
        proposed = expected_minimum(smallest, spread, larger[0][0], larger[0][2]) * clipped
        cost = PREFIX + WIDTH * len(atoms) + proposed * PROPOSAL
        searched = proposed
        for degree, n_values, _ in larger:
            cost += searched * PROBE
            searched *= min(degree / max(n_values, domain), 1.0)
            left *= min(degree / max(n_values, domain), 1.0)
            domain = min(domain, n_values)
        return proposed, min(left, proposed), cost

    def _degree(self, atom_index: int, before: int, name: str) -> float:
        """Return the number of values that an atom has for a variable below bound variables."""
        key = atom_index, before, name
        degree = self.worked.degrees.get(key)
        if degree is None:
            atom = self.bits.atoms[atom_index]
            above = [variable for variable in atom.variables if self.bits.bit[variable] & before]
            degree = self.known.degree(atom, above, name)
            assert degree is not None
            self.worked.degrees[key] = degree
        return degree

    def _spread(self, atom_index: int, before: int, name: str) -> float:
        """Return the variance of the logarithm of `_degree` over prefixes that are met through rows."""
        key = atom_index, before, name
        spread = self.worked.spreads.get(key)
        if spread is None:
            atom = self.bits.atoms[atom_index]
            above = [variable for variable in atom.variables if self.bits.bit[variable] & before]
            spread = self.worked.spreads[key] = self.known.spread(atom, above, name) if above else 0.0
        return spread

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
                clips = not condition.textual and (
                    (condition.op != "!=" and name in (condition.variable, condition.operand))
                    or (condition.op == "=" and name in self.sought)
                )
                due.setdefault(name, []).append((self.bits.mask(names) & ~self.bits.bit[name], clips, share))
        return due

    def _hanging(self, steps: Sequence[Step]) -> list[int]:
        """Return the variables that the steps depend on, then per step those of later steps."""
        hanging = 0
        masks = []
        for step in reversed(steps):
            masks.append(hanging)
            if not step.is_lookup and self.bits.bit[step.variable] & self._spoken:
                hanging |= self._spoken
            for atom_index in step.atoms:
                hanging |= self.bits.masks[atom_index]
        return [hanging, *masks[::-1]]

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


def foreseen(path: DeltaPath, catalog: CatalogReader, head_variables: Collection[str] | None = None) -> Foreseen | None:
    """Return the estimates of a planned path; None if a relation of it has no statistics.

    `head_variables` are the variables that the head keeps, None for all.

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
    estimator = Estimator.of_path(path, catalog, head_variables)
    return estimator.over(path.steps, path.branches) if estimator.is_known else None


def _atom(use: AtomUse) -> BodyAtom:
    key = use.key
    return BodyAtom(key.relation, key.order, use.variables, key.constants, key.equal, key.compared)


def _behind(names: Iterable[str], behind: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return the variables that these variables are calculated from, those of atoms themselves."""
    return frozenset(source for name in names for source in behind.get(name, (name,)))


# Bracketings of a path: choices of steps as branches; see `gpu_wcoj.join.bushy`.


def ways_of(steps: tuple[Step, ...]) -> Iterator[tuple[tuple[Step, ...], tuple[Branch, ...]]]:
    """Yield reordered steps with the branches among them.

    Examples
    --------
    >>> steps = Step("x", (0, 1)), Step("y", (2, 3)), Step("u", (1,)), Step("v", (3,)), Step("w", (4,))
    >>> for steps, branches in ways_of(steps):
    ...     print(*(step.name for step in steps), *((one.begin, one.end) for one in branches))
    x u y v w (0, 2) (2, 4)
    x y v u w (1, 3)
    """
    for begin in range(len(steps)):
        parts = split_independent(steps[begin:])
        yield from _bracketing(steps[:begin], parts, ())
        if len(parts) == 1:
            for end in range(len(steps) - 1, begin + 1, -1):
                parts = split_independent(steps[begin:end])
                if len(parts) > 1:
                    yield from _bracketing(steps[:begin], parts, steps[end:])
                    break


def _bracketing(
    before: tuple[Step, ...], parts: tuple[tuple[Step, ...], ...], after: tuple[Step, ...]
) -> Iterator[tuple[tuple[Step, ...], tuple[Branch, ...]]]:
    """Yield the parts that can drop prefixes as branches, followed by the other parts."""
    chosen = [part for part in parts if any(map(_drops, part))]
    remaining = [step for part in parts if part not in chosen for step in part]
    branches, begin = [], len(before)
    for part in chosen:
        branches.append(Branch(begin, begin + len(part)))
        begin += len(part)
    if chosen:
        yield (*before, *(step for part in chosen for step in part), *remaining, *after), tuple(branches)


def _drops(step: Step) -> bool:
    """Return True if the step may drop prefixes; a single atom always has a value for each."""
    return len(step.atoms) > 1 or step.is_lookup or bool(step.conditions) or bool(step.checks)


# Upper bounds on the size of a join, from the sizes and largest degrees of its relations.
#
# The bound of Atserias, Grohe and Marx (doi:10.1137/110859440): give every atom a weight such that for every variable,
# the weights of the atoms that hold it add up to 1 or more. Then the join has at most as many rows as the product of
# the atoms' sizes, each to the power of its weight. A linear program finds the smallest such product, and for some
# relations of these sizes the join has that many rows.
#
# A *degree*, the maximum number of rows that an atom has for one value of some of its variables, is used in the same
# way: such a constraint covers only the variables that it adds. That is valid in an order in which the given variables
# come first: by the chain rule, the entropy of a row is the sum of the entropies of its variables, each given those
# before it.


LARGEST_DENOMINATOR = 720
"""Largest denominator of the fraction that a cover weight is rounded to; vertices of the polytope have small ones."""


@dataclass(frozen=True)
class Size:
    """Constraint: at most `rows` values of `variables` for each value of `given`.

    Attributes
    ----------
    variables
        Variables of an atom; with or without those of `given`.
    given
        Empty for the size of the relation, some of the atom's variables for a degree.
    """

    variables: tuple[str, ...]
    rows: float
    given: tuple[str, ...] = ()

    def __str__(self) -> str:
        new = "".join(f"{name} " for name in self.variables if name not in self.given)
        given_text = f"given {' '.join(self.given)} " if self.given else ""
        return f"{new}{given_text}: {self.rows:g}"


@dataclass(frozen=True)
class Bound:
    """Bound with its fractional cover.

    Attributes
    ----------
    rows
        Maximum number of rows; infinite if some variable is in no atom.
    cover
        The weight of each size, in the order of the sizes.
    """

    rows: float
    cover: tuple[Fraction, ...]


def bound(sizes: Sequence[Size], order: Sequence[str] | None = None) -> Bound:
    """Return the smallest bound on the number of distinct values of some variables in the join.

    Parameters
    ----------
    sizes
        At least one per atom. A degree is ignored unless all of its `given` variables come first in `order`.
    order
        The variables, in the order in which they are bound; None for all, by first occurrence in `sizes`.

    Raises
    ------
    UsageError
        If a size is negative or NaN.
    BackendUnavailableError
        If SciPy is not installed.

    Examples
    --------
    Triangles among N edges are N^1.5 at most:

    >>> found = bound([Size(("a", "b"), 10_000), Size(("b", "c"), 10_000), Size(("a", "c"), 10_000)])
    >>> round(found.rows), [str(weight) for weight in found.cover]
    (1000000, ['1/2', '1/2', '1/2'])

    If no vertex has more than 5 edges, one row of change closes 5 triangles at most:

    >>> change = [Size(("a", "b"), 1), Size(("b", "c"), 5, given=("b",)), Size(("a", "c"), 5, given=("a",))]
    >>> round(bound(change).rows)
    5
    """
    for size in sizes:
        if not size.rows >= 0:
            raise UsageError.with_parts(
                f"the size of {size} is invalid: got {size.rows!r} rows",
                subject=str(size),
                got=size.rows,
                remedy="Pass a number from 0 on.",
            )
    names = list(dict.fromkeys(name for size in sizes for name in size.variables)) if order is None else list(order)
    place = {name: i for i, name in enumerate(names)}
    rows, covered = [], []
    for size in sizes:
        new = [place[name] for name in size.variables if name in place and name not in size.given]
        usable = set(size.given) <= place.keys() and all(place[g] < n for g in size.given for n in new)
        rows.append(float(size.rows))
        covered.append(tuple(sorted(new)) if usable else ())
    if not all(rows):
        return Bound(0.0, tuple(Fraction(not size) for size in rows))
    return _smallest_cover(len(names), tuple(rows), tuple(covered))


@functools.lru_cache(maxsize=4096)
def _smallest_cover(n_variables: int, rows: tuple[float, ...], covered: tuple[tuple[int, ...], ...]) -> Bound:
    """Return the bound of the smallest fractional cover, by linear programming."""
    if {place for covered_places in covered for place in covered_places} != set(range(n_variables)):
        return Bound(math.inf, tuple(Fraction(0) for _ in rows))
    if not n_variables:
        return Bound(1.0, tuple(Fraction(0) for _ in rows))
    costs = [math.log2(max(size, 1.0)) for size in rows]
    covers = [
        [-1.0 if variable in covered_places else 0.0 for covered_places in covered] for variable in range(n_variables)
    ]
    solved = _linprog()(costs, A_ub=covers, b_ub=[-1.0] * n_variables, bounds=(0, None), method="highs")
    if solved.status:
        raise RuntimeError(f"the linear program of {covered} over {rows} has no solution: {solved.message}")
    weights = [float(weight) for weight in solved.x]
    cover = tuple(Fraction(weight).limit_denominator(LARGEST_DENOMINATOR) for weight in weights)
    covers_all = all(
        sum(weight for weight, covered_places in zip(cover, covered, strict=True) if variable in covered_places) >= 1
        for variable in range(n_variables)
    )
    if not covers_all:
        cover = tuple(map(Fraction, weights))
    total = math.prod(max(size, 1.0) ** float(weight) for size, weight in zip(rows, cover, strict=True))
    return Bound(total, cover)


def _linprog() -> Any:
    try:
        from scipy.optimize import linprog
    except ImportError as error:
        raise BackendUnavailableError.with_parts(
            f"bounds need SciPy, which cannot be imported: {error}",
            subject="scipy",
            remedy="Install it: pip install 'gpu_wcoj[bounds]'.",
        ) from error
    return linprog
