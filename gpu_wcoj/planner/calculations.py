"""What rules calculate, on codes: types of arguments and results, constants encoded."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from gpu_wcoj.join.path import Calculation, Condition
from gpu_wcoj.query.terms import Computed, Rule, Term, Variable
from gpu_wcoj.schema import INT64, DataType


@dataclass(frozen=True)
class Kinds:
    """Types of variables and of columns.

    Attributes
    ----------
    of
        The type of each variable of a rule, by name, as far as types are known.
    encode
        (type, value) to the code of the value.
    column
        The type of a relation's column.
    """

    of: Callable[[Rule], Mapping[str, DataType | None]]
    encode: Callable[[DataType | None, object], int]
    column: Callable[[str, int], DataType | None]


def _whole_number(kind: DataType | None, value: object) -> int:  # noqa: ARG001  # as `Kinds.encode` is called
    assert isinstance(value, int)
    return int(value)


INTEGERS = Kinds(lambda _: {}, _whole_number, lambda _, __: None)
"""Everything is an integer."""


def calculation_of(
    computed: Computed,
    terms: Sequence[Term],
    types: Mapping[str, DataType | None],
    kinds: Kinds,
    conditions: Sequence[Condition],
    calculated: Collection[str],
) -> Calculation:
    """A calculation on codes.

    Parameters
    ----------
    terms
        What stands for the call's arguments.
    types
        Of variables, by name.
    conditions, calculated
        Of the rule: all comparisons, and the names of what is calculated.
    """
    name = computed.variable.name
    arguments: list[str | int] = []
    families: list[str] = []
    result = types.get(computed.variable.name) or INT64
    for term in terms:
        if isinstance(term, Variable):
            kind = types.get(term.name) or INT64
            arguments.append(term.name)
        else:
            kind = _kind_of_constant(term.value, result)
            arguments.append(kinds.encode(kind, term.value))
        families.append(kind.family)
    is_equal = any(
        one.op == "=" and name in (one.variable, one.other) and not {one.variable, one.other}.issubset(calculated)
        for one in conditions
    )
    drops = is_equal and result.family == "integer" and computed.call.op in ("+", "-", "*")
    return Calculation(name, computed.call.op, tuple(arguments), tuple(families), result.family, drops)


def _kind_of_constant(value: object, result: DataType) -> DataType:
    """A number is of the result's type where that is one of floats."""
    if isinstance(value, str):
        return DataType("string")
    if result.family.startswith("float"):
        return result
    return DataType("double") if isinstance(value, float) else INT64
