"""Plans of delta queries: what a path binds, in which order, through which arrangements."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from gpu_wcoj.trace.arrangement import ArrangementKey


@dataclass(frozen=True)
class AtomUse:
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
class Step:
    """Bind one variable: the atoms that hold it take part, and the conditions that it completes are checked."""

    variable: str
    atoms: tuple[int, ...]
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True)
class DeltaPath:
    """One term of the delta rule: the change of one atom, extended through the others.

    Attributes
    ----------
    seeds
        The atom whose change starts the path, once for each arrangement that holds its rows; the first is taken
        unless another stands in a better order. Atoms of lower number are seen after this tick, of higher before.
    others
        The other atoms, by number.
    seed_conditions
        Conditions among the seed's variables.
    steps
        One per further variable.
    sort_first
        The seed's variables whose ranges several steps share, most useful first; empty if there is no preference.
    variants
        Paths of the same seed that bind another variable first and need no further arrangement. Each row of the
        change goes down the one that gives it the fewest values to begin with.
    """

    seeds: tuple[AtomUse, ...]
    others: tuple[AtomUse, ...]
    seed_conditions: tuple[Condition, ...]
    steps: tuple[Step, ...]
    sort_first: tuple[str, ...] = ()
    variants: tuple[DeltaPath, ...] = ()

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
        """Whether one step binds the last variable of every other atom, without conditions."""
        if len(self.steps) != 1 or self.steps[0].conditions or self.seed_conditions:
            return False
        return all(use.variables[-1] == self.steps[0].variable for use in self.others) and len(self.binding) == len(
            self.others
        )

    @cached_property
    def compared(self) -> frozenset[str]:
        """The variables that conditions of the steps speak of."""
        spoken = [name for step in self.steps for one in step.conditions for name in (one.variable, one.other)]
        return frozenset(name for name in spoken if isinstance(name, str))

    @property
    def order(self) -> tuple[str, ...]:
        """The variables in the order in which they are bound."""
        return (*self.seed.variables, *(step.variable for step in self.steps))


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
        One per atom of the body, in the body's order.
    """

    rule: str
    head: tuple[str | int, ...]
    paths: tuple[DeltaPath, ...]

    @cached_property
    def head_variables(self) -> frozenset[str]:
        """The variables that the head keeps."""
        return frozenset(term for term in self.head if isinstance(term, str))

    @property
    def keys(self) -> tuple[ArrangementKey, ...]:
        """The arrangements that the paths use, each once."""
        used = (use.key for path in self.paths for use in (path.seed, *path.others))
        return tuple(dict.fromkeys(used))
