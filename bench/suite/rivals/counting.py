"""Counting in SQL without listing what can be summed up first.

An atom that shares its variables with one other atom only, an *ear*, is grouped by them, and the other atom takes the
number of its rows as a factor; that again may make an ear of the other one. Of an acyclic pattern one atom is left, so
that its count takes time that follows the tables, not the answer; of a cyclic one, its cycles are. DuckDB and Spark
do not do this by themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from bench.suite.workload import Pattern


@dataclass(frozen=True)
class Ear:
    """An atom that is grouped, the atom that takes its numbers, and the variables that they share, maybe none."""

    atom: int
    parent: int
    shared: tuple[str, ...]


def ears(pattern: Pattern, root: int | None = None) -> list[Ear]:
    """The ears in the order in which they can be taken off, each before its parent; `root` is none of them.

    Examples
    --------
    >>> path = Pattern((("r", ("a", "b")), ("s", ("b", "c")), ("t", ("c", "d"))))
    >>> [(ear.atom, ear.parent, ear.shared) for ear in ears(path, root=0)]
    [(2, 1, ('c',)), (1, 0, ('b',))]
    >>> ears(Pattern((("e", ("a", "b")), ("e", ("b", "c")), ("e", ("a", "c")))))
    []
    """
    left = {i: variables for i, (_, variables) in enumerate(pattern.atoms)}
    found: list[Ear] = []
    while len(left) > 1 and (ear := next(_candidates(pattern, left, root), None)) is not None:
        found.append(ear)
        del left[ear.atom]
    return found


def _candidates(pattern: Pattern, left: dict[int, tuple[str, ...]], root: int | None) -> Iterator[Ear]:
    for atom, variables in left.items():
        others = {i: names for i, names in left.items() if i != atom}
        needed = {name for names in others.values() for name in names}
        for one, _, other in pattern.comparisons:
            if not {one, other} <= set(variables):
                needed |= {one, other}
        shared = tuple(name for name in variables if name in needed)
        parent = next((i for i, names in others.items() if set(shared) <= set(names)), None)
        if atom != root and parent is not None:
            yield Ear(atom, parent, shared)


def counting(pattern: Pattern, tables: Sequence[str], weighted: Collection[int] = (), root: int | None = None) -> str:
    """The sum, over all rows of the answer, of the product of the weights of its atoms' rows; NULL for no rows.

    Parameters
    ----------
    tables
        Per atom, with columns c0, c1 and so on.
    weighted
        Atoms whose tables have a column w of weights; the rows of others weigh 1.
    root
        An atom of few rows. Of the atoms that hang on it, only rows that fit to it are grouped.

    Examples
    --------
    >>> print(counting(Pattern((("r", ("a", "b")), ("s", ("b", "c")))), ["r", "s"], root=0))
    SELECT sum(m1.n)
    FROM r t0, (SELECT t1.c0 b, count(*) n FROM s t1 WHERE t1.c0 IN (SELECT c1 FROM r) GROUP BY t1.c0) m1
    WHERE t0.c1 = m1.b
    """
    return _Counting(pattern, tuple(tables), frozenset(weighted), tuple(ears(pattern, root)), root).text()


@dataclass(frozen=True)
class _Counting:
    pattern: Pattern
    tables: tuple[str, ...]
    weighted: frozenset[int]
    taken: tuple[Ear, ...]
    root: int | None

    def text(self) -> str:
        ears = {ear.atom for ear in self.taken}
        rest = [i for i in range(len(self.tables)) if i not in ears]
        comparisons = [one for one in self.pattern.comparisons if not any(self._holds(ear, one) for ear in self.taken)]
        sources, where, summed, _ = self._joined(rest, comparisons)
        return f"SELECT {summed}\nFROM {', '.join(sources)}" + (f"\nWHERE {' AND '.join(where)}" if where else "")

    def _holds(self, ear: Ear, comparison: tuple[str, str, str]) -> bool:
        return {comparison[0], comparison[2]} <= set(self.pattern.atoms[ear.atom][1])

    def _grouped(self, ear: Ear) -> str:
        """The number of an ear's rows, by what it shares."""
        comparisons = [one for one in self.pattern.comparisons if self._holds(ear, one)]
        sources, where, summed, place = self._joined([ear.atom], comparisons)
        if (fitting := self._fitting(ear)) is not None:
            where = [fitting, *where]
        places = [place[name] for name in ear.shared]
        chosen = ", ".join([*(f"{place[name]} {name}" for name in ear.shared), f"{summed} n"])
        text = f"SELECT {chosen} FROM {', '.join(sources)}" + (f" WHERE {' AND '.join(where)}" if where else "")
        return text + (f" GROUP BY {', '.join(places)}" if places else "")

    def _fitting(self, ear: Ear) -> str | None:
        """The condition that an ear's row fits to its parent, where the parent's own rows fit to the root's."""
        if not ear.shared or self.root is None:
            return None
        above = next((one for one in self.taken if one.atom == ear.parent), None)
        chosen = f"SELECT {self._columns(ear.parent, ear.shared)} FROM {self.tables[ear.parent]}"
        if above is not None:
            inner = self._fitting(above)
            if inner is None:
                return None
            chosen += f" t{above.atom} WHERE {inner}"
        elif ear.parent != self.root:
            return None
        own = self._columns(ear.atom, ear.shared, f"t{ear.atom}.")
        return f"{own if len(ear.shared) == 1 else f'({own})'} IN ({chosen})"

    def _columns(self, atom: int, names: Sequence[str], prefix: str = "") -> str:
        variables = self.pattern.atoms[atom][1]
        return ", ".join(f"{prefix}c{variables.index(name)}" for name in names)

    def _joined(
        self, atoms: Sequence[int], comparisons: Sequence[tuple[str, str, str]]
    ) -> tuple[list[str], list[str], str, dict[str, str]]:
        """Tables, conditions, what is summed, and where variables stand, of some atoms and of what hangs on them."""
        place: dict[str, str] = {}
        sources, where, factors = [], [], []
        for atom in atoms:
            sources.append(f"{self.tables[atom]} t{atom}")
            for column, name in enumerate(self.pattern.atoms[atom][1]):
                if name in place:
                    where.append(f"{place[name]} = t{atom}.c{column}")
                place.setdefault(name, f"t{atom}.c{column}")
            factors += [f"t{atom}.w"] if atom in self.weighted else []
        for ear in self.taken:
            if ear.parent in atoms:
                sources.append(f"({self._grouped(ear)}) m{ear.atom}")
                where += [f"{place[name]} = m{ear.atom}.{name}" for name in ear.shared]
                factors.append(f"m{ear.atom}.n")
        where += [f"{place[left]} {sign} {place[right]}" for left, sign, right in comparisons]
        return sources, where, f"sum({' * '.join(factors)})" if factors else "count(*)", place
