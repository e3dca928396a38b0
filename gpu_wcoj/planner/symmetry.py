"""Automorphisms of a body: renamings of variables that keep its atoms and conditions.

Directed cycles, stars, and cliques with edges both ways have automorphisms. Only those of order 2 or 3 are used: their
second or third power is the identity, and atoms change places in pairs or in threes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from math import lcm

from gpu_wcoj.join.plan import Condition
from gpu_wcoj.planner.body import Body, BodyAtom
from gpu_wcoj.query.ir import MIRRORED

MAX_ATOMS = 16
"""Larger bodies, in atoms, are not searched."""
MAX_PLACEMENTS = 500
"""Maximum number of atom placements in a search over all renamings."""

Orbits = tuple[tuple[int, ...], ...]
"""Orbits of atoms, in order of their first atom; atoms without images form an orbit alone."""


@dataclass(frozen=True)
class Renaming:
    """Automorphism of order 2 or 3.

    Attributes
    ----------
    order
        Smallest power that is the identity: 2 or 3.
    orbits
        Orbits of atoms.
    atoms, names
        The image of each atom, and of each variable.
    """

    order: int
    orbits: Orbits
    atoms: tuple[int, ...]
    names: Mapping[str, str]

    def times(self, exponent: int) -> tuple[tuple[int, ...], dict[str, str]]:
        """Return the images of atoms and variables under a power of the automorphism."""
        atoms, names = tuple(range(len(self.atoms))), {name: name for name in self.names}
        for _ in range(exponent):
            atoms, names = (
                tuple(self.atoms[atom] for atom in atoms),
                {name: self.names[to] for name, to in names.items()},
            )
        return atoms, names

    def onto(self, atom_index: int) -> Image | None:
        """Return the map from the first atom of an orbit; None for that atom and for negated ones."""
        first = next((orbit[0] for orbit in self.orbits if atom_index in orbit), atom_index)
        if first == atom_index:
            return None
        return next(Image(first, *power) for power in self._powers if power[0][first] == atom_index)

    @cached_property
    def _powers(self) -> list[tuple[tuple[int, ...], dict[str, str]]]:
        """Powers of the automorphism other than the identity."""
        return [self.times(exponent) for exponent in range(1, self.order)]


@dataclass(frozen=True)
class Image:
    """Map from the first atom of an orbit to another atom of it.

    Attributes
    ----------
    first
        Index of the first atom.
    atoms, names
        The image of each atom, and of each variable.
    """

    first: int
    atoms: tuple[int, ...]
    names: Mapping[str, str]

    @cached_property
    def back(self) -> Image:
        """Inverse map."""
        atoms = tuple(sorted(range(len(self.atoms)), key=self.atoms.__getitem__))
        return Image(self.atoms[self.first], atoms, {to: name for name, to in self.names.items()})


def symmetry_of(body: Body) -> Renaming | None:
    """Return an automorphism of order 2 or 3; None if none is found.

    Of the automorphisms that at most `MAX_PLACEMENTS` steps reach, the result has the fewest orbits. Rules with
    negation or calculations are assumed to have none.

    Examples
    --------
    >>> from tests.planner.examples import draft_program
    >>> from gpu_wcoj.planner.passes.simplify import normalise_rules
    >>> def found(text):
    ...     return symmetry_of(draft_program(text, [normalise_rules]).rules[0].normalised)
    >>> threes = found("h(a) :- e(a, b), e(b, c), e(c, a), v(a), v(b), v(c).")
    >>> threes.order, threes.orbits, threes.names
    (3, ((0, 1, 2), (3, 4, 5)), {'a': 'b', 'b': 'c', 'c': 'a'})
    >>> pairs = found("h(a) :- e(a, b), e(a, c), f(b, d), f(c, d), b != c.")
    >>> pairs.order, pairs.orbits, pairs.times(1)
    (2, ((0, 1), (2, 3)), ((1, 0, 3, 2), {'a': 'a', 'b': 'c', 'c': 'b', 'd': 'd'}))
    >>> found("h(a) :- e(a, b), e(a, c), f(b, d), f(c, d), b < c.")
    """
    n = len(body.atoms)
    if body.negated or body.calculations or body.never or not 1 < n <= MAX_ATOMS:
        return None
    kinds: dict[Hashable, int] = {}
    kind_of = [kinds.setdefault(_kind(atom), len(kinds)) for atom in body.atoms]
    if len(kinds) == n:
        return None
    fewest = sum(-(-times // 3) for times in Counter(kind_of).values())
    said = _said(body.conditions, {})
    best: Renaming | None = None
    for images, names in islice(_renamings(body.atoms, kind_of), MAX_PLACEMENTS):
        cycles = _cycles(images)
        period = lcm(*map(len, cycles))
        for order in (3, 2):
            if period % order == 0 and _said(body.conditions, names) == said:
                once = Renaming(period, cycles, images, names).times(period // order)
                orbits = _cycles(once[0])
                if best is None or len(orbits) < len(best.orbits):
                    best = Renaming(order, orbits, *once)
        if best is not None and len(best.orbits) == fewest:
            break
    return best


def _renamings(atoms: tuple[BodyAtom, ...], kind_of: list[int]) -> Iterator[tuple[tuple[int, ...], dict[str, str]]]:
    """Yield images of atoms and of variables, conditions ignored, depth first in body order."""
    n_tried = 0
    candidates = [
        [candidate for candidate in reversed(range(len(atoms))) if kind_of[candidate] == kind] for kind in kind_of
    ]
    waiting: list[tuple[tuple[int, ...], dict[str, str]]] = [((), {})]
    while waiting and n_tried < MAX_PLACEMENTS:
        images, names = waiting.pop()
        n_placed = len(images)
        if n_placed == len(atoms):
            yield images, names
            continue
        for image in candidates[n_placed]:
            if image in images:
                continue
            n_tried += 1
            more = _extended(names, atoms[n_placed], atoms[image])
            if more is not None:
                waiting.append(((*images, image), more))


def _extended(names: dict[str, str], atom: BodyAtom, image: BodyAtom) -> dict[str, str] | None:
    """Return the renaming extended by an atom and its image, None if it is not injective then."""
    for name, image_name in zip(atom.variables, image.variables, strict=True):
        if names.get(name, image_name) != image_name:
            return None
    extended = dict(names)
    extended.update(zip(atom.variables, image.variables, strict=True))
    return extended if len(set(extended.values())) == len(extended) else None


def _kind(atom: BodyAtom) -> Hashable:
    """Return the properties that an atom and its images share."""
    return atom.relation, atom.columns, atom.constants, atom.equal, atom.compared


def _said(conditions: tuple[Condition, ...], names: Mapping[str, str]) -> frozenset[Hashable]:
    """Return a key of the renamed conditions that does not depend on the order of operands."""
    keys: set[Hashable] = set()
    for condition in conditions:
        left, op = names.get(condition.variable, condition.variable), condition.op
        right = (
            names.get(condition.operand, condition.operand) if isinstance(condition.operand, str) else condition.operand
        )
        if isinstance(right, str) and right < left:
            left, op, right = right, MIRRORED[op], left
        keys.add((left, op, right, condition.textual, condition.family))
    return frozenset(keys)


def _cycles(images: tuple[int, ...]) -> Orbits:
    seen: set[int] = set()
    cycles = []
    for first in range(len(images)):
        cycle, atom = [], first
        while atom not in seen:
            seen.add(atom)
            cycle.append(atom)
            atom = images[atom]
        if cycle:
            cycles.append(tuple(sorted(cycle)))
    return tuple(cycles)
