"""Name-independent signatures of delta paths, to find common prefixes.

A variable of the seed is identified by its column, another variable by the level that binds it. An atom is identified
by its selection, by the places of its variables, and by its state, before or after this tick. Any atoms of a path whose
variables are bound after some levels, with some of the conditions on these, form a join that is a possible prefix of
the path: it has more rows than the path at that level, and the other atoms drop them afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from gpu_wcoj.join.plan import Absent, AtomUse, Branch, Calculation, Check, Condition, DeltaPath, Step, check_variables
from gpu_wcoj.query.ir import MIRRORED

Word = tuple[object, ...]
"""Signature of a condition or a negated atom."""


class Met(NamedTuple):
    """Signature of an atom.

    Attributes
    ----------
    selection
        Relation, selection and columns.
    bound
        Columns whose variables are bound, each with the variable's place.
    is_after
        True if it reads the state after this tick.
    again
        Number of equal signatures before it.
    """

    selection: tuple[object, ...]
    bound: tuple[tuple[int, int], ...]
    is_after: bool
    again: int = 0


@dataclass(frozen=True, eq=False)
class Track:
    """Delta path with its levels; a level binds a variable, then looks bound variables up.

    Attributes
    ----------
    place
        Per variable of atoms, its column in the seed, or its negated level: -1 for the first.

    Examples
    --------
    Two paths with a common prefix under different names, and the remaining path of the second one.

    >>> from gpu_wcoj.planner.passes import PASSES
    >>> from tests.planner.examples import draft_program
    >>> text = "t(a, b, c) :- r(a, b), s(b, c), u(a, c). k(x, y, z, v) :- r(x, y), s(y, z), u(x, z), w(z, v)."
    >>> one, other = (Track(rule.paths[0]) for rule in draft_program(text, PASSES).rules)
    >>> one.finished(1).keys() == other.finished(1).keys()
    True
    >>> rest = other.remaining_path(1, other.finished(1).values(), frozenset(), [0, 1, -1])
    >>> rest.seed.variables, [use.atom for use in rest.other_atoms], [step.name for step in rest.steps]
    (('x', 'y', 'z'), [3], ['v'])
    """

    path: DeltaPath
    place: Mapping[str, int] = field(init=False)
    _found: dict[tuple[str, int], Mapping[Met, int]] = field(default_factory=dict, init=False)
    _words: dict[int, frozenset[Word]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        seed = self.path.seed
        place = dict(zip(seed.variables, seed.key.order, strict=True))
        bound = (step.variable for step in self.path.steps if not step.is_lookup)
        place.update({name: -level for level, name in enumerate(bound, 1)})
        object.__setattr__(self, "place", place)

    @cached_property
    def seeded(self) -> Word:
        """Key of the changes that start the path."""
        return (*self.path.seed.key.selection, self.path.is_negated)

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """Per number of levels, the number of steps in them."""
        begins = [i for i, step in enumerate(self.path.steps) if not step.is_lookup]
        return (0, *begins[1:], len(self.path.steps)) if begins else (0,)

    def finished(self, levels: int) -> Mapping[Met, int]:
        """Return the atoms with all variables bound after these levels, each with its index."""
        return self._met(levels, "finished")

    def reached(self, levels: int) -> Mapping[Met, int]:
        """Return the atoms with some but not all variables bound."""
        return self._met(levels, "reached")

    def _met(self, levels: int, kind: str) -> Mapping[Met, int]:
        if (kind, levels) in self._found:
            return self._found[kind, levels]
        matches: dict[Met, int] = {}
        for use in self.path.other_atoms:
            both = zip(use.key.order, use.variables, strict=True)
            placed = [(column, self.place.get(name, -levels - 1)) for column, name in both]
            bound = sorted((column, place) for column, place in placed if place >= -levels)
            if bound and (len(bound) == len(use.variables)) == (kind == "finished"):
                met = Met(use.key.selection, tuple(bound), use.atom < self.path.seed.atom)
                while met in matches:
                    met = met._replace(again=met.again + 1)
                matches[met] = use.atom
        self._found[kind, levels] = matches
        return matches

    def said(self, levels: int) -> frozenset[Word]:
        """Return the conditions and negated atoms over bound variables."""
        if levels not in self._words:
            words = (self._said(check) for check in self._checks(levels))
            self._words[levels] = frozenset(word for word in words if word is not None)
        return self._words[levels]

    def beginning(self, levels: int, atoms: Collection[int], said: Collection[Word]) -> DeltaPath:
        """Return the join of some atoms up to a level, with these conditions and negated atoms."""
        path = self.path
        steps: list[Step] = []
        for original in path.steps[: self.ends[levels]]:
            step = self._restricted(original, atoms, said)
            if step.atoms or not step.is_lookup:
                steps.append(step)
            elif step.checks:
                steps[-1] = replace(steps[-1], checks=(*steps[-1].checks, *step.checks))
        if not all(step.atoms for step in steps):
            steps = self._together(levels, atoms, said)
        return replace(
            path,
            other_atoms=tuple(use for use in path.other_atoms if use.atom in atoms),
            seed_conditions=tuple(condition for condition in path.seed_conditions if self._said(condition) in said),
            steps=tuple(steps),
            variants=(),
            branches=self._branches(0, self.ends[levels]) if len(steps) == self.ends[levels] else (),
            seed_checks=tuple(check for check in path.seed_checks if self._said(check) in said),
        )

    def remaining_path(
        self, levels: int, finished: Collection[int], said: Collection[Word], order: Iterable[int]
    ) -> DeltaPath:
        """Return the remaining path after so many levels.

        Parameters
        ----------
        finished, said
            The atoms, conditions and negated atoms that the prefix has applied.
        order
            The places of the bound variables, in the order of the prefix's columns.
        """
        path, name_of = self.path, {place: name for name, place in self.place.items()}
        left = [check for check in self._checks(levels) if self._said(check) not in said]
        early = [check for check in left if isinstance(check, Condition) and self._said(check) is not None]
        steps: list[Step] = []
        late = [check for check in left if check not in early]
        following = path.steps[self.ends[levels] :]
        for step in following:
            if not step.is_lookup or self.place[step.variable] < -levels:
                steps.append(step)
            elif step.checks:
                steps[-1] = replace(steps[-1], checks=(*steps[-1].checks, *step.checks))
        return DeltaPath(
            (AtomUse(path.seed.atom, path.seed.key, tuple(name_of[place] for place in order)),),
            tuple(use for use in path.other_atoms if use.atom not in finished),
            tuple(early),
            tuple(steps),
            seed_checks=tuple(late),
            branches=self.branches_behind(levels) if len(steps) == len(following) else (),
        )

    def is_seen(self, levels: int) -> bool:
        """Return True if every bound variable is read later, so that a count goes row by row, too."""
        path, steps = self.path, self.path.steps
        variables = {use.atom: use.variables for use in path.other_atoms}
        bound = set(path.seed.variables)
        for i, step in enumerate(steps[: self.ends[levels]]):
            seen = {name for later in steps[i:] for atom_index in later.atoms for name in variables[atom_index]}
            if not seen.union(*(later.read_variables for later in steps[i:])).issuperset(bound):
                return False
            bound.add(step.variable)
        return True

    def cuts(self, levels: int) -> bool:
        """Return True if no branch extends beyond so many levels."""
        return not any(branch.begin < self.ends[levels] < branch.end for branch in self.path.branches)

    def branches_behind(self, levels: int) -> tuple[Branch, ...]:
        """Return the branches of the remaining steps."""
        return self._branches(self.ends[levels], len(self.path.steps))

    def _branches(self, begin: int, end: int) -> tuple[Branch, ...]:
        inside = (branch for branch in self.path.branches if begin <= branch.begin and branch.end <= end)
        return tuple(Branch(branch.begin - begin, branch.end - begin) for branch in inside)

    def names(self, beginning: DeltaPath) -> tuple[str, ...]:
        """Return this path's names for the steps of a common prefix."""
        bound_names = [step.name for step in self.path.steps if not step.is_lookup]
        level, names = -1, []
        for step in beginning.steps:
            level += not step.is_lookup
            names.append(bound_names[level])
        return tuple(names)

    def _restricted(self, step: Step, atoms: Collection[int], said: Collection[Word]) -> Step:
        return replace(
            step,
            atoms=tuple(atom_index for atom_index in step.atoms if atom_index in atoms),
            conditions=tuple(condition for condition in step.conditions if self._said(condition) in said),
            checks=tuple(check for check in step.checks if self._said(check) in said),
        )

    def _together(self, levels: int, atoms: Collection[int], said: Collection[Word]) -> list[Step]:
        """Return one step per level with all of these atoms."""
        steps: list[Step] = []
        for original in self.path.steps[: self.ends[levels]]:
            step = self._restricted(original, atoms, said)
            if original.is_lookup:
                steps[-1] = replace(steps[-1], checks=(*steps[-1].checks, *step.checks))
            else:
                holding = (use.atom for use in self.path.other_atoms if step.variable in use.variables)
                steps.append(replace(step, atoms=tuple(atom_index for atom_index in holding if atom_index in atoms)))
        return steps

    def _checks(self, levels: int) -> list[Check]:
        """Return the checks of the seed and of so many levels."""
        path = self.path
        checks: list[Check] = [*path.seed_conditions, *path.seed_checks]
        for step in path.steps[: self.ends[levels]]:
            checks += [*step.conditions, *step.checks]
        return checks

    def _said(self, check: Check) -> Word | None:
        """Return the signature of a check; None for calculations and checks that use one."""
        if isinstance(check, Calculation) or not all(name in self.place for name in check_variables(check)):
            return None
        if isinstance(check, Absent):
            terms = tuple(zip(check.use.key.order, map(self._term, check.terms), strict=True))
            return (*check.use.key.selection, tuple(sorted(terms)), check.use.atom < self.path.seed.atom)
        left, op, right = self._term(check.variable), check.op, self._term(check.operand)
        if left > right:
            left, op, right = right, MIRRORED[op], left
        return left, op, right, check.textual, check.family

    def _term(self, term: str | int) -> tuple[bool, int]:
        return (False, self.place[term]) if isinstance(term, str) else (True, term)
