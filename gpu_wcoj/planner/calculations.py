"""What rules calculate, on codes: types of arguments and results, constants encoded."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from gpu_wcoj.join.path import Calculation, Condition
from gpu_wcoj.planner.results import decimal_kind
from gpu_wcoj.query.rules import Computed, Rule
from gpu_wcoj.query.terms import Term, Variable
from gpu_wcoj.schema import INT64, DataType


class EncodeValue(Protocol):
    """A constant's code in a column of a type."""

    def __call__(self, kind: DataType | None, value: object, op: str = "", /) -> int:
        """The code; where the constant is compared by `op`, one of which the comparison says the same."""
        ...


@dataclass(frozen=True)
class Kinds:
    """Types of variables and of columns.

    Attributes
    ----------
    of
        The type of each variable of a rule, by name, as far as types are known.
    encode
        (type, value) to the code of the value; see `EncodeValue`.
    column
        The type of a relation's column.
    signed
        The variables of a rule, by name, that keep the sign of a zero.
    """

    of: Callable[[Rule], Mapping[str, DataType | None]]
    encode: EncodeValue
    column: Callable[[str, int], DataType | None]
    signed: Callable[[Rule], Collection[str]] = lambda _: ()


def _whole_number(kind: DataType | None, value: object, op: str = "", /) -> int:  # noqa: ARG001  # as it is called
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
    signed: Collection[str] = (),
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
    signed
        The names of variables that keep the sign of a zero.
    """
    name, call = computed.variable.name, computed.call
    arguments: list[str | int] = []
    of_arguments: list[DataType] = []
    result = types.get(name) or INT64
    for term in terms:
        if isinstance(term, Variable):
            kind = types.get(term.name) or INT64
            arguments.append(term.name)
        else:
            kind = _kind_of_constant(term.value, result)
            arguments.append(kinds.encode(kind, term.value))
        of_arguments.append(kind)
    is_equal = any(
        one.op == "=" and name in (one.variable, one.other) and not {one.variable, one.other}.issubset(calculated)
        for one in conditions
    )
    drops = is_equal and result.family == "integer" and call.op in ("+", "-", "*")
    families = tuple(kind.family for kind in of_arguments)
    return Calculation(
        name,
        call.op,
        tuple(arguments),
        families,
        result.family,
        drops,
        scales=tuple(map(_scale_of, of_arguments)) if "decimal" in (*families, result.family) else (),
        scale=_scale_of(result),
        most=result.code_range[1] if result.family == "decimal" else 0,
        per_day=of_arguments[0].per_day if call.op in ("year", "month", "day") else 1,
        keeps_zero_sign=name in signed,
    )


def comparable(
    left: str, right: str, types: Mapping[str, DataType | None], calculations: list[Calculation]
) -> tuple[str, str]:
    """What is compared in the place of two variables: where decimals have another scale, the coarser is brought to it.

    Examples
    --------
    >>> types = {"x": DataType("decimal128(5, 2)"), "y": INT64}
    >>> more = []
    >>> comparable("x", "y", types, more), *map(str, more)
    (('x', 'y*10^2'), 'y*10^2 = scale(y)')
    """
    kinds = [types.get(left) or INT64, types.get(right) or INT64]
    if "decimal" not in {kind.family for kind in kinds}:
        return left, right
    scales = list(map(_scale_of, kinds))
    names = [left, right]
    most = max(scales)
    for i, (scale, kind) in enumerate(zip(scales, kinds, strict=True)):
        if scale == most:
            continue
        finer = f"{names[i]}*10^{most - scale}"
        if all(one.variable != finer for one in calculations):
            calculations.append(
                Calculation(
                    finer, "scale", (names[i],), (kind.family,), "decimal", scales=(scale,), scale=most, most=_MOST
                )
            )
        names[i] = finer
    return names[0], names[1]


_MOST = (1 << 63) - 1


def _scale_of(kind: DataType) -> int:
    return kind.digits[1] if kind.family == "decimal" else 0


def _kind_of_constant(value: object, result: DataType) -> DataType:
    """A number is of the result's type where that is one of floats."""
    if isinstance(value, str):
        return DataType("string")
    if result.family.startswith("float"):
        return result
    if isinstance(value, (float, Decimal)):
        return decimal_kind(value) if result.family == "decimal" else DataType("double")
    return INT64
