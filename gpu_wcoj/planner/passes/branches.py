"""Bushy plans: take independent steps of a path as branches."""

from __future__ import annotations

import operator
from dataclasses import replace

from gpu_wcoj.join.plan import Branch, DeltaPath, Step
from gpu_wcoj.planner.brackets import ways_of
from gpu_wcoj.planner.bushy import BEGUN, CHANGES
from gpu_wcoj.planner.cost import Estimator
from gpu_wcoj.planner.expected import Foreseen
from gpu_wcoj.planner.ir import CatalogReader, Draft, RuleDraft
from gpu_wcoj.planner.join_order import MAX_ATOMS

CLEARLY = 0.8
"""Cost ratio: branches are used if listing costs less than this share of listing without them."""


def make_bushy(draft: Draft) -> Draft:
    r"""Take independent steps as branches where that lowers the expected cost of listing rows.

    Steps that do not depend on each other after some step can run separately, each for its distinct prefixes, before
    their rows are joined. The pass considers every step: the independent parts of all later steps, or of the longest
    run of next steps that has at least two parts. A part that can drop nothing does not become a branch. Orders within
    each part are unchanged; ``wcoj``, hinted rules, and paths that already have branches are unchanged.

    Examples
    --------
    >>> from gpu_wcoj.planner.passes import PASSES, make_bushy
    >>> from tests.planner.examples import draft_program
    >>> text = "h(a, b, x, u, y, v) :- f(a, b), d(a, x), g(x, u), k(u), d(b, y), g(y, v), k(v)."
    >>> sizes = {"f": 10_000, "d": 400, "g": 400, "k": 3}
    >>> before = draft_program(text, PASSES[: PASSES.index(make_bushy)], sizes=sizes)
    >>> print("\n".join(str(before).splitlines()[8:13]))
      change of 0, f[0, 1] or f[1, 0]
        x: intersect 1 by d[0, 1] with 2 by g[0, 1]
        u: intersect 2 by g[0, 1] with 3 by k[0]
        y: intersect 4 by d[0, 1] with 5 by g[0, 1]
        v: intersect 5 by g[0, 1] with 6 by k[0]
    >>> print("\n".join(str(make_bushy(before)).splitlines()[8:15]))
      change of 0, f[0, 1] or f[1, 0]
        branch
          x: intersect 1 by d[0, 1] with 2 by g[0, 1]
          u: intersect 2 by g[0, 1] with 3 by k[0]
        branch
          y: intersect 4 by d[0, 1] with 5 by g[0, 1]
          v: intersect 5 by g[0, 1] with 6 by k[0]
    """
    setting = draft.setting
    if setting.strategy == "wcoj":
        return draft
    rules, candidates = [], draft.candidates
    for rule_draft in draft.rules:
        if rule_draft.head in setting.hints or len(rule_draft.normalised.atoms) > MAX_ATOMS:
            rules.append(rule_draft)
            continue
        paths, foreseen = list(rule_draft.paths), list(rule_draft.foreseen)
        for path_index, (path, flat) in enumerate(zip(paths, foreseen, strict=True)):
            if flat is not None and not path.branches:
                paths[path_index], foreseen[path_index], looked_at = _choose_branches(
                    path, flat, rule_draft, setting.known
                )
                candidates += looked_at
        is_same = all(map(operator.is_, paths, rule_draft.paths))
        rules.append(rule_draft if is_same else replace(rule_draft, paths=tuple(paths), foreseen=tuple(foreseen)))
    return replace(draft.with_rules(rules), candidates=candidates)


def _choose_branches(
    path: DeltaPath, flat: Foreseen, rule_draft: RuleDraft, catalog: CatalogReader
) -> tuple[DeltaPath, Foreseen, int]:
    """Return the path with branches if they pay, its estimates, and the number of candidates."""
    kept_names = {term for term in rule_draft.normalised.head if isinstance(term, str)}
    first = path.steps[: path.depth_of(kept_names)]
    if not first or CLEARLY * flat.listing <= BEGUN / CHANGES:
        return path, flat, 0
    ways = [way for way in dict.fromkeys(ways_of(first)) if len(way[1]) > 1 or _hides(path, *way)]
    if not ways:
        return path, flat, 0
    estimator = Estimator.of_path(path, catalog)
    later_steps = path.steps[len(first) :]
    costs = [estimator.over((*steps, *later_steps), branches) for steps, branches in ways]
    cheapest = min(costs, key=lambda way: way.listing)
    if cheapest.listing >= CLEARLY * flat.listing:
        return path, flat, len(ways)
    steps, branches = ways[costs.index(cheapest)]
    return replace(path, steps=(*steps, *later_steps), branches=branches), cheapest, len(ways)


def _hides(path: DeltaPath, steps: tuple[Step, ...], branches: tuple[Branch, ...]) -> bool:
    """Return True if a branch reads fewer variables than are bound before it."""
    (branch,) = branches
    branch_steps = steps[branch.begin : branch.end]
    seen = {
        name
        for use in path.other_atoms
        if any(use.atom in step.atoms for step in branch_steps)
        for name in use.variables
    }
    seen = seen.union(*(step.read_variables for step in branch_steps))
    return not seen.issuperset((*path.seed.variables, *(step.variable for step in steps[: branch.begin])))
