"""Plans of counts by symmetry: orbits of automorphic atoms and their representatives."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Symmetry:
    """An automorphism of a body that permutes its atoms; see `gpu_wcoj.join.symmetric`.

    Attributes
    ----------
    order
        Order of the automorphism: 2 or 3.
    orbits
        Indices of the atoms of each orbit, `order` of them or one, ordered by the first.
    taken
        Per orbit, the atom whose path is counted for all.
    """

    order: int
    orbits: tuple[tuple[int, ...], ...]
    representatives: tuple[int, ...]

    def after(self, orbit_index: int) -> frozenset[int]:
        """Return the atoms that the path of an orbit sees after the tick.

        Those of previous orbits, and of its own orbit all but its atom and one more.

        Examples
        --------
        >>> found = Symmetry(3, ((0, 1, 2), (3, 4, 5)), (0, 4))
        >>> sorted(found.after(0)), sorted(found.after(1))
        ([2], [0, 1, 2, 5])
        """
        before = [atom for orbit in self.orbits[:orbit_index] for atom in orbit]
        other_atoms = [atom for atom in self.orbits[orbit_index] if atom != self.representatives[orbit_index]]
        return frozenset([*before, *other_atoms[1:]])
