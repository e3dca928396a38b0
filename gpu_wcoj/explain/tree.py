"""A plan as a tree of plain values, from which every format is written.

The names of the fields are the keys of the JSON. Texts are meant for people and may change; numbers, names of relations
and variables, verbs and the shape of the tree do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gpu_wcoj.explain.figures import Counts, Estimate, SeedCounts, TickTree

Verb = Literal["look up", "intersect", "check"]
"""One atom gives the values; several atoms do, all of which hold them; a value that is bound is sought in one atom."""


@dataclass(frozen=True)
class Arranged:
    """One arrangement.

    Attributes
    ----------
    name
        How others of the tree refer to it; columns are called as `columns` has them.
    columns
        Outermost level first.
    where
        What rows have to satisfy to be in it.
    rules
        How many rules use it.
    """

    name: str
    relation: str
    columns: tuple[str, ...]
    where: tuple[str, ...]
    rules: int


@dataclass(frozen=True)
class Use:
    """One atom of a rule on a path.

    Attributes
    ----------
    atom
        As text, with its variables.
    sees
        Whether this tick's change of the relation is seen.
    arrangement
        The name of the arrangement that is read.
    """

    atom: str
    relation: str
    sees: Literal["before", "after"]
    arrangement: str

    def __str__(self) -> str:
        return f"{self.atom} {self.sees}, by {self.arrangement}"


@dataclass(frozen=True)
class Done:
    """What follows once variables are bound: rows are dropped, or a value is found.

    Attributes
    ----------
    what
        A condition, a calculation, or the negated atom whose rows drop those that are bound.
    use
        Of a negated atom.
    """

    what: str
    use: Use | None = None

    def __str__(self) -> str:
        return f"then {self.what}" if self.use is None else f"drop where {self.use}"


@dataclass(frozen=True)
class LevelTree:
    """One step of a path.

    Attributes
    ----------
    step
        Its name on the path, as in `TickReport.work`.
    variable
        That it binds, or looks up.
    uses
        The atoms that take part.
    where
        Conditions on its values.
    then
        What follows.
    at_most
        Prefixes that are left for each changed row, whatever the values are, where that was asked for and is known.
    """

    step: str
    variable: str
    verb: Verb
    uses: tuple[Use, ...]
    where: tuple[str, ...] = ()
    then: tuple[Done, ...] = ()
    estimate: Estimate | None = None
    at_most: float | None = None
    counts: Counts | None = None


@dataclass(frozen=True)
class BranchTree:
    """Levels of a path that are taken once for all prefixes that look alike to them, and joined back.

    That is done where rows are listed; where they are counted, the levels are taken as they come.

    Attributes
    ----------
    name
        Of the joining back, as in `TickReport.work`.
    sees
        The variables bound before by which prefixes look different to it.
    levels
        How its levels are called.
    counts
        What joining back did: prefixes that it was given, and the rows that it made of them.
    """

    name: str
    sees: tuple[str, ...]
    levels: tuple[str, ...]
    counts: Counts | None = None


@dataclass(frozen=True)
class VariantTree:
    """Another order of a path's steps, for changed rows that begin with fewer values there."""

    levels: tuple[LevelTree, ...]
    seed_counts: SeedCounts | None = None

    @property
    def order(self) -> tuple[str, ...]:
        """The variables in the order in which they are bound."""
        return tuple(level.variable for level in self.levels if level.verb != "check")


@dataclass(frozen=True)
class BegunTree:
    """What a path shares with others: it is enumerated once a tick, where their rows are listed.

    Attributes
    ----------
    head, rule, path
        Whose it is: a head, one of its rules, and a path of that, both from 1 on.
    binds
        The variables that it binds, as this path calls them.
    from_rows
        Where fewer rows change, every path begins on its own.
    was_taken
        Whether the path has gone on from rows of another one in the last tick: then its own levels have not bound them.
    """

    head: str
    rule: int
    path: int
    binds: tuple[str, ...]
    from_rows: int
    was_taken: bool = False


