"""Statistics of arrangements: rows, prefixes, degrees and heavy hitters."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_wcoj.circuit.circuit import Circuit
from gpu_wcoj.circuit.positive import PositiveHead
from gpu_wcoj.data.rows import Row
from gpu_wcoj.explain.described import ColumnName, words_of
from gpu_wcoj.join.relation import RelationIndex
from gpu_wcoj.planner.body import Shape
from gpu_wcoj.planner.lower import Plan
from gpu_wcoj.planner.statistics import Degrees, measure
from gpu_wcoj.trace.arrangement import ArrangementKey

POSITIVE = ", rows of positive weight"
"""Suffix of the name of an arrangement of the positive part of a bag, which a recursion reads."""

Sides = tuple[int, ...]
"""Index of a side of an auxiliary relation, followed by those of nested auxiliary relations."""

ValuesOf = Callable[[str, int, Sequence[int]], Sequence[Any]]
"""Function from (relation, column, codes) to the decoded values."""


@dataclass(frozen=True)
class LevelStatistics:
    """One level of a trie: the values of a column below each prefix of the columns before it.

    Attributes
    ----------
    column
        Its name, as `explain` shows it.
    prefixes
        Number of distinct prefixes up to this level; at the last level, the number of rows.
    histogram
        Degrees, that is numbers of values at the next level below a prefix: entry i counts the prefixes with at least
        2^i and fewer than 2^(i + 1) values. Empty at the last level.
    heaviest
        At most 16 prefixes with the largest degrees, and these degrees; ties in storage order. Empty at the last level.
        None is null; if a deeper level has the null flag, None also stands for 0, the stored code of null, or the first
        text, as they are not separated before that level.
    """

    column: str
    prefixes: int
    histogram: tuple[int, ...] = ()
    heaviest: tuple[tuple[Row, int], ...] = ()


@dataclass(frozen=True)
class ArrangementStatistics:
    """Statistics of one relation in one order of its columns, regardless of weights.

    Attributes
    ----------
    name
        As in `explain`; with the suffix `POSITIVE` for the positive part of a bag.
    relation
        The relation that the rows belong to.
    levels
        Outermost level first.
    """

    name: str
    relation: str
    levels: tuple[LevelStatistics, ...]

    @property
    def rows(self) -> int:
        """Number of distinct rows."""
        return self.levels[-1].prefixes


def arrangement_statistics(
    circuit: Circuit, plan: Plan, shapes: Mapping[str, Shape], name_of: ColumnName, values_of: ValuesOf
) -> Iterator[ArrangementStatistics]:
    """Yield the statistics of all arrangements of inputs and stored heads, between ticks."""
    words = words_of(plan, name_of)
    sources = {
        auxiliary.name: [
            (side_index, side.atom.relation, column)
            for side_index, side in enumerate(auxiliary.sides)
            for column in side.kept
        ]
        for auxiliary in plan.auxiliaries
    }
    widths = {name: width for loop in plan.loops for name, width in loop.widths.items()}

    def origin(relation: str, column: int, sides: Sides = ()) -> tuple[Sides, str, int]:
        """Return the stored column that a column comes from, and its sides of auxiliary relations."""
        if relation not in sources:
            return sides, relation, column
        side_index, source, source_column = sources[relation][column]
        return origin(source, source_column, (*sides, side_index))

    def value(key: ArrangementKey, depth: int, codes: Sequence[int]) -> Any:
        """Return the value of the code at a level of a prefix."""
        if key.order[depth] == widths.get(key.relation):
            return codes[depth]  # a rank
        sides, relation, column = origin(key.relation, key.order[depth])
        shape = shapes[relation]
        if column >= len(shape.nullable):
            return bool(codes[depth])
        flag = shape.flag(column)
        if flag is not None and codes[depth] == 0:
            codes_by_origin = {origin(key.relation, position): code for position, code in key.constants}
            codes_by_origin.update(
                (origin(key.relation, position), code) for position, code in zip(key.order, codes, strict=False)
            )
            if codes_by_origin.get((sides, relation, flag), 1):
                return None
        return values_of(relation, column, [codes[depth]])[0]

    def level(key: ArrangementKey, depth: int, prefixes: int, degrees: Degrees | None) -> LevelStatistics:
        column = words.name_of(key.relation, key.order[depth])
        if degrees is None:
            return LevelStatistics(column, prefixes)
        heaviest = (
            (tuple(value(key, position, codes) for position in range(len(codes))), n) for codes, n in degrees.heaviest
        )
        return LevelStatistics(column, prefixes, degrees.histogram, tuple(heaviest))

    for index, suffix in _read(circuit, widths):
        for key, arrangement in index.arrangements.items():
            statistics = measure(arrangement)
            degrees = (*statistics.degrees, None)
            levels = (level(key, depth, statistics.distinct[depth], degrees[depth]) for depth in range(len(key.order)))
            yield ArrangementStatistics(words.arrangement(key) + suffix, key.relation, tuple(levels))


def _read(circuit: Circuit, loops: Container[str]) -> Iterator[tuple[RelationIndex, str]]:
    """Yield the indices that rules or users read, each with a suffix of its name.

    Counts of derivations and totals of groups are excluded.
    """
    yield from ((index, "") for index in circuit.sources.values())
    for name, head in circuit.heads.items():
        suffix = POSITIVE if isinstance(head, PositiveHead) else ""
        yield from ((index, suffix) for index in head.state if index is head.relation or name in loops)
