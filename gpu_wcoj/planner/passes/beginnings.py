"""Delta paths that begin alike, in one rule or in several, do that once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import combinations

from gpu_wcoj.join.beginning import Beginning, Begun
from gpu_wcoj.join.path import DeltaPath, DeltaQuery
from gpu_wcoj.planner.charges import copying
from gpu_wcoj.planner.chooser import MOST_ATOMS
from gpu_wcoj.planner.costs import Estimator
from gpu_wcoj.planner.draft import Draft, KnownRelations
from gpu_wcoj.planner.passes.common import outside_of_loops, query_of
from gpu_wcoj.planner.passes.sort import with_sorting
from gpu_wcoj.planner.tracks import Met, Track, Word

TAKE, FIND = 0.5, 1.0
"""What it costs a path to take a row of a beginning, and to find it in an atom, as `gpu_wcoj.planner.costs` counts."""

CLEARLY = 0.9
"""Paths begin together where that is expected to cost less than this share of what it costs apart."""

Listing = Callable[[Track, int], tuple[float, float] | None]
"""What it costs to list what so many levels of a track bind, and how many rows that are, where that is known."""

MOST_COMPARED = 32
"""Of more sets of atoms than this it is not looked at what two of them have in common."""


def begun_alike(draft: Draft) -> Draft:
    r"""Give paths that begin alike a beginning that is enumerated once, and the way on from its rows.

    Paths begin alike if their seeds are changes of the same rows and the next variables are bound by the same atoms,
    seen at the same time, whatever they are called. Atoms and conditions that only some of them have are left to these:
    the beginning binds more rows than they do on their own, and costs decide whether that is worth it. A beginning may
    begin with another one, which more paths share. Where nothing is known, all have to have the same atoms, and the
    last of the steps has to be an intersection.

    Rules of loops are left alone. See `gpu_wcoj.join.begun`.

    Examples
    --------
    >>> from gpu_wcoj.planner.passes import PASSES
    >>> from gpu_wcoj.planner.passes.examples import drafted
    >>> text = "t(a, b, c) :- e(a, b), e(b, c), e(a, c). k(a, b, c, d) :- e(a, b), e(b, c), e(a, c), f(c, d), f(d, b)."
    >>> before = drafted(text, PASSES[: PASSES.index(begun_alike)])
    >>> print("\n".join(str(before.rules[1]).splitlines()[6:9]))
      change of 0, e[0, 1] or e[1, 0], sorted by b
        c: intersect 1 by e[0, 1] with 2 by e[0, 1] with 3 by f[0, 1]
        d: intersect 3 by f[0, 1] with 4 by f[1, 0]
    >>> print("\n".join(str(begun_alike(before).rules[1]).splitlines()[7:11]))
        c: intersect 1 by e[0, 1] with 2 by e[0, 1] with 3 by f[0, 1]
        d: intersect 3 by f[0, 1] with 4 by f[1, 0]
        or begin as path 0 of t, rule 0: c
          d: intersect 3 by f[0, 1] with 4 by f[1, 0]
    """
    own = [(one.head, query_of(one)) for one in draft.rules]
    queries = with_beginnings(own, outside_of_loops(draft), draft.setting.known)
    both = zip(draft.rules, queries, strict=True)
    return draft.of([one if query is one.query else replace(one, query=query) for one, query in both])


def with_beginnings(
    own: Sequence[tuple[str, DeltaQuery]], alone: Collection[str], known: KnownRelations
) -> list[DeltaQuery]:
    """The rules as they are executed, each with its head, after `begun_alike`; `alone` are heads outside of loops."""
    users = list(_users(own, alone))
    classes: dict[Word, list[_User]] = {}
    for user in users:
        classes.setdefault(user.tracks[0].seeded, []).append(user)
    for alike in classes.values():
        if len(alike) > 1:
            _begin_together(alike, known)
    begun = {user.place: user.begun for user in users if user.begun is not None}
    names = _names(head for head, _ in own)
    plans: dict[int, Beginning] = {}
    leaders: dict[object, int] = {}
    found = []
    for at, (_, query) in enumerate(own):
        leader = leaders.setdefault((query.paths, query.together), at) if query.together else at
        ways = [begun.get((leader, number)) for number in range(len(query.paths))]
        made = tuple(None if way is None else way.plan(plans, names) for way in ways) if any(ways) else ()
        found.append(replace(query, begun=made) if made or query.begun else query)
    return found


@dataclass(eq=False)
class _User:
    """A path, or a beginning, which may begin with another one.

    Attributes
    ----------
    place
        The numbers of its rule in the draft, and of its path in the rule; for a beginning, of whose path it is taken
        from.
    tracks
        Itself, and its other orders.
    most
        Per track, how many of its levels are listed rather than counted.
    """

    place: tuple[int, int]
    tracks: Sequence[Track]
    most: Sequence[int]
    begun: _Way | None = None
    _reaching: dict[int, list[tuple[Track, frozenset[Met]]]] = field(default_factory=dict, init=False)

    def along(self, levels: int, atoms: frozenset[Met]) -> Track | None:
        """The first track that binds all of these atoms in so many levels, and at none of them meets where they do not.

        Of a level at which atoms meet, one of them alone may leave any number of rows, whatever is expected.
        """
        for track, own in self.reaching(levels):
            if atoms == own and track.cuts(levels):
                return track
            if atoms < own and track.cuts(levels):
                meeting, needed = Counter(map(_level, atoms)), Counter(map(_level, own))
                if all(meeting[at] >= min(needed[at], 2) for at in range(1, levels + 1)):
                    return track
        return None

    def reaching(self, levels: int) -> list[tuple[Track, frozenset[Met]]]:
        """The tracks that list so many levels, each with the atoms that these bind."""
        if levels not in self._reaching:
            both = zip(self.tracks, self.most, strict=True)
            self._reaching[levels] = [(one, frozenset(one.finished(levels))) for one, most in both if levels <= most]
        return self._reaching[levels]


@dataclass(frozen=True, eq=False)
class _Shared:
    """A beginning of so many levels.

    Attributes
    ----------
    atoms, said
        Its atoms that are bound to the last variable; its conditions and negated atoms.
    """

    user: _User
    levels: int
    atoms: frozenset[Met]
    said: frozenset[Word]

    def plan(self, plans: dict[int, Beginning], names: Sequence[tuple[str, int]]) -> Beginning:
        """As it is executed; each once."""
        if id(self) not in plans:
            rule, number = self.user.place
            begun = None if self.user.begun is None else self.user.begun.plan(plans, names)
            plans[id(self)] = Beginning(*names[rule], number, self.user.tracks[0].path, begun)
        return plans[id(self)]


@dataclass(frozen=True, eq=False)
class _Way:
    """A track that goes on from a beginning."""

    track: Track
    shared: _Shared

    def plan(self, plans: dict[int, Beginning], names: Sequence[tuple[str, int]]) -> Begun:
        """As it is executed."""
        own = self.track.names(self.shared.user.tracks[0].path)
        return Begun(self.shared.plan(plans, names), self.rest(), own, self.track.is_seen(self.shared.levels))

    def rest(self) -> DeltaPath:
        """What is left of the track."""
        shared, (beginning,) = self.shared, self.shared.user.tracks
        atoms = self.track.finished(shared.levels)
        order = [beginning.place[name] for name in beginning.path.order]
        return self.track.rest(shared.levels, {atoms[met] for met in shared.atoms}, shared.said, order)


def _level(met: Met) -> int:
    """The level at which the last variable of an atom is bound; 0 or less for one of the seed's."""
    return max(-place for _, place in met.bound)


