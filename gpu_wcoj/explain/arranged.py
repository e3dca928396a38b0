"""What arrangements hold, in numbers and in the values that a user knows: rows, prefixes, degrees, heavy hitters."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_wcoj.circuit.circuit import Circuit
from gpu_wcoj.circuit.positive import PositiveHead
from gpu_wcoj.explain.described import ColumnName, words_of
from gpu_wcoj.join.index import RelationIndex
from gpu_wcoj.planner.body import Shape
from gpu_wcoj.planner.lower import Plan
from gpu_wcoj.planner.statistics import Degrees, measured
from gpu_wcoj.rows import Row
from gpu_wcoj.trace.arrangement import ArrangementKey

POSITIVE = ", rows of positive weight"
"""What stands behind the name of an arrangement that a recursion reads of a bag."""

Sides = tuple[int, ...]
"""The number of a side of an auxiliary relation; of one that joins such relations, then that of their side."""

ValuesOf = Callable[[str, int, Sequence[int]], Sequence[Any]]
"""(relation, column, codes) to the values that they stand for."""


@dataclass(frozen=True)
class LevelStatistics:
    """One level of a trie: the values of a column below each prefix of the columns before it.

    Attributes
    ----------
    column
        Its name, as `explain` shows it.
    prefixes
        How many distinct prefixes end here; at the last level these are the rows.
    histogram
        By degree, that is the number of values at the next level below a prefix: entry i counts the prefixes that have
        2^i or more of them, and fewer than 2^(i + 1). Empty at the last level.
    heaviest
        The prefixes of the largest degrees, with these, at most 16; of equal ones, those first that are stored first.
        Empty at the last level. None is null; where a level further down says what is null, it is also 0, the value as
        which a null is stored, or the first text, which stand together with null so far.
    """

    column: str
    prefixes: int
    histogram: tuple[int, ...] = ()
    heaviest: tuple[tuple[Row, int], ...] = ()


@dataclass(frozen=True)
class ArrangementStatistics:
    """One relation in one order of its columns; weights play no part.

    Attributes
    ----------
    name
        As `explain` shows it; with `POSITIVE` behind it, what a recursion reads of a bag.
    relation
        Whose rows it has, all of them or some.
    levels
        From the outermost.
    """

    name: str
    relation: str
    levels: tuple[LevelStatistics, ...]

    @property
    def rows(self) -> int:
        """Distinct rows."""
        return self.levels[-1].prefixes


def arrangement_statistics(
    circuit: Circuit, plan: Plan, shapes: Mapping[str, Shape], name_of: ColumnName, values_of: ValuesOf
) -> Iterator[ArrangementStatistics]:
    """Of all arrangements of inputs and kept heads, as they stand between ticks."""
    words = words_of(plan, name_of)
    sources = {
        one.name: [(at, side.atom.relation, column) for at, side in enumerate(one.sides) for column in side.kept]
        for one in plan.auxiliaries
    }
    widths = {name: width for loop in plan.loops for name, width in loop.widths.items()}

    def origin(relation: str, column: int, sides: Sides = ()) -> tuple[Sides, str, int]:
        """The stored column that a column is, and which side of what is kept for the rules it comes from."""
        if relation not in sources:
            return sides, relation, column
        number, source, at = sources[relation][column]
        return origin(source, at, (*sides, number))

    def value(key: ArrangementKey, depth: int, codes: Sequence[int]) -> Any:
        """What a code stands for at the last level of a prefix, or before."""
        if key.order[depth] == widths.get(key.relation):
            return codes[depth]  # a rank
        sides, relation, column = origin(key.relation, key.order[depth])
        shape = shapes[relation]
        if column >= len(shape.nullable):
            return bool(codes[depth])
        flag = shape.flag(column)
        if flag is not None and codes[depth] == 0:
            known = {origin(key.relation, at): code for at, code in key.constants}
            known.update((origin(key.relation, at), code) for at, code in zip(key.order, codes, strict=False))
            if known.get((sides, relation, flag), 1):
                return None
        return values_of(relation, column, [codes[depth]])[0]

    def level(key: ArrangementKey, depth: int, prefixes: int, degrees: Degrees | None) -> LevelStatistics:
        column = words.name_of(key.relation, key.order[depth])
        if degrees is None:
            return LevelStatistics(column, prefixes)
        heaviest = ((tuple(value(key, at, codes) for at in range(len(codes))), n) for codes, n in degrees.heaviest)
        return LevelStatistics(column, prefixes, degrees.histogram, tuple(heaviest))

    for index, said in _read(circuit, widths):
        for key, arrangement in index.arrangements.items():
            found = measured(arrangement)
            degrees = (*found.degrees, None)
            levels = (level(key, depth, found.distinct[depth], degrees[depth]) for depth in range(len(key.order)))
            yield ArrangementStatistics(words.arrangement(key) + said, key.relation, tuple(levels))


def _read(circuit: Circuit, loops: Container[str]) -> Iterator[tuple[RelationIndex, str]]:
    """The relations that rules read or a user reads, each with what its name says more.

    Counts of derivations and totals of groups are none.
    """
    yield from ((index, "") for index in circuit.sources.values())
    for name, head in circuit.heads.items():
        said = POSITIVE if isinstance(head, PositiveHead) else ""
        yield from ((index, said) for index in head.state if index is head.relation or name in loops)
