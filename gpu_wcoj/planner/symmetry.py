"""Symmetries of a body: variables renamed so that its atoms and conditions are the same as before.

Directed cycles, stars, and cliques with edges both ways have some. Those of order 2 or 3 matter here: with the second
or the third renaming all is as before, and atoms change places in pairs or in threes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
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


def symmetry_of(body: Body) -> tuple[int, Orbits] | None:
    """A symmetry of order 2 or 3, and its orbits of atoms; None if none is found.

    Of those that at most `MOST_TRIED` steps lead to, the one with the fewest orbits. Rules that negate or calculate are
    taken to have none.

    Examples
    --------
    >>> from gpu_wcoj.planner.passes.examples import drafted
    >>> from gpu_wcoj.planner.passes.normalise import normalised
    >>> def found(text):
    ...     return symmetry_of(drafted(text, [normalised]).rules[0].normalised)
    >>> found("h(a) :- e(a, b), e(b, c), e(c, a), v(a), v(b), v(c).")
    (3, ((0, 1, 2), (3, 4, 5)))
    >>> found("h(a) :- e(a, b), e(a, c), f(b, d), f(c, d), b != c.")
    (2, ((0, 1), (2, 3)))
    >>> found("h(a) :- e(a, b), e(a, c), f(b, d), f(c, d), b < c.")
    """
    n = len(body.atoms)
    if body.negated or body.calculations or body.never or not 1 < n <= MOST_ATOMS:
        return None
    kinds: dict[Hashable, int] = {}
    alike = [kinds.setdefault(_kind(atom), len(kinds)) for atom in body.atoms]
    if len(kinds) == n:
        return None
    said = _said(body.conditions, {})
    best: tuple[int, Orbits] | None = None
    for images, names in islice(_renamings(body.atoms, alike), MOST_TRIED):
        cycles = _cycles(images)
        for order in (3, 2):
            period = lcm(*map(len, cycles))
            if period % order == 0 and _said(body.conditions, names) == said:
                orbits = _cycles(_repeated(images, period // order))
                if best is None or len(orbits) < len(best[1]):
                    best = order, orbits
    return best


def _renamings(atoms: tuple[BodyAtom, ...], alike: list[int]) -> Iterator[tuple[tuple[int, ...], dict[str, str]]]:
    """The image of each atom, and of each variable; conditions are not looked at. Depth first, in the atoms' order."""
    tried = 0
    waiting: list[tuple[tuple[int, ...], dict[str, str]]] = [((), {})]
    while waiting and tried < MOST_TRIED:
        images, names = waiting.pop()
        at = len(images)
        if at == len(atoms):
            yield images, names
            continue
        for other in reversed(range(len(atoms))):
            if alike[other] != alike[at] or other in images:
                continue
            tried += 1
            more = _extended(names, atoms[at], atoms[other])
            if more is not None:
                waiting.append(((*images, other), more))


def _extended(names: dict[str, str], atom: BodyAtom, image: BodyAtom) -> dict[str, str] | None:
    """The renaming that takes this atom to that one, too; None if it cannot, or two variables would be one."""
    found = dict(names)
    for name, other in zip(atom.variables, image.variables, strict=True):
        if found.setdefault(name, other) != other:
            return None
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


def _repeated(images: tuple[int, ...], times: int) -> tuple[int, ...]:
    found = tuple(range(len(images)))
    for _ in range(times):
        found = tuple(images[at] for at in found)
    return found
