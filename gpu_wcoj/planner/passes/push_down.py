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
    for one in draft.rules:
        conditions = _pushed(one.normalised) if one.normalised.conditions else ()
        if conditions == one.normalised.conditions:
            rules.append(one)
        elif conditions is not None:
            rules.append(replace(one, body=replace(one.normalised, conditions=conditions)))
    return draft.of(rules)


def _pushed(body: Body) -> tuple[Condition, ...] | None:
    """Return the conditions with all bounds; None if no values satisfy them."""
    calculated = {one.variable for one in body.calculations}
    names = {name for atom in body.atoms for name in atom.variables} - calculated
    kept: list[Condition] = []
    bounding: set[Condition] = set()
    given: dict[tuple[str, str, int], Condition] = {}
    least: dict[str, int] = {}
    most: dict[str, int] = {}
    links: list[tuple[str, str, int]] = []
    """(x, y, d): x + d <= y."""
    for one in dict.fromkeys(body.conditions):
        is_plain = one.variable in names and not one.textual
        if is_plain and isinstance(one.other, int) and one.op not in ("!=", "="):
            code = one.other
            if one.op in ("<", ">") and code == (_LEAST if one.op == "<" else _MOST):
                return None
            if one.op[0] == "<":
                bound = code - (one.op == "<")
                most[one.variable] = min(most.get(one.variable, bound), bound)
                given.setdefault((one.variable, "<=", bound), one)
            else:
                bound = code + (one.op == ">")
                least[one.variable] = max(least.get(one.variable, bound), bound)
                given.setdefault((one.variable, ">=", bound), one)
            kept.append(one)
            bounding.add(one)
            continue
        kept.append(one)
        if is_plain and isinstance(one.other, str) and one.other in names:
            links.extend(_links(one))
    for _ in names:  # a bound passes each variable once; more rounds than variables mean an unsatisfiable cycle
        if not _pass_on(links, least, most):
            break
    else:
        if links:
            return None
    if any(bound > most.get(name, _MOST) for name, bound in least.items()) or min(most.values(), default=0) < _LEAST:
        return None
    if any(left == right and distance > 0 for left, right, distance in _closed(links)):
        return None
    bounds = [(name, ">=", least[name]) for name in body.variables if name in least]
    bounds += [(name, "<=", most[name]) for name in body.variables if name in most]
    tight = [given.get(one, Condition(*one)) for one in bounds]
    loose = bounding.difference(tight)
    return (*(one for one in kept if one not in loose), *(one for one in tight if one not in kept))


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
    found = {(left, right, min(distance, 1)) for left, right, distance in links}
    while True:
        more = {(a, d, max(m, n)) for a, b, m in found for c, d, n in found if b == c} - found
        if not more:
            return found
        found |= more
