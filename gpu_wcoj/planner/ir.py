"""Logical plan of a program that the planner's passes transform.

The text of a draft shows the body of each rule and the decisions for each delta path.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import zip_longest
from typing import Literal, NamedTuple, Protocol, get_args

from gpu_wcoj.join.plan import Absent, AtomUse, Check, Continuation, DeltaPath, DeltaQuery, Step, Symmetry
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.planner.body import INTEGERS, Alias, Body, BodyAtom, Encode, Kinds, Shape
from gpu_wcoj.planner.statistics import Facts
from gpu_wcoj.planner.symmetry import Renaming
from gpu_wcoj.query.ir import Atom, Grouping, Rule, Variable
from gpu_wcoj.query.stratify import components

# Estimates of tries, levels and paths; see `gpu_wcoj.planner.cost`.


class Levels(NamedTuple):
    """Trie sizes of one atom, in the order in which a path binds its variables.

    Attributes
    ----------
    variables
        Variables of the levels.
    distinct
        Per level, the number of distinct prefixes; the last is the number of rows.
    met
        Per level but the last, mean children of a prefix that is met through rows; empty if unknown.
    """

    variables: tuple[str, ...]
    distinct: tuple[float, ...]
    met: tuple[float, ...] = ()

    def degree(self, depth: int) -> float:
        """Return the number of values of level `depth` below one prefix."""
        if depth == 0:
            return self.distinct[0]
        if self.met:
            return self.met[depth - 1]
        return self.distinct[depth] / max(self.distinct[depth - 1], 1.0)


class Expected(NamedTuple):
    """Estimates of one level.

    Attributes
    ----------
    variable
        Bound variable; empty for the seeds.
    proposed
        Values that the smallest atom proposes, over all prefixes.
    rows
        Number of prefixes that are left.
    """

    variable: str
    proposed: float
    rows: float


@dataclass(frozen=True)
class Foreseen:
    """Estimates of a delta path for one changed row.

    Attributes
    ----------
    levels
        Estimates of the seeds, then of each step, if rows are listed.
    listing, counting
        Cost in nanoseconds of listing the result rows, and of counting them.
    """

    levels: tuple[Expected, ...]
    listing: float
    counting: float

    @property
    def cost(self) -> float:
        """Geometric mean of both costs, in nanoseconds."""
        return math.sqrt(self.listing * self.counting)

    @property
    def proposed(self) -> float:
        """Number of proposed values over all steps."""
        return sum(level.proposed for level in self.levels[1:])


TOO_DEAR = Foreseen((), math.inf, math.inf)
"""Estimates of a path that costs more than the given limit."""


Strategy = Literal["auto", "wcoj", "binary"]
"""Join strategy: all atoms of a variable at once, one after the other, or chosen by cost."""

STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
"""Names of the strategies."""


class CatalogReader(Protocol):
    """Statistics that passes read; see `gpu_wcoj.planner.catalog.Catalog`."""

    def rows(self, relation: str) -> float | None:
        """Return the rows of a relation, or None."""

    def levels(self, atom: BodyAtom, order: Sequence[str]) -> Levels | None:
        """Return the atom's trie with its variables bound in that order, or None."""

    def prefixes(self, atom: BodyAtom, variables: Sequence[str]) -> float | None:
        """Return the number of bindings that an atom has for some of its variables, or None."""

    def degree(self, atom: BodyAtom, bound: Sequence[str], variable: str) -> float | None:
        """Return the mean number of values of a variable below a binding of others, or None."""

    def spread(self, atom: BodyAtom, bound: Sequence[str], variable: str) -> float:
        """Return the variance of the logarithm of that number over rows, or 0."""
        ...

    def values(self, atom: BodyAtom, variable: str) -> float | None:
        """Return the number of distinct values that an atom has for a variable, or None."""

    def sample(self, atom: BodyAtom, variables: Sequence[str]) -> Int64Array | None:
        """Return an even sample of an atom's rows, one array row a variable, or None."""

    def facts(self, atom: BodyAtom) -> Facts | None:
        """Return the statistics of the rows that an atom's selection leaves, or None."""

    def expecting(self, facts: Mapping[str, Facts]) -> CatalogReader:
        """Return these statistics, with estimates of relations that do not exist yet."""
        ...


