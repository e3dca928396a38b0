"""Drafts for the examples of passes: integers without nulls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gpu_wcoj.planner.body import Shape
from gpu_wcoj.planner.catalog import Catalog
from gpu_wcoj.planner.ir import Draft, RuleDraft, Setting, Strategy
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.desugar import desugar


def draft_program(
    text: str,
    passes: Sequence[Callable[[Draft], Draft]] = (),
    *,
    strategy: Strategy = "auto",
    order: Mapping[str, Sequence[str]] | None = None,
    sizes: Mapping[str, float] | None = None,
    keys: Mapping[str, Sequence[int]] | None = None,
    bag: bool = False,
    single_tick: bool = False,
) -> Draft:
    """Return the draft of a program after some passes.

    `sizes` are rows of relations, `keys` are their key columns.

    Examples
    --------
    >>> print(draft_program("h(x) :- r(x, y)."))
    h: h(x) :- r(x, y).
    """
    rules = desugar(parse(text))
    shapes = {name: Shape(name, (False,) * arity) for name, arity in rules.arity.items()}
    best = {extreme.relation: extreme.column for extreme in rules.extremes}
    catalog = Catalog.from_sizes(sizes or {}, keys)
    setting = Setting(
        shapes, _encode, bag=bag, strategy=strategy, hints=order or {}, known=catalog, best=best, auxiliaries=(),
        single_tick=single_tick,
    )  # fmt: skip
    draft = Draft(setting, tuple(RuleDraft(rule.head.relation, rule) for rule in rules.rules))
    for planner_pass in passes:
        draft = planner_pass(draft)
    return draft


def _encode(relation: str, column: int, value: object) -> int:  # as `Encode` is called
    assert isinstance(value, int)
    return value
