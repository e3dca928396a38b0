"""A plan in the making: what the planner's passes take and give.

A draft is text, too, so that what a pass does can be read: per rule its body, and per delta path what is decided.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, get_args

from gpu_wcoj.join.beginning import Begun
from gpu_wcoj.join.path import Absent, AtomUse, Check, DeltaPath, DeltaQuery, Step
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.planner.body import Alias, Body, BodyAtom, Encode, Shape
from gpu_wcoj.planner.calculations import INTEGERS, Kinds
from gpu_wcoj.planner.expected import Foreseen, Levels
from gpu_wcoj.query.rules import Rule

if TYPE_CHECKING:
    from gpu_wcoj.join.symmetry import Symmetry
    from gpu_wcoj.planner.auxiliary import Auxiliary
    from gpu_wcoj.planner.facts import Facts
    from gpu_wcoj.planner.symmetry import Renaming

Strategy = Literal["auto", "wcoj", "binary"]
"""How delta paths join: all atoms of a variable at once, or one after the other, or as costs say."""

STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)


class KnownRelations(Protocol):
    """What passes ask of relations; see `gpu_wcoj.planner.known.Known`."""

    def rows(self, relation: str) -> float | None:
        """Rows of a relation, where known."""

    def levels(self, atom: BodyAtom, order: Sequence[str]) -> Levels | None:
        """The atom's trie if its variables are bound in that order, where known."""

    def values(self, atom: BodyAtom, variable: str) -> float | None:
        """Distinct values that an atom has for a variable, where known."""

    def sample(self, atom: BodyAtom, variables: Sequence[str]) -> Int64Array | None:
        """Some of an atom's rows, drawn evenly, one array row a variable, where there are some at hand."""

    def expecting(self, facts: Mapping[str, Facts]) -> KnownRelations:
        """The same, and what is expected of relations that are not there yet."""
        ...


@dataclass(frozen=True)
class Nothing:
    """Nothing is known."""

    def rows(self, relation: str) -> float | None:  # as `KnownRelations` has it
        """None."""

    def levels(self, atom: BodyAtom, order: Sequence[str]) -> Levels | None:  # as `KnownRelations` has it
        """None."""

    def values(self, atom: BodyAtom, variable: str) -> float | None:  # as `KnownRelations` has it
        """None."""

    def sample(self, atom: BodyAtom, variables: Sequence[str]) -> Int64Array | None:  # as `KnownRelations` has it
        """None."""

    def expecting(self, facts: Mapping[str, Facts]) -> Nothing:  # noqa: ARG002  # as `KnownRelations` has it
        """Nothing either."""
        return self


NOTHING = Nothing()


@dataclass(frozen=True, eq=False)
class Setting:
    """What all passes are told.

    Attributes
    ----------
    shapes
        Per relation, its stored columns.
    encode, kinds
        Of constants, and of what is calculated.
    bag
        Whether weights are kept.
    strategy
        How paths join.
    hints
        Per head, variables in the order in which they are to be bound.
    known
        What is known of relations.
    best
        Per head that keeps the best value of a column: the column.
    recursive
        Of a bag, heads that are derived from themselves, also if no rule that can hold does so now: they are sets.
    auxiliaries
        Auxiliary relations that are kept now, which stay a little longer than others are begun; None if there are to
        be none.
    """

    shapes: Mapping[str, Shape]
    encode: Encode
    kinds: Kinds = INTEGERS
    bag: bool = False
    strategy: Strategy = "auto"
    hints: Mapping[str, Sequence[str]] = field(default_factory=dict)
    known: KnownRelations = NOTHING
    best: Mapping[str, int] = field(default_factory=dict)
    recursive: Collection[str] = ()
    auxiliaries: Collection[Auxiliary] | None = None

    def textual(self, relation: str, column: int) -> bool:
        """Whether a column holds text or bytes."""
        return bool(self.shapes[relation].family(column))


class Order(NamedTuple):
    """In which order a delta path binds variables.

    Attributes
    ----------
    seed
        The number of the atom whose change starts it.
    variables
        Beyond those of the seed.
    via
        Per variable, the atom that proposes its values alone; None where all atoms that hold it do.
    """

    seed: int
    variables: tuple[str, ...]
    via: tuple[int | None, ...]

    @property
    def is_together(self) -> bool:
        """Whether no atom proposes alone."""
        return self.via.count(None) == len(self.via)

    def __str__(self) -> str:
        shown = (
            name if one is None else f"{name} by {one}" for name, one in zip(self.variables, self.via, strict=True)
        )
        return f"change of {self.seed}: {', '.join(shown) or 'nothing'}"


