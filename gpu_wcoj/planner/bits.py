"""Sets of variables as bit masks."""

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
        Variables of the changed row.
    atoms
        Atoms by index.
    changed
        Index of the changed atom, if it is among `atoms`: its variables are bound.
    bit
        Per variable, its bit.
    masks
        Per atom, the mask of its variables.
    seeded, rest
        Mask of the variables of the row, and of all other variables.
    holding
        Per variable, the atoms that hold it.
    around
        Per variable, the mask of all variables of the atoms that hold it.

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
            for atom_index, atom in self.atoms.items():
                mask = self.masks[atom_index] = self._new(atom.variables)
                for name in atom.variables:
                    self.holding[name].append(atom_index)
                    self.around[name] |= mask
        self.rest = 0
        for mask in self.masks.values():
            self.rest |= mask
        self.rest &= ~self.seeded

    @classmethod
    def of_body(cls, body: Body) -> Bits:
        """Create the masks of a body before a changed atom is chosen; see `of_change`."""
        return cls((), dict(enumerate(body.atoms)))

    def of_change(self, atom_index: int, row: tuple[str, ...]) -> Bits:
        """Return the masks for a changed row of one atom, possibly negated; all else is shared."""
        return Bits(row, self.atoms, atom_index, self.bit, self.masks, self.holding, self.around)

    def _new(self, names: Iterable[str]) -> int:
        """Return the mask of these variables and assign bits to new ones."""
        mask = 0
        for name in names:
            if name not in self.bit:
                self.bit[name] = 1 << len(self.bit)
                self.holding[name] = []
                self.around[name] = 0
            mask |= self.bit[name]
        return mask

    def mask(self, names: Iterable[str]) -> int:
        """Return the mask of these variables; variables of no atom are ignored."""
        mask = 0
        for name in names:
            mask |= self.bit.get(name, 0)
        return mask

    def names(self, mask: int) -> list[str]:
        """Return the variables of a mask, in the order of their bits."""
        names = []
        for name, bit in self.bit.items():
            if bit & mask:
                names.append(name)
        return names