def _names(heads: Iterable[str]) -> list[tuple[str, int]]:
    """Per rule, its head and its number among the rules of that."""
    rules: Counter[str] = Counter()
    found = []
    for head in heads:
        found.append((head, rules[head]))
        rules[head] += 1
    return found


def _users(own: Sequence[tuple[str, DeltaQuery]], alone: Collection[str]) -> Iterator[_User]:
    """The paths that may begin together; of rules that share all of their paths, those of the first."""
    seen = set()
    for at, (head, query) in enumerate(own):
        if head not in alone or len(query.paths) > MOST_ATOMS:
            continue
        if query.together:
            if (query.paths, query.together) in seen:
                continue
            seen.add((query.paths, query.together))
        kept = query.together or query.head_variables
        for number, path in enumerate(query.paths):
            if path.steps:
                tracks = [Track(way) for way in (path, *path.variants)]
                yield _User((at, number), tracks, [_listed(track, track.path.depth_of(kept)) for track in tracks])


def _listed(track: Track, depth: int) -> int:
    """How many levels are within so many steps."""
    return len([end for end in track.ends if end <= depth]) - 1


def _begin_together(users: Iterable[_User], known: KnownRelations) -> None:
    """Give beginnings to those of these paths for which that pays: the longest first, those of most atoms first."""
    live = list(users)
    estimator = cache(lambda track: Estimator.of_path(track.path, known))
    listing = cache(lambda track, levels: _listing(track, levels, estimator(track)))
    for levels in range(max(max(user.most) for user in live), 0, -1):
        for atoms in _sets(live, levels):
            ways = [(user, track) for user in live if (track := user.along(levels, atoms)) is not None]
            if len(ways) > 1:
                made = _shared(ways, levels, atoms, listing)
                if made is not None:
                    live = [*(user for user in live if user.begun is None), made]


