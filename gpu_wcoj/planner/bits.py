"""The variables of atoms as bits, so that a set of them is a mask: the bits of a whole number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpu_wcoj.planner.body import Body, BodyAtom


@dataclass(eq=False)
class Bits:
    """The variables of a changed row, and of the atoms that it is joined with.

    Attributes
    ----------
    row
        Those of the row.
    atoms
        The atoms, by number.
    changed
        The number of the one that the row is of, if it is among them: its variables are bound.
    bit
        Of each variable.
    masks
        Per atom, its variables.
    seeded, rest
        The variables of the row, and all others.
    holding
        Per variable, the atoms that hold it.
    around
        Per variable, those of the atoms that hold it.

    Examples
    --------
    >>> bits = Bits(("a", "b"), {1: BodyAtom("r", (0, 1), ("b", "c")), 2: BodyAtom("s", (0, 1), ("c", "d"))})
    >>> bits.bit, bits.masks, bits.seeded
    ({'a': 1, 'b': 2, 'c': 4, 'd': 8}, {1: 6, 2: 12}, 3)
    >>> bits.names(10), bits.holding["c"], bits.names(bits.around["c"])
    (['b', 'd'], [1, 2], ['b', 'c', 'd'])
    >>> other = bits.of_change(1, ("b", "c"))
    >>> other.names(other.seeded), other.names(other.rest)
    (['b', 'c'], ['d'])
    """

    row: tuple[str, ...]
    atoms: Mapping[int, BodyAtom]
    changed: int | None = None
    bit: dict[str, int] = field(default_factory=dict)
    masks: dict[int, int] = field(default_factory=dict)
    holding: dict[str, list[int]] = field(default_factory=dict)
    around: dict[str, int] = field(default_factory=dict)
    seeded: int = field(init=False)
    rest: int = field(init=False)

    def __post_init__(self) -> None:
        self.seeded = self._new(self.row)
        if not self.masks:
            for number, atom in self.atoms.items():
                mask = self.masks[number] = self._new(atom.variables)
                for name in atom.variables:
                    self.holding[name].append(number)
                    self.around[name] |= mask
        self.rest = 0
        for mask in self.masks.values():
            self.rest |= mask
        self.rest &= ~self.seeded

    @classmethod
    def of_body(cls, body: Body) -> Bits:
        """Of a body of which no atom is changed yet; see `of_change`."""
        return cls((), dict(enumerate(body.atoms)))

    def of_change(self, number: int, row: tuple[str, ...]) -> Bits:
        """The same atoms joined with a row of one of them, or of a negated one; all but the row is shared."""
        return Bits(row, self.atoms, number, self.bit, self.masks, self.holding, self.around)

    def _new(self, names: Iterable[str]) -> int:
        """The mask of these variables, of which some may have no bit yet."""
        found = 0
        for name in names:
            if name not in self.bit:
                self.bit[name] = 1 << len(self.bit)
                self.holding[name] = []
                self.around[name] = 0
            found |= self.bit[name]
        return found

    def mask(self, names: Iterable[str]) -> int:
        """These variables, those of no atom left out."""
        found = 0
        for name in names:
            found |= self.bit.get(name, 0)
        return found

    def names(self, mask: int) -> list[str]:
        """The variables of a mask, in the order of their bits."""
        found = []
        for name, bit in self.bit.items():
            if bit & mask:
                found.append(name)
        return found
