"""What a loop is told of its rules: the joins that fill it, those that follow changes, and those that are asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpu_wcoj.join.path import AtomUse, DeltaPath, DeltaQuery, Step
from gpu_wcoj.trace.arrangement import ArrangementKey

RANK = "#rank"
"""What the variables of ranks are called, with the number of the atom."""


@dataclass(frozen=True)
class LoopRule:
    """One rule of a head of a loop.

    Attributes
    ----------
    number
        Its place among the rules of its head.
    query
        The rule over rows without ranks.
    ranked
        The same, with the rank of every atom of the loop bound last and put behind the head's columns.
    asked
        From rows of the head, numbered, to their derivations: the number, then the ranks. Its one path is seeded by a
        pseudo-relation of the head's columns and the number. Of a head that keeps best values, from groups to the
        number, the value and the ranks.
    asking
        The same without ranks.
    """

    head: str
    number: int
    query: DeltaQuery
    ranked: DeltaQuery
    asked: DeltaQuery
    asking: DeltaQuery

    @classmethod
    def of(cls, head: str, number: int, query: DeltaQuery, asking: DeltaQuery, widths: Mapping[str, int]) -> LoopRule:
        """The rule by its queries over rows without ranks; `widths` are those of `LoopPlan`."""
        return cls(head, number, query, ranked_query(query, widths), ranked_query(asking, widths), asking)


@dataclass(frozen=True)
class Best:
    """Of a head that keeps the best value of each group of its rows.

    Attributes
    ----------
    value
        The stored column of the value; the others tell groups apart.
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
    """Heads that read each other.

    Attributes
    ----------
    widths
        Per head its stored columns, the rank not counted.
    cycle
        The heads from one of them back to itself, for people.
    best
        The heads that keep best values.
    """

    widths: Mapping[str, int]
    rules: tuple[LoopRule, ...]
    cycle: tuple[str, ...]
    best: Mapping[str, Best] = field(default_factory=dict)

    def order(self, name: str) -> tuple[int, ...]:
        """The order of columns in which a head is looked at: its own, or the value behind the group."""
        columns = tuple(range(self.widths[name]))
        if name not in self.best:
            return columns
        value = self.best[name].value
        return (*columns[:value], *columns[value + 1 :], value)

    @property
    def keys(self) -> tuple[ArrangementKey, ...]:
        """The arrangements of the relations outside, and of those of the loop, with ranks, that rules use."""
        used: dict[ArrangementKey, None] = {}
        for rule in self.rules:
            used.update(dict.fromkeys((*rule.ranked.keys, *rule.asked.paths[0].keys)))
            used.update({with_rank(key, self.widths): None for key in rule.query.keys})
        return tuple(used)


def with_rank(key: ArrangementKey, widths: Mapping[str, int]) -> ArrangementKey:
    """The arrangement with the rank as its last level, if the relation is in the loop.

    Examples
    --------
    >>> str(with_rank(ArrangementKey("reach", (1, 0)), {"reach": 2}))
    'reach[1, 0, 2]'
    """
    if key.relation not in widths:
        return key
    return key._replace(order=(*key.order, widths[key.relation]))


def without_rank(key: ArrangementKey) -> ArrangementKey:
    """The arrangement without its last level."""
    return key._replace(order=key.order[:-1])


def ranked_query(query: DeltaQuery, widths: Mapping[str, int]) -> DeltaQuery:
    """The query over rows with ranks: each is bound behind all other variables, and stands behind the head's columns.

    Parameters
    ----------
    widths
        Of the relations of the loop, the rank not counted.
    """
    in_loop: dict[int, str] = {}
    for path in query.paths:
        for use in (path.seed, *path.others):
            if use.key.relation in widths:
                in_loop[use.atom] = f"{RANK}{use.atom}"

    def ranked(use: AtomUse) -> AtomUse:
        if use.atom not in in_loop:
            return use
        return AtomUse(use.atom, with_rank(use.key, widths), (*use.variables, in_loop[use.atom]))

    def over(path: DeltaPath) -> DeltaPath:
        last = tuple(Step(in_loop[use.atom], (use.atom,)) for use in path.others if use.atom in in_loop)
        return replace(
            path,
            seeds=tuple(map(ranked, path.seeds)),
            others=tuple(map(ranked, path.others)),
            steps=(*path.steps, *last),
            variants=tuple(map(over, path.variants)),
        )

    ranks = [in_loop[atom] for atom in sorted(in_loop)]
    return replace(query, head=(*query.head, *ranks), paths=tuple(map(over, query.paths)))
