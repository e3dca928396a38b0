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
        Those of the row; they have the first bits.
    atoms
        The other atoms, by number.
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
    """

    row: tuple[str, ...]
    atoms: Mapping[int, BodyAtom]
    bit: dict[str, int] = field(default_factory=dict, init=False)
    masks: dict[int, int] = field(default_factory=dict, init=False)
    seeded: int = field(init=False)
    rest: int = field(init=False)
    holding: dict[str, list[int]] = field(default_factory=dict, init=False)
    around: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.seeded = self._new(self.row)
        for number, atom in self.atoms.items():
            self.masks[number] = self._new(atom.variables)
            for name in atom.variables:
                self.holding[name].append(number)
        self.rest = (1 << len(self.bit)) - 1 & ~self.seeded
        self.around = dict.fromkeys(self.bit, 0)
        for number, atom in self.atoms.items():
            for name in atom.variables:
                self.around[name] |= self.masks[number]

    @classmethod
    def of_body(cls, body: Body, seed: int) -> Bits:
        """Of a body whose atom `seed` changes, negative for a negated one."""
        own = body.atoms[seed] if seed >= 0 else body.negated[seed]
        return cls(own.variables, {number: atom for number, atom in enumerate(body.atoms) if number != seed})

    def _new(self, names: Iterable[str]) -> int:
        """The mask of these variables, of which some may have no bit yet."""
        found = 0
        for name in names:
            if name not in self.bit:
                self.bit[name] = 1 << len(self.bit)
                self.holding[name] = []
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
