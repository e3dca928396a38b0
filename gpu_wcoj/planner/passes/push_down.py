"""Push constant bounds down to every variable that they restrict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpu_wcoj.join.path import Condition
from gpu_wcoj.planner.body import Body
from gpu_wcoj.planner.draft import Draft

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


def pushed_down(draft: Draft) -> Draft:
    """Propagate constant bounds through comparisons; drop rules with contradictory bounds.

    Equality with a constant is a selection already. Bounds are on codes, which have the order of the values; text is
    compared through ranks, which change, so text and calculations give no bounds. Implied bounds are not added, and of
    two bounds of one variable only the tighter one is kept.

    Examples
    --------
    >>> from gpu_wcoj.planner.passes.examples import drafted
    >>> from gpu_wcoj.planner.passes.normalise import normalised
    >>> before = drafted("h(x) :- r(x, y), x < y, y < 5, y < 9. h(x) :- r(x, y), x < y, y < x.", [normalised])
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
    >>> print(pushed_down(before))
    h: h(x) :- r(x, y), x < y, y < 5, y < 9.
      0: r(x, y)
      x < y
      y < 5
      x <= 3
    """
    rules = []
    for rule_draft in draft.rules:
        conditions = _pushed(rule_draft.normalised) if rule_draft.normalised.conditions else ()
        if conditions == rule_draft.normalised.conditions:
            rules.append(rule_draft)
        elif conditions is not None:
            rules.append(replace(rule_draft, body=replace(rule_draft.normalised, conditions=conditions)))
    return draft.of(rules)


def _pushed(body: Body) -> tuple[Condition, ...] | None:
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
        if is_plain and isinstance(condition.other, int) and condition.op not in ("!=", "="):
            code = condition.other
            if condition.op in ("<", ">") and code == (_LEAST if condition.op == "<" else _MOST):
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
        if is_plain and isinstance(condition.other, str) and condition.other in names:
            links.extend(_links(condition))
    for _ in names:  # a bound passes each variable once; more rounds than variables mean an unsatisfiable cycle
        if not _pass_on(links, lower, upper):
            break
    else:
        if links:
            return None
    if any(bound > upper.get(name, _MOST) for name, bound in lower.items()) or min(upper.values(), default=0) < _LEAST:
        return None
    if any(left == right and distance > 0 for left, right, distance in _closed(links)):
        return None
    bounds = [(name, ">=", lower[name]) for name in body.variables if name in lower]
    bounds += [(name, "<=", upper[name]) for name in body.variables if name in upper]
    tight = [existing.get(bound_key, Condition(*bound_key)) for bound_key in bounds]
    loose = bounding.difference(tight)
    return (*(final for final in result if final not in loose), *(final for final in tight if final not in result))


def _links(one: Condition) -> Iterator[tuple[str, str, int]]:
    assert isinstance(one.other, str)
    if one.op in ("<", "<=", "="):
        yield one.variable, one.other, int(one.op == "<")
    if one.op in (">", ">=", "="):
        yield one.other, one.variable, int(one.op == ">")


def _pass_on(links: list[tuple[str, str, int]], least: dict[str, int], most: dict[str, int]) -> bool:
    """Propagate bounds along all links once; return True if a bound has become tighter."""
    changed = False
    for left, right, distance in links:
        if right in most and most[right] - distance < most.get(left, _MOST + 1):
            most[left] = most[right] - distance
            changed = True
        if left in least and least[left] + distance > least.get(right, _LEAST - 1):
            least[right] = least[left] + distance
            changed = True
    return changed


def _closed(links: list[tuple[str, str, int]]) -> set[tuple[str, str, int]]:
    """Return the transitive closure of the links, distances clipped to 1."""
    closure = {(left, right, min(distance, 1)) for left, right, distance in links}
    while True:
        more = {(a, d, max(m, n)) for a, b, m in closure for c, d, n in closure if b == c} - closure
        if not more:
            return closure
        closure |= more
