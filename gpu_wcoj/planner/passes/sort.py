"""Sort orders of the seeds of paths."""

from __future__ import annotations

from dataclasses import replace

from gpu_wcoj.join.plan import DeltaPath
from gpu_wcoj.planner.ir import Draft


def sort_seeds(draft: Draft) -> Draft:
    r"""Sort seeds by the variables whose ranges later steps search.

    Examples
    --------
    >>> from gpu_wcoj.planner.passes.arrangements import assign_arrangements
    >>> from tests.planner.examples import draft_program
    >>> from gpu_wcoj.planner.passes.normalise import normalise_rules
    >>> from gpu_wcoj.planner.passes.orders import order_variables
    >>> text = "h(a, b, c, d) :- r(a, b), r(b, c), r(a, c), r(c, d), r(a, d)."
    >>> before = draft_program(text, [normalise_rules, order_variables, assign_arrangements])
    >>> print("\n".join(str(before).splitlines()[6:9]))
      change of 0, r[0, 1]
        c: intersect 1 by r[0, 1] with 2 by r[0, 1] with 3 by r[0, 1]
        d: intersect 3 by r[0, 1] with 4 by r[0, 1]
    >>> print("\n".join(str(sort_seeds(before)).splitlines()[6:9]))
      change of 0, r[0, 1], sorted by a
        c: intersect 1 by r[0, 1] with 2 by r[0, 1] with 3 by r[0, 1]
        d: intersect 3 by r[0, 1] with 4 by r[0, 1]
    """
    return draft.over(lambda one: replace(one, paths=tuple(map(with_sorting, one.paths))))


def with_sorting(path: DeltaPath) -> DeltaPath:
    """Return the path with seeds sorted by variables of shared ranges; deeper steps weigh more."""
    first = _sort_first(path)
    if first == path.sort_first:  # the variants have the same
        return path
    variants = tuple(replace(variant, sort_first=first) for variant in path.variants)
    return replace(path, sort_first=first, variants=variants)


def _sort_first(path: DeltaPath) -> tuple[str, ...]:
    # The order of the variables in the atom, whatever arrangement its change comes from.
    seed = path.seed.variables
    if len(seed) < 2:
        return ()
    by_number = {use.atom: use for use in path.other_atoms}
    bound = set(seed)
    score = dict.fromkeys(seed, 0)
    for depth, step in enumerate(path.steps, 1):
        if len(step.atoms) > 1:
            for atom_index in step.atoms:
                reached = bound.intersection(by_number[atom_index].variables)
                if len(reached) == 1 and not reached.isdisjoint(seed):
                    score[reached.pop()] += 4**depth
        bound.add(step.variable)
    best = max(score.values())
    return tuple([name for name in seed if score[name] == best]) if best else ()
