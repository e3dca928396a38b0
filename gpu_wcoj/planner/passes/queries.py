"""Executable queries of rules."""

from __future__ import annotations

from dataclasses import replace

from gpu_wcoj.join.plan import DeltaQuery
from gpu_wcoj.planner.ir import Draft, RuleDraft


def to_delta_queries(draft: Draft) -> Draft:
    """Make a delta query of each rule, from which `gpu_wcoj.planner.lower` makes the circuit.

    Examples
    --------
    >>> from gpu_wcoj.planner.passes.arrangements import assign_arrangements
    >>> from tests.planner.examples import draft_program
    >>> from gpu_wcoj.planner.passes.normalise import normalise_rules
    >>> from gpu_wcoj.planner.passes.orders import order_variables
    >>> before = draft_program("h(a, c) :- r(a, b), s(b, c).", [normalise_rules, order_variables, assign_arrangements])
    >>> before.rules[0].query
    >>> to_delta_queries(before).rules[0].query.head
    ('a', 'c')
    """
    return draft.over(_to_delta_query)


def _to_delta_query(rule_draft: RuleDraft) -> RuleDraft:
    body = rule_draft.normalised
    return replace(rule_draft, query=DeltaQuery(str(body.rule), body.head, rule_draft.paths, body.calculations))
