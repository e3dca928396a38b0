"""Symmetries of a body: variables renamed so that its atoms and conditions are the same as before.

Directed cycles, stars, and cliques with edges both ways have some. Those of order 2 or 3 matter here: with the second
or the third renaming all is as before, and atoms change places in pairs or in threes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from math import lcm

from gpu_wcoj.join.path import Condition
from gpu_wcoj.planner.body import Body, BodyAtom
from gpu_wcoj.query.terms import MIRRORED

MOST_ATOMS = 16
"""Larger bodies are not looked at."""
MOST_TRIED = 500
"""Nor are more places for atoms than this, of all renamings together."""

Orbits = tuple[tuple[int, ...], ...]
"""The numbers of atoms that are each other's images, in order of their first; most of one or of several."""


@dataclass(frozen=True)
class Renaming:
    """A symmetry.

    Attributes
    ----------
    order
        How many times it is done until all is as before: 2 or 3.
    orbits
        Of atoms.
    atoms, names
        The image of each atom, and of each variable.
    """

    order: int
    orbits: Orbits
    atoms: tuple[int, ...]
    names: Mapping[str, str]

    def times(self, number: int) -> tuple[tuple[int, ...], dict[str, str]]:
        """The image of each atom, and of each variable, so many times over."""
        atoms, names = tuple(range(len(self.atoms))), {name: name for name in self.names}
        for _ in range(number):
            atoms, names = tuple(self.atoms[at] for at in atoms), {one: self.names[to] for one, to in names.items()}
        return atoms, names

    def onto(self, number: int) -> Image | None:
        """How an atom is the image of the first one of its orbit; None of the first one, and of a negated one."""
        first = next((orbit[0] for orbit in self.orbits if number in orbit), number)
        if first == number:
            return None
        return next(Image(first, *one) for one in self._powers if one[0][first] == number)

    @cached_property
    def _powers(self) -> list[tuple[tuple[int, ...], dict[str, str]]]:
        """`times` of all numbers of times after which it is not as before."""
        return [self.times(number) for number in range(1, self.order)]


@dataclass(frozen=True)
class Image:
    """What takes the first atom of an orbit to another one of it.

    Attributes
    ----------
    first
        That atom.
    atoms, names
        The image of each atom, and of each variable.
    """

    first: int
    atoms: tuple[int, ...]
    names: Mapping[str, str]

    @cached_property
    def back(self) -> Image:
        """What takes all images back."""
        atoms = tuple(sorted(range(len(self.atoms)), key=self.atoms.__getitem__))
        return Image(self.atoms[self.first], atoms, {to: name for name, to in self.names.items()})


def symmetry_of(body: Body) -> Renaming | None:
    """A symmetry of order 2 or 3; None if none is found.

    Of those that at most `MOST_TRIED` steps lead to, the one with the fewest orbits. Rules that negate or calculate are
    taken to have none.

    Examples
    --------
    >>> from gpu_wcoj.planner.passes.examples import drafted
    >>> from gpu_wcoj.planner.passes.normalise import normalised
    >>> def found(text):
    ...     return symmetry_of(drafted(text, [normalised]).rules[0].normalised)
    >>> threes = found("h(a) :- e(a, b), e(b, c), e(c, a), v(a), v(b), v(c).")
    >>> threes.order, threes.orbits, threes.names
    (3, ((0, 1, 2), (3, 4, 5)), {'a': 'b', 'b': 'c', 'c': 'a'})
    >>> pairs = found("h(a) :- e(a, b), e(a, c), f(b, d), f(c, d), b != c.")
    >>> pairs.order, pairs.orbits, pairs.times(1)
    (2, ((0, 1), (2, 3)), ((1, 0, 3, 2), {'a': 'a', 'b': 'c', 'c': 'b', 'd': 'd'}))
    >>> found("h(a) :- e(a, b), e(a, c), f(b, d), f(c, d), b < c.")
    """
    n = len(body.atoms)
    if body.negated or body.calculations or body.never or not 1 < n <= MOST_ATOMS:
        return None
    kinds: dict[Hashable, int] = {}
    alike = [kinds.setdefault(_kind(atom), len(kinds)) for atom in body.atoms]
    if len(kinds) == n:
        return None
    fewest = sum(-(-times // 3) for times in Counter(alike).values())
    said = _said(body.conditions, {})
    best: Renaming | None = None
    for images, names in islice(_renamings(body.atoms, alike), MOST_TRIED):
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


def _renamings(atoms: tuple[BodyAtom, ...], alike: list[int]) -> Iterator[tuple[tuple[int, ...], dict[str, str]]]:
    """The image of each atom, and of each variable; conditions are not looked at. Depth first, in the atoms' order."""
    tried = 0
    candidates = [[other for other in reversed(range(len(atoms))) if alike[other] == kind] for kind in alike]
    waiting: list[tuple[tuple[int, ...], dict[str, str]]] = [((), {})]
    while waiting and tried < MOST_TRIED:
        images, names = waiting.pop()
        at = len(images)
        if at == len(atoms):
            yield images, names
            continue
        for other in candidates[at]:
            if other in images:
                continue
            tried += 1
            more = _extended(names, atoms[at], atoms[other])
            if more is not None:
                waiting.append(((*images, other), more))


def _extended(names: dict[str, str], atom: BodyAtom, image: BodyAtom) -> dict[str, str] | None:
    """The renaming that takes this atom to that one, too; None if it cannot, or two variables would be one."""
    for name, other in zip(atom.variables, image.variables, strict=True):
        if names.get(name, other) != other:
            return None
    found = dict(names)
    found.update(zip(atom.variables, image.variables, strict=True))
    return found if len(set(found.values())) == len(found) else None


def _kind(atom: BodyAtom) -> Hashable:
    """What an atom and its images have in common."""
    return atom.relation, atom.columns, atom.constants, atom.equal, atom.compared


def _said(conditions: tuple[Condition, ...], names: Mapping[str, str]) -> frozenset[Hashable]:
    """What conditions say of renamed variables, whichever side they stand on."""
    found: set[Hashable] = set()
    for one in conditions:
        left, op = names.get(one.variable, one.variable), one.op
        right = names.get(one.other, one.other) if isinstance(one.other, str) else one.other
        if isinstance(right, str) and right < left:
            left, op, right = right, MIRRORED[op], left
        found.add((left, op, right, one.textual, one.family))
    return frozenset(found)


def _cycles(images: tuple[int, ...]) -> Orbits:
    seen: set[int] = set()
    found = []
    for first in range(len(images)):
        own, at = [], first
        while at not in seen:
            seen.add(at)
            own.append(at)
            at = images[at]
        if own:
            found.append(tuple(sorted(own)))
    return tuple(found)
