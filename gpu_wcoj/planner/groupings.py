"""Plans of aggregating heads, over stored columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpu_wcoj.circuit.groups import GroupingPlan
from gpu_wcoj.data.schema import DataType
from gpu_wcoj.planner.body import Alias, BodyAtom, Encode, Shape, through_aliases
from gpu_wcoj.planner.calculations import Kinds
from gpu_wcoj.query.rules import Grouping
from gpu_wcoj.trace.arrangement import ArrangementKey


def grouping_plan(
    grouping: Grouping, shapes: Mapping[str, Shape], aliases: Mapping[str, Alias], encode: Encode, kinds: Kinds
) -> GroupingPlan:
    """Return the grouping over an arrangement of its source: group, value, other columns.

    Nulls are equal to each other in a group; rows whose value is null are not there.

    Examples
    --------
    >>> from gpu_wcoj.planner.calculations import INTEGERS
    >>> shapes = {"paid": Shape("paid", (False, True, False)), "total": Shape("total", (False, False))}
    >>> one = Grouping("total", "paid", 1, "sum")
    >>> print(grouping_plan(one, shapes, {}, lambda relation, column, value: int(value), INTEGERS).source)
    paid[0, 1, 2 | 3 = 0]
    """
    source, head = shapes[grouping.source], shapes[grouping.relation]
    keys = range(grouping.keys)
    value = None if grouping.op == "count" else grouping.keys
    flags = [flag for column in keys if (flag := source.flag(column)) is not None]
    no_value = None if value is None else source.flag(value)
    columns = [*keys, *flags, *([] if value is None else [value])]
    columns += [column for column in range(source.width) if column not in (*columns, no_value)]
    constants = () if no_value is None else ((no_value, 0),)
    names = tuple(f"#{column}" for column in columns)
    atom = through_aliases(BodyAtom(grouping.source, tuple(columns), names, constants), aliases, shapes, encode, kinds)
    n_group = len(keys) + len(flags)
    of_head = [flag for column in keys if (flag := head.flag(column)) is not None]
    assert len(of_head) == len(flags), "keys of a source and of its grouping have nulls alike"
    kind = None if value is None else kinds.column(grouping.source, value)
    return GroupingPlan(
        grouping.op,
        ArrangementKey(atom.relation, atom.columns, atom.constants, atom.equal, atom.compared),
        atom.columns[:n_group],
        None if value is None else atom.columns[n_group],
        (*keys, *of_head),
        grouping.keys,
        "integer" if kind is None else kind.family,
        *_scales(kind, kinds.column(grouping.relation, grouping.keys)),
    )


def _scales(value: DataType | None, result: DataType | None) -> tuple[int, int, int]:
    """Return the decimal scale of values, the factor to the result's scale, and the largest sum."""
    if value is None or value.family != "decimal":
        return 0, 1, 0
    if result is None or result.family != "decimal":
        return value.digits[1], 1, 0
    finer = value.factor_to(result)
    return value.digits[1], finer, result.code_range[1] // finer


def source_key(planned: GroupingPlan, needed: Sequence[ArrangementKey]) -> ArrangementKey:
    """Return the arrangement to read: one that is needed anyway, if any order will do."""
    if planned.is_extreme:
        return planned.source
    return next((key for key in needed if key.selection == planned.source.selection), planned.source)
