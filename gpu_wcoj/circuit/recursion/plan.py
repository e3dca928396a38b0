"""Plans of a loop's rules: queries that fill it, maintain it, and recompute derivations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpu_wcoj.join.plan import AtomUse, DeltaPath, DeltaQuery, Step
from gpu_wcoj.trace.arrangement import ArrangementKey

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
    """

    widths: Mapping[str, int]
    rules: tuple[LoopRule, ...]
    cycle: tuple[str, ...]
    best: Mapping[str, Best] = field(default_factory=dict)

    def order(self, name: str) -> tuple[int, ...]:
        """Return the column order of a head: as stored, or the group followed by the best value."""
        columns = tuple(range(self.widths[name]))
        if name not in self.best:
            return columns
        value = self.best[name].value
        return (*columns[:value], *columns[value + 1 :], value)

    @property
    def keys(self) -> tuple[ArrangementKey, ...]:
        """Keys of the arrangements that rules use, with ranks for the loop's relations."""
        used: dict[ArrangementKey, None] = {}
        for rule in self.rules:
            used.update(dict.fromkeys((*rule.ranked.keys, *rule.inverse_ranked.paths[0].keys)))
            used.update({with_rank(key, self.widths): None for key in rule.query.keys})
        return tuple(used)


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
