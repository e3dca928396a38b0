"""How many prefixes a delta path is expected to have at each level, from the tries' average degrees.

Values are taken to be independent of each other, and the values that fewer rows have to be among those that more have:
at a level, the atom of the smallest degree proposes, and another one holds a proposed value with the probability of
its own degree by the number of values that the variable has. A value that was met through rows has more rows below it
than one drawn from the distinct values; where that degree is known (see `gpu_wcoj.planner.statistics`), it is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Levels:
    """One atom: its trie in the order in which a path binds its variables.

    Attributes
    ----------
    variables
        Of its levels.
    distinct
        Per level, how many prefixes end there; the last is the number of rows.
    met
        Per level but the last, children of a prefix that was met through rows; empty if not known.
    """

    variables: tuple[str, ...]
    distinct: tuple[float, ...]
    met: tuple[float, ...] = ()

    def degree(self, depth: int) -> float:
        """Values of level `depth` below one prefix."""
        if depth == 0:
            return self.distinct[0]
        if self.met:
            return self.met[depth - 1]
        return self.distinct[depth] / max(self.distinct[depth - 1], 1.0)


@dataclass(frozen=True)
class Expected:
    """One level.

    Attributes
    ----------
    variable
        What it binds; empty for the seeds.
    proposed
        Values that the smallest atom has, over all prefixes.
    rows
        Prefixes that are left.
    """

    variable: str
    proposed: float
    rows: float


def expected(
    seed: Sequence[str],
    changes: float,
    atoms: Sequence[Levels],
    order: Sequence[str],
    values: Mapping[str, float] = MappingProxyType({}),
) -> tuple[Expected, ...]:
    """What each level of a path is expected to do.

    Parameters
    ----------
    seed
        The variables that the changed rows bind.
    changes
        How many of them there are.
    atoms
        The others; the variables of each stand as `seed` and then `order` bind them.
    order
        The further variables.
    values
        How many values a variable has, where known; else the atoms' levels say.

    Examples
    --------
    One new edge of a graph of 1,000 vertices and 20,000 edges: 20 candidates, 0.4 triangles.

    >>> graph = (1000.0, 20_000.0)
    >>> atoms = [Levels(("b", "c"), graph), Levels(("a", "c"), graph)]
    >>> levels = expected(["a", "b"], 1, atoms, ["c"], {"c": 1000})
    >>> [(one.variable, one.proposed, one.rows) for one in levels]
    [('', 1.0, 1.0), ('c', 20.0, 0.4)]
    """
    values = {name: max(values.get(name) or _values(name, atoms), 1.0) for name in (*seed, *order)}
    rows = float(changes)
    for atom in atoms:
        depth = next((i for i, name in enumerate(atom.variables) if name not in seed), len(atom.variables))
        chance = atom.distinct[depth - 1] if depth else 1.0
        for name in atom.variables[:depth]:
            chance /= values[name]
        rows *= min(chance, 1.0)
    levels = [Expected("", float(changes), rows)]
    for name in order:
        degrees = sorted(atom.degree(atom.variables.index(name)) for atom in atoms if name in atom.variables)
        proposed = rows * degrees[0]
        rows = proposed
        for degree in degrees[1:]:
            rows *= min(degree / values[name], 1.0)
        levels.append(Expected(name, proposed, rows))
    return tuple(levels)


def _values(name: str, atoms: Sequence[Levels]) -> float:
    """How many values a variable has: the most that an atom has at its top, or else by its deeper levels."""
    holding = [atom for atom in atoms if name in atom.variables]
    top = [atom.distinct[0] for atom in holding if atom.variables[0] == name]
    deeper = [
        float(atom.distinct[place] ** (1 / (place + 1))) for atom in holding if (place := atom.variables.index(name))
    ]
    return max([1.0, *(top or deeper)])