@dataclass(frozen=True)
class EmptyCatalog:
    """Statistics of nothing."""

    def rows(self, relation: str) -> float | None:  # as `CatalogReader` has it
        """Return None."""

    def levels(self, atom: BodyAtom, order: Sequence[str]) -> Levels | None:  # as `CatalogReader` has it
        """Return None."""

    def prefixes(self, atom: BodyAtom, variables: Sequence[str]) -> float | None:  # as `CatalogReader` has it
        """Return None."""

    def degree(self, atom: BodyAtom, bound: Sequence[str], variable: str) -> float | None:  # as `CatalogReader` has it
        """Return None."""

    def spread(self, atom: BodyAtom, bound: Sequence[str], variable: str) -> float:  # noqa: ARG002  # as `CatalogReader` has it
        """Return 0."""
        return 0.0

    def values(self, atom: BodyAtom, variable: str) -> float | None:  # as `CatalogReader` has it
        """Return None."""

    def sample(self, atom: BodyAtom, variables: Sequence[str]) -> Int64Array | None:  # as `CatalogReader` has it
        """Return None."""

    def facts(self, atom: BodyAtom) -> Facts | None:  # as `CatalogReader` has it
        """Return None."""

    def expecting(self, facts: Mapping[str, Facts]) -> EmptyCatalog:  # noqa: ARG002  # as `CatalogReader` has it
        """Return itself."""
        return self


EMPTY_CATALOG = EmptyCatalog()


@dataclass(frozen=True, eq=False)
class Setting:
    """Settings that all passes read.

    Attributes
    ----------
    shapes
        Per relation, its stored columns.
    encode, kinds
        Encoder of constants, and types of calculations.
    bag
        True if weights are kept.
    strategy
        Join strategy of paths.
    hints
        Per head, variables in the order in which they are to be bound.
    known
        Statistics of relations.
    best
        Per head that keeps the best value of a column: the column.
    recursive
        In bag semantics, recursive heads, also if the recursive rules can hold nothing now: these are sets.
    auxiliaries
        Existing auxiliary relations, which are kept longer than new ones are created; None to use none.
    single_tick
        True if the program takes one tick from the empty state and keeps no state.
    off
        Fast paths that plans do not use; see `gpu_wcoj.join.settings.FAST_PATHS`.
    groupings
        Heads that aggregate.
    is_load
        True if the single tick is a load, after which the state is kept. Each row of a set keeps all its derivations.
    """

    shapes: Mapping[str, Shape]
    encode: Encode
    kinds: Kinds = INTEGERS
    bag: bool = False
    strategy: Strategy = "auto"
    hints: Mapping[str, Sequence[str]] = field(default_factory=dict)
    known: CatalogReader = EMPTY_CATALOG
    best: Mapping[str, int] = field(default_factory=dict)
    recursive: Collection[str] = ()
    auxiliaries: Collection[Auxiliary] | None = None
    single_tick: bool = False
    off: Collection[str] = ()
    groupings: Collection[Grouping] = ()
    is_load: bool = False

    @property
    def derivation_sources(self) -> frozenset[str]:
        """Heads of sets whose numbers of derivations are aggregated: each binding of a rule is one."""
        return frozenset(grouping.source for grouping in self.groupings if grouping.of_derivations)

    def textual(self, relation: str, column: int) -> bool:
        """Return True if the column holds text or bytes."""
        return bool(self.shapes[relation].family(column))


