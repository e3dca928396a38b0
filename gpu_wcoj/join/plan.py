"""Plans of delta queries: variable orders and arrangements of the paths."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

from gpu_wcoj.functions import Calculation
from gpu_wcoj.trace.arrangement import ArrangementKey


class AtomUse(NamedTuple):
    """One atom on one path: its arrangement, whose order follows the path's variable order.

    Attributes
    ----------
    atom
        The atom's index in the body.
    key
        The arrangement.
    variables
        The variable of each level.
    """

    atom: int
    key: ArrangementKey
    variables: tuple[str, ...]


@dataclass(frozen=True)
class Condition:
    """A comparison ``variable op other`` that is checked when `variable` is bound.

    `operand` is bound by then, or is a constant's code.

    Attributes
    ----------
    textual
        Whether text is compared, by ranks, instead of codes.
    family
        Of a text comparison, the dictionary: ``"string"`` or ``"binary"``.
    """

    variable: str
    op: str
    operand: str | int
    textual: bool = False
    family: str = ""

    def __str__(self) -> str:
        return f"{self.variable} {self.op} {self.operand}"


@dataclass(frozen=True)
class Absent:
    """A negated atom whose variables are bound: it holds if no row of positive weight exists.

    Attributes
    ----------
    use
        The atom. Its index is negative, so that every path of a positive atom sees its state after the tick.
    terms
        Per level the value to look up: a variable's name, or a code.
    """

    use: AtomUse
    terms: tuple[str | int, ...]

    def __str__(self) -> str:
        return f"!{self.use.key.relation}({', '.join(map(str, self.terms))})"


Check = Condition | Calculation | Absent
"""A calculation or a filter that runs, in order, once its variables are bound."""


def check_variables(check: Check) -> tuple[str, ...]:
    """Return the variables that have to be bound before a check."""
    if isinstance(check, Condition):
        terms: tuple[str | int, ...] = (check.variable, check.operand)
    else:
        terms = check.arguments if isinstance(check, Calculation) else check.terms
    return tuple(term for term in terms if isinstance(term, str))


@dataclass(frozen=True)
class Step:
    """Bind one variable by the atoms that hold it, or look a bound variable up in one atom.

    Attributes
    ----------
    atoms
        Indices of the atoms.
    conditions
        Conditions on the variable; their other operands are bound before.
    checks
        Checks that run afterwards.
    is_lookup
        Whether the variable is bound before: its one atom is descended by that value, and prefixes whose value the atom
        does not hold are dropped.
    """

    variable: str
    atoms: tuple[int, ...]
    conditions: tuple[Condition, ...] = ()
    checks: tuple[Check, ...] = ()
    is_lookup: bool = False

    @cached_property
    def name(self) -> str:
        """The step's name in its path: its variable, for a lookup with the index of the atom."""
        return f"{self.variable}@{self.atoms[0]}" if self.is_lookup else self.variable

    @cached_property
    def is_plain(self) -> bool:
        """True if the kernels alone determine the values."""
        return not self.checks and not any(condition.textual for condition in self.conditions)

    @cached_property
    def calculated(self) -> frozenset[str]:
        """The variables that are calculated in this step."""
        return frozenset(check.variable for check in self.checks if isinstance(check, Calculation))

    @cached_property
    def read_variables(self) -> frozenset[str]:
        """The variables that conditions and checks read, or the step looks up, and calculated ones."""
        read = [name for check in (*self.conditions, *self.checks) for name in check_variables(check)]
        return self.calculated.union(read, (self.variable,) if self.is_lookup else ())


@dataclass(frozen=True)
class Branch:
    """Consecutive steps, `begin` to `end`, that run once for each group of equal prefixes.

    See `gpu_wcoj.join.bushy`.
    """

    begin: int
    end: int


def branch_name(steps: Sequence[Step]) -> str:
    """Return the name of a branch among the steps of its path.

    Examples
    --------
    >>> branch_name([Step("c", (0,)), Step("d", (1,))])
    'branch of c'
    """
    return f"branch of {steps[0].name}"


