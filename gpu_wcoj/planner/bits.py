"""The variables of atoms as bits, so that a set of them is a mask: the bits of a whole number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from gpu_wcoj.planner.body import BodyAtom


@dataclass(frozen=True, eq=False)
class Bits:
    """The variables of a changed row, and of the atoms that it is joined with.

    Attributes
    ----------
    row
        Those of the row; they have the first bits.
    atoms
        The other atoms, by number.

    Examples
    --------
    >>> bits = Bits(("a", "b"), {1: BodyAtom("r", (0, 1), ("b", "c")), 2: BodyAtom("s", (0, 1), ("c", "d"))})
    >>> bits.bit, dict(bits.masks), bits.seeded
    ({'a': 1, 'b': 2, 'c': 4, 'd': 8}, {1: 6, 2: 12}, 3)
    >>> bits.names(10), bits.holding("c"), bits.names(bits.around["c"])
    (['b', 'd'], [1, 2], ['b', 'c', 'd'])
    """

    row: tuple[str, ...]
    atoms: Mapping[int, BodyAtom]

    @cached_property
    def bit(self) -> dict[str, int]:
        """Of each variable."""
        names = dict.fromkeys((*self.row, *(name for atom in self.atoms.values() for name in atom.variables)))
        return {name: 1 << place for place, name in enumerate(names)}

    @cached_property
    def masks(self) -> Mapping[int, int]:
        """Per atom, its variables."""
        return {number: self.mask(atom.variables) for number, atom in self.atoms.items()}

    @cached_property
    def seeded(self) -> int:
        """The variables of the row."""
        return self.mask(self.row)

    def mask(self, names: Iterable[str]) -> int:
        """These variables, those of no atom left out."""
        found = 0
        for name in names:
            found |= self.bit.get(name, 0)
        return found

    def names(self, mask: int) -> list[str]:
        """The variables of a mask, in the order of their bits."""
        found = []
        while mask:
            lowest = mask & -mask
            found.append(self._named[lowest])
            mask ^= lowest
        return found

    @cached_property
    def _named(self) -> dict[int, str]:
        return {bit: name for name, bit in self.bit.items()}

    def holding(self, name: str) -> list[int]:
        """The atoms that hold a variable."""
        return self._holding[name]

    @cached_property
    def _holding(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {name: [] for name in self.bit}
        for number, atom in self.atoms.items():
            for name in atom.variables:
                found[name].append(number)
        return found

    @cached_property
    def around(self) -> Mapping[str, int]:
        """Per variable, those of the atoms that hold it."""
        found = dict.fromkeys(self.bit, 0)
        for number, atom in self.atoms.items():
            for name in atom.variables:
                found[name] |= self.masks[number]
        return found
