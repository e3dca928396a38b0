"""Plans of a single rule: all delta paths of a body, or one of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gpu_wcoj.join.plan import DeltaPath, DeltaQuery
from gpu_wcoj.planner.body import Body
from gpu_wcoj.planner.ir import EMPTY_CATALOG, CatalogReader, Draft, RuleDraft, Setting, Strategy
from gpu_wcoj.planner.join_order import Chooser
from gpu_wcoj.planner.passes import PASSES, run_passes
from gpu_wcoj.planner.passes.arrange import arrangements_of, with_checks
from gpu_wcoj.planner.passes.arrangements import path_along
from gpu_wcoj.planner.passes.fuse import with_lookups
from gpu_wcoj.planner.passes.normalise import normalise_rules
from gpu_wcoj.planner.passes.simplify import push_down_predicates
from gpu_wcoj.planner.passes.sort import with_sorting
from gpu_wcoj.trace.arrangement import ArrangementKey


def delta_query(
    body: Body, catalog: CatalogReader = EMPTY_CATALOG, strategy: Strategy = "auto", bag: bool = True
) -> DeltaQuery:
    """Return one delta path per atom of a body, negated ones first.

    Parameters
    ----------
    bag
        If True, every atom counts, also an atom that another atom implies.
    """
    setting = Setting({}, _no_constants, bag=bag, known=catalog, strategy=strategy)
    draft = Draft(setting, (RuleDraft(body.rule.head.relation, body.rule, body),))
    passes = tuple(
        planner_pass for planner_pass in PASSES if planner_pass not in (normalise_rules, push_down_predicates)
    )  # these may drop the rule
    query = run_passes(draft, passes).rules[0].query
    assert query is not None
    return query


def path_from(
    body: Body,
    seed: int,
    catalog: CatalogReader = EMPTY_CATALOG,
    existing: Collection[ArrangementKey] = (),
    strategy: Strategy = "auto",
    hint: Sequence[str] = (),
) -> DeltaPath:
    """Return the path that starts with the rows of atom `seed`, maybe a separate relation.

    Of the orders that begin with a variable that as many atoms reach, the result needs the fewest arrangements beyond
    those in `existing`; with a `hint`, it begins with the variables of the hint.
    """
    orders = Chooser(body, seed, catalog, strategy).choose(hint)
    paths = [with_lookups(path_along(body, order), order) for order in orders]
    candidates = [with_checks(body, path, arrangements_of([path]) if body.negated else None) for path in paths]
    return with_sorting(min(candidates, key=lambda one: len(set(one.keys).difference(existing))))


def _no_constants(relation: str, column: int, value: object) -> int:
    raise AssertionError(f"a body is encoded: {relation}, {column}, {value!r}")
