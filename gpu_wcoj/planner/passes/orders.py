"""Variable orders of delta paths."""

from __future__ import annotations

from dataclasses import replace

from gpu_wcoj.planner.bits import Bits
from gpu_wcoj.planner.equalities import standing_for
from gpu_wcoj.planner.ir import Draft
from gpu_wcoj.planner.join_order import Chooser, ImageEstimates
from gpu_wcoj.planner.symmetry import symmetry_of
from gpu_wcoj.planner.worked import SharedCosts


def order_variables(draft: Draft) -> Draft:
    """Choose a variable order for every atom of a body as the seed, negated ones first.

    A path binds its seed's variables, then, one by one, the variable that the most atoms already reach (the most
    constrained); ties go to a variable that the head keeps, then to a variable of the smallest relation, then to the
    first in the body. With statistics, that order is compared with others, one per possible first variable, continued
    greedily by expected rows, and replaced by an order that is clearly cheaper. ``binary`` orders atoms one after the
    other instead, each with all of its variables: one order per possible first atom is compared. ``auto`` compares
    these, too: as they are, with all atoms at once at the levels where that is cheaper, and with all atoms at once
    everywhere.

    Hinted variables are bound first, in the order of the hint.

    Automorphic atoms (see `gpu_wcoj.planner.symmetry`) cost the same: the orders of one of them are compared, and the
    others use the images of its order, unless the head keeps other variables of them.

    At most atoms squared times variables orders are compared.

    Examples
    --------
    >>> from tests.planner.examples import draft_program
    >>> from gpu_wcoj.planner.passes.normalise import normalise_rules
    >>> text = "h(a, b, c, d) :- r(a, b), s(b, c), t(c, d)."
    >>> before = draft_program(text, [normalise_rules])
    >>> print(before)
    h: h(a, b, c, d) :- r(a, b), s(b, c), t(c, d).
      0: r(a, b)
      1: s(b, c)
      2: t(c, d)
    >>> print(order_variables(before))
    h: h(a, b, c, d) :- r(a, b), s(b, c), t(c, d).
      0: r(a, b)
      1: s(b, c)
      2: t(c, d)
      change of 0: c, d
      change of 1: a, d
        or d, a
      change of 2: b, a
    >>> print(order_variables(draft_program(text, [normalise_rules], strategy="binary")).rules[0].orders[1][0])
    change of 1: a by 0, d by 2
    >>> print(order_variables(draft_program(text, [normalise_rules], order={"h": ["d", "a"]})).rules[0].orders[1][0])
    change of 1: d, a
    """
    rules, candidates = [], draft.candidates
    for rule_draft in draft.rules:
        body, renaming = rule_draft.normalised, symmetry_of(rule_draft.normalised)
        hint = standing_for(draft.setting.hints.get(rule_draft.head, ()), rule_draft.rule)
        kept_names = set(body.head)
        choosers: dict[int, Chooser] = {}
        shared_costs = SharedCosts(Bits.of_body(body))
        for seed in range(-len(body.negated), len(body.atoms)):
            image = None if renaming is None or hint else renaming.onto(seed)
            like = None if image is None else ImageEstimates(choosers[image.first], image)
            choosers[seed] = Chooser(body, seed, draft.setting.known, draft.setting.strategy, like, shared_costs)
        orders, foreseen = [], []
        for chooser in choosers.values():
            chosen = chooser.choose(hint, only_best=not kept_names.issuperset(chooser.rest))
            orders.append(chosen)
            foreseen.append(chooser.foreseen(chosen[0]))
            candidates += chooser.candidates
        rules.append(replace(rule_draft, orders=tuple(orders), foreseen=tuple(foreseen), renaming=renaming))
    return replace(draft, rules=tuple(rules), candidates=candidates)
