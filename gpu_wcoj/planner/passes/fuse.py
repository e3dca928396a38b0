"""Replace intersections by lookups where one atom proposes values."""

from __future__ import annotations

from dataclasses import replace

from gpu_wcoj.join.plan import DeltaPath
from gpu_wcoj.planner.ir import Draft, Order, RuleDraft
from gpu_wcoj.planner.turns import in_turn


def fuse_lookups(draft: Draft) -> Draft:
    r"""Let a named atom propose a variable's values, and look the other atoms up afterwards.

    A level with one atom already is a lookup; see `gpu_wcoj.planner.turns`.

    Examples
    --------
    >>> from gpu_wcoj.planner.passes.arrangements import assign_arrangements
    >>> from tests.planner.examples import draft_program
    >>> from gpu_wcoj.planner.passes.normalise import normalise_rules
    >>> from gpu_wcoj.planner.passes.orders import order_variables
    >>> text = "h(a, b, c) :- r(a, b), s(b, c), t(a, c), u(c, d), v(c, b)."
    >>> before = draft_program(text, [normalise_rules, order_variables, assign_arrangements], strategy="binary")
    >>> print("\n".join(str(before).splitlines()[6:9]))
      change of 0, r[0, 1]
        c: intersect 1 by s[0, 1] with 2 by t[0, 1] with 3 by u[0, 1] with 4 by v[1, 0]
        d: look up 3 by u[0, 1]
    >>> print("\n".join(str(fuse_lookups(before)).splitlines()[6:12]))
      change of 0, r[0, 1]
        c: look up 1 by s[0, 1]
        c: check 2 by t[0, 1]
        c: check 4 by v[1, 0]
        c: check 3 by u[0, 1]
        d: look up 3 by u[0, 1]
    """
    return draft.over(_fuse)


def _fuse(rule_draft: RuleDraft) -> RuleDraft:
    if all(orders[0].is_together for orders in rule_draft.orders):
        return rule_draft
    paths = [with_lookups(path, orders[0]) for path, orders in zip(rule_draft.paths, rule_draft.orders, strict=True)]
    return replace(rule_draft, paths=tuple(paths))


def with_lookups(path: DeltaPath, order: Order) -> DeltaPath:
    """Return the path with the other atoms of a variable after the atom that proposes it."""
    if order.is_together:
        return path
    return replace(path, steps=in_turn(path.steps, dict(zip(order.variables, order.via, strict=True))))
