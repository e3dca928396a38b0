"""Plan recursive heads: each rule for an empty loop, for changes, and for derivations."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from gpu_wcoj.circuit.recursion.loop import Loop, LoopHead, loop_heads
from gpu_wcoj.circuit.recursion.plan import Best, LoopPlan, LoopRule
from gpu_wcoj.circuit.recursion.relation import RankedIndex
from gpu_wcoj.join.execution import Execution
from gpu_wcoj.join.plan import DeltaQuery
from gpu_wcoj.join.relation import RelationIndex
from gpu_wcoj.planner.body import Body, BodyAtom
from gpu_wcoj.planner.equalities import standing_for
from gpu_wcoj.planner.ir import Setting
from gpu_wcoj.planner.single import path_from
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey

NUMBER = "#row"
"""Variable that numbers the rows whose derivations are looked up."""


def loop_plan(
    bodies: Mapping[str, Sequence[tuple[Body, DeltaQuery]]],
    widths: Mapping[str, int],
    cycle: Sequence[str],
    setting: Setting,
    best: Mapping[str, Best],
) -> LoopPlan:
    """Plan a loop.

    Parameters
    ----------
    bodies
        Per head of the loop, its rules that can derive something, and the queries over rows without ranks.
    widths
        Per head, its number of stored columns.
    cycle
        A cycle of heads, from one head back to itself.
    setting
        Strategy, hints and statistics.
    best
        The heads that keep best values.
    """
    existing = {key for rules_of in bodies.values() for _, query in rules_of for key in query.keys}
    rules = []
    for head, head_rules in bodies.items():
        for rule_index, (body, query) in enumerate(head_rules):
            asking = derivation_query(head, body, setting, existing, best.get(head))
            existing.update(asking.paths[0].keys)
            rules.append(LoopRule.from_queries(head, rule_index, query, asking, widths))
    return LoopPlan(dict(widths), tuple(rules), tuple(cycle), dict(best))


def lower_loop(
    planned: LoopPlan,
    relations: Mapping[str, RelationIndex],
    histories: Mapping[str, RankedIndex],
    execution: Execution,
) -> Iterator[LoopHead]:
    """Return the heads of a loop over the relations' indices.

    `histories` are the indices of heads that keep best values.
    """
    ranked: dict[str, RankedIndex] = {}
    best: dict[str, RelationIndex] = {}
    for name in planned.widths:
        index = relations[name]
        if name in histories:
            ranked[name], best[name] = histories[name], index
        else:
            assert isinstance(index, RankedIndex)
            ranked[name] = index
    outside: dict[ArrangementKey, Arrangement] = {}
    for key in (key for key in planned.keys if key.relation not in ranked):
        outside[key] = relations[key.relation].read_by_loop(key)
    return loop_heads(Loop(planned, ranked, best, outside, execution))


def derivation_query(
    head: str,
    body: Body,
    setting: Setting,
    existing: Collection[ArrangementKey],
    best: Best | None = None,
) -> DeltaQuery:
    """Return the query from numbered rows of the head to their derivations by the rule.

    Ranks are left out. If the head keeps best values, the query goes from numbered groups to (number, value).
    `existing` are existing arrangements.
    """
    output: tuple[str | int, ...] = (NUMBER,)
    terms = list(body.head)
    if best is not None:
        output = (NUMBER, terms.pop(best.value))
    columns: list[int] = []
    variables: list[str] = []
    constants: list[tuple[int, int]] = []
    equal: list[tuple[int, int]] = []
    for column, term in enumerate(terms):
        if not isinstance(term, str):
            constants.append((column, term))
        elif term in variables:
            equal.append((columns[variables.index(term)], column))
        else:
            columns.append(column)
            variables.append(term)
    seed = BodyAtom(f"{head}#asked", (*columns, len(terms)), (*variables, NUMBER), tuple(constants), tuple(equal))
    bound = replace(body, head=output, atoms=(seed, *body.atoms))
    hint = standing_for(setting.hints.get(head, ()), body.rule)
    path = path_from(bound, 0, setting.known, existing, setting.strategy, hint)
    return DeltaQuery(str(body.rule), output, (path,), body.calculations)
