"""Plans of a loop's rules: queries that fill it, maintain it, and recompute derivations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from gpu_wcoj.errors import WeightOverflowError
from gpu_wcoj.join.delta import IncrementalGenericJoin
from gpu_wcoj.join.plan import Absent, AtomUse, Check, Condition, DeltaPath, DeltaQuery, Step
from gpu_wcoj.join.settings import Execution
from gpu_wcoj.kernels.protocol import OPERATORS, Int64Array
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey, PhaseRows
from gpu_wcoj.zset.arrays import joined_columns

RANK = "#rank"
"""Prefix of the names of rank variables; the atom's number follows."""


@dataclass(frozen=True)
class LoopRule:
    """A rule of a head of a loop.

    Attributes
    ----------
    index
        Its position among the rules of its head.
    query
        The rule over rows without ranks.
    ranked
        The rule with the rank of every atom of the loop bound last and appended to the head's columns.
    inverse_ranked
        The query from numbered rows of the head to their derivations: number and ranks. Its only path is seeded by a
        pseudo-relation of the head's columns and the number. For a head that keeps best values, from groups to number,
        value and ranks.
    inverse
        The same query without ranks.
    """

    head: str
    index: int
    query: DeltaQuery
    ranked: DeltaQuery
    inverse_ranked: DeltaQuery
    inverse: DeltaQuery

    @classmethod
    def from_queries(
        cls, head: str, index: int, query: DeltaQuery, inverse: DeltaQuery, widths: Mapping[str, int]
    ) -> LoopRule:
        """Create the rule from its queries over rows without ranks; `widths` as in `LoopPlan`."""
        return cls(head, index, query, ranked_query(query, widths), ranked_query(inverse, widths), inverse)


@dataclass(frozen=True)
class Best:
    """The best value that a head keeps per group of its rows.

    Attributes
    ----------
    value
        The stored column of the value; all other columns are the group.
    greatest
        Whether greater is better.
    family
        The dictionary of a value that is text, else empty.
    """

    value: int
    greatest: bool
    family: str = ""


@dataclass(frozen=True)
class LoopPlan:
    """The plan of mutually recursive heads.

    Attributes
    ----------
    widths
        Number of stored columns per head, without the rank.
    cycle
        A cycle of heads, for messages.
    best
        Per head that keeps best values, their description.
    size_limits
        Per head with a limit, the number of rows at which the loop ends. Such a loop is evaluated from the empty state
        in every tick, as one row less may add an iteration.
    """

    widths: Mapping[str, int]
    rules: tuple[LoopRule, ...]
    cycle: tuple[str, ...]
    best: Mapping[str, Best] = field(default_factory=dict)
    size_limits: Mapping[str, int] = field(default_factory=dict)

    def order(self, name: str) -> tuple[int, ...]:
        """Return the column order of a head: as stored, or the group followed by the best value."""
        columns = tuple(range(self.widths[name]))
        if name not in self.best:
            return columns
        value = self.best[name].value
        return (*columns[:value], *columns[value + 1 :], value)

    @cached_property
    def reason_against_walks(self) -> str:
        """The reason for which the loop cannot run row at a time, as a clause; empty if it can.

        Examples
        --------
        >>> LoopPlan({}, (), ()).reason_against_walks
        ''
        """
        for name, n_rows in self.size_limits.items():
            return f"the recursion ends when '{name}' has {n_rows:,} rows"
        for name, best in self.best.items():
            if best.family:
                return f"'{name}' keeps the best of texts"
        for rule in self.rules:
            if sum(path.seed.key.relation in self.widths for path in rule.query.paths) > 1:
                return f"'{rule.query.rule}' joins rows of the recursion with each other"
            for path in (*rule.query.paths, *rule.inverse_ranked.paths):
                if not all(map(_is_walkable, _checks(path))):
                    return f"'{rule.query.rule}' calculates or compares other values than integers"
        return ""

    @property
    def keys(self) -> tuple[ArrangementKey, ...]:
        """Keys of the arrangements that rules use, with ranks for the loop's relations."""
        used: dict[ArrangementKey, None] = {}
        for rule in self.rules:
            used.update(dict.fromkeys((*rule.ranked.keys, *rule.inverse_ranked.paths[0].keys)))
            used.update({with_rank(key, self.widths): None for key in rule.query.keys})
        return tuple(used)


SYNONYMS = {"quotient": "/", "rest": "%"}
"""Other names of operators of integers."""


def _checks(path: DeltaPath) -> list[Check]:
    of_steps = [check for step in path.steps for check in (*step.conditions, *step.checks)]
    return [*path.seed_conditions, *path.seed_checks, *of_steps]


def _is_walkable(check: Check) -> bool:
    """Return whether kernels can evaluate a check row at a time."""
    if isinstance(check, Condition):
        return not check.textual
    if isinstance(check, Absent):
        return True
    is_integer = check.formula is None and {check.family, *check.families} == {"integer"}
    return is_integer and SYNONYMS.get(check.op, check.op) in OPERATORS


def with_rank(key: ArrangementKey, widths: Mapping[str, int]) -> ArrangementKey:
    """Return the key with the rank as its last level, if the relation is in the loop.

    Examples
    --------
    >>> str(with_rank(ArrangementKey("reach", (1, 0)), {"reach": 2}))
    'reach[1, 0, 2]'
    """
    if key.relation not in widths:
        return key
    return key._replace(order=(*key.order, widths[key.relation]))


def without_rank(key: ArrangementKey) -> ArrangementKey:
    """Return the key without its last level."""
    return key._replace(order=key.order[:-1])


