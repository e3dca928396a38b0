"""Share work between delta paths.

Common prefixes are shared in a tick, and joins of small inputs are kept. Of automorphic atoms, one path counts for all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import combinations
from math import expm1, inf
from operator import itemgetter
from typing import NamedTuple

from gpu_wcoj.circuit.head import max_auxiliary_rows
from gpu_wcoj.costs import FOUND_ROW, INDEXED_ROW, READ_ROW, WRITTEN_PREFIX
from gpu_wcoj.functions import Calculation
from gpu_wcoj.join.plan import (
    Absent,
    AtomUse,
    Branch,
    Check,
    CommonPrefix,
    Condition,
    Continuation,
    DeltaPath,
    DeltaQuery,
    Step,
    Symmetry,
    check_variables,
)
from gpu_wcoj.planner.body import Body, BodyAtom
from gpu_wcoj.planner.cost import Estimator, copying
from gpu_wcoj.planner.ir import Auxiliary, CatalogReader, Draft, RuleDraft, Setting, Side
from gpu_wcoj.planner.join_order import MAX_ATOMS, Chooser, order_variables
from gpu_wcoj.planner.passes.arrange import with_sorting
from gpu_wcoj.planner.statistics import Columns, Facts
from gpu_wcoj.query.ir import MIRRORED

# Name-independent signatures of delta paths, to find common prefixes.
#
# A variable of the seed is identified by its column, another variable by the level that binds it. An atom is identified
# by its selection, by the places of its variables, and by its state, before or after this tick. Any atoms of a path
# whose variables are bound after some levels, with some of the conditions on these, form a join that is a possible
# prefix of the path: it has more rows than the path at that level, and the other atoms drop them afterwards.


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


CLEARLY = 0.9
"""Cost ratio: a prefix is shared if that costs less than this share of the separate paths."""

Listing = Callable[[Track, int], tuple[float, float] | None]
"""Cost in nanoseconds of listing so many levels of a track, and the number of rows; None if unknown."""

MAX_COMPARED = 32
"""Maximum number of sets of atoms that are intersected pairwise."""


def share_prefixes(draft: Draft) -> Draft:
    r"""Give delta paths with a common prefix one enumeration of it, continued by each path.

    Paths have a common prefix if their seeds are changes of the same rows and the next variables are bound by the same
    atoms in the same state, under any names. Atoms and conditions that only some of the paths have are applied
    afterwards by these: the prefix has more rows than each path would have at that level, and costs decide if sharing
    pays. A prefix may continue from a shorter one that more paths share. Without statistics, all paths need the same
    atoms, and the last step has to be an intersection.

    Rules of loops are unchanged. See `gpu_wcoj.join.delta`.

    Examples
    --------
    >>> from gpu_wcoj.planner.passes import PASSES
    >>> from tests.planner.examples import draft_program
    >>> text = "t(a, b, c) :- e(a, b), e(b, c), e(a, c). k(a, b, c, d) :- e(a, b), e(b, c), e(a, c), f(c, d), f(d, b)."
    >>> before = draft_program(text, PASSES[: PASSES.index(share_prefixes)])
    >>> print("\n".join(str(before.rules[1]).splitlines()[6:9]))
      change of 0, e[0, 1] or e[1, 0], sorted by b
        c: intersect 1 by e[0, 1] with 2 by e[0, 1] with 3 by f[0, 1]
        d: intersect 3 by f[0, 1] with 4 by f[1, 0]
    >>> print("\n".join(str(share_prefixes(before).rules[1]).splitlines()[7:11]))
        c: intersect 1 by e[0, 1] with 2 by e[0, 1] with 3 by f[0, 1]
        d: intersect 3 by f[0, 1] with 4 by f[1, 0]
        or begin as path 0 of t, rule 0: c
          d: intersect 3 by f[0, 1] with 4 by f[1, 0]
    """
    queries_by_head = [(rule_draft.head, rule_draft.planned_query) for rule_draft in draft.rules]
    queries = with_shared_prefixes(queries_by_head, draft.nonrecursive_heads, draft.setting.known)
    both = zip(draft.rules, queries, strict=True)
    return draft.with_rules(
        [rule_draft if query is rule_draft.query else replace(rule_draft, query=query) for rule_draft, query in both]
    )


def with_shared_prefixes(
    queries_by_head: Sequence[tuple[str, DeltaQuery]], nonrecursive: Collection[str], catalog: CatalogReader
) -> list[DeltaQuery]:
    """Return the rules with their common prefixes.

    `nonrecursive` are the heads outside of loops.
    """
    users = list(_users(queries_by_head, nonrecursive))
    classes: dict[Word, list[_User]] = {}
    for user in users:
        classes.setdefault(user.tracks[0].seeded, []).append(user)
    for group in classes.values():
        if len(group) > 1:
            _share_prefixes(group, catalog)
    continuations = {user.place: user.continuation for user in users if user.continuation is not None}
    names = _names(head for head, _ in queries_by_head)
    plans: dict[int, CommonPrefix] = {}
    result = []
    for rule_index, (_, query) in enumerate(queries_by_head):
        ways = [continuations.get((rule_index, path_index)) for path_index in range(len(query.paths))]
        made = tuple(None if way is None else way.plan(plans, names) for way in ways) if any(ways) else ()
        result.append(replace(query, continuations=made) if made or query.continuations else query)
    return result


@dataclass(eq=False)
class _User:
    """Path or common prefix that may continue from a common prefix.

    Attributes
    ----------
    place
        Index of its rule in the draft, and of its path in the rule; for a prefix, those of the path that it is taken
        from.
    tracks
        The path and its variants.
    most
        Per track, the number of its levels that are listed rather than counted.
    """

    place: tuple[int, int]
    tracks: Sequence[Track]
    max_levels: Sequence[int]
    continuation: _Continuation | None = None
    _reaching: dict[int, list[tuple[Track, frozenset[Met]]]] = field(default_factory=dict, init=False)

    def along(self, levels: int, atoms: frozenset[Met]) -> Track | None:
        """Return the first track that binds these atoms in so many levels, or None.

        The track has to intersect these atoms at each level where it intersects several atoms of its own.

        At a level where atoms are intersected, one atom alone may leave any number of rows, whatever the estimate.
        """
        for track, bound_atoms in self.reaching(levels):
            if atoms == bound_atoms and track.cuts(levels):
                return track
            if atoms < bound_atoms and track.cuts(levels):
                meeting, needed = Counter(map(_level, atoms)), Counter(map(_level, bound_atoms))
                if all(meeting[level] >= min(needed[level], 2) for level in range(1, levels + 1)):
                    return track
        return None

    def reaching(self, levels: int) -> list[tuple[Track, frozenset[Met]]]:
        """Return the tracks that list so many levels, each with the atoms bound by them."""
        if levels not in self._reaching:
            both = zip(self.tracks, self.max_levels, strict=True)
            self._reaching[levels] = [
                (track, frozenset(track.finished(levels))) for track, max_levels in both if levels <= max_levels
            ]
        return self._reaching[levels]


@dataclass(frozen=True, eq=False)
class _CommonPrefix:
    """Common prefix of so many levels.

    Attributes
    ----------
    atoms, said
        Its atoms with all variables bound; its conditions and negated atoms.
    has_steps_after
        Whether a path has further steps; otherwise no count has to list its rows.
    """

    user: _User
    levels: int
    atoms: frozenset[Met]
    said: frozenset[Word]
    has_steps_after: bool

    def plan(self, plans: dict[int, CommonPrefix], names: Sequence[tuple[str, int]]) -> CommonPrefix:
        """Return the executable prefix, each created once."""
        if id(self) not in plans:
            rule, path_index = self.user.place
            continuation = None if self.user.continuation is None else self.user.continuation.plan(plans, names)
            plans[id(self)] = CommonPrefix(*names[rule], path_index, self.user.tracks[0].path, continuation)
        return plans[id(self)]


@dataclass(frozen=True, eq=False)
class _Continuation:
    """Track that continues from a common prefix."""

    track: Track
    shared: _CommonPrefix

    def plan(self, plans: dict[int, CommonPrefix], names: Sequence[tuple[str, int]]) -> Continuation:
        """Return the executable continuation."""
        names_of_steps = self.track.names(self.shared.user.tracks[0].path)
        return Continuation(
            self.shared.plan(plans, names),
            self.remaining_path(),
            names_of_steps,
            self.shared.has_steps_after and self.track.is_seen(self.shared.levels),
        )

    def remaining_path(self) -> DeltaPath:
        """Return the remaining path of the track."""
        shared, (beginning,) = self.shared, self.shared.user.tracks
        atoms = self.track.finished(shared.levels)
        order = [beginning.place[name] for name in beginning.path.order]
        return self.track.remaining_path(shared.levels, {atoms[met] for met in shared.atoms}, shared.said, order)


def _level(met: Met) -> int:
    """Return the level that binds the last variable of an atom; 0 or less for one of the seed."""
    return max(-place for _, place in met.bound)


def _names(heads: Iterable[str]) -> list[tuple[str, int]]:
    """Return, per rule, its head and its index among the rules of that head."""
    rules: Counter[str] = Counter()
    result = []
    for head in heads:
        result.append((head, rules[head]))
        rules[head] += 1
    return result


def _users(queries_by_head: Sequence[tuple[str, DeltaQuery]], nonrecursive: Collection[str]) -> Iterator[_User]:
    """Yield the paths that may share a prefix."""
    for rule_index, (head, query) in enumerate(queries_by_head):
        if head not in nonrecursive or len(query.paths) > MAX_ATOMS:
            continue
        for path_index, path in enumerate(query.paths):
            if path.steps:
                tracks = [Track(way) for way in (path, *path.variants)]
                yield _User(
                    (rule_index, path_index),
                    tracks,
                    [_levels_within(track, track.path.depth_of(query.head_variables)) for track in tracks],
                )


def _levels_within(track: Track, depth: int) -> int:
    """Return the number of levels within so many steps."""
    return len([end for end in track.ends if end <= depth]) - 1


def _share_prefixes(users: Iterable[_User], catalog: CatalogReader) -> None:
    """Assign common prefixes where they pay, the longest and those of most atoms first."""
    live = list(users)
    estimator = cache(lambda track: Estimator.of_path(track.path, catalog))
    listing = cache(lambda track, levels: _listing(track, levels, estimator(track)))
    for levels in range(max(max(user.max_levels) for user in live), 0, -1):
        users_of = _users_by_atom(live, levels)
        for atoms in _candidate_sets(live, levels):
            candidates = min((users_of.get(met, []) for met in atoms), key=len)
            ways = [(user, track) for user in candidates if (track := user.along(levels, atoms)) is not None]
            if len(ways) > 1:
                made = _share_prefix(ways, levels, atoms, listing)
                if made is not None:
                    live = [*(user for user in live if user.continuation is None), made]
                    users_of = _users_by_atom(live, levels)


def _users_by_atom(users: Iterable[_User], levels: int) -> dict[Met, list[_User]]:
    """Return, per atom that is bound in so many levels, the users that bind it."""
    users_of: dict[Met, list[_User]] = {}
    for user in users:
        for met in dict.fromkeys(met for _, atoms in user.reaching(levels) for met in atoms):
            users_of.setdefault(met, []).append(user)
    return users_of


def _candidate_sets(users: Iterable[_User], levels: int) -> list[frozenset[Met]]:
    """Return the candidate sets of atoms: of one path, and intersections of two."""
    sets_of_paths: dict[frozenset[Met], None] = {}
    for user in users:
        for _, atoms in user.reaching(levels):
            sets_of_paths[atoms] = None
    candidates = dict(sets_of_paths)
    if len(sets_of_paths) <= MAX_COMPARED:
        candidates.update(dict.fromkeys(left & right for left, right in combinations(sets_of_paths, 2)))
    bound = set(range(-levels, 0))
    return sorted(
        [atoms for atoms in candidates if bound.issubset([place for met in atoms for _, place in met.bound])],
        key=len, reverse=True,
    )  # fmt: skip


def _share_prefix(
    ways: Sequence[tuple[_User, Track]], levels: int, atoms: frozenset[Met], listing: Listing
) -> _User | None:
    """Let the tracks for which it pays share a prefix; return it, or None."""
    made = _common_prefix(ways, levels, atoms)
    costs = [listing(track, levels) for _, track in ways]
    shared_cost = listing(made.user.tracks[0], levels)
    if shared_cost is None or None in costs:
        last_step = made.user.tracks[0].path.steps[-1]
        if len(last_step.atoms) < 2 or any(atoms != frozenset(track.finished(levels)) for _, track in ways):
            return None
    else:
        taking = [shared_cost[1] * _cost_per_row(_Continuation(track, made)) for _, track in ways]
        paying = [i for i, cost in enumerate(costs) if cost is not None and taking[i] < cost[0]]
        if len(paying) < 2:
            return None
        if len(paying) < len(ways):
            return _share_prefix([ways[i] for i in paying], levels, atoms, listing)
        if shared_cost[0] + sum(taking) >= CLEARLY * sum(cost[0] for cost in costs if cost is not None):
            return None
    for user, track in ways:
        user.continuation = _Continuation(track, made)
    return made.user


def _common_prefix(ways: Sequence[tuple[_User, Track]], levels: int, atoms: frozenset[Met]) -> _CommonPrefix:
    """Return the common part of these tracks, in the variables of the first."""
    first, track = ways[0]
    said = frozenset.intersection(*(other_track.said(levels) for _, other_track in ways))
    numbers = {atom_index for met, atom_index in track.finished(levels).items() if met in atoms}
    for met, reached_index in track.reached(levels).items():
        if all(met in other_track.reached(levels) for _, other_track in ways):
            numbers.add(reached_index)
    path = with_sorting(track.beginning(levels, numbers, said))
    if track is first.tracks[0] and path.other_atoms == track.path.other_atoms and path.steps == track.path.steps:
        path = replace(path, variants=track.path.variants)  # the whole path
    has_steps_after = any(levels + 1 < len(other_track.ends) for _, other_track in ways)
    return _CommonPrefix(_User(first.place, [Track(path)], [levels]), levels, atoms, said, has_steps_after)


def _listing(track: Track, levels: int, estimator: Estimator) -> tuple[float, float] | None:
    """Return the cost of listing so many levels, and the number of rows; None if unknown.

    That is the cost that the path would save; the remaining path may have branches, too.
    """
    path = track.path
    if not estimator.is_known:
        return None
    steps = path.steps[: track.ends[levels]]
    estimate = estimator.over(steps)
    cost = estimate.listing
    if path.branches:
        behind = [
            replace(branch, begin=branch.begin + len(steps), end=branch.end + len(steps))
            for branch in track.branches_behind(levels)
        ]
        cost += estimator.over(path.steps, path.branches).listing - estimator.over(path.steps, behind).listing
    before, last_level = estimate.levels[-2:]
    is_alone = len(steps[-1].atoms) == 1 and not steps[-1].is_lookup
    return cost + is_alone * copying(before.rows, last_level.proposed), last_level.rows


def _cost_per_row(way: _Continuation) -> float:
    """Return the cost per row of a prefix for a track: one search in every further atom."""
    track, levels = way.track, way.shared.levels
    return READ_ROW + FOUND_ROW * (len(track.reached(levels)) + len(track.finished(levels)) - len(way.shared.atoms))


# Materialised joins of pairs of inputs, which several bodies read.


KEY = 0.9
"""Distinct values per row from which on a column counts as a key."""

SMALL = 0.25
"""Maximum rows of an auxiliary relation, as a share of the largest other relation of the body."""

USES = 2
"""Pairs of atoms that have to read an auxiliary relation before it is created."""

STAYS = 2.0
"""Hysteresis factor: a kept relation stays until it fails the criteria by this factor."""

MIN_ATOMS = 3
"""Minimum number of atoms of a body."""

MIN_ROWS = 8
"""Minimum number of rows for which a key is inferred from distinct values."""


def materialize_joins(draft: Draft) -> Draft:
    """Replace pairs of input atoms by an auxiliary relation that several bodies share.

    The two atoms share one variable that occurs nowhere else; so in bag semantics it can be summed out beforehand
    (variable elimination: Abo Khamis, Ngo and Rudra, "FAQ: questions asked frequently", 2016,
    doi:10.1145/2902251.2902280). That is done where it costs very little: the variable is a key of one of the two, so
    the join has at most as many rows as the other one, these are few compared with another relation of the body, and
    several pairs of atoms are replaced. A body then needs one atom for an intersection that would take a walk over two.

    An existing auxiliary relation is kept until these criteria are clearly violated.

    Examples
    --------
    >>> from tests.planner.examples import draft_program
    >>> from gpu_wcoj.planner.passes.simplify import normalise_rules
    >>> text = "h(a) :- knows(a, b), lives(a, c), lives(b, d), city(c, e), city(d, e)."
    >>> sizes, keys = {"knows": 10_000, "lives": 900, "city": 300}, {"city": [0]}
    >>> before = draft_program(text, [normalise_rules], sizes=sizes, keys=keys, bag=True)
    >>> print(before)
    h: h(a) :- knows(a, b), lives(a, c), lives(b, d), city(c, e), city(d, e).
      0: knows(a, b)
      1: lives(a, c)
      2: lives(b, d)
      3: city(c, e)
      4: city(d, e)
    >>> print(materialize_joins(before))
    city[0, 1]*lives[1, 0]: city[0, 1]*lives[1, 0](x1, y0) :- city(v, x1), lives(y0, v).
      0: city(v, x1)
      1: lives(y0, v)
    h: h(a) :- knows(a, b), lives(a, c), lives(b, d), city(c, e), city(d, e).
      0: knows(a, b)
      1: city[0, 1]*lives[1, 0](e, a)
      2: city[0, 1]*lives[1, 0](e, b)
    """
    setting = draft.setting
    if not setting.bag or setting.strategy != "auto" or setting.auxiliaries is None or setting.single_tick:
        return draft
    while True:
        grown = _with_more_auxiliaries(draft)
        if grown is draft:
            return draft
        draft = grown


def _with_more_auxiliaries(draft: Draft) -> Draft:
    """Return the draft with one more kind of auxiliary relations; itself if there is none."""
    setting, nonrecursive = draft.setting, draft.nonrecursive_heads
    made = {auxiliary.name for auxiliary in draft.auxiliaries}
    heads = {rule_draft.head for rule_draft in draft.rules} - made
    pairs = {
        rule_index: list(_pairs(rule_draft.normalised, heads))
        for rule_index, rule_draft in enumerate(draft.rules)
        if rule_draft.head in nonrecursive and rule_draft.head not in setting.hints and rule_draft.head not in made
    }
    paying: list[Auxiliary] = []
    for index, candidates in pairs.items():
        rows = [_rows(atom, setting.known) for atom in draft.rules[index].normalised.atoms] if candidates else []
        paying += [pair.joined for pair in candidates if _pays(pair, rows, setting)]
    selected = {auxiliary for auxiliary, times in Counter(paying).items() if times >= USES}
    rules, used = list(draft.rules), dict.fromkeys(draft.auxiliaries)
    changed = False
    for index, candidates in pairs.items():
        chosen = _disjoint(pair for pair in candidates if pair.joined in selected)
        if chosen:
            rules[index] = replace(rules[index], body=_replace_pairs(rules[index].normalised, chosen))
            used.update(dict.fromkeys(pair.joined for pair in chosen))
            changed = True
    if not changed:
        return draft
    new = [auxiliary for auxiliary in used if auxiliary.name not in made]
    unseen = {
        auxiliary.name: auxiliary.facts(setting.known)
        for auxiliary in new
        if setting.known.rows(auxiliary.name) is None
    }
    expected = {name: facts for name, facts in unseen.items() if facts is not None}
    auxiliary_rules = [RuleDraft(auxiliary.name, body.rule, body) for auxiliary in new for body in [auxiliary.body()]]
    return replace(
        draft,
        setting=_with_relations(setting, new, expected),
        rules=(*rules[: len(made)], *auxiliary_rules, *rules[len(made) :]),
        auxiliaries=tuple(used),
    )


def _with_relations(setting: Setting, new: Iterable[Auxiliary], expected: Mapping[str, Facts]) -> Setting:
    """Return the setting with auxiliary relations, some of which have estimates."""
    catalog = setting.known.expecting(expected) if expected else setting.known
    shapes = {**setting.shapes, **{auxiliary.name: auxiliary.shape(setting.shapes) for auxiliary in new}}
    return replace(setting, shapes=shapes, known=catalog)


@dataclass(frozen=True)
class _Pair:
    """Two atoms of a body and the auxiliary relation that may replace them.

    Attributes
    ----------
    places
        Indices of the atoms, in the order of the sides of `joined`.
    variables
        Variables of the atom that replaces them.
    """

    places: tuple[int, int]
    joined: Auxiliary
    variables: tuple[str, ...]


def _pairs(body: Body, heads: Collection[str]) -> Iterator[_Pair]:
    """Yield pairs of input atoms that share one variable that occurs nowhere else."""
    if len(body.atoms) < MIN_ATOMS:
        return
    said = [name for atom in (*body.atoms, *body.negated) for name in atom.variables]
    said += [
        name for checks in (body.conditions, body.calculations) for check in checks for name in check_variables(check)
    ]
    said += [calculation.variable for calculation in body.calculations]
    spoken = Counter([*said, *(term for term in body.head if isinstance(term, str))])
    inputs = [
        (atom_index, set(atom.variables)) for atom_index, atom in enumerate(body.atoms) if atom.relation not in heads
    ]
    for (first, first_names), (second, second_names) in combinations(inputs, 2):
        shared = first_names & second_names
        if len(shared) != 1:
            continue
        (name,) = shared
        if spoken[name] != len((first, second)):
            continue
        sides = []
        for index in (first, second):
            kept_names = tuple(
                variable for variable in body.atoms[index].variables if variable != name and spoken[variable] > 1
            )
            sides.append((Side.from_atom(body.atoms[index], name, kept_names), index, kept_names))
        (left_side, left_atom, left_names), (right_side, right_atom, right_names) = sorted(
            sides, key=lambda side: (str(side[0]), side[1])
        )
        if left_names or right_names:
            yield _Pair((left_atom, right_atom), Auxiliary((left_side, right_side)), (*left_names, *right_names))


def _pays(pair: _Pair, sizes: Sequence[float | None], setting: Setting) -> bool:
    """Return True if one atom has few rows and the joined variable is a key of the other one.

    `sizes` are the rows that each atom of the body leaves, or None if unknown.
    """
    catalog = setting.known
    slack = STAYS if pair.joined in (setting.auxiliaries or ()) else 1.0
    other_rows = [rows for atom_index, rows in enumerate(sizes) if rows is not None and atom_index not in pair.places]
    max_rows = slack * SMALL * max(other_rows, default=0.0)
    for side, other_side in (pair.joined.sides, pair.joined.sides[::-1]):
        rows, more = _rows(side.atom, catalog), _rows(other_side.atom, catalog)
        if rows is None or more is None or slack * min(rows, more) < MIN_ROWS or rows > max_rows:
            continue
        values = catalog.values(other_side.atom, str(other_side.joined))
        if values is not None and slack * values >= KEY * more:
            return True
    return False


def _rows(atom: BodyAtom, catalog: CatalogReader) -> float | None:
    if not (atom.constants or atom.equal or atom.compared):
        return catalog.rows(atom.relation)
    levels = catalog.levels(atom, atom.variables)
    return None if levels is None else levels.distinct[-1]


def _disjoint(pairs: Iterable[_Pair]) -> list[_Pair]:
    """Return the pairs that share no atom with an earlier pair."""
    chosen: list[_Pair] = []
    taken: set[int] = set()
    for pair in pairs:
        if taken.isdisjoint(pair.places):
            chosen.append(pair)
            taken.update(pair.places)
    return chosen


def _replace_pairs(body: Body, chosen: Iterable[_Pair]) -> Body:
    """Return the body with one atom in the place of each pair."""
    atoms: dict[int, BodyAtom] = dict(enumerate(body.atoms))
    for pair in chosen:
        atoms[min(pair.places)] = BodyAtom(pair.joined.name, tuple(range(len(pair.variables))), pair.variables)
        del atoms[max(pair.places)]
    return replace(body, atoms=tuple(atoms.values()))


# Joins of pairs of atoms that one costly body reads.


MIN_SPLIT_COST = 1 << 22
"""Cost of listing all rows of a rule, in nanoseconds, from which on pairs of its atoms are joined beforehand.

