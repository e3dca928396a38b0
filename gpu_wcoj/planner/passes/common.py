"""Share the join of rules with equal bodies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

from gpu_wcoj.join.plan import Calculation, Condition, DeltaQuery
from gpu_wcoj.planner.body import Body, BodyAtom
from gpu_wcoj.planner.ir import Draft, RuleDraft
from gpu_wcoj.query.strata import components


def share_joins(draft: Draft) -> Draft:
    """Give rules whose bodies differ only in names the same paths, if they need the same depth.

    The rows that a tick enumerates for the first rule then serve the others; see `gpu_wcoj.join.common`. Rules of loops
    and hinted rules are unchanged.

    Examples
    --------
    >>> from gpu_wcoj.planner.passes import PASSES
    >>> from tests.planner.examples import draft_program
    >>> text = "h(a, b, c) :- r(a, b), s(b, c). g(z, x) :- r(x, y), s(y, z)."
    >>> before = draft_program(text, PASSES[: PASSES.index(share_joins)])
    >>> [(one.query.head, one.query.shared_variables) for one in before.rules]
    [(('a', 'b', 'c'), ()), (('z', 'x'), ())]
    >>> [(one.query.head, one.query.shared_variables) for one in share_joins(before).rules]
    [(('a', 'b', 'c'), ('a', 'b', 'c')), (('c', 'a'), ('a', 'b', 'c'))]
    """
    nonrecursive = nonrecursive_heads(draft)
    sizes = Counter(len(rule_draft.normalised.atoms) for rule_draft in draft.rules)
    leaders: dict[Hashable, list[int]] = {}
    groups: dict[int, list[int]] = {}
    rules = list(draft.rules)
    for rule_index, draft_rule in enumerate(draft.rules):
        if (
            draft_rule.head not in nonrecursive
            or draft_rule.head in draft.setting.hints
            or len(draft_rule.normalised.atoms) < 2
        ):
            continue
        if sizes[len(draft_rule.normalised.atoms)] == 1:
            continue  # no other rule has a body of this size
        names = _names(draft_rule.normalised)
        candidates = leaders.setdefault(_signature(draft_rule.normalised, names), [])
        for leader in candidates:
            leader_draft = draft.rules[leader]
            led = _follow(leader_draft, draft_rule, dict(zip(names, _names(leader_draft.normalised), strict=True)))
            if led is not None:
                rules[rule_index] = led
                groups.setdefault(leader, [leader]).append(rule_index)
                break
        else:
            candidates.append(rule_index)
    for members in groups.values():
        queries = [query_of(rules[index]) for index in members]
        together = tuple(dict.fromkeys(term for query in queries for term in query.head if isinstance(term, str)))
        for rule_index, query in zip(members, queries, strict=True):
            rules[rule_index] = replace(rules[rule_index], query=replace(query, shared_variables=together))
    return draft.with_rules(rules)


def query_of(rule_draft: RuleDraft) -> DeltaQuery:
    """Return the executable rule, set by an earlier pass."""
    assert rule_draft.query is not None, "a pass was run before `to_delta_queries`"
    return rule_draft.query


def _follow(leader: RuleDraft, rule_draft: RuleDraft, same: Mapping[str, str]) -> RuleDraft | None:
    """Return the rule with the leader's paths; None if they need different depths.

    Parameters
    ----------
    same
        Per variable of the rule, the leader's name of it.
    """
    query = query_of(leader)
    body = rule_draft.normalised
    head = tuple(same[term] if isinstance(term, str) else term for term in body.head)
    kept_names = {term for term in head if isinstance(term, str)}
    ways = [way for path in leader.paths for way in (path, *path.variants)]
    if any(way.depth_of(kept_names) != way.depth_of(query.head_variables) for way in ways):
        return None
    led_body = replace(leader.normalised, rule=body.rule, head=head)
    return replace(
        leader,
        head=rule_draft.head,
        rule=rule_draft.rule,
        body=led_body,
        query=replace(query, rule=str(body.rule), head=head),
    )


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


def _names(body: Body) -> list[str]:
    """Return the variables of a body, in order of first occurrence."""
    names = [name for atom in (*body.atoms, *body.negated) for name in atom.variables]
    return list(dict.fromkeys([*names, *(calculation.variable for calculation in body.calculations)]))


def _signature(body: Body, names: Sequence[str]) -> Hashable:
    """Return a key of the body that does not depend on variable names."""
    same = {name: f"#{index}" for index, name in enumerate(names)}
    atoms = tuple(_rename_atom(atom, same) for atom in body.atoms)
    negated = tuple(_rename_atom(atom, same) for atom in body.negated)
    conditions = frozenset(_rename_condition(condition, same) for condition in body.conditions)
    return (
        atoms,
        negated,
        conditions,
        tuple(_rename_calculation(calculation, same) for calculation in body.calculations),
    )


def _rename_atom(atom: BodyAtom, names: Mapping[str, str]) -> BodyAtom:
    return atom._replace(variables=tuple(names[name] for name in atom.variables))


def _rename_condition(condition: Condition, names: Mapping[str, str]) -> Condition:
    operand = names[condition.operand] if isinstance(condition.operand, str) else condition.operand
    return replace(condition, variable=names[condition.variable], operand=operand)


def _rename_calculation(calculation: Calculation, names: Mapping[str, str]) -> Calculation:
    arguments = tuple(names[term] if isinstance(term, str) else term for term in calculation.arguments)
    return replace(calculation, variable=names[calculation.variable], arguments=arguments)
