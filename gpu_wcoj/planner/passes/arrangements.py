"""Arrangements of the atoms of delta paths, with columns in binding order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpu_wcoj.join.plan import AtomUse, DeltaPath, Step
from gpu_wcoj.planner.body import Body, BodyAtom
from gpu_wcoj.planner.ir import Draft, Order, RuleDraft
from gpu_wcoj.trace.arrangement import ArrangementKey

Uses = dict[tuple[int, tuple[str, ...]], AtomUse]
"""Arrangement uses of one body, by atom index and variables in the order of the levels."""


def assign_arrangements(draft: Draft) -> Draft:
    """Give every atom of every path the arrangement that the path's order asks for.

    Examples
    --------
    >>> from tests.planner.examples import draft_program
    >>> from gpu_wcoj.planner.passes.normalise import normalise_rules
    >>> from gpu_wcoj.planner.passes.orders import order_variables
    >>> before = draft_program("h(a, c) :- r(a, b), s(b, c).", [normalise_rules, order_variables])
    >>> print(before)
    h: h(a, c) :- r(a, b), s(b, c).
      0: r(a, b)
      1: s(b, c)
      change of 0: c
      change of 1: a
    >>> print(assign_arrangements(before))
    h: h(a, c) :- r(a, b), s(b, c).
      0: r(a, b)
      1: s(b, c)
      change of 0, r[0, 1]
        c: look up 1 by s[0, 1]
      change of 1, s[0, 1]
        a: look up 0 by r[1, 0]
    """
    return draft.over(_assign)


def _assign(rule_draft: RuleDraft) -> RuleDraft:
    uses: Uses = {}
    return replace(
        rule_draft, paths=tuple([path_along(rule_draft.normalised, orders[0], uses) for orders in rule_draft.orders])
    )


def path_along(body: Body, order: Order, uses: Uses | None = None) -> DeltaPath:
    """Return the path that binds variables in this order, all atoms of a variable at once.

    `uses` are arrangement uses of the same body.
    """
    uses = {} if uses is None else uses
    start = body.atom(order.seed)
    place = {name: i for i, name in enumerate((*start.variables, *order.variables))}
    holding: dict[str, list[int]] = {name: [] for name in order.variables}
    other_uses = []
    for atom_index, atom in enumerate(body.atoms):
        if atom_index != order.seed:
            other_uses.append(use_of(atom_index, atom, place, uses))
            for name in atom.variables:
                if name in holding:
                    holding[name].append(atom_index)
    steps = tuple([Step(name, tuple(numbers)) for name, numbers in holding.items()])
    return DeltaPath((use_of(order.seed, start, place, uses),), tuple(other_uses), (), steps)


def use_of(atom_index: int, atom: BodyAtom, place: Mapping[str, int], uses: Uses) -> AtomUse:
    """Return the atom with levels in the order of `place`, from `uses` or added to them."""
    variables = tuple(sorted(atom.variables, key=place.__getitem__))
    use = uses.get((atom_index, variables))
    if use is None:
        column = dict(zip(atom.variables, atom.columns, strict=True))
        columns = tuple(map(column.__getitem__, variables))
        key = ArrangementKey(atom.relation, columns, atom.constants, atom.equal, atom.compared)
        use = uses[atom_index, variables] = AtomUse(atom_index, key, variables)
    return use
