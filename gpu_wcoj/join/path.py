"""Plans of delta queries: what a path binds, in which order, through which arrangements."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from gpu_wcoj.trace.arrangement import ArrangementKey

if TYPE_CHECKING:
    from gpu_wcoj.join.beginning import Begun
    from gpu_wcoj.join.symmetry import Symmetry


class AtomUse(NamedTuple):
    """One atom on one path: its arrangement, whose order follows the order in which the path binds variables.

    Attributes
    ----------
    atom
        The atom's number in the body.
    key
        The arrangement.
    variables
        The variable of each of its levels.
    """

    atom: int
    key: ArrangementKey
    variables: tuple[str, ...]


@dataclass(frozen=True)
class Condition:
    """``variable op other``, checked when `variable` is bound; `other` is bound by then, or is a constant's code.

    Attributes
    ----------
    textual
        Whether text is compared, through ranks, rather than codes.
    family
        For textual ones, which dictionary: ``"string"`` or ``"binary"``.
    """

    variable: str
    op: str
    other: str | int
    textual: bool = False
    family: str = ""

    def __str__(self) -> str:
        return f"{self.variable} {self.op} {self.other}"


@dataclass(frozen=True)
class Formula:
    """A piece of a null-aware calculation, on codes and null flags.

    Attributes
    ----------
    op
        An operator that compares, another null-aware function, ``column``, ``constant``, or ``call`` for a calculation
        that is null where a part is.
    parts
        The operands.
    place, flag
        Of a column, which argument of the calculation holds its codes, and which its flags (-1: it has no nulls).
    code
        Of a constant; None for null.
    codes
        Of ``among``, the codes of the values that are listed, in order.
    has_null
        Whether such a list has a null, too.
    family
        For comparisons of text by order, which dictionary; else an empty string.
    calculation
        Of ``call``; its arguments are the parts.
    """

    op: str
    parts: tuple[Formula, ...] = ()
    place: int = -1
    flag: int = -1
    code: int | None = None
    codes: tuple[int, ...] = ()
    has_null: bool = False
    family: str = ""
    calculation: Calculation | None = None

    @cached_property
    def makes_text(self) -> bool:
        """Return whether texts are calculated."""
        own = self.calculation is not None and self.calculation.family == "string"
        return own or any(one.makes_text for one in self.parts)


@dataclass(frozen=True)
class Calculation:
    """``variable = op(arguments)`` on codes.

    Attributes
    ----------
    arguments
        Per argument a variable's name or a constant's code.
    families
        Of the arguments: ``integer``, ``float32``, ``float64``, ``decimal``, ``string``, ``date`` and so on.
    family
        Of the result.
    drops
        Whether rows whose result is outside int64 are dropped, as what it is equal to is inside.
    is_inverse
        Whether it solves another calculation, which is checked later, for an argument: then it may wrap around.
    scales, scale
        Of decimals, how many digits the arguments and the result have behind the point.
    most
        Of a decimal result, the largest code.
    per_day
        Of a point in time, how many of its units make a day.
    keeps_zero_sign
        Whether a result of -0.0 stays one; where it is compared, it becomes 0.0.
    formula
        Of a null-aware calculation, what it does; `op` is ``formula``, or ``flag`` for whether the result is null.
    shown
        The text of a null-aware calculation; the names in it are those of the rule.
    """

    variable: str
    op: str
    arguments: tuple[str | int, ...]
    families: tuple[str, ...]
    family: str
    drops: bool = False
    is_inverse: bool = False
    scales: tuple[int, ...] = ()
    scale: int = 0
    most: int = 0
    per_day: int = 1
    keeps_zero_sign: bool = False
    formula: Formula | None = None
    shown: object = field(default="", compare=False)

    @property
    def makes_text(self) -> bool:
        """Return whether texts are calculated."""
        return self.formula.makes_text if self.formula is not None else self.family == "string"

    def __str__(self) -> str:
        if self.formula is not None:
            return f"{self.variable} = {self.shown if self.op == 'formula' else f'isnull({self.shown})'}"
        shown = list(map(str, self.arguments))
        if self.op.isalpha():
            return f"{self.variable} = {self.op}({', '.join(shown)})"
        return f"{self.variable} = " + (f" {self.op} ".join(shown) if len(shown) > 1 else f"{self.op}{shown[0]}")


@dataclass(frozen=True)
class Absent:
    """A negated atom whose variables are bound: no row of positive weight is there.

    Attributes
    ----------
    use
        The atom. Its number is negative, so that every path of a positive atom sees it as it is after the tick.
    terms
        What is looked for in each of its levels: a variable's name, or a code.
    """

    use: AtomUse
    terms: tuple[str | int, ...]

    def __str__(self) -> str:
        return f"!{self.use.key.relation}({', '.join(map(str, self.terms))})"


Check = Condition | Calculation | Absent
"""What follows once variables are bound, done in order: a value is found, or rows are dropped."""


def names_of(check: Check) -> tuple[str, ...]:
    """The variables that have to be bound before."""
    if isinstance(check, Condition):
        terms: tuple[str | int, ...] = (check.variable, check.other)
    else:
        terms = check.arguments if isinstance(check, Calculation) else check.terms
    return tuple(term for term in terms if isinstance(term, str))


@dataclass(frozen=True)
class Step:
    """Bind one variable: the atoms that hold it take part. Or look a bound one up in one atom.

    Attributes
    ----------
    atoms
        By number.
    conditions
        On this variable; what it is compared with is bound before.
    checks
        What follows then.
    is_lookup
        Whether the variable is bound before: then its one atom is descended by that value, and prefixes whose value it
        does not hold are dropped.
    """

    variable: str
    atoms: tuple[int, ...]
    conditions: tuple[Condition, ...] = ()
    checks: tuple[Check, ...] = ()
    is_lookup: bool = False

    @cached_property
    def name(self) -> str:
        """Of the step among those of its path: its variable, for a lookup with the number of the atom."""
        return f"{self.variable}@{self.atoms[0]}" if self.is_lookup else self.variable

    @cached_property
    def is_plain(self) -> bool:
        """Whether the kernels alone know which values there are."""
        return not self.checks and not any(condition.textual for condition in self.conditions)

    @cached_property
    def calculated(self) -> frozenset[str]:
        """The variables that get their values here, besides its own."""
        return frozenset(check.variable for check in self.checks if isinstance(check, Calculation))

    @cached_property
    def spoken(self) -> frozenset[str]:
        """The variables that its conditions and checks speak of or it looks up, and those that it calculates."""
        read = [name for check in (*self.conditions, *self.checks) for name in names_of(check)]
        return self.calculated.union(read, (self.variable,) if self.is_lookup else ())


@dataclass(frozen=True)
class Branch:
    """Steps of a path in a row, from `begin` up to `end`, that are taken once for all prefixes that look alike to them.

    See `gpu_wcoj.join.branch`.
    """

    begin: int
    end: int


def branch_name(steps: Sequence[Step]) -> str:
    """What the steps of a branch are called together, among the steps of their path.

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
        The atom whose change starts the path, once for each arrangement that holds its rows; the first is taken
        unless another stands in a better order. Atoms of lower number are seen after this tick, of higher before.
        Negated atoms have negative numbers; one that starts a path does so with its change reversed.
    others
        The other positive atoms, by number.
    seed_conditions
        Conditions among the seed's variables.
    steps
        One per further variable.
    sort_first
        The seed's variables whose ranges several steps share, most useful first; empty if there is no preference.
    variants
        Paths of the same seed that bind another variable first and need no further arrangement. Each row of the
        change goes down the one that gives it the fewest values to begin with.
    seed_checks
        What follows once the seed's variables are bound.
    branches
        Which of the steps are taken apart from the prefixes and joined back where rows are listed, in their order.
    after
        The atoms that are seen after this tick, where it is not those of lower number.
    """

    seeds: tuple[AtomUse, ...]
    others: tuple[AtomUse, ...]
    seed_conditions: tuple[Condition, ...]
    steps: tuple[Step, ...]
    sort_first: tuple[str, ...] = ()
    variants: tuple[DeltaPath, ...] = ()
    seed_checks: tuple[Check, ...] = ()
    branches: tuple[Branch, ...] = ()
    after: frozenset[int] | None = None

    def with_seeds(self, seeds: tuple[AtomUse, ...]) -> DeltaPath:
        """The path, and its variants, with its seeds in these orders."""
        return replace(self, seeds=seeds, variants=tuple(replace(one, seeds=seeds) for one in self.variants))

    def sees_after(self, use: AtomUse) -> bool:
        """Whether an atom is seen after this tick rather than before it."""
        return use.atom < self.seed.atom if self.after is None else use.atom in self.after

    @property
    def is_negated(self) -> bool:
        """Whether a negated atom starts it: what that gains, the answer loses."""
        return self.seeds[0].atom < 0

    @cached_property
    def absent(self) -> tuple[Absent, ...]:
        """The other negated atoms."""
        checks = (*self.seed_checks, *(check for step in self.steps for check in step.checks))
        return tuple(check for check in checks if isinstance(check, Absent))

    @cached_property
    def calculations(self) -> tuple[Calculation, ...]:
        """What is calculated on the way."""
        checks = (*self.seed_checks, *(check for step in self.steps for check in step.checks))
        return tuple(check for check in checks if isinstance(check, Calculation))

    @property
    def seed(self) -> AtomUse:
        """The first of `seeds`."""
        return self.seeds[0]

    @cached_property
    def binding(self) -> tuple[tuple[int, int, tuple[int, ...]], ...]:
        """Per other atom that the seed reaches: its number, how many levels are bound, by which seed variables."""
        place = {name: i for i, name in enumerate(self.seed.variables)}
        bound = []
        for use in self.others:
            depth = next((i for i, name in enumerate(use.variables) if name not in place), len(use.variables))
            if depth:
                bound.append((use.atom, depth, tuple(place[name] for name in use.variables[:depth])))
        return tuple(bound)

    @cached_property
    def is_single(self) -> bool:
        """Whether one step binds the last variable of every other atom, without conditions, checks and negation."""
        if len(self.steps) != 1 or self.steps[0].conditions or self.seed_conditions:
            return False
        if self.steps[0].checks or self.seed_checks or self.is_negated:
            return False
        return all(use.variables[-1] == self.steps[0].variable for use in self.others) and len(self.binding) == len(
            self.others
        )

    def depth_of(self, wanted: Collection[str]) -> int:
        """After how many steps all of these variables are bound that the steps bind, and looked up where that is next.

        Examples
        --------
        >>> path = DeltaPath((), (), (), (Step("b", (0,)), Step("b", (1,), is_lookup=True), Step("c", (1,))))
        >>> path.depth_of({"b"}), path.depth_of({"c"}), path.depth_of(())
        (2, 3, 0)
        """
        depth = 0
        for number, step in enumerate(self.steps, 1):
            is_next = depth == number - 1 if step.is_lookup else step.variable in wanted
            if is_next or not step.calculated.isdisjoint(wanted):
                depth = number
        return depth

    @cached_property
    def compared(self) -> frozenset[str]:
        """The variables that conditions and checks of the steps speak of."""
        return frozenset[str]().union(*(step.spoken for step in self.steps))

    @cached_property
    def keys(self) -> tuple[ArrangementKey, ...]:
        """The arrangements that it reads besides its seeds'."""
        return tuple([use.key for use in (*self.others, *(check.use for check in self.absent))])

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The variables in the order in which they are bound."""
        return (*self.seed.variables, *(step.variable for step in self.steps if not step.is_lookup))


@dataclass(frozen=True)
class DeltaQuery:
    """A rule's body as delta paths, one per atom, and what its head keeps.

    Attributes
    ----------
    rule
        The rule's text, for people.
    head
        Per column of the head, a variable's name or a constant's code.
    paths
        One per atom of the body, in the order of their numbers: negated ones first.
    calculations
        What the body calculates, in its order.
    together
        The variables that are kept by any of the rules with which it shares its paths; empty if there are none.
    begun
        Per path, how it goes on from rows that others begin with, too, if there are any; empty if no path does.
    symmetry
        Which paths may stand for others where changes are counted, if any do.
    """

    rule: str
    head: tuple[str | int, ...]
    paths: tuple[DeltaPath, ...]
    calculations: tuple[Calculation, ...] = ()
    together: tuple[str, ...] = ()
    begun: tuple[Begun | None, ...] = ()
    symmetry: Symmetry | None = None

    @cached_property
    def has_negation(self) -> bool:
        """Whether an atom is negated."""
        return any(path.is_negated for path in self.paths)

    @cached_property
    def head_variables(self) -> frozenset[str]:
        """The variables that the head keeps."""
        return frozenset(term for term in self.head if isinstance(term, str))

    @cached_property
    def keys(self) -> tuple[ArrangementKey, ...]:
        """The arrangements that the paths use, each once."""
        return tuple(dict.fromkeys([key for path in self.paths for key in (path.seeds[0].key, *path.keys)]))


@lru_cache(maxsize=1024)
def independent(steps: tuple[Step, ...]) -> tuple[tuple[Step, ...], ...]:
    """Split steps into parts that share no atom, no condition and no check, each in the given order."""
    group = list(range(len(steps)))
    place = {step.variable: number for number, step in enumerate(steps) if not step.is_lookup}
    place.update({name: number for number, step in enumerate(steps) for name in step.calculated})
    links: list[tuple[int, int]] = []
    for i, step in enumerate(steps):
        links.extend((i, j) for j in range(i) if set(step.atoms) & set(steps[j].atoms))
        links.extend((i, place[other]) for other in step.spoken if other in place)
    for i, j in links:
        old, new = max(group[i], group[j]), min(group[i], group[j])
        group = [new if own == old else own for own in group]
    parts = (tuple(step for step, own in zip(steps, group, strict=True) if own == one) for one in sorted(set(group)))
    return tuple(parts)
