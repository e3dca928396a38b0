"""Normalise rules over stored columns and drop rules that never hold.

See `gpu_wcoj.planner.body`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gpu_wcoj.errors import UnsafeRuleError
from gpu_wcoj.join.path import names_of
from gpu_wcoj.planner.body import Alias, Body, alias_of, normalise
from gpu_wcoj.planner.draft import Draft
from gpu_wcoj.planner.nulls import cases
from gpu_wcoj.planner.same import same_rows
from gpu_wcoj.query.rules import Rule


def normalised(draft: Draft) -> Draft:
    """Check that rules are safe and give each its body, with aliases resolved.

    Constants and repeated variables become selections of atoms, equalities are substituted.

    Examples
    --------
    >>> from gpu_wcoj.planner.passes.examples import drafted
    >>> before = drafted("h(x) :- r(x, y, x), y = 5, x < 9. h(x) :- r(x, x, x), 1 > 2.")
    >>> print(before)
    h: h(x) :- r(x, y, x), y = 5, x < 9.
    h: h(x) :- r(x, x, x), 1 > 2.
    >>> print(normalised(before))
    h: h(x) :- r(x, y, x), y = 5, x < 9.
      0: r(x) where #1 = 5, #0 = #2
      x < 9
    """
    setting = draft.setting
    by_head: dict[str, list[Rule]] = {}
    for one in draft.rules:
        by_head.setdefault(one.head, []).append(one.rule)
    found = aliases({name: own for name, own in by_head.items() if name not in setting.best}, setting.textual)
    nullable = {name: shape.nullable for name, shape in setting.shapes.items()}
    rules = []
    for one in draft.rules:
        bodies = [one.body] if one.body is not None else []
        if one.body is None:
            kept = setting.best.get(one.head)
            for asked in cases(one.rule, nullable, kept):
                body = normalise(one.rule, setting.shapes, found, setting.encode, setting.kinds, kept, asked)
                bodies.append(body)
        for body in bodies:
            if not body.never:
                _check_safe(body)
                rules.append(replace(one, body=body))
    return replace(draft, rules=tuple(rules), aliases={**found, **draft.aliases})


def _check_safe(body: Body) -> None:
    """Raise if the body or the head reads an unbound variable."""
    bound = {*body.variables, *(one.variable for one in body.calculations)}
    said = [(term, "the head") for term in body.head if isinstance(term, str)]
    for checks, what in ((body.conditions, "the comparison"), (body.calculations, "the calculation")):
        said += [(name, f"{what} '{one}'") for one in checks for name in names_of(one)]
    constants = {f"atom#{number}" for number in range(-len(body.negated), 0)}  # of atoms without variables
    said += [(name, f"the negated '!{atom}'") for atom in body.negated for name in atom.variables]
    for name, where in said:
        if name not in bound and name not in constants:
            raise UnsafeRuleError(name, where, str(body.rule))


def aliases(by_head: Mapping[str, Sequence[Rule]], textual: Callable[[str, int], bool]) -> dict[str, Alias]:
    """Return heads whose only rule renames or selects; of a cycle, all but one.

    The result includes heads that hold the same rows as an earlier head.
    """
    found: dict[str, Alias] = {}
    for name, own in by_head.items():
        alias = alias_of(own[0], textual) if len(own) == 1 else None
        if alias is None:
            continue
        end = alias.relation
        while end in found and end != name:
            end = found[end].relation
        if end != name:
            found[name] = alias
    return {**same_rows({name: own for name, own in by_head.items() if name not in found}), **found}