class Order(NamedTuple):
    """Order in which a delta path binds variables.

    Attributes
    ----------
    seed
        Index of the atom whose change starts the path.
    variables
        Variables that the seed does not bind, in binding order.
    via
        Per variable, the atom that proposes its values alone; None where all atoms that hold it propose.
    """

    seed: int
    variables: tuple[str, ...]
    via: tuple[int | None, ...]

    @property
    def is_together(self) -> bool:
        """True if no variable is proposed by a single named atom."""
        return self.via.count(None) == len(self.via)

    def __str__(self) -> str:
        parts = (
            name if proposer is None else f"{name} by {proposer}"
            for name, proposer in zip(self.variables, self.via, strict=True)
        )
        return f"change of {self.seed}: {', '.join(parts) or 'nothing'}"


@dataclass(frozen=True)
class RuleDraft:
    """Draft of one rule.

    Attributes
    ----------
    head
        Name of the derived relation.
    body
        Body over stored columns, after normalisation.
    orders
        Per delta path, the order, then variants that begin with a variable that as many atoms reach.
    foreseen
        Per delta path, its estimates as ordered and branched; None without statistics.
    renaming
        Automorphism by which the orders were chosen, if the body has one.
    paths
        Delta paths, after their arrangements are chosen.
    query
        Executable rule, set by the last passes.
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
        """Body of the rule, set by an earlier pass."""
        assert self.body is not None, "a pass was run before `normalise`"
        return self.body

    @property
    def planned_query(self) -> DeltaQuery:
        """Executable rule, set by an earlier pass."""
        assert self.query is not None, "a pass was run before `to_delta_queries`"
        return self.query

    def __str__(self) -> str:
        lines = [f"{self.head}: {self.rule}"]
        if self.body is not None:
            lines += [
                f"  {atom_index}: {atom}" for atom_index, atom in enumerate(self.body.negated, -len(self.body.negated))
            ]
            lines += [f"  {atom_index}: {atom}" for atom_index, atom in enumerate(self.body.atoms)]
            lines += [f"  {said}" for said in (*self.body.calculations, *self.body.conditions)]
        if not self.paths:
            for order, *variants in self.orders:
                lines.append(f"  {order}")
                lines += [f"    or {', '.join(variant.variables)}" for variant in variants]
        continuations = () if self.query is None else self.query.continuations
        for path, way in zip_longest(self.paths, continuations):
            lines += _shown(path)
            lines += [] if way is None else _shown_begun(way)
        if self.query is not None:
            lines.append(f"  keeps {', '.join(map(str, self.query.head))}")
            lines += [] if self.query.symmetry is None else [f"  {_shown_symmetry(self.query.symmetry)}"]
        return "\n".join(lines)


@dataclass(frozen=True)
class Draft:
    """Draft of a program.

    Attributes
    ----------
    rules
        Rules that can derive something.
    aliases
        Heads that only rename or select from another relation.
    candidates
        Number of orders of delta paths that were compared.
    auxiliaries
        Auxiliary relations; their rules come first.
    """

    setting: Setting
    rules: tuple[RuleDraft, ...]
    aliases: Mapping[str, Alias] = field(default_factory=dict)
    candidates: int = 0
    auxiliaries: tuple[Auxiliary, ...] = ()

    def __str__(self) -> str:
        return "\n".join(map(str, self.rules))

    @property
    def nonrecursive_heads(self) -> set[str]:
        """Heads that are neither recursive nor evaluated as if they were."""
        reads: dict[str, dict[str, None]] = {}
        for rule_draft in self.rules:
            body = rule_draft.normalised
            read_names = reads.setdefault(rule_draft.head, {})
            for atom in (*body.atoms, *body.negated):
                read_names[atom.relation] = None
        reading = {
            name: names_read for name, names_read in reads.items() if not reads.keys().isdisjoint(names_read)
        }  # others are not in a loop
        single = {members[0] for members in components(reading) if len(members) == 1}
        single.difference_update(name for name in reading if name in reads[name])
        return (reads.keys() - reading.keys() | single).difference(self.setting.best, self.setting.recursive)

    def over(self, change: Callable[[RuleDraft], RuleDraft]) -> Draft:
        """Return the draft with every rule changed; itself if no rule differs."""
        return self.with_rules(map(change, self.rules))

    def with_rules(self, rules: Iterable[RuleDraft]) -> Draft:
        """Return the draft with these rules; itself if they are the same."""
        changed = tuple(rules)
        is_same = len(changed) == len(self.rules) and all(map(operator.is_, changed, self.rules))
        return self if is_same else replace(self, rules=changed)


def _shown(path: DeltaPath) -> list[str]:
    seeds = " or ".join(str(use.key) for use in path.seeds)
    lines = [f"  change of {path.seed.atom}, {seeds}" + _after(path.seed_conditions, path.seed_checks)]
    if path.sort_first:
        lines[0] += f", sorted by {', '.join(path.sort_first)}"
    by_number = {use.atom: use for use in path.other_atoms}
    begins = {branch.begin for branch in path.branches}
    inside = {i for branch in path.branches for i in range(branch.begin, branch.end)}
    for step_index, step in enumerate(path.steps):
        lines += ["    branch"] if step_index in begins else []
        lines.append(f"    {'  ' * (step_index in inside)}{_step(step, by_number)}")
    return lines + [f"    or {', '.join(step.name for step in variant.steps)}" for variant in path.variants]


def _shown_symmetry(symmetry: Symmetry) -> str:
    orbits = (" ".join(map(str, orbit)) for orbit in symmetry.orbits if len(orbit) > 1)
    return f"counted by paths {', '.join(map(str, symmetry.representatives))}, the images {' and '.join(orbits)} as one"


def _shown_begun(way: Continuation) -> list[str]:
    """Format the way a path continues from the rows of a common prefix."""
    by_number = {use.atom: use for use in way.remaining_path.other_atoms}
    lines = [
        f"    or begin as {_begins_as(way)}"
        + _after(way.remaining_path.seed_conditions, way.remaining_path.seed_checks)
    ]
    bound = [
        use for use in way.remaining_path.other_atoms if set(use.variables) <= set(way.remaining_path.seed.variables)
    ]
    lines += [f"      check {use.atom} by {use.key}" for use in bound]
    return lines + [f"      {_step(step, by_number)}" for step in way.remaining_path.steps]


def _begins_as(way: Continuation) -> str:
    """Format the path that a common prefix is taken from, and the variables it binds."""
    beginning = way.beginning
    above = "" if beginning.continuation is None else f" which begins as {_begins_as(beginning.continuation)}"
    return f"path {beginning.path_index} of {beginning.head}, rule {beginning.rule}: {', '.join(way.names)}{above}"


def _step(step: Step, uses: Mapping[int, AtomUse]) -> str:
    atoms = " with ".join(f"{atom_index} by {uses[atom_index].key}" for atom_index in step.atoms)
    verb = "check" if step.is_lookup else "look up" if len(step.atoms) == 1 else "intersect"
    return f"{step.variable}: {verb} {atoms}" + _after(step.conditions, step.checks)


def _after(conditions: Sequence[object], checks: Sequence[Check]) -> str:
    said = f" where {', '.join(map(str, conditions))}" if conditions else ""
    return said + "".join(
        f" then {check}" + (f" by {check.use.key}" if isinstance(check, Absent) else "") for check in checks
    )


# Auxiliary relations: stored joins of two inputs over one column.
#
# The name of an auxiliary relation describes its content, selections of its sides included, so two plans share a
# relation if they share its name: ``person[1, 0]*city[0, 1]`` joins the rows of `person` and `city` over the columns
# that are named first, and keeps the other columns.


JOINED = "v"
"""Name of the joined column in the rule; the columns that are kept are numbered."""


@dataclass(frozen=True)
class Side:
    """The rows of a relation that one of the two atoms leaves.

    Attributes
    ----------
    joined
        Stored column of the join.
    kept
        Stored columns that are kept.
    atom
        The atom with ascending columns and variables named after them, so that equivalent atoms are equal.
    """

    joined: int
    kept: tuple[int, ...]
    atom: BodyAtom

    @classmethod
    def from_atom(cls, atom: BodyAtom, joined: str, kept_names: Sequence[str]) -> Side:
        """Return the side for an atom of a body that shares one variable with the other side."""
        column_of = dict(zip(atom.variables, atom.columns, strict=True))
        columns = tuple(sorted(atom.columns))
        plain = BodyAtom(
            atom.relation,
            columns,
            tuple(map(str, columns)),
            tuple(sorted(atom.constants)),
            tuple(sorted(atom.equal)),
            tuple(sorted(atom.compared, key=str)),
        )
        return cls(column_of[joined], tuple(column_of[name] for name in kept_names), plain)

    def __str__(self) -> str:
        atom, name = self.atom, self.atom.relation
        where = [f"#{column} = {code}" for column, code in atom.constants]
        where += [f"#{left} = #{right}" for left, right in atom.equal]
        where += [f"#{left} {op} {code if right is None else f'#{right}'}" for left, op, right, code in atom.compared]
        if where or "*" in name:
            name = f"({name} where {', '.join(where)})" if where else f"({name})"
        return f"{name}{[self.joined, *self.kept]}"


@dataclass(frozen=True)
class Auxiliary:
    """Join of two inputs; the columns kept of the first side come before those of the second."""

    sides: tuple[Side, Side]

    @cached_property
    def name(self) -> str:
        """Name of the relation."""
        return "*".join(map(str, self.sides))

    @property
    def relations(self) -> tuple[str, str]:
        """Names of the two joined relations."""
        return self.sides[0].atom.relation, self.sides[1].atom.relation

    @property
    def columns(self) -> list[tuple[str, int]]:
        """Per column, the relation and stored column it comes from."""
        return [(side.atom.relation, column) for side in self.sides for column in side.kept]

    def shape(self, shapes: Mapping[str, Shape]) -> Shape:
        """Return its stored columns; null flags are columns like any other."""
        families = [
            shapes[relation].family(column) if column < len(shapes[relation].nullable) else ""
            for relation, column in self.columns
        ]
        return Shape(self.name, (False,) * len(families), tuple(families))

    def body(self) -> Body:
        """Return the rule that derives it."""
        atoms, head, positive = [], [], []
        for side_index, side in enumerate(self.sides):
            variable_of = {column: f"{'xy'[side_index]}{column}" for column in side.atom.columns}
            variable_of[side.joined] = JOINED
            names = tuple(variable_of[column] for column in side.atom.columns)
            atom = side.atom
            atoms.append(BodyAtom(atom.relation, atom.columns, names, atom.constants, atom.equal, atom.compared))
            head += [variable_of[column] for column in side.kept]
            positive.append(Atom(atom.relation, tuple(map(Variable, names))))
        rule = Rule(Atom(self.name, tuple(map(Variable, head))), tuple(positive))
        return Body(rule, tuple(head), tuple(atoms), ())

    def facts(self, catalog: CatalogReader) -> Facts | None:
        """Estimate its rows, or return None if a side has no statistics.

        The joined column is assumed to be a key of one side.
        """
        rows, values = [], []
        for side in self.sides:
            levels = catalog.levels(side.atom, side.atom.variables)
            joined_values = catalog.values(side.atom, str(side.joined))
            if levels is None or joined_values is None:
                return None
            rows.append(levels.distinct[-1])
            values.append(max(joined_values, 1.0))
        n_rows = rows[0] * rows[1] / max(values)
        counts = [catalog.values(side.atom, str(column)) for side in self.sides for column in side.kept]
        return Facts(
            n_rows, {(column,): min(count, n_rows) for column, count in enumerate(counts) if count is not None}
        )