To compare plans with and without takes a few milliseconds."""

SPLIT_GAIN = 2.0
"""Factor by which listing all rows of a rule has to be cheaper with an auxiliary relation than without."""

MAX_FILLING = 0.75
"""Estimated rows of an auxiliary relation, as a share of the number at which it is given up."""

MAX_TRIALS = 3
"""Maximum number of auxiliary relations with which a body is planned again; those with the fewest rows come first."""

MIN_SPLIT_ATOMS = 4
"""Minimum number of atoms of such a body; joining a pair of three leaves a join of two."""


def split_joins(draft: Draft) -> Draft:
    """Join pairs of a costly body's atoms beforehand where the whole becomes much cheaper.

    A path binds one variable after the other, so it lists the bindings of all variables so far. Two atoms that share a
    variable which occurs nowhere else are joined and projected to their other variables instead: paths of length two
    are as many as the pairs of their ends at most, however many lead from one to the other. A cycle of five atoms costs
    what its paths of length three cost, instead of those of length four (Alon, Yuster and Zwick, "Finding and counting
    given length cycles", 1997, doi:10.1007/BF02523189).

    For a single tick: other programs maintain each pair in every tick, and rows of a set have other derivations then.

    Examples
    --------
    >>> from gpu_wcoj.planner.passes import PASSES
    >>> from tests.planner.examples import draft_program
    >>> text = "h(a, c, x) :- e(a, b), e(b, c), e(c, d), e(d, x), e(x, y), e(y, a)."
    >>> before = draft_program(text, PASSES[: PASSES.index(split_joins)], sizes={"e": 1_000}, single_tick=True)
    >>> for rule_draft in split_joins(before).rules:
    ...     print(rule_draft.head, [str(atom) for atom in rule_draft.normalised.atoms])
    e[0, 1]*e[1, 0] ['e(v, x1)', 'e(y0, v)']
    h ['e[0, 1]*e[1, 0](c, a)', 'e[0, 1]*e[1, 0](x, c)', 'e[0, 1]*e[1, 0](a, x)']
    """
    setting = draft.setting
    if setting.strategy != "auto" or setting.auxiliaries is None or not setting.single_tick:
        return draft
    nonrecursive = draft.nonrecursive_heads
    for rule_draft in draft.rules:
        made = {auxiliary.name for auxiliary in draft.auxiliaries}
        if rule_draft.head not in nonrecursive or rule_draft.head in setting.hints or rule_draft.head in made:
            continue
        while (split := _split(draft, rule_draft)) is not None:
            draft, rule_draft = split
    return draft


def _split(draft: Draft, rule_draft: RuleDraft) -> tuple[Draft, RuleDraft] | None:
    """Return the draft and a rule with one more auxiliary relation; None if none pays."""
    setting, body = draft.setting, rule_draft.normalised
    cost = _cost_of_all_rows(rule_draft, setting.known)
    if len(body.atoms) < MIN_SPLIT_ATOMS or cost < MIN_SPLIT_COST:
        return None
    by_auxiliary: dict[Auxiliary, list[_Pair]] = {}
    for pair in _pairs(body, {other.head for other in draft.rules}):
        by_auxiliary.setdefault(pair.joined, []).append(pair)
    candidates: list[tuple[float, str, Auxiliary, RuleDraft]] = []
    for auxiliary in by_auxiliary:
        auxiliary_rule = _auxiliary_rule(auxiliary, setting.known)
        n_listed = max((rows for _, rows in _costs_and_rows(auxiliary_rule, setting.known)), default=inf)
        n_joined = sum(setting.known.rows(relation) or 0.0 for relation in auxiliary.relations)
        if n_listed <= MAX_FILLING * max_auxiliary_rows(n_joined):
            candidates.append((n_listed, auxiliary.name, auxiliary, auxiliary_rule))
    best: tuple[float, Auxiliary, Draft] | None = None
    for n_listed, _, auxiliary, auxiliary_rule in sorted(candidates, key=itemgetter(0, 1))[:MAX_TRIALS]:
        replaced = _replace_pairs(body, _disjoint(by_auxiliary[auxiliary]))
        trial = _trial(auxiliary, auxiliary_rule, n_listed, replace(rule_draft, body=replaced), setting)
        if trial[0] <= cost / SPLIT_GAIN and (best is None or trial[0] < best[0]):
            best = trial[0], auxiliary, trial[1]
    if best is None:
        return None
    _, auxiliary, trial_draft = best
    auxiliary_rule, split_rule = trial_draft.rules
    rules = [split_rule if other is rule_draft else other for other in draft.rules]
    n_made = len(draft.auxiliaries)
    is_new = auxiliary not in draft.auxiliaries
    changed = replace(
        draft,
        setting=trial_draft.setting,
        rules=(*rules[:n_made], auxiliary_rule, *rules[n_made:]) if is_new else tuple(rules),
        auxiliaries=(*draft.auxiliaries, auxiliary) if is_new else draft.auxiliaries,
        candidates=draft.candidates + trial_draft.candidates,
    )
    return changed, split_rule


def _auxiliary_rule(auxiliary: Auxiliary, catalog: CatalogReader) -> RuleDraft:
    """Return the rule of an auxiliary relation, with the estimates of both paths."""
    body = auxiliary.body()
    choosers = [Chooser(body, seed, catalog) for seed in range(len(body.atoms))]
    estimates = tuple(chooser.foreseen(chooser.best) for chooser in choosers)
    return RuleDraft(auxiliary.name, body.rule, body, foreseen=estimates)


def _trial(
    auxiliary: Auxiliary, auxiliary_rule: RuleDraft, n_listed: float, replaced: RuleDraft, setting: Setting
) -> tuple[float, Draft]:
    """Return the cost of a rule that reads an auxiliary relation, and the draft of both."""
    facts = {}
    if setting.known.rows(auxiliary.name) is None:
        facts[auxiliary.name] = _facts_of_auxiliary(auxiliary, n_listed, setting.known)
    rules = replace(auxiliary_rule, foreseen=()), replace(replaced, orders=(), foreseen=())
    trial = order_variables(Draft(_with_relations(setting, [auxiliary], facts), rules))
    cost = _cost_of_all_rows(auxiliary_rule, setting.known) + (WRITTEN_PREFIX + INDEXED_ROW) * n_listed
    return cost + _cost_of_all_rows(trial.rules[1], trial.setting.known), trial


def _costs_and_rows(rule_draft: RuleDraft, catalog: CatalogReader) -> Iterator[tuple[float, float]]:
    """Yield the cost and the number of all rows of a rule, by the estimates of each path."""
    n_negated = len(rule_draft.normalised.negated)
    for atom, estimate in zip(rule_draft.normalised.atoms, rule_draft.foreseen[n_negated:], strict=True):
        rows = None if estimate is None else _rows(atom, catalog)
        if estimate is not None and rows is not None:
            yield rows * estimate.listing, rows * estimate.levels[-1].rows


def _cost_of_all_rows(rule_draft: RuleDraft, catalog: CatalogReader) -> float:
    """Return the cost of listing all rows of a rule, in nanoseconds; 0 without estimates."""
    return min((cost for cost, _ in _costs_and_rows(rule_draft, catalog)), default=0.0)


def _facts_of_auxiliary(auxiliary: Auxiliary, n_listed: float, catalog: CatalogReader) -> Facts:
    """Estimate the distinct rows of an auxiliary relation among as many that are listed."""
    n_values = 1.0
    distinct: dict[Columns, float] = {}
    kept = [(side.atom, column) for side in auxiliary.sides for column in side.kept]
    for place, (atom, column) in enumerate(kept):
        distinct[place,] = catalog.values(atom, str(column)) or 1.0
        n_values *= distinct[place,]
    n_rows = max(1.0, -n_values * expm1(-n_listed / max(n_values, 1.0)))
    return Facts(n_rows, {columns: min(count, n_rows) for columns, count in distinct.items()})


# Use automorphisms of rules to count changes along fewer delta paths.


MIN_STEPS = 2
"""Minimum number of steps of the longest path for a symmetry of order 2.

For shorter paths, joining the change with itself would cost as much as it saves.
"""


def use_symmetry(draft: Draft) -> Draft:
    r"""Name automorphic atoms; the first path of each orbit counts for all its atoms.

    With statistics, the cheapest path of the orbit replaces the first one later. Rules of loops are unchanged, and so
    are rules that share a prefix with other rules. See `gpu_wcoj.join.delta`.

    Examples
    --------
    >>> from gpu_wcoj.planner.passes import PASSES
    >>> from tests.planner.examples import draft_program
    >>> before = draft_program("h(a, b, c) :- e(a, b), e(b, c), e(c, a).", PASSES[:-1])
    >>> print("\n".join(str(before).splitlines()[8:]))
      change of 2, e[0, 1] or e[1, 0], sorted by c, a
        b: intersect 0 by e[0, 1] with 1 by e[1, 0]
      keeps a, b, c
    >>> print("\n".join(str(use_symmetry(before)).splitlines()[8:]))
      change of 2, e[0, 1] or e[1, 0], sorted by c, a
        b: intersect 0 by e[0, 1] with 1 by e[1, 0]
      keeps a, b, c
      counted by paths 0, the images 0 1 2 as one
    """
    nonrecursive = draft.nonrecursive_heads
    shared = _sharing_rules([rule_draft.planned_query for rule_draft in draft.rules])
    return draft.with_rules(
        [
            _use_symmetry(rule_draft) if rule_draft.head in nonrecursive and rule_index not in shared else rule_draft
            for rule_index, rule_draft in enumerate(draft.rules)
        ]
    )


def _use_symmetry(rule_draft: RuleDraft) -> RuleDraft:
    query, renaming = rule_draft.planned_query, rule_draft.renaming
    if renaming is None or (renaming.order == 2 and max(len(path.steps) for path in query.paths) < MIN_STEPS):
        return rule_draft
    first = tuple(orbit[0] for orbit in renaming.orbits)
    return replace(rule_draft, query=replace(query, symmetry=Symmetry(renaming.order, renaming.orbits, first)))


def _sharing_rules(queries: Sequence[DeltaQuery]) -> set[int]:
    """Return the rules with paths whose counts share a prefix with other rules."""
    users: dict[CommonPrefix, set[int]] = {}
    for rule_index, query in enumerate(queries):
        for way in query.continuations:
            while way is not None and way.counts:
                users.setdefault(way.beginning, set()).add(rule_index)
                way = way.beginning.continuation
    return {index for rule_indices in users.values() if len(rule_indices) > 1 for index in rule_indices}
