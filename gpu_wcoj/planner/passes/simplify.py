"""Push constant bounds down to every variable that they restrict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpu_wcoj.join.plan import Condition
from gpu_wcoj.planner.body import Body
from gpu_wcoj.planner.ir import Draft

_MIN_CODE, _MOST = -(1 << 63), (1 << 63) - 1


def push_down_predicates(draft: Draft) -> Draft:
    """Propagate constant bounds through comparisons; drop rules with contradictory bounds.

    Equality with a constant is a selection already. Bounds are on codes, which have the order of the values; text is
    compared through ranks, which change, so text and calculations give no bounds. Implied bounds are not added, and of
    two bounds of one variable only the tighter one is kept.

    Examples
    --------
    >>> from tests.planner.examples import draft_program
    >>> from gpu_wcoj.planner.passes.normalise import normalise_rules
    >>> text = "h(x) :- r(x, y), x < y, y < 5, y < 9. h(x) :- r(x, y), x < y, y < x."
    >>> before = draft_program(text, [normalise_rules])
    >>> print(before)
    h: h(x) :- r(x, y), x < y, y < 5, y < 9.
      0: r(x, y)
      x < y
      y < 5
      y < 9
    h: h(x) :- r(x, y), x < y, y < x.
      0: r(x, y)
      x < y
      y < x
    >>> print(push_down_predicates(before))
    h: h(x) :- r(x, y), x < y, y < 5, y < 9.
      0: r(x, y)
      x < y
      y < 5
      x <= 3
    """
    rules = []
    for rule_draft in draft.rules:
        conditions = _push_down(rule_draft.normalised) if rule_draft.normalised.conditions else ()
        if conditions == rule_draft.normalised.conditions:
            rules.append(rule_draft)
        elif conditions is not None:
            rules.append(replace(rule_draft, body=replace(rule_draft.normalised, conditions=conditions)))
    return draft.with_rules(rules)


def _push_down(body: Body) -> tuple[Condition, ...] | None:
    """Return the conditions with all bounds; None if no values satisfy them."""
    calculated = {calculation.variable for calculation in body.calculations}
    names = {name for atom in body.atoms for name in atom.variables} - calculated
    result: list[Condition] = []
    bounding: set[Condition] = set()
    existing: dict[tuple[str, str, int], Condition] = {}
    lower: dict[str, int] = {}
    upper: dict[str, int] = {}
    links: list[tuple[str, str, int]] = []
    """(x, y, d): x + d <= y."""
    for condition in dict.fromkeys(body.conditions):
        is_plain = condition.variable in names and not condition.textual
        if is_plain and isinstance(condition.operand, int) and condition.op not in ("!=", "="):
            code = condition.operand
            if condition.op in ("<", ">") and code == (_MIN_CODE if condition.op == "<" else _MOST):
                return None
            if condition.op[0] == "<":
                bound = code - (condition.op == "<")
                upper[condition.variable] = min(upper.get(condition.variable, bound), bound)
                existing.setdefault((condition.variable, "<=", bound), condition)
            else:
                bound = code + (condition.op == ">")
                lower[condition.variable] = max(lower.get(condition.variable, bound), bound)
                existing.setdefault((condition.variable, ">=", bound), condition)
            result.append(condition)
            bounding.add(condition)
            continue
        result.append(condition)
        if is_plain and isinstance(condition.operand, str) and condition.operand in names:
            links.extend(_links(condition))
    for _ in names:  # a bound passes each variable once; more rounds than variables mean an unsatisfiable cycle
        if not _propagate(links, lower, upper):
            break
    else:
        if links:
            return None
    if (
        any(bound > upper.get(name, _MOST) for name, bound in lower.items())
        or min(upper.values(), default=0) < _MIN_CODE
    ):
        return None
    if any(left == right and distance > 0 for left, right, distance in _close(links)):
        return None
    bounds = [(name, ">=", lower[name]) for name in body.variables if name in lower]
    bounds += [(name, "<=", upper[name]) for name in body.variables if name in upper]
    tight = [existing.get(bound_key, Condition(*bound_key)) for bound_key in bounds]
    loose = bounding.difference(tight)
    return (*(final for final in result if final not in loose), *(final for final in tight if final not in result))


def _links(condition: Condition) -> Iterator[tuple[str, str, int]]:
    assert isinstance(condition.operand, str)
    if condition.op in ("<", "<=", "="):
        yield condition.variable, condition.operand, int(condition.op == "<")
    if condition.op in (">", ">=", "="):
        yield condition.operand, condition.variable, int(condition.op == ">")


def _propagate(links: list[tuple[str, str, int]], lower: dict[str, int], upper: dict[str, int]) -> bool:
    """Propagate bounds along all links once; return True if a bound has become tighter."""
    changed = False
    for left, right, distance in links:
        if right in upper and upper[right] - distance < upper.get(left, _MOST + 1):
            upper[left] = upper[right] - distance
            changed = True
        if left in lower and lower[left] + distance > lower.get(right, _MIN_CODE - 1):
            lower[right] = lower[left] + distance
            changed = True
    return changed


def _close(links: list[tuple[str, str, int]]) -> set[tuple[str, str, int]]:
    """Return the transitive closure of the links, distances clipped to 1."""
    closure = {(left, right, min(distance, 1)) for left, right, distance in links}
    while True:
        more = {(a, d, max(m, n)) for a, b, m in closure for c, d, n in closure if b == c} - closure
        if not more:
            return closure
        closure |= more
