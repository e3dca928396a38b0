"""A plan as a tree of plain values, from which every format is written.

The names of the fields are the keys of the JSON. Texts are meant for people and may change; numbers, names of relations
and variables, verbs and the shape of the tree do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

# Numbers of a plan's tree: estimates of its levels, and work in the last tick.
#
# The names of the fields are the keys of the JSON.


@dataclass(frozen=True)
class Estimate:
    """Estimate of a level per changed row: proposed values, and remaining prefixes."""

    proposals: float
    rows: float


@dataclass(frozen=True)
class Counts:
    """Work of a level in the last tick; None for numbers that were not measured.

    Attributes
    ----------
    prefixes
        Extended prefixes; prefixes that agree for this and all later levels are one if rows are only counted.
    work_bound
        The smallest count of its atoms, summed over these prefixes; for a check, at most one per prefix. Atoms are
        counted batch by batch, so a row that is in one batch and deleted in another counts in both, also if this tick
        deletes it. For a last level that is only counted and has values of one atom it may be 0, as lengths of ranges
        are added there instead of reading values: it bounds work, not `survivors`.
    proposals
        Values that were read one by one.
    probes
        Searches in the other atoms, and tested marks.
    marks
        Values that were marked for a group of prefixes.
    survivors
        Values that all of its atoms have; a value in several batches may be counted in each.
    rows
        Rows passed on to the next level; 0 if they were only counted.
    bytes
        Size of these rows.
    seconds
        Time of the level, summed over threads.
    """

    work_bound: int = 0
    proposals: int = 0
    probes: int = 0
    marks: int = 0
    survivors: int = 0
    prefixes: int | None = None
    rows: int | None = None
    bytes: int | None = None
    seconds: float | None = None

    def plus(self, other: Counts) -> Counts:
        """Add two counts; a number is None if it is None in either."""
        return Counts(
            self.work_bound + other.work_bound,
            self.proposals + other.proposals,
            self.probes + other.probes,
            self.marks + other.marks,
            self.survivors + other.survivors,
            None if self.prefixes is None or other.prefixes is None else self.prefixes + other.prefixes,
            None if self.rows is None or other.rows is None else self.rows + other.rows,
            None if self.bytes is None or other.bytes is None else self.bytes + other.bytes,
            None if self.seconds is None or other.seconds is None else self.seconds + other.seconds,
        )


@dataclass(frozen=True)
class SeedCounts:
    """Seeds of a path in the last tick.

    Attributes
    ----------
    changes
        Changed rows that seeded it; those of a variant are counted at its path.
    prefixes
        Changed rows that passed all atoms that they bind, per variant.
    seconds
        Time for finding the prefixes.
    """

    changes: int
    prefixes: int
    seconds: float


@dataclass(frozen=True)
class TickTree:
    """The last tick as a whole.

    Attributes
    ----------
    tick
        Its number, from 0.
    seconds
        Total time: reading of the changes, joins, and building the new state.
    merged_rows
        Rows read by merging batches.
    is_measured
        Whether prefixes, rows, bytes and times were measured.
    total
        Sum of all levels.
    notes
        Missing measurements and their reasons.
    """

    tick: int
    backend: str
    seconds: float
    merged_rows: int
    is_measured: bool
    total: Counts
    notes: tuple[str, ...]


Verb = Literal["look up", "intersect", "check"]
"""One atom proposes the values; several atoms are intersected; a bound value is looked up in one atom."""


@dataclass(frozen=True)
class Arranged:
    """An arrangement.

    Attributes
    ----------
    name
        The name by which other parts of the tree refer to it, with the column names of `columns`.
    columns
        Outermost level first.
    where
        Conditions on its rows.
    rules
        Number of rules that use it.
    """

    name: str
    relation: str
    columns: tuple[str, ...]
    where: tuple[str, ...]
    rules: int


@dataclass(frozen=True)
class Use:
    """An atom of a rule on a path.

    Attributes
    ----------
    atom
        As text, with its variables.
    sees
        State that is read: with (``after``) or without (``before``) this tick's change.
    arrangement
        Name of the arrangement that is read.
    """

    atom: str
    relation: str
    sees: Literal["before", "after"]
    arrangement: str

    def __str__(self) -> str:
        return f"{self.atom} {self.sees}, by {self.arrangement}"


@dataclass(frozen=True)
class Done:
    """A check or calculation that follows once variables are bound.

    Attributes
    ----------
    what
        A condition, a calculation, or a negated atom, whose rows drop bindings.
    use
        The use of the negated atom.
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
        The variable that it binds, or looks up.
    uses
        The atoms of the step.
    where
        Conditions on its values.
    then
        Checks and calculations that follow.
    at_most
        Upper bound of the remaining prefixes per changed row, if requested and known.
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
    """A bushy branch: levels evaluated once per group of prefixes, then joined back.

    Branches are used if rows are listed; if they are counted, the levels are evaluated in order.

    Attributes
    ----------
    name
        Name of joining back, as in `TickReport.work`.
    sees
        The bound variables that the branch depends on.
    levels
        Names of its levels.
    counts
        Work of joining back: input prefixes and output rows.
    """

    name: str
    sees: tuple[str, ...]
    levels: tuple[str, ...]
    counts: Counts | None = None


