"""Plan loops: heads that read each other, each rule once for an empty loop, once for changes and once to be asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpu_wcoj.circuit.recursion.rules import LoopPlan, LoopRule, ranked_query
from gpu_wcoj.join.path import DeltaQuery
from gpu_wcoj.planner.body import Body, BodyAtom
from gpu_wcoj.planner.orders import path_from

NUMBER = "#row"
"""The variable that numbers the rows that a rule is asked for."""


def loop_plan(
    bodies: Mapping[str, Sequence[tuple[Body, DeltaQuery]]],
    widths: Mapping[str, int],
    cycle: Sequence[str],
    sizes: Mapping[str, int],
) -> LoopPlan:
    """Plan a loop.

    Parameters
    ----------
    bodies
        Per head of the loop, its rules that can derive something, and the queries over rows without ranks.
    widths
        Per head, its stored columns.
    cycle
        The heads from one of them back to itself.
    sizes
        Rows of each relation, where known.
    """
    rules = [
        LoopRule(head, query, ranked_query(query, widths), asked_query(head, body, widths, sizes))
        for head, own in bodies.items()
        for body, query in own
    ]
    return LoopPlan(dict(widths), tuple(rules), tuple(cycle))


def asked_query(head: str, body: Body, widths: Mapping[str, int], sizes: Mapping[str, int]) -> DeltaQuery:
    """From numbered rows of the head to (number, ranks) of each of their derivations by the rule."""
    columns: list[int] = []
    variables: list[str] = []
    constants: list[tuple[int, int]] = []
    equal: list[tuple[int, int]] = []
    for column, term in enumerate(body.head):
        if not isinstance(term, str):
            constants.append((column, term))
        elif term in variables:
            equal.append((columns[variables.index(term)], column))
        else:
            columns.append(column)
            variables.append(term)
    seed = BodyAtom(
        f"{head}#asked",
        (*columns, widths[head]),
        (*variables, NUMBER),
        tuple(constants),
        tuple(equal),
    )
    bound = replace(body, head=(NUMBER,), atoms=(seed, *body.atoms))
    query = DeltaQuery(str(body.rule), (NUMBER,), (path_from(bound, 0, sizes),))
    return ranked_query(query, widths)
