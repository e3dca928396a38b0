"""Plans of one rule apart from a program: all paths of a body, or one of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gpu_wcoj.join.path import DeltaPath, DeltaQuery
from gpu_wcoj.planner.body import Body
from gpu_wcoj.planner.chooser import Chooser
from gpu_wcoj.planner.draft import NOTHING, Draft, KnownRelations, RuleDraft, Setting, Strategy
from gpu_wcoj.planner.passes import PASSES, through_passes
from gpu_wcoj.planner.passes.arrangements import path_along
from gpu_wcoj.planner.passes.checks import held_by, with_checks
from gpu_wcoj.planner.passes.fuse import one_by_one
from gpu_wcoj.planner.passes.normalise import normalised
from gpu_wcoj.planner.passes.push_down import pushed_down
from gpu_wcoj.planner.passes.sort import with_sorting
from gpu_wcoj.trace.arrangement import ArrangementKey


def delta_query(
    body: Body, known: KnownRelations = NOTHING, strategy: Strategy = "auto", bag: bool = True
) -> DeltaQuery:
    """One delta path per atom of a body, negated ones first.

    Parameters
    ----------
    bag
        Whether every atom counts, also one that says nothing that another one does not say.
    """
    setting = Setting({}, _no_constants, bag=bag, known=known, strategy=strategy)
    draft = Draft(setting, (RuleDraft(body.rule.head.relation, body.rule, body),))
    passes = tuple(one for one in PASSES if one not in (normalised, pushed_down))  # which may leave no rule
    query = through_passes(draft, passes).rules[0].query
    assert query is not None
    return query


def path_from(
    body: Body,
    seed: int,
    known: KnownRelations = NOTHING,
    held: Collection[ArrangementKey] = (),
    strategy: Strategy = "auto",
    hint: Sequence[str] = (),
) -> DeltaPath:
    """The one path that starts with the rows of atom `seed`, which may be a relation of its own.

    Of the orders that begin with a variable that as many atoms reach, one that needs the fewest arrangements that are
    not `held` anyway; with a `hint` the one that begins with its variables.
    """
    orders = Chooser(body, seed, known, strategy).choose(hint)
    paths = [one_by_one(path_along(body, order), order) for order in orders]
    found = [with_checks(body, path, held_by([path]) if body.negated else None) for path in paths]
    return with_sorting(min(found, key=lambda one: len(set(one.keys).difference(held))))


def _no_constants(relation: str, column: int, value: object) -> int:
    raise AssertionError(f"a body is encoded: {relation}, {column}, {value!r}")
