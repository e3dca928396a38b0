"""Reuse arrangements: for seeds, and for variant orders that need no further arrangement."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from gpu_wcoj.join.plan import AtomUse, DeltaPath, split_independent
from gpu_wcoj.planner.body import Body
from gpu_wcoj.planner.ir import Draft, Order, RuleDraft
from gpu_wcoj.planner.passes.arrange import arrangements_of, with_checks
from gpu_wcoj.planner.passes.arrangements import path_along
from gpu_wcoj.trace.arrangement import ArrangementKey


def reuse_arrangements(draft: Draft) -> Draft:
    r"""Take seeds from needed arrangements, and add variant orders over these.

    Equal arrangements are shared by all paths and rules of the program.

    Examples
    --------
    >>> from gpu_wcoj.planner.passes.arrangements import assign_arrangements
    >>> from tests.planner.examples import draft_program
    >>> from gpu_wcoj.planner.passes.normalise import normalise_rules
    >>> from gpu_wcoj.planner.passes.orders import order_variables
    >>> text = "h(a, b, c, d) :- r(a, b), r(b, c), r(c, d), r(a, d)."
    >>> before = draft_program(text, [normalise_rules, order_variables, assign_arrangements])
    >>> print("\n".join(str(before).splitlines()[5:8]))
      change of 0, r[0, 1]
        c: intersect 1 by r[0, 1] with 2 by r[0, 1]
        d: intersect 2 by r[0, 1] with 3 by r[0, 1]
    >>> print("\n".join(str(reuse_arrangements(before)).splitlines()[5:9]))
      change of 0, r[0, 1] or r[1, 0]
        c: intersect 1 by r[0, 1] with 2 by r[0, 1]
        d: intersect 2 by r[0, 1] with 3 by r[0, 1]
        or d, c
    """
    return draft.over(_reuse)


def _reuse(rule_draft: RuleDraft) -> RuleDraft:
    body = rule_draft.normalised
    paths = _with_seeds(body, rule_draft.paths)
    if max(map(len, rule_draft.orders), default=1) == 1:
        return replace(rule_draft, paths=tuple(paths))
    existing = {key for path in paths for key in (*(use.key for use in path.seeds), *path.keys)}
    with_variants = [
        _with_variants(body, path, orders[1:], existing) for path, orders in zip(paths, rule_draft.orders, strict=True)
    ]
    return replace(rule_draft, paths=tuple(with_variants))


def _with_seeds(body: Body, paths: Collection[DeltaPath]) -> list[DeltaPath]:
    """Return the paths with seeds from the arrangements that other paths need."""
    keys_of: dict[tuple[object, ...], list[ArrangementKey]] = {}
    for path in paths:
        for key in path.keys:
            keys = keys_of.setdefault(key.selection, [])
            if key not in keys:
                keys.append(key)
    result = []
    for path in paths:
        seed_key = path.seed.key
        keys = keys_of.setdefault(seed_key.selection, [seed_key])
        atom = body.atom(path.seed.atom)
        variable = dict(zip(atom.columns, atom.variables, strict=True))
        seeds = [AtomUse(path.seed.atom, key, tuple(map(variable.__getitem__, key.order))) for key in keys]
        seeds.sort(key=lambda use: use.key.order != seed_key.order)
        result.append(replace(path, seeds=tuple(seeds)))
    return result


def _with_variants(
    body: Body, path: DeltaPath, orders: Collection[Order], existing: Collection[ArrangementKey]
) -> DeltaPath:
    """Return the path with variants: other orders over existing arrangements.

    Steps that depend only on the seed do the same work in any order.
    """
    if any(step.variable not in body.head for step in path.steps):
        return path
    together = {step.variable for step in split_independent(path.steps)[0]} if path.steps else set()
    variants = []
    for order in (order for order in orders if order.variables[0] in together):
        variant = path_along(body, order)
        variant = with_checks(body, variant, arrangements_of([path]) if body.negated else None)
        if all(key in existing for key in variant.keys):
            variants.append(replace(variant, seeds=path.seeds))
    return replace(path, variants=tuple(variants)) if variants else path
