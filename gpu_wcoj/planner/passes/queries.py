"""Executable queries of rules."""

from __future__ import annotations

from dataclasses import replace

from gpu_wcoj.join.path import DeltaQuery
from gpu_wcoj.planner.draft import Draft, RuleDraft


def executable(draft: Draft) -> Draft:
    """Make a delta query of each rule, from which `gpu_wcoj.planner.lower` makes the circuit.

    Examples
    --------
    >>> from gpu_wcoj.planner.passes.arrangements import arranged
    >>> from gpu_wcoj.planner.passes.examples import drafted
    >>> from gpu_wcoj.planner.passes.normalise import normalised
    >>> from gpu_wcoj.planner.passes.orders import ordered
    >>> before = drafted("h(a, c) :- r(a, b), s(b, c).", [normalised, ordered, arranged])
    >>> before.rules[0].query
    >>> executable(before).rules[0].query.head
    ('a', 'c')
    """
    return draft.over(_executable)


def _executable(one: RuleDraft) -> RuleDraft:
    body = one.normalised
    return replace(one, query=DeltaQuery(str(body.rule), body.head, one.paths, body.calculations))