def ranked_query(query: DeltaQuery, widths: Mapping[str, int]) -> DeltaQuery:
    """Return the query over rows with ranks, which are bound last and appended to the head.

    Parameters
    ----------
    widths
        Number of columns per relation of the loop, without the rank.
    """
    in_loop: dict[int, str] = {}
    for path in query.paths:
        for use in (path.seed, *path.other_atoms):
            if use.key.relation in widths:
                in_loop[use.atom] = f"{RANK}{use.atom}"

    def rank_use(use: AtomUse) -> AtomUse:
        if use.atom not in in_loop:
            return use
        return AtomUse(use.atom, with_rank(use.key, widths), (*use.variables, in_loop[use.atom]))

    def rank_path(path: DeltaPath) -> DeltaPath:
        rank_steps = tuple(Step(in_loop[use.atom], (use.atom,)) for use in path.other_atoms if use.atom in in_loop)
        return replace(
            path,
            seeds=tuple(map(rank_use, path.seeds)),
            other_atoms=tuple(map(rank_use, path.other_atoms)),
            steps=(*path.steps, *rank_steps),
            variants=tuple(map(rank_path, path.variants)),
        )

    ranks = [in_loop[atom] for atom in sorted(in_loop)]
    return replace(query, head=(*query.head, *ranks), paths=tuple(map(rank_path, query.paths)))


# Joins of a loop in one tick, with their rules.


@dataclass(eq=False)
class RuleJoin:
    """A join of a rule.

    Attributes
    ----------
    is_inverse
        Whether it computes derivations from rows.
    seeds
        Per path, the number of rows that have seeded it in this tick.
    """

    rule: LoopRule
    join: IncrementalGenericJoin
    is_inverse: bool = False
    seeds: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.seeds = [0] * len(self.join.query.paths)

    def has_seeds(self, phases: Sequence[int]) -> bool:
        """Count the seeds of all paths in these phases of an iteration.

        Return whether there are any.
        """
        any_seeds, arrangements = False, self.join.arrangements
        for path_index, path in enumerate(self.join.query.paths):
            for phase in phases:
                delta = arrangements[path.seed.key].delta(phase)
                if delta is not None:
                    any_seeds = True
                    self.seeds[path_index] += delta.n_rows
        return any_seeds


# Derivations with their iterations.


def derive(
    join: IncrementalGenericJoin, width: int, step: int
) -> Iterator[tuple[Sequence[Int64Array], Int64Array, Int64Array]]:
    """Yield derivations of a join over ranked rows: `width` columns, iterations and weights.

    A derivation belongs to the iteration after the step and after the ranks of all its rows.
    """
    backend = join.execution.backend
    xp = backend.xp
    for piece in join.join(0):
        weights = xp.full(len(piece), piece.weights, np.int64) if isinstance(piece.weights, int) else piece.weights
        columns, ranks = piece.columns[:width], piece.columns[width:]
        if weights.dtype == object:  # counted as Python integers, on the host
            for position, weight in enumerate(weights.tolist()):
                if not -(1 << 63) <= weight < 1 << 63:
                    row = tuple(int(column[position]) for column in columns)
                    raise WeightOverflowError(f"derivations by '{join.query.rule}'", row, weight)
            weights = backend.asarray(weights.astype(np.int64))
        latest: Int64Array = xp.full(len(piece), step, np.int64)
        for rank in ranks:
            latest = xp.maximum(latest, rank)
        yield columns, latest + 1, weights


# Derivations of rows before the tick, recomputed from the rules as they are not stored.


class DerivationQuery:
    """Queries from rows of one head to their derivations in the state before the tick.

    Parameters
    ----------
    rules
        Rules of the head.
    before
        Arrangements as they were before the tick.
    execution
        With weights.
    width
        Number of result columns of a derivation beside its iteration: the position of the row, and perhaps a value.
    """

    def __init__(
        self,
        rules: Sequence[LoopRule],
        before: Mapping[ArrangementKey, Arrangement],
        execution: Execution,
        width: int = 1,
    ) -> None:
        self._execution = execution
        self._width = width
        backend = execution.backend
        self._seeds = [Arrangement(rule.inverse_ranked.paths[0].seed.key, backend) for rule in rules]
        self.joins = [
            RuleJoin(
                rule,
                IncrementalGenericJoin(rule.inverse_ranked, {**before, seed.key: seed}, execution),
                is_inverse=True,
            )
            for rule, seed in zip(rules, self._seeds, strict=True)
        ]

    def derivations(self, columns: Sequence[Int64Array], n: int) -> tuple[list[Int64Array], Int64Array, Int64Array]:
        """Return the derivations of `n` distinct sorted rows: result columns, iterations and counts.

        Parameters
        ----------
        columns
            The rows, in the relation's order; without the value for a relation that keeps best values.
        """
        backend = self._execution.backend
        xp = backend.xp
        rows = PhaseRows([*columns, xp.arange(n, dtype=np.int64)], 1)
        pieces: list[list[Int64Array]] = []
        for seed, rule_join in zip(self._seeds, self.joins, strict=True):
            seed.receive_delta([rows])
            rule_join.has_seeds((0,))
            for values, iterations, counts in derive(rule_join.join, self._width, -1):
                pieces.append([*values, iterations, counts])
            seed.discard()
        if not pieces:
            nothing = xp.empty(0, np.int64)
            return [nothing] * self._width, nothing, nothing
        *columns, counts = joined_columns(pieces, xp)
        (*values, iterations), counts = backend.kernels.consolidate(columns, counts)
        return values, iterations, counts
