"""Automorphisms of a body, and an order of its atoms that does not depend on the text.

An automorphism is a renaming of variables that keeps its atoms and conditions.

Directed cycles, stars, and cliques with edges both ways have automorphisms. Only those of order 2 or 3 are used: their
second or third power is the identity, and atoms change places in pairs or in threes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from math import lcm
from typing import Any

from gpu_wcoj.join.plan import Condition, check_variables
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


def _kind(atom: BodyAtom) -> tuple[Hashable, ...]:
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


# The order of atoms that does not depend on the text.


MAX_SORTED_ATOMS = 24
"""Bodies with more atoms keep the order of the text; the planner compares no orders of their variables either."""


def sorted_atoms(body: Body, rows: Callable[[str], float | None]) -> tuple[BodyAtom, ...]:
    """Return the positive atoms in an order that is the same however the rule is written.

    Atoms are compared by their relations and selections, then by the atoms, conditions and columns of the head that
    their variables stand in, as by colour refinement (Weisfeiler and Leman 1968). Of atoms that this cannot tell apart,
    the first is set before the others and the comparison repeated: mostly they are images of each other.

    Parameters
    ----------
    rows
        The rows of a relation, None if unknown.

    Examples
    --------
    >>> from tests.planner.examples import draft_program
    >>> from gpu_wcoj.planner.passes.simplify import normalise_rules
    >>> def found(text):
    ...     body = draft_program(text, [normalise_rules]).rules[0].normalised
    ...     return ", ".join(map(str, sorted_atoms(body, lambda name: None)))
    >>> found("h(a) :- s(c, d), r(b, c), r(a, b)."), found("h(x) :- r(x, y), s(z, w), r(y, z).")
    ('r(a, b), r(b, c), s(c, d)', 'r(x, y), r(y, z), s(z, w)')
    """
    atoms = body.atoms
    if not 1 < len(atoms) <= MAX_SORTED_ATOMS:
        return atoms
    labels = [repr((rows(atom.relation), _unnumbered(atom.relation), _kind(atom)[1:])) for atom in atoms]
    if len(set(labels)) == len(atoms):
        return tuple(atom for _, atom in sorted(zip(labels, atoms, strict=True), key=lambda pair: pair[0]))
    colours = _Colours(body, labels)
    while (tied := colours.tied()) is not None:
        colours.set_first(tied)
    return tuple(atoms[index] for index in sorted(range(len(atoms)), key=colours.edges.__getitem__))


def _unnumbered(relation: str) -> str:
    """Return a relation's name without the number of a helper, which follows the text."""
    name, mark, number = relation.partition("#")
    return name + mark + number.strip("0123456789")


class _Colours:
    """Colours of the atoms, conditions and variables of a body, refined until they are stable.

    Attributes
    ----------
    edges
        Per positive atom, then per negated atom, condition and calculation, its colour.
    """

    def __init__(self, body: Body, labels: Sequence[str]) -> None:
        self._n_atoms = len(body.atoms)
        self._variables = [atom.variables for atom in (*body.atoms, *body.negated)]
        negated = [f"!{_unnumbered(atom.relation)}{_kind(atom)[1:]}" for atom in body.negated]
        texts = [*labels, *negated]
        for condition in body.conditions:
            variable, op, operand = condition.variable, condition.op, condition.operand
            if isinstance(operand, str) and op in (">", ">="):
                variable, op, operand = operand, MIRRORED[op], variable
            is_even = isinstance(operand, str) and op in ("=", "!=")
            texts.append(f"{op} {condition.textual} {operand if isinstance(operand, int) else ''}")
            names: tuple[str, ...] = (variable, operand) if isinstance(operand, str) else (variable,)
            self._variables.append(names)
            if is_even:  # both sides have the same place
                texts.append(texts[-1])
                self._variables.append(names[::-1])
        for calculation in body.calculations:
            constants = [argument for argument in calculation.arguments if not isinstance(argument, str)]
            texts.append(f"{calculation.op} {constants} {calculation.families}")
            self._variables.append((calculation.variable, *check_variables(calculation)))
        self._stands: dict[str, list[tuple[int, int]]] = {}
        for edge, names in enumerate(self._variables):
            for place, name in enumerate(names):
                self._stands.setdefault(name, []).append((edge, place))
        self.edges = _ranks(texts)
        self._names = dict(zip(self._stands, _ranks([name not in body.head for name in self._stands]), strict=True))
        self._refine()

    def tied(self) -> int | None:
        """Return the first atom of the first colour that several atoms have, or None."""
        counts = Counter(self.edges[: self._n_atoms])
        tied = min((colour for colour, count in counts.items() if count > 1), default=None)
        return None if tied is None else self.edges.index(tied)

    def set_first(self, edge: int) -> None:
        """Set an atom before the others of its colour."""
        self.edges = _ranks([(colour, number != edge) for number, colour in enumerate(self.edges)])
        self._refine()

    def _refine(self) -> None:
        n_colours = 0
        while n_colours < (n_colours := len(set(self.edges)) + len(set(self._names.values()))):
            stands = [
                (self._names[name], sorted((self.edges[edge], place) for edge, place in places))
                for name, places in self._stands.items()
            ]
            self._names = dict(zip(self._stands, _ranks(stands), strict=True))
            around = [
                (colour, [self._names[name] for name in names])
                for colour, names in zip(self.edges, self._variables, strict=True)
            ]
            self.edges = _ranks(around)


def _ranks(values: Sequence[Any]) -> list[int]:
    """Return the place of each value among the distinct values."""
    ordered: list[Any] = []
    for value in sorted(values):
        if not ordered or value != ordered[-1]:
            ordered.append(value)
    return [bisect_left(ordered, value) for value in values]
