"""Share common prefixes of delta paths, in one rule or across rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import combinations

from gpu_wcoj.join.beginning import CommonPrefix, Continuation
from gpu_wcoj.join.plan import DeltaPath, DeltaQuery
from gpu_wcoj.planner.charges import copying
from gpu_wcoj.planner.cost import Estimator
from gpu_wcoj.planner.ir import CatalogReader, Draft
from gpu_wcoj.planner.join_order import MAX_ATOMS
from gpu_wcoj.planner.passes.common import nonrecursive_heads, query_of
from gpu_wcoj.planner.passes.sort import with_sorting
from gpu_wcoj.planner.tracks import Met, Track, Word

TAKE, FIND = 0.5, 1.0
"""Costs in probes: of reading a row of a common prefix, and of searching it in an atom."""

CLEARLY = 0.9
"""Cost ratio: a prefix is shared if that costs less than this share of the separate paths."""

Listing = Callable[[Track, int], tuple[float, float] | None]
"""Cost in probes of listing so many levels of a track, and the number of rows; None if unknown."""

MAX_COMPARED = 32
"""Maximum number of sets of atoms that are intersected pairwise."""


def share_prefixes(draft: Draft) -> Draft:
    r"""Give delta paths with a common prefix one enumeration of it, continued by each path.

    Paths have a common prefix if their seeds are changes of the same rows and the next variables are bound by the same
    atoms in the same state, under any names. Atoms and conditions that only some of the paths have are applied
    afterwards by these: the prefix has more rows than each path would have at that level, and costs decide if sharing
    pays. A prefix may continue from a shorter one that more paths share. Without statistics, all paths need the same
    atoms, and the last step has to be an intersection.

    Rules of loops are unchanged. See `gpu_wcoj.join.begun`.

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
    queries_by_head = [(rule_draft.head, query_of(rule_draft)) for rule_draft in draft.rules]
    queries = with_shared_prefixes(queries_by_head, nonrecursive_heads(draft), draft.setting.known)
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
    leaders: dict[object, int] = {}
    result = []
    for rule_index, (_, query) in enumerate(queries_by_head):
        leader = (
            leaders.setdefault((query.paths, query.shared_variables), rule_index)
            if query.shared_variables
            else rule_index
        )
        ways = [continuations.get((leader, path_index)) for path_index in range(len(query.paths))]
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
    """

    user: _User
    levels: int
    atoms: frozenset[Met]
    said: frozenset[Word]

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
            self.track.is_seen(self.shared.levels),
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
    """Yield the paths that may share a prefix; of rules that share all paths, the first's."""
    seen = set()
    for rule_index, (head, query) in enumerate(queries_by_head):
        if head not in nonrecursive or len(query.paths) > MAX_ATOMS:
            continue
        if query.shared_variables:
            if (query.paths, query.shared_variables) in seen:
                continue
            seen.add((query.paths, query.shared_variables))
        kept_names = query.shared_variables or query.head_variables
        for path_index, path in enumerate(query.paths):
            if path.steps:
                tracks = [Track(way) for way in (path, *path.variants)]
                yield _User(
                    (rule_index, path_index),
                    tracks,
                    [_levels_within(track, track.path.depth_of(kept_names)) for track in tracks],
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
        for atoms in _candidate_sets(live, levels):
            ways = [(user, track) for user in live if (track := user.along(levels, atoms)) is not None]
            if len(ways) > 1:
                made = _share_prefix(ways, levels, atoms, listing)
                if made is not None:
                    live = [*(user for user in live if user.continuation is None), made]


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
    return _CommonPrefix(_User(first.place, [Track(path)], [levels]), levels, atoms, said)


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
    return TAKE + FIND * (len(track.reached(levels)) + len(track.finished(levels)) - len(way.shared.atoms))