@dataclass(frozen=True)
class RuleDraft:
    """One rule.

    Attributes
    ----------
    head
        The relation that it derives.
    body
        Over stored columns, once it is normalised.
    orders
        Per delta path the order, then others that begin with a variable that as many atoms reach.
    foreseen
        Per delta path, what is expected of it as it is ordered and branched; None if that is not known.
    renaming
        The symmetry by which they were chosen, if the body has one.
    paths
        The delta paths, once their arrangements are chosen.
    query
        The rule as it is executed, once all else is done.
    """

    head: str
    rule: Rule
    body: Body | None = None
    orders: tuple[tuple[Order, ...], ...] = ()
    foreseen: tuple[Foreseen | None, ...] = ()
    renaming: Renaming | None = None
    paths: tuple[DeltaPath, ...] = ()
    query: DeltaQuery | None = None

    @property
    def normalised(self) -> Body:
        """The body, which an earlier pass has made."""
        assert self.body is not None, "a pass was run before `normalise`"
        return self.body

    def __str__(self) -> str:
        lines = [f"{self.head}: {self.rule}"]
        if self.body is not None:
            lines += [f"  {number}: {atom}" for number, atom in enumerate(self.body.negated, -len(self.body.negated))]
            lines += [f"  {number}: {atom}" for number, atom in enumerate(self.body.atoms)]
            lines += [f"  {said}" for said in (*self.body.calculations, *self.body.conditions)]
        if not self.paths:
            for order, *others in self.orders:
                lines.append(f"  {order}")
                lines += [f"    or {', '.join(other.variables)}" for other in others]
        begun = () if self.query is None else self.query.begun
        for path, way in zip_longest(self.paths, begun):
            lines += _shown(path)
            lines += [] if way is None else _shown_begun(way)
        if self.query is not None:
            lines.append(f"  keeps {', '.join(map(str, self.query.head))}")
            if self.query.together:
                lines.append(f"  joined with others, which keep {', '.join(self.query.together)}")
            lines += [] if self.query.symmetry is None else [f"  {_shown_symmetry(self.query.symmetry)}"]
        return "\n".join(lines)


@dataclass(frozen=True)
class Draft:
    """A program.

    Attributes
    ----------
    rules
        Those that can derive something.
    aliases
        Heads that only rename or select from another relation.
    candidates
        How many orders of delta paths have been looked at.
    auxiliaries
        Those that are kept; their rules stand first.
    """

    setting: Setting
    rules: tuple[RuleDraft, ...]
    aliases: Mapping[str, Alias] = field(default_factory=dict)
    candidates: int = 0
    auxiliaries: tuple[Auxiliary, ...] = ()

    def __str__(self) -> str:
        return "\n".join(map(str, self.rules))

    def over(self, change: Callable[[RuleDraft], RuleDraft]) -> Draft:
        """The draft with every rule changed; itself if none is another one then."""
        return self.of(map(change, self.rules))

    def of(self, rules: Iterable[RuleDraft]) -> Draft:
        """The draft with these in the place of its rules; itself if they are the same ones."""
        found = tuple(rules)
        is_same = len(found) == len(self.rules) and all(map(operator.is_, found, self.rules))
        return self if is_same else replace(self, rules=found)


def _shown(path: DeltaPath) -> list[str]:
    seeds = " or ".join(str(use.key) for use in path.seeds)
    lines = [f"  change of {path.seed.atom}, {seeds}" + _after(path.seed_conditions, path.seed_checks)]
    if path.sort_first:
        lines[0] += f", sorted by {', '.join(path.sort_first)}"
    by_number = {use.atom: use for use in path.others}
    begins = {branch.begin for branch in path.branches}
    inside = {at for branch in path.branches for at in range(branch.begin, branch.end)}
    for at, step in enumerate(path.steps):
        lines += ["    branch"] if at in begins else []
        lines.append(f"    {'  ' * (at in inside)}{_step(step, by_number)}")
    return lines + [f"    or {', '.join(step.name for step in variant.steps)}" for variant in path.variants]


def _shown_symmetry(symmetry: Symmetry) -> str:
    orbits = (" ".join(map(str, orbit)) for orbit in symmetry.orbits if len(orbit) > 1)
    return f"counted by paths {', '.join(map(str, symmetry.taken))}, the images {' and '.join(orbits)} as one"


def _shown_begun(way: Begun) -> list[str]:
    """How a path goes on from the rows of a beginning."""
    by_number = {use.atom: use for use in way.rest.others}
    lines = [f"    or begin as {_begins_as(way)}" + _after(way.rest.seed_conditions, way.rest.seed_checks)]
    bound = [use for use in way.rest.others if set(use.variables) <= set(way.rest.seed.variables)]
    lines += [f"      check {use.atom} by {use.key}" for use in bound]
    return lines + [f"      {_step(step, by_number)}" for step in way.rest.steps]


def _begins_as(way: Begun) -> str:
    """The path that it is taken from, and what it binds; a beginning may begin as another one itself."""
    one = way.beginning
    above = "" if one.begun is None else f" which begins as {_begins_as(one.begun)}"
    return f"path {one.number} of {one.head}, rule {one.rule}: {', '.join(way.names)}{above}"


def _step(step: Step, uses: Mapping[int, AtomUse]) -> str:
    atoms = " with ".join(f"{number} by {uses[number].key}" for number in step.atoms)
    verb = "check" if step.is_lookup else "look up" if len(step.atoms) == 1 else "intersect"
    return f"{step.variable}: {verb} {atoms}" + _after(step.conditions, step.checks)


def _after(conditions: Sequence[object], checks: Sequence[Check]) -> str:
    said = f" where {', '.join(map(str, conditions))}" if conditions else ""
    return said + "".join(
        f" then {check}" + (f" by {check.use.key}" if isinstance(check, Absent) else "") for check in checks
    )
