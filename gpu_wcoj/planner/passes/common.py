"""Share the join of rules with equal bodies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

from gpu_wcoj.join.path import Calculation, Condition, DeltaQuery
from gpu_wcoj.planner.body import Body, BodyAtom
from gpu_wcoj.planner.draft import Draft, RuleDraft
from gpu_wcoj.query.strata import components


def joined_once(draft: Draft) -> Draft:
    """Give rules whose bodies differ only in names the same paths, if they need the same depth.

    The rows that a tick enumerates for the first rule then serve the others; see `gpu_wcoj.join.common`. Rules of loops
    and hinted rules are unchanged.

    Examples
    --------
    >>> from gpu_wcoj.planner.passes import PASSES
    >>> from gpu_wcoj.planner.passes.examples import drafted
    >>> text = "h(a, b, c) :- r(a, b), s(b, c). g(z, x) :- r(x, y), s(y, z)."
    >>> before = drafted(text, PASSES[: PASSES.index(joined_once)])
    >>> [(one.query.head, one.query.together) for one in before.rules]
    [(('a', 'b', 'c'), ()), (('z', 'x'), ())]
    >>> [(one.query.head, one.query.together) for one in joined_once(before).rules]
    [(('a', 'b', 'c'), ('a', 'b', 'c')), (('c', 'a'), ('a', 'b', 'c'))]
    """
    alone = outside_of_loops(draft)
    sizes = Counter(len(one.normalised.atoms) for one in draft.rules)
    leaders: dict[Hashable, list[int]] = {}
    groups: dict[int, list[int]] = {}
    rules = list(draft.rules)
    for number, one in enumerate(draft.rules):
        if one.head not in alone or one.head in draft.setting.hints or len(one.normalised.atoms) < 2:
            continue
        if sizes[len(one.normalised.atoms)] == 1:
            continue  # no other rule has a body of this size
        names = _names(one.normalised)
        known = leaders.setdefault(_signature(one.normalised, names), [])
        for leader in known:
            other = draft.rules[leader]
            led = _led_by(other, one, dict(zip(names, _names(other.normalised), strict=True)))
            if led is not None:
                rules[number] = led
                groups.setdefault(leader, [leader]).append(number)
                break
        else:
            known.append(number)
    for members in groups.values():
        queries = [query_of(rules[number]) for number in members]
        together = tuple(dict.fromkeys(term for query in queries for term in query.head if isinstance(term, str)))
        for number, query in zip(members, queries, strict=True):
            rules[number] = replace(rules[number], query=replace(query, together=together))
    return draft.of(rules)


def query_of(one: RuleDraft) -> DeltaQuery:
    """Return the executable rule, set by an earlier pass."""
    assert one.query is not None, "a pass was run before `executable`"
    return one.query


def _led_by(leader: RuleDraft, one: RuleDraft, same: Mapping[str, str]) -> RuleDraft | None:
    """Return the rule with the leader's paths; None if they need different depths.

    Parameters
    ----------
    same
        Per variable of the rule, the leader's name of it.
    """
    query = query_of(leader)
    body = one.normalised
    head = tuple(same[term] if isinstance(term, str) else term for term in body.head)
    kept = {term for term in head if isinstance(term, str)}
    ways = [way for path in leader.paths for way in (path, *path.variants)]
    if any(way.depth_of(kept) != way.depth_of(query.head_variables) for way in ways):
        return None
    own = replace(leader.normalised, rule=body.rule, head=head)
    return replace(leader, head=one.head, rule=one.rule, body=own, query=replace(query, rule=str(body.rule), head=head))


def outside_of_loops(draft: Draft) -> set[str]:
    """Return the heads that are neither recursive nor evaluated as if they were."""
    reads: dict[str, dict[str, None]] = {}
    for one in draft.rules:
        body = one.normalised
        own = reads.setdefault(one.head, {})
        for atom in (*body.atoms, *body.negated):
            own[atom.relation] = None
    reading = {name: own for name, own in reads.items() if not reads.keys().isdisjoint(own)}  # others are not in a loop
    single = {members[0] for members in components(reading) if len(members) == 1}
    single.difference_update(name for name in reading if name in reads[name])
    return (reads.keys() - reading.keys() | single).difference(draft.setting.best, draft.setting.recursive)


def _names(body: Body) -> list[str]:
    """Return the variables of a body, in order of first occurrence."""
    found = [name for atom in (*body.atoms, *body.negated) for name in atom.variables]
    return list(dict.fromkeys([*found, *(one.variable for one in body.calculations)]))


def _signature(body: Body, names: Sequence[str]) -> Hashable:
    """Return a key of the body that does not depend on variable names."""
    same = {name: f"#{number}" for number, name in enumerate(names)}
    atoms = tuple(_renamed_atom(atom, same) for atom in body.atoms)
    negated = tuple(_renamed_atom(atom, same) for atom in body.negated)
    conditions = frozenset(_renamed_condition(one, same) for one in body.conditions)
    return atoms, negated, conditions, tuple(_renamed_calculation(one, same) for one in body.calculations)


def _renamed_atom(atom: BodyAtom, names: Mapping[str, str]) -> BodyAtom:
    return atom._replace(variables=tuple(names[name] for name in atom.variables))


def _renamed_condition(one: Condition, names: Mapping[str, str]) -> Condition:
    other = names[one.other] if isinstance(one.other, str) else one.other
    return replace(one, variable=names[one.variable], other=other)


def _renamed_calculation(one: Calculation, names: Mapping[str, str]) -> Calculation:
    arguments = tuple(names[term] if isinstance(term, str) else term for term in one.arguments)
    return replace(one, variable=names[one.variable], arguments=arguments)