@dataclass(frozen=True)
class PathTree:
    """One delta path.

    Attributes
    ----------
    number
        From 1 on; 0 for a path that is asked for derivations.
    change_of
        The atom whose change starts it.
    is_negated
        Whether that atom is negated: what it gains, the answer loses.
    seeds
        The arrangements that have the change, the first one if there is no reason for another.
    where
        Conditions on the changed row.
    held
        Atoms whose variables the changed row binds, all of them: it is sought there.
    then
        What follows.
    levels
        The steps.
    variants
        The same steps in other orders.
    strategy
        ``wcoj`` if its atoms meet in intersections only, ``binary`` if one atom after the other is joined, ``hybrid``
        for some of both, ``either`` where the two are the same.
    seed_estimate
        Prefixes that a changed row is expected to start.
    branches
        Which of the levels are taken apart.
    further
        Counted under other names than those of steps: ranks that were looked up, values new to a group of rows, and
        samples.
    begins_as
        What it shares with other paths. The path that comes first in a tick has done the work.
    counted_for
        The paths that it is counted for where changes are few and only counted, itself among them: their atoms are
        images of each other.
    counted_seeing
        The atoms that it sees otherwise then.
    counted_by
        The path that is counted for it.
    counted_from
        Where fewer rows change, each goes its own way.
    """

    number: int
    change_of: str
    is_negated: bool
    seeds: tuple[str, ...]
    where: tuple[str, ...]
    held: tuple[Use, ...]
    then: tuple[Done, ...]
    levels: tuple[LevelTree, ...]
    variants: tuple[VariantTree, ...] = ()
    strategy: Literal["wcoj", "binary", "hybrid", "either"] = "either"
    seed_estimate: Estimate | None = None
    seed_counts: SeedCounts | None = None
    branches: tuple[BranchTree, ...] = ()
    further: tuple[tuple[str, Counts], ...] = ()
    begins_as: BegunTree | None = None
    counted_for: tuple[int, ...] = ()
    counted_seeing: tuple[Use, ...] = ()
    counted_by: int | None = None
    counted_from: int = 1


@dataclass(frozen=True)
class RuleTree:
    """One rule of a head.

    Attributes
    ----------
    rule
        As text.
    paths
        One for each atom.
    asked
        Of a recursive rule, the path that finds the derivations of given rows.
    asked_for
        What is given to it.
    joined_with
        Heads with rules of the same body, with which it is joined once where their rows are listed.
    afresh
        What whole counts of the rule did in the last tick, if they were asked for their work: the path that they took,
        every atom of it seen whole, and beside it what was done to decide on them or given up. If none was taken, it
        begins with no atom, and `HeadTree.followed` says why.
    """

    rule: str
    paths: tuple[PathTree, ...]
    asked: PathTree | None = None
    asked_for: Literal["", "rows", "groups"] = ""
    joined_with: tuple[str, ...] = ()
    afresh: PathTree | None = None


@dataclass(frozen=True)
class HeadTree:
    """One derived relation.

    Attributes
    ----------
    stratum
        From 0 on, in the order in which a tick evaluates them; heads of one recursion have the same.
    kind
        ``alias`` if it only renames or selects, so that rules read the relation below it; ``grouping`` if it
        aggregates; ``recursive``; else ``rules``.
    note
        For people.
    recursive_with
        The other heads of its recursion.
    reads
        Of a grouping, the name of the arrangement that it reads.
    counted_rows
        Whether the derivations of its rows are counted.
    seconds
        That it took in the last tick; for a recursion, at the first of its heads.
    recounted
        Of the last tick, how its change was counted where it was not followed.
    followed
        Of the last tick, why its change was followed though counting afresh was thought of.
    """

    name: str
    stratum: int
    kind: Literal["rules", "alias", "grouping", "recursive"]
    note: str
    recursive_with: tuple[str, ...]
    reads: str | None
    counted_rows: bool
    rules: tuple[RuleTree, ...]
    seconds: float | None = None
    recounted: tuple[str, ...] = ()
    followed: str = ""


@dataclass(frozen=True)
class PlanTree:
    """A program's plan.

    Attributes
    ----------
    route
        Which ticks run where, if there is a choice.
    heads
        In the order in which a tick evaluates them.
    arrangements
        All that the rules use.
    tick
        Of the last tick, where that was asked for.
    chosen
        Why the plan is another one than at first, or stays though ticks are not what was expected.
    strategy
        That was asked for.
    candidates
        How many orders of delta paths were looked at.
    """

    backend: str
    semantics: Literal["set", "bag"]
    route: str | None
    heads: tuple[HeadTree, ...]
    arrangements: tuple[Arranged, ...]
    tick: TickTree | None = None
    chosen: str | None = None
    strategy: Literal["auto", "wcoj", "binary"] = "auto"
    candidates: int = 0

    def paths(self) -> Iterator[PathTree]:
        """All delta paths, those that are asked too."""
        for head in self.heads:
            for rule in head.rules:
                yield from rule.paths
                if rule.asked is not None:
                    yield rule.asked
