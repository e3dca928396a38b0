"""Plans of counts along fewer paths: which atoms of a body are each other's images, and whose path stands for them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Symmetry:
    """Atoms of a body that are each other's images if its variables are renamed; see `gpu_wcoj.join.symmetric`.

    Attributes
    ----------
    order
        After so many renamings all is as before: 2 or 3.
    orbits
        The numbers of atoms that change places, `order` of them each or one, in order of their first.
    taken
        Per orbit, the one whose path is counted for all.
    """

    order: int
    orbits: tuple[tuple[int, ...], ...]
    taken: tuple[int, ...]

    def after(self, at: int) -> frozenset[int]:
        """The atoms that the path of an orbit sees after the tick: those of orbits before, and of its own all but one.

        Examples
        --------
        >>> found = Symmetry(3, ((0, 1, 2), (3, 4, 5)), (0, 4))
        >>> sorted(found.after(0)), sorted(found.after(1))
        ([2], [0, 1, 2, 5])
        """
        before = [atom for orbit in self.orbits[:at] for atom in orbit]
        others = [atom for atom in self.orbits[at] if atom != self.taken[at]]
        return frozenset([*before, *others[1:]])
