"""Materialise joins of small inputs that several pairs of atoms compute."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from gpu_wcoj.costs import BRANCH_START
from gpu_wcoj.join.plan import Branch, CommonPrefix, DeltaPath, DeltaQuery, Step, Symmetry, check_variables
from gpu_wcoj.planner.body import Body, BodyAtom
from gpu_wcoj.planner.cost import CHANGES, Estimator, ways_of
from gpu_wcoj.planner.ir import Auxiliary, CatalogReader, Draft, Foreseen, RuleDraft, Setting, Side
from gpu_wcoj.planner.join_order import MAX_ATOMS
from gpu_wcoj.query.stratify import components


def query_of(rule_draft: RuleDraft) -> DeltaQuery:
    """Return the executable rule, set by an earlier pass."""
    assert rule_draft.query is not None, "a pass was run before `to_delta_queries`"
    return rule_draft.query


def nonrecursive_heads(draft: Draft) -> set[str]:
    """Return the heads that are neither recursive nor evaluated as if they were."""
    reads: dict[str, dict[str, None]] = {}
    for rule_draft in draft.rules:
        body = rule_draft.normalised
        read_names = reads.setdefault(rule_draft.head, {})
        for atom in (*body.atoms, *body.negated):
            read_names[atom.relation] = None
    reading = {
        name: names_read for name, names_read in reads.items() if not reads.keys().isdisjoint(names_read)
    }  # others are not in a loop
    single = {members[0] for members in components(reading) if len(members) == 1}
    single.difference_update(name for name in reading if name in reads[name])
    return (reads.keys() - reading.keys() | single).difference(draft.setting.best, draft.setting.recursive)


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
    if not setting.bag or setting.strategy != "auto" or setting.auxiliaries is None:
        return draft
    while True:
        grown = _with_more_auxiliaries(draft)
        if grown is draft:
            return draft
        draft = grown


def _with_more_auxiliaries(draft: Draft) -> Draft:
    """Return the draft with one more kind of auxiliary relations; itself if there is none."""
    setting, nonrecursive = draft.setting, nonrecursive_heads(draft)
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
    catalog = setting.known.expecting(expected) if expected else setting.known
    shapes = {**setting.shapes, **{auxiliary.name: auxiliary.shape(setting.shapes) for auxiliary in new}}
    auxiliary_rules = [RuleDraft(auxiliary.name, body.rule, body) for auxiliary in new for body in [auxiliary.body()]]
    return replace(
        draft,
        setting=replace(setting, shapes=shapes, known=catalog),
        rules=(*rules[: len(made)], *auxiliary_rules, *rules[len(made) :]),
        auxiliaries=tuple(used),
    )


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


# Bushy plans: take independent steps of a path as branches.


CLEARLY = 0.8
"""Cost ratio: branches are used if listing costs less than this share of listing without them."""


def make_bushy(draft: Draft) -> Draft:
    r"""Take independent steps as branches where that lowers the expected cost of listing rows.

    Steps that do not depend on each other after some step can run separately, each for its distinct prefixes, before
    their rows are joined. The pass considers every step: the independent parts of all later steps, or of the longest
    run of next steps that has at least two parts. A part that can drop nothing does not become a branch. Orders within
    each part are unchanged; ``wcoj``, hinted rules, and paths that already have branches are unchanged.

    Examples
    --------
    >>> from gpu_wcoj.planner.passes import PASSES, make_bushy
    >>> from tests.planner.examples import draft_program
    >>> text = "h(a, b, x, u, y, v) :- f(a, b), d(a, x), g(x, u), k(u), d(b, y), g(y, v), k(v)."
    >>> sizes = {"f": 10_000, "d": 400, "g": 400, "k": 3}
    >>> before = draft_program(text, PASSES[: PASSES.index(make_bushy)], sizes=sizes)
    >>> print("\n".join(str(before).splitlines()[8:13]))
      change of 0, f[0, 1] or f[1, 0]
        x: intersect 1 by d[0, 1] with 2 by g[0, 1]
        u: intersect 2 by g[0, 1] with 3 by k[0]
        y: intersect 4 by d[0, 1] with 5 by g[0, 1]
        v: intersect 5 by g[0, 1] with 6 by k[0]
    >>> print("\n".join(str(make_bushy(before)).splitlines()[8:15]))
      change of 0, f[0, 1] or f[1, 0]
        branch
          x: intersect 1 by d[0, 1] with 2 by g[0, 1]
          u: intersect 2 by g[0, 1] with 3 by k[0]
        branch
          y: intersect 4 by d[0, 1] with 5 by g[0, 1]
          v: intersect 5 by g[0, 1] with 6 by k[0]
    """
    setting = draft.setting
    if setting.strategy == "wcoj":
        return draft
    rules, candidates = [], draft.candidates
    for rule_draft in draft.rules:
        if rule_draft.head in setting.hints or len(rule_draft.normalised.atoms) > MAX_ATOMS:
            rules.append(rule_draft)
            continue
        paths, foreseen = list(rule_draft.paths), list(rule_draft.foreseen)
        for path_index, (path, flat) in enumerate(zip(paths, foreseen, strict=True)):
            if flat is not None and not path.branches:
                paths[path_index], foreseen[path_index], looked_at = _choose_branches(
                    path, flat, rule_draft, setting.known
                )
                candidates += looked_at
        is_same = all(map(operator.is_, paths, rule_draft.paths))
        rules.append(rule_draft if is_same else replace(rule_draft, paths=tuple(paths), foreseen=tuple(foreseen)))
    return replace(draft.with_rules(rules), candidates=candidates)


def _choose_branches(
    path: DeltaPath, flat: Foreseen, rule_draft: RuleDraft, catalog: CatalogReader
) -> tuple[DeltaPath, Foreseen, int]:
    """Return the path with branches if they pay, its estimates, and the number of candidates."""
    kept_names = {term for term in rule_draft.normalised.head if isinstance(term, str)}
    first = path.steps[: path.depth_of(kept_names)]
    if not first or CLEARLY * flat.listing <= BRANCH_START / CHANGES:
        return path, flat, 0
    ways = [way for way in dict.fromkeys(ways_of(first)) if len(way[1]) > 1 or _hides(path, *way)]
    if not ways:
        return path, flat, 0
    estimator = Estimator.of_path(path, catalog, kept_names)
    later_steps = path.steps[len(first) :]
    costs = [estimator.over((*steps, *later_steps), branches) for steps, branches in ways]
    cheapest = min(costs, key=lambda way: way.listing)
    if cheapest.listing >= CLEARLY * flat.listing:
        return path, flat, len(ways)
    steps, branches = ways[costs.index(cheapest)]
    return replace(path, steps=(*steps, *later_steps), branches=branches), cheapest, len(ways)


def _hides(path: DeltaPath, steps: tuple[Step, ...], branches: tuple[Branch, ...]) -> bool:
    """Return True if a branch reads fewer variables than are bound before it."""
    (branch,) = branches
    branch_steps = steps[branch.begin : branch.end]
    seen = {
        name
        for use in path.other_atoms
        if any(use.atom in step.atoms for step in branch_steps)
        for name in use.variables
    }
    seen = seen.union(*(step.read_variables for step in branch_steps))
    return not seen.issuperset((*path.seed.variables, *(step.variable for step in steps[: branch.begin])))


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
    nonrecursive = nonrecursive_heads(draft)
    shared = _sharing_rules([query_of(rule_draft) for rule_draft in draft.rules])
    return draft.with_rules(
        [
            _use_symmetry(rule_draft) if rule_draft.head in nonrecursive and rule_index not in shared else rule_draft
            for rule_index, rule_draft in enumerate(draft.rules)
        ]
    )


def _use_symmetry(rule_draft: RuleDraft) -> RuleDraft:
    query, renaming = query_of(rule_draft), rule_draft.renaming
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