@dataclass(frozen=True)
class DeltaPath:
    """One term of the delta rule: the change of one atom, extended through the others.

    Attributes
    ----------
    seeds
        The atom whose change starts the path, once for each arrangement of its rows; the first is used unless another
        has a better order. Atoms of lower index are seen after this tick, of higher before. Negated atoms have negative
        indices; a path that starts with one uses its reversed change.
    other_atoms
        The other positive atoms, by index.
    seed_conditions
        Conditions among the seed's variables.
    steps
        One step per further variable, and lookups.
    sort_first
        The seed's variables whose ranges several steps share, best first; empty without preference.
    variants
        Paths of the same seed that bind another variable first and need no further arrangement. Each row of the change
        uses the one that proposes the fewest values first.
    seed_checks
        Checks that run once the seed's variables are bound.
    branches
        The steps that are run separately and joined back where rows are listed, in their order.
    after
        The atoms seen after this tick, if they are not those of lower index.
    """

    seeds: tuple[AtomUse, ...]
    other_atoms: tuple[AtomUse, ...]
    seed_conditions: tuple[Condition, ...]
    steps: tuple[Step, ...]
    sort_first: tuple[str, ...] = ()
    variants: tuple[DeltaPath, ...] = ()
    seed_checks: tuple[Check, ...] = ()
    branches: tuple[Branch, ...] = ()
    after: frozenset[int] | None = None

    def with_seeds(self, seeds: tuple[AtomUse, ...]) -> DeltaPath:
        """Return the path, and its variants, with its seeds in these orders."""
        return replace(self, seeds=seeds, variants=tuple(replace(variant, seeds=seeds) for variant in self.variants))

    def sees_after(self, use: AtomUse) -> bool:
        """Return whether an atom is seen after this tick rather than before it."""
        return use.atom < self.seed.atom if self.after is None else use.atom in self.after

    @property
    def is_negated(self) -> bool:
        """True if a negated atom starts the path: its insertions are the answer's deletions."""
        return self.seeds[0].atom < 0

    @cached_property
    def absent(self) -> tuple[Absent, ...]:
        """The other negated atoms."""
        checks = (*self.seed_checks, *(check for step in self.steps for check in step.checks))
        return tuple(check for check in checks if isinstance(check, Absent))

    @cached_property
    def calculations(self) -> tuple[Calculation, ...]:
        """The calculations on the path."""
        checks = (*self.seed_checks, *(check for step in self.steps for check in step.checks))
        return tuple(check for check in checks if isinstance(check, Calculation))

    @property
    def seed(self) -> AtomUse:
        """The first of `seeds`."""
        return self.seeds[0]

    @cached_property
    def binding(self) -> tuple[tuple[int, int, tuple[int, ...]], ...]:
        """Per other atom bound by the seed: its index, bound levels, and their seed columns."""
        place = {name: i for i, name in enumerate(self.seed.variables)}
        bound = []
        for use in self.other_atoms:
            depth = next((i for i, name in enumerate(use.variables) if name not in place), len(use.variables))
            if depth:
                bound.append((use.atom, depth, tuple(place[name] for name in use.variables[:depth])))
        return tuple(bound)

    @cached_property
    def is_single(self) -> bool:
        """True if one step binds the last variable of every other atom, without any checks.

        The path has no conditions and no negation.
        """
        if len(self.steps) != 1 or self.steps[0].conditions or self.seed_conditions:
            return False
        if self.steps[0].checks or self.seed_checks or self.is_negated:
            return False
        return all(use.variables[-1] == self.steps[0].variable for use in self.other_atoms) and len(
            self.binding
        ) == len(self.other_atoms)

    def depth_of(self, variables: Collection[str]) -> int:
        """Return the number of steps after which all of these variables are bound.

        Only variables that steps bind count. Lookups that follow directly are included.

        Examples
        --------
        >>> path = DeltaPath((), (), (), (Step("b", (0,)), Step("b", (1,), is_lookup=True), Step("c", (1,))))
        >>> path.depth_of({"b"}), path.depth_of({"c"}), path.depth_of(())
        (2, 3, 0)
        """
        depth = 0
        for index, step in enumerate(self.steps, 1):
            is_next = depth == index - 1 if step.is_lookup else step.variable in variables
            if is_next or not step.calculated.isdisjoint(variables):
                depth = index
        return depth

    @cached_property
    def compared(self) -> frozenset[str]:
        """The variables that conditions and checks of the steps read."""
        return frozenset[str]().union(*(step.read_variables for step in self.steps))

    @cached_property
    def keys(self) -> tuple[ArrangementKey, ...]:
        """The arrangements that the path reads besides its seeds'."""
        return tuple([use.key for use in (*self.other_atoms, *(check.use for check in self.absent))])

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The variable order."""
        return (*self.seed.variables, *(step.variable for step in self.steps if not step.is_lookup))


@dataclass(frozen=True)
class DeltaQuery:
    """A rule's body as delta paths, one per atom, and the columns of its head.

    Attributes
    ----------
    rule
        The rule's text, for messages.
    head
        Per column of the head, a variable's name or a constant's code.
    paths
        One per atom of the body, in index order: negated atoms first.
    calculations
        The body's calculations, in order.
    continuations
        Per path, its continuation from a common prefix, if it has one; empty if no path does.
    symmetry
        The paths that may stand for others where changes are counted, if any.
    alternatives
        In a single tick, the paths that may run in place of the only one; each sees all rows of the other atoms.
    expected_cost
        In a single tick, the estimated cost of its path without indices, in nanoseconds.
    load
        The query as a single tick would run it, for ticks that start from nothing; its arrangements are made for the
        tick. None if there is none.
    counts_derivations
        Whether a single tick over sets has to list how often it derives a row.
    """

    rule: str
    head: tuple[str | int, ...]
    paths: tuple[DeltaPath, ...]
    calculations: tuple[Calculation, ...] = ()
    continuations: tuple[Continuation | None, ...] = ()
    symmetry: Symmetry | None = None
    alternatives: tuple[DeltaPath, ...] = ()
    expected_cost: float = 0.0
    load: DeltaQuery | None = field(default=None, compare=False)
    counts_derivations: bool = False

    @cached_property
    def has_negation(self) -> bool:
        """True if an atom is negated."""
        return any(path.is_negated for path in self.paths)

    @cached_property
    def head_variables(self) -> frozenset[str]:
        """The variables that the head keeps."""
        return frozenset(term for term in self.head if isinstance(term, str))

    def along(self, index: int) -> DeltaQuery:
        """Return the query with one of its paths, which sees all rows of the other atoms."""
        path = self.paths[index]
        seen = frozenset(use.atom for use in (*path.other_atoms, *(check.use for check in path.absent)))
        seeds = tuple(use for use in path.seeds if use.key in path.keys)[:1] or path.seeds[:1]
        path = replace(path.with_seeds(seeds), variants=(), after=seen)
        return replace(self, paths=(path,), continuations=(), symmetry=None, load=None)

    @cached_property
    def keys(self) -> tuple[ArrangementKey, ...]:
        """The arrangements that the paths use, each once."""
        return tuple(dict.fromkeys([key for path in self.all_paths for key in (path.seeds[0].key, *path.keys)]))

    @property
    def all_paths(self) -> tuple[DeltaPath, ...]:
        """The paths and the alternatives to them."""
        return (*self.paths, *self.alternatives)


@lru_cache(maxsize=1024)
def split_independent(steps: tuple[Step, ...]) -> tuple[tuple[Step, ...], ...]:
    """Split steps into parts that share no atom, condition or check, each in the given order."""
    group = list(range(len(steps)))
    place = {step.variable: index for index, step in enumerate(steps) if not step.is_lookup}
    place.update({name: index for index, step in enumerate(steps) for name in step.calculated})
    links: list[tuple[int, int]] = []
    for i, step in enumerate(steps):
        links.extend((i, j) for j in range(i) if set(step.atoms) & set(steps[j].atoms))
        links.extend((i, place[name]) for name in step.read_variables if name in place)
    for i, j in links:
        old, new = max(group[i], group[j]), min(group[i], group[j])
        group = [new if member == old else member for member in group]
    parts = (
        tuple(step for step, member in zip(steps, group, strict=True) if member == label)
        for label in sorted(set(group))
    )
    return tuple(parts)


# Plans of common prefixes of delta paths, and of the continuation of each path from them.


@dataclass(frozen=True)
class CommonPrefix:
    """The first steps that several delta paths have in common, as a path.

    Attributes
    ----------
    head, rule, path_index
        The path that it is taken from, whose variable names it uses: a head, and the indices of one of its rules and
        of a path of that rule.
    path
        The path up to the last common step.
    continuation
        The continuation by which this prefix itself starts from a shorter common prefix, if it does.
    """

    head: str
    rule: int
    path_index: int
    path: DeltaPath
    continuation: Continuation | None = None


@dataclass(frozen=True)
class Continuation:
    """The continuation of a path from the rows of a common prefix.

    Attributes
    ----------
    remaining_path
        The remaining path. Its seed has the variables that the common prefix binds, in that order, by this path's
        names; its other atoms are those that the common prefix does not bind to their last variable.
    names
        Per step of the common prefix, its name in this path.
    counts
        Whether counts start from these rows, too. They do not if they group prefixes.
    """

    beginning: CommonPrefix
    remaining_path: DeltaPath
    names: tuple[str, ...]
    counts: bool = False


# Plans of counts by symmetry: orbits of automorphic atoms and their representatives.


@dataclass(frozen=True)
class Symmetry:
    """An automorphism of a body that permutes its atoms; see `gpu_wcoj.join.delta`.

    Attributes
    ----------
    order
        Order of the automorphism: 2 or 3.
    orbits
        Indices of the atoms of each orbit, `order` of them or one, ordered by the first.
    representatives
        Per orbit, the atom whose path is counted for all.
    """

    order: int
    orbits: tuple[tuple[int, ...], ...]
    representatives: tuple[int, ...]

    def after(self, orbit_index: int) -> frozenset[int]:
        """Return the atoms that the path of an orbit sees after the tick.

        Those of previous orbits, and of its own orbit all but its atom and one more.

        Examples
        --------
        >>> found = Symmetry(3, ((0, 1, 2), (3, 4, 5)), (0, 4))
        >>> sorted(found.after(0)), sorted(found.after(1))
        ([2], [0, 1, 2, 5])
        """
        before = [atom for orbit in self.orbits[:orbit_index] for atom in orbit]
        other_atoms = [atom for atom in self.orbits[orbit_index] if atom != self.representatives[orbit_index]]
        return frozenset([*before, *other_atoms[1:]])