def _sets(users: Iterable[_User], levels: int) -> list[frozenset[Met]]:
    """The sets of atoms that are worth looking at: those of one path, and what those of two have in common."""
    own: dict[frozenset[Met], None] = {}
    for user in users:
        for _, atoms in user.reaching(levels):
            own[atoms] = None
    found = dict(own)
    if len(own) <= MOST_COMPARED:
        found.update(dict.fromkeys(one & other for one, other in combinations(own, 2)))
    bound = set(range(-levels, 0))
    return sorted(
        [atoms for atoms in found if bound.issubset([place for met in atoms for _, place in met.bound])],
        key=len, reverse=True,
    )  # fmt: skip


def _shared(ways: Sequence[tuple[_User, Track]], levels: int, atoms: frozenset[Met], listing: Listing) -> _User | None:
    """Let those tracks begin together for which it pays; the beginning, if there is one."""
    made = _beginning(ways, levels, atoms)
    costs = [listing(track, levels) for _, track in ways]
    own = listing(made.user.tracks[0], levels)
    if own is None or None in costs:
        last = made.user.tracks[0].path.steps[-1]
        if len(last.atoms) < 2 or any(atoms != frozenset(track.finished(levels)) for _, track in ways):
            return None
    else:
        taking = [own[1] * _taking(_Way(track, made)) for _, track in ways]
        paying = [at for at, cost in enumerate(costs) if cost is not None and taking[at] < cost[0]]
        if len(paying) < 2:
            return None
        if len(paying) < len(ways):
            return _shared([ways[at] for at in paying], levels, atoms, listing)
        if own[0] + sum(taking) >= CLEARLY * sum(cost[0] for cost in costs if cost is not None):
            return None
    for user, track in ways:
        user.begun = _Way(track, made)
    return made.user


def _beginning(ways: Sequence[tuple[_User, Track]], levels: int, atoms: frozenset[Met]) -> _Shared:
    """What these tracks have in common, in the names of the first."""
    first, track = ways[0]
    said = frozenset.intersection(*(other.said(levels) for _, other in ways))
    numbers = {number for met, number in track.finished(levels).items() if met in atoms}
    for met, number in track.reached(levels).items():
        if all(met in other.reached(levels) for _, other in ways):
            numbers.add(number)
    path = with_sorting(track.beginning(levels, numbers, said))
    return _Shared(_User(first.place, [Track(path)], [levels]), levels, atoms, said)


def _listing(track: Track, levels: int, estimator: Estimator) -> tuple[float, float] | None:
    """What it costs to list what so many levels bind, and how many rows that are; None if that is not known.

    That is what the path would cost less if it had not to do it; what is left may have branches, too.
    """
    path = track.path
    if not estimator.is_known:
        return None
    steps = path.steps[: track.ends[levels]]
    found = estimator.over(steps)
    cost = found.listing
    if path.branches:
        behind = [
            replace(one, begin=one.begin + len(steps), end=one.end + len(steps))
            for one in track.branches_behind(levels)
        ]
        cost += estimator.over(path.steps, path.branches).listing - estimator.over(path.steps, behind).listing
    before, last = found.levels[-2:]
    is_alone = len(steps[-1].atoms) == 1 and not steps[-1].is_lookup
    return cost + is_alone * copying(before.rows, last.proposed), last.rows


def _taking(way: _Way) -> float:
    """What a row of the beginning costs a track: it is sought in every other atom that it reaches."""
    track, levels = way.track, way.shared.levels
    return TAKE + FIND * (len(track.reached(levels)) + len(track.finished(levels)) - len(way.shared.atoms))