@dataclass(frozen=True)
class VariantTree:
    """Another order of a path's steps, for changed rows that propose fewer values there."""

    levels: tuple[LevelTree, ...]
    seed_counts: SeedCounts | None = None

    @property
    def order(self) -> tuple[str, ...]:
        """The variables in the order in which they are bound."""
        return tuple(level.variable for level in self.levels if level.verb != "check")


@dataclass(frozen=True)
class BegunTree:
    """A common prefix of paths, enumerated once a tick if the paths list their rows.

    Attributes
    ----------
    head, rule, path
        Position of the shared path: a head, one of its rules, and a path of the rule, both from 1.
    binds
        The variables that the prefix binds, with this path's names.
    from_rows
        Minimum changed rows for which the prefix is shared.
    was_taken
        Whether the path used the shared rows in the last tick, so that its levels did not bind these variables.
    """

    head: str
    rule: int
    path: int
    binds: tuple[str, ...]
    from_rows: int
    was_taken: bool = False


@dataclass(frozen=True)
class PathTree:
    """A delta path.

    Attributes
    ----------
    number
        From 1; 0 for a path that computes derivations.
    change_of
        The atom whose change seeds the path.
    is_negated
        Whether that atom is negated, so that its insertions delete from the answer.
    seeds
        The arrangements that have the change; the first is the default.
    where
        Conditions on the changed row.
    held
        Atoms whose variables are all bound by the changed row, which is looked up there.
    then
        Checks and calculations that follow.
    levels
        The steps.
    variants
        The same steps in other orders.
    strategy
        ``wcoj`` if its atoms meet in intersections only, ``binary`` if one atom after the other is joined, ``hybrid``
        for some of both, ``either`` where the two are the same.
    seed_estimate
        Expected number of prefixes per changed row.
    branches
        Bushy branches of the levels.
    further
        Work outside of steps, by name: looked-up ranks, values that are new to a group of rows, and samples.
    begins_as
        Common prefix with other paths. The first such path in a tick does the work.
    counted_for
        The automorphic paths, itself included, that it is counted for if small changes are only counted.
    counted_seeing
        The atoms that it reads in another state then.
    counted_by
        The path that is counted for it.
    counted_from
        Minimum changed rows for which one path is counted for the others.
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
    """A rule of a head.

    Attributes
    ----------
    rule
        As text.
    paths
        One for each atom.
    asked
        For a recursive rule, the path that computes the derivations of rows.
    asked_for
        The input of that path.
    afresh
        Work of full counts of the rule in the last tick, if measured: their path over the whole state, and the work of
        samples and aborted counts. If no full count was used, the path has no atom, and `HeadTree.followed` has the
        reason.
    load
        The path of ticks that start from nothing, if these have a plan of their own.
    """

    rule: str
    paths: tuple[PathTree, ...]
    asked: PathTree | None = None
    asked_for: Literal["", "rows", "groups"] = ""
    afresh: PathTree | None = None
    load: PathTree | None = None


@dataclass(frozen=True)
class HeadTree:
    """A derived relation.

    Attributes
    ----------
    stratum
        From 0, in evaluation order; heads of one recursion have the same stratum.
    kind
        ``alias`` if it only renames or selects, so that rules read its source instead; ``grouping`` if it aggregates;
        ``first rows`` if it keeps the first rows of its source; ``computed groups`` if DuckDB computes its groups;
        ``recursive``; else ``rules``.
    note
        For people.
    recursive_with
        The other heads of its recursion.
    reads
        For a grouping, for first rows and for computed groups, the name of the arrangement that they read.
    counted_rows
        Whether the derivations of its rows are counted.
    seconds
        Time of the last tick; for a recursion, at its first head.
    recounted
        Phases of the last tick that were counted by full recomputation.
    followed
        Reason for which the last tick did not use full recomputation though it was considered.
    """

    name: str
    stratum: int
    kind: Literal["rules", "alias", "grouping", "first rows", "computed groups", "recursive"]
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
    """The plan of a program.

    Attributes
    ----------
    route
        Rule that assigns ticks to backends, if there are several.
    heads
        In evaluation order.
    arrangements
        All arrangements that rules use.
    tick
        The last tick, if requested.
    chosen
        Reason for which the plan was replaced, or kept though ticks differ from the estimates.
    strategy
        The requested strategy.
    candidates
        Number of orders of delta paths that the planner compared.
    small_ticks
        Ticks that are walked row by row, or the reason for which none is.
    last_tick
        Whether the last tick was walked, or the reason for which it ran path by path; empty for the first tick and if
        nothing was changed.
    pushed_down
        Heads that hold no more than what rules ask of them, as sentences.
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
    small_ticks: str = ""
    last_tick: str = ""
    pushed_down: tuple[str, ...] = ()

    def paths(self) -> Iterator[PathTree]:
        """Yield all delta paths, including those that compute derivations."""
        for head in self.heads:
            for rule in head.rules:
                yield from rule.paths
                if rule.asked is not None:
                    yield rule.asked
