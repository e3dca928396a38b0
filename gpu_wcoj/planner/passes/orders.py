"""The order in which each delta path binds its variables."""

from __future__ import annotations

from dataclasses import replace

from gpu_wcoj.planner.bits import Bits
from gpu_wcoj.planner.chooser import Chooser, Like
from gpu_wcoj.planner.draft import Draft
from gpu_wcoj.planner.equalities import standing_for
from gpu_wcoj.planner.symmetry import symmetry_of
from gpu_wcoj.planner.worked import Worked


def ordered(draft: Draft) -> Draft:
    """Choose an order for every atom of a body as the seed, negated ones first.

    A path binds its seed's variables, then, one by one, the variable that most atoms already reach (the most
    constrained), of these one that the head keeps, of these one in the smallest relation, of these the first in the
    body. Where relations are known, that order is compared with others, one per variable that may come first and then
    greedily by expected rows, and left for one that is clearly cheaper. ``binary`` takes atoms one after the other
    instead, each with all of its variables: orders are compared by the atom that comes first. ``auto`` compares these,
    too: as they are, with all atoms at once at the levels where that is cheaper, and with all atoms at once everywhere.

    Hints come first: their variables are bound in the order given, all others after them.

    Atoms that are each other's images (see `gpu_wcoj.planner.symmetry`) cost the same: of these, the orders of one are
    compared, and those of the others are its images, but where the head keeps other variables of them.

    No more than atoms squared times variables orders are looked at.

    Examples
    --------
    >>> from gpu_wcoj.planner.passes.examples import drafted
    >>> from gpu_wcoj.planner.passes.normalise import normalised
    >>> text = "h(a, b, c, d) :- r(a, b), s(b, c), t(c, d)."
    >>> before = drafted(text, [normalised])
    >>> print(before)
    h: h(a, b, c, d) :- r(a, b), s(b, c), t(c, d).
      0: r(a, b)
      1: s(b, c)
      2: t(c, d)
    >>> print(ordered(before))
    h: h(a, b, c, d) :- r(a, b), s(b, c), t(c, d).
      0: r(a, b)
      1: s(b, c)
      2: t(c, d)
      change of 0: c, d
      change of 1: a, d
        or d, a
      change of 2: b, a
    >>> print(ordered(drafted(text, [normalised], strategy="binary")).rules[0].orders[1][0])
    change of 1: a by 0, d by 2
    >>> print(ordered(drafted(text, [normalised], order={"h": ["d", "a"]})).rules[0].orders[1][0])
    change of 1: d, a
    """
    rules, candidates = [], draft.candidates
    for one in draft.rules:
        body, renaming = one.normalised, symmetry_of(one.normalised)
        hint = standing_for(draft.setting.hints.get(one.head, ()), one.rule)
        kept = set(body.head)
        choosers: dict[int, Chooser] = {}
        worked = Worked(Bits.of_body(body))
        for seed in range(-len(body.negated), len(body.atoms)):
            image = None if renaming is None or hint else renaming.onto(seed)
            like = None if image is None else Like(choosers[image.first], image)
            choosers[seed] = Chooser(body, seed, draft.setting.known, draft.setting.strategy, like, worked)
        orders, foreseen = [], []
        for chooser in choosers.values():
            found = chooser.choose(hint, alone=not kept.issuperset(chooser.rest))
            orders.append(found)
            foreseen.append(chooser.foreseen(found[0]))
            candidates += chooser.candidates
        rules.append(replace(one, orders=tuple(orders), foreseen=tuple(foreseen), renaming=renaming))
    return replace(draft, rules=tuple(rules), candidates=candidates)
