"""Materialise joins of small inputs that several pairs of atoms compute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from gpu_wcoj.join.plan import check_variables
from gpu_wcoj.planner.auxiliary import Auxiliary, Side
from gpu_wcoj.planner.body import Body, BodyAtom
from gpu_wcoj.planner.ir import CatalogReader, Draft, RuleDraft, Setting
from gpu_wcoj.planner.passes.common import nonrecursive_heads

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
    >>> from gpu_wcoj.planner.passes.normalise import normalise_rules
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
