"""Use automorphisms of rules to count changes along fewer delta paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpu_wcoj.join.beginning import CommonPrefix
from gpu_wcoj.join.plan import DeltaQuery
from gpu_wcoj.join.symmetry import Symmetry
from gpu_wcoj.planner.ir import Draft, RuleDraft
from gpu_wcoj.planner.passes.common import nonrecursive_heads, query_of

MIN_STEPS = 2
"""Minimum number of steps of the longest path for a symmetry of order 2.

For shorter paths, joining the change with itself would cost as much as it saves.
"""


def use_symmetry(draft: Draft) -> Draft:
    r"""Name automorphic atoms; the first path of each orbit counts for all its atoms.

    With statistics, the cheapest path of the orbit replaces the first one later. Rules of loops are unchanged, and so
    are rules that share a prefix with other rules. See `gpu_wcoj.join.symmetric`.

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
    """Return the rules with paths that share a prefix with other rules."""
    users: dict[CommonPrefix, set[int]] = {}
    for rule_index, query in enumerate(queries):
        for way in query.continuations:
            while way is not None:
                users.setdefault(way.beginning, set()).add(rule_index)
                way = way.beginning.continuation
    return {index for rule_indices in users.values() if len(rule_indices) > 1 for index in rule_indices}
