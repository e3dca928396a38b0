"""Normalise rules over stored columns and drop rules that never hold.

See `gpu_wcoj.planner.body`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gpu_wcoj.errors import UnsafeRuleError
from gpu_wcoj.join.plan import check_variables
from gpu_wcoj.planner.body import Alias, Body, alias_of, normalise
from gpu_wcoj.planner.ir import Draft
from gpu_wcoj.planner.nulls import cases
from gpu_wcoj.planner.same import same_rows
from gpu_wcoj.query.rules import Rule


def normalise_rules(draft: Draft) -> Draft:
    """Check that rules are safe and give each its body, with aliases resolved.

    Constants and repeated variables become selections of atoms, equalities are substituted.

    Examples
    --------
    >>> from tests.planner.examples import draft_program
    >>> before = draft_program("h(x) :- r(x, y, x), y = 5, x < 9. h(x) :- r(x, x, x), 1 > 2.")
    >>> print(before)
    h: h(x) :- r(x, y, x), y = 5, x < 9.
    h: h(x) :- r(x, x, x), 1 > 2.
    >>> print(normalise_rules(before))
    h: h(x) :- r(x, y, x), y = 5, x < 9.
      0: r(x) where #1 = 5, #0 = #2
      x < 9
    """
    setting = draft.setting
    by_head: dict[str, list[Rule]] = {}
    for rule_draft in draft.rules:
        by_head.setdefault(rule_draft.head, []).append(rule_draft.rule)
    alias_by_head = aliases(
        {name: head_rules for name, head_rules in by_head.items() if name not in setting.best}, setting.textual
    )
    nullable = {name: shape.nullable for name, shape in setting.shapes.items()}
    rules = []
    for rule_draft in draft.rules:
        bodies = [rule_draft.body] if rule_draft.body is not None else []
        if rule_draft.body is None:
            kept_column = setting.best.get(rule_draft.head)
            for requirement in cases(rule_draft.rule, nullable, kept_column):
                body = normalise(
                    rule_draft.rule,
                    setting.shapes,
                    alias_by_head,
                    setting.encode,
                    setting.kinds,
                    kept_column,
                    requirement,
                )
                bodies.append(body)
        for body in bodies:
            if not body.never:
                _check_safe(body)
                rules.append(replace(rule_draft, body=body))
    return replace(draft, rules=tuple(rules), aliases={**alias_by_head, **draft.aliases})


def _check_safe(body: Body) -> None:
    """Raise if the body or the head reads an unbound variable."""
    bound = {*body.variables, *(calculation.variable for calculation in body.calculations)}
    said = [(term, "the head") for term in body.head if isinstance(term, str)]
    for checks, what in ((body.conditions, "the comparison"), (body.calculations, "the calculation")):
        said += [(name, f"{what} '{check}'") for check in checks for name in check_variables(check)]
    constants = {f"atom#{atom_index}" for atom_index in range(-len(body.negated), 0)}  # of atoms without variables
    said += [(name, f"the negated '!{atom}'") for atom in body.negated for name in atom.variables]
    for name, where in said:
        if name not in bound and name not in constants:
            raise UnsafeRuleError(name, where, str(body.rule))


def aliases(by_head: Mapping[str, Sequence[Rule]], textual: Callable[[str, int], bool]) -> dict[str, Alias]:
    """Return heads whose only rule renames or selects; of a cycle, all but one.

    The result includes heads that hold the same rows as an earlier head.
    """
    result: dict[str, Alias] = {}
    for name, head_rules in by_head.items():
        alias = alias_of(head_rules[0], textual) if len(head_rules) == 1 else None
        if alias is None:
            continue
        end = alias.relation
        while end in result and end != name:
            end = result[end].relation
        if end != name:
            result[name] = alias
    return {
        **same_rows({name: rules_of_head for name, rules_of_head in by_head.items() if name not in result}),
        **result,
    }
