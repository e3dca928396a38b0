"""Calculations of rules on codes: types of arguments and results, encoded constants."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Protocol

import numpy as np

from gpu_wcoj.data.column import without_zero_signs
from gpu_wcoj.data.schema import INT64, DataType
from gpu_wcoj.join.plan import Calculation, Formula
from gpu_wcoj.planner.equalities import Resolve
from gpu_wcoj.planner.nulls import Nulls
from gpu_wcoj.planner.results import BOOL, STRING, decimal_kind, result_of
from gpu_wcoj.query.constant_folding import is_spelled
from gpu_wcoj.query.ir import COMPARING, MIRRORED, NULL, Call, Constant, Expression, Term, Variable
from gpu_wcoj.query.rules import Computed, Rule


class EncodeValue(Protocol):
    """Encoder of constants in a column of a type."""

    def __call__(self, kind: DataType | None, value: object, op: str = "", /) -> int:
        """Return the code; with `op`, a code that gives the same comparison."""
        ...


@dataclass(frozen=True)
class Kinds:
    """Types of variables and of columns.

    Attributes
    ----------
    of
        Map a rule to the known types of its variables, by name.
    encode
        Map (type, value) to the code of the value; see `EncodeValue`.
    column
        Map (relation, column) to the type of the column.
    signed
        Map a rule to the names of its variables that keep the sign of a zero.
    """

    of: Callable[[Rule], Mapping[str, DataType | None]]
    encode: EncodeValue
    column: Callable[[str, int], DataType | None]
    signed: Callable[[Rule], Collection[str]] = lambda _: ()


def _whole_number(kind: DataType | None, value: object, op: str = "", /) -> int:  # noqa: ARG001  # as it is called
    assert isinstance(value, int)
    return int(value)


INTEGERS = Kinds(lambda _: {}, _whole_number, lambda _, __: None)
"""Types of a program in which every column is an integer."""


def calculation_of(
    computed: Computed,
    terms: Sequence[Term],
    types: Mapping[str, DataType | None],
    kinds: Kinds,
    equated: Collection[str | int],
    signed: Collection[str] = (),
) -> Calculation:
    """Return a calculation on codes.

    Parameters
    ----------
    terms
        Terms that the call's arguments resolve to.
    types
        Types of variables, by name.
    equated
        The names of variables that the rule compares by ``=`` with uncalculated variables.
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
    drops = name in equated and result.family == "integer" and call.op in ("+", "-", "*")
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
        max_code=result.code_range[1] if result.family == "decimal" else 0,
        per_day=of_arguments[0].per_day if call.op in ("year", "month", "day") else 1,
        keeps_zero_sign=name in signed,
    )


def formula_of(
    computed: Computed,
    resolve: Resolve,
    nulls: Nulls,
    types: Mapping[str, DataType | None],
    kinds: Kinds,
    signed: Collection[str] = (),
) -> list[Calculation]:
    """Return a null-aware calculation on codes, and that of its null flag where it may be null.

    Parameters
    ----------
    resolve
        Map a variable of the call to its term; null where the rule requires null.
    signed
        The names of variables that keep the sign of a zero.
    """
    name = computed.variable.name
    translation = _Translation(resolve, nulls, types, kinds)
    result = types.get(name) or INT64
    formula = translation.formula(computed.call, result)
    arguments = tuple(translation.arguments)
    made = Calculation(
        name, "formula", arguments, ("integer",) * len(arguments), result.family, formula=formula, text=computed.call,
        keeps_zero_sign=name in signed,
    )  # fmt: skip
    flag = nulls.flags.get(name) or nulls.dropped.get(name)
    return [made] if flag is None else [made, replace(made, variable=flag, op="flag", family="integer")]


class _Translation:
    """Translate expressions to formulas over arguments that are read once each."""

    def __init__(self, resolve: Resolve, nulls: Nulls, types: Mapping[str, DataType | None], kinds: Kinds) -> None:
        self.resolve = resolve
        self.nulls = nulls
        self.types = types
        self.kinds = kinds
        self.arguments: dict[str, int] = {}
        self._of_calls: dict[int, tuple[Expression, DataType | None]] = {}  # by id(), as a hash reads the whole call

    def term(self, expression: Expression) -> Expression:
        """Return the expression, or the term that a variable resolves to."""
        return expression if isinstance(expression, Call) else self.resolve(expression)

    def kind(self, expression: Expression) -> DataType | None:
        """Return the type of an expression; None if it takes the type of its context."""
        if is_spelled(expression):
            return None
        if isinstance(expression, Variable):
            term = self.resolve(expression)
            return self.types.get(expression.name) if term != NULL else None
        return self._of_value(expression)

    def _of_value(self, value: Expression) -> DataType | None:
        """Return the type of a value, by the types of its variables; that of a call is cached."""
        if isinstance(value, Variable):
            return self.types.get(value.name) or INT64
        if not isinstance(value, Call):
            return None
        cached = self._of_calls.get(id(value))
        if cached is None:
            cached = value, result_of(value, list(map(self._of_value, value.arguments)), "")
            self._of_calls[id(value)] = cached
        return cached[1]

    def known_kind(self, expression: Expression) -> DataType:
        """Return the type of an expression without context."""
        return STRING if is_spelled(expression) else self.kind(expression) or INT64

    def formula(self, expression: Expression, expected: DataType, op: str = "") -> Formula:
        """Return the formula of an expression; constants are encoded in the expected type for `op`."""
        term = self.term(expression)
        if isinstance(term, Constant):
            code = None if term == NULL else self.kinds.encode(expected, term.value, op)
            return Formula("constant", code=code)
        if isinstance(term, Variable):
            flag = self.nulls.flags.get(term.name)
            return Formula(
                "column", place=self._place(term.name), flag=-1 if flag is None else self._place(flag)
            )  # fmt: skip
        assert isinstance(term, Call)
        if term.op in COMPARING:
            return self._compared(term)
        if term.op == "among":
            return self._among(term)
        if term.op in ("all", "any", "istrue"):
            return Formula(term.op, tuple(self.formula(argument, BOOL) for argument in term.arguments))
        if term.op == "isnull":
            (value,) = term.arguments
            return Formula(term.op, (self.formula(value, self.known_kind(value)),))
        if term.op == "case":
            n_paired = len(term.arguments) // 2 * 2
            return Formula("case", tuple(
                self.formula(argument, BOOL) if i % 2 == 0 and i < n_paired else self._scaled(argument, expected)
                for i, argument in enumerate(term.arguments)
            ))  # fmt: skip
        if term.op == "cat" and len(term.arguments) > 2:
            first = Call("cat", term.arguments[:2])
            return self.formula(Call("cat", (first, *term.arguments[2:])), expected)
        return self._calculated(term)

    def _place(self, name: str) -> int:
        return self.arguments.setdefault(name, len(self.arguments))

    def _calculated(self, call: Call) -> Formula:
        """Return the formula of a calculation whose arguments are not null where it is evaluated."""
        result = self.kind(call) or INT64
        names = [Variable(f"#{i}") for i in range(len(call.arguments))]
        types: dict[str, DataType | None] = {"#": result}
        terms: list[Term] = []
        parts = []
        for name, argument in zip(names, call.arguments, strict=True):
            term = self.term(argument)
            if term == NULL:
                return Formula("constant")
            if isinstance(term, Constant):
                terms.append(term)
                kind = _kind_of_constant(term.value, result)
            else:
                terms.append(name)
                kind = types[name.name] = self.known_kind(argument)
            parts.append(self.formula(argument, kind))
        made = calculation_of(Computed(Variable("#"), call), terms, types, self.kinds, (), ("#",))
        return Formula("call", tuple(parts), calculation=made)

    def _compared(self, call: Call) -> Formula:
        left, right = call.arguments
        op = COMPARING[call.op]
        kinds = [self.kind(left), self.kind(right)]
        common = _common(kinds) if any(kinds) else self.known_kind(left if is_spelled(left) else right)
        family = common.family if common.has_dictionary and op not in ("=", "!=") else ""
        parts = []
        for side, mirrored in ((left, MIRRORED[op]), (right, op)):
            is_constant = isinstance(self.term(side), Constant) or is_spelled(side)
            part = self.formula(side, common, mirrored) if is_constant else self._scaled(side, common)
            parts.append(_with_one_zero(part, common))
        return Formula(op, tuple(parts), family=family)

    def _among(self, call: Call) -> Formula:
        value, *listed = call.arguments
        terms = [self.term(value) for value in listed]
        constants = [term for term in terms if isinstance(term, Constant)]
        if len(constants) < len(terms) or isinstance(self.term(value), Constant):
            return self.formula(Call("any", tuple(Call("eq", (value, choice)) for choice in listed)), BOOL)
        kind = self.known_kind(value)
        codes = [self.kinds.encode(kind, constant.value, "=") for constant in constants if constant != NULL]
        if kind.family.startswith("float"):
            codes = without_zero_signs(np.array(codes, np.int64)).tolist()
        part = _with_one_zero(self.formula(value, kind), kind)
        return Formula("among", (part,), codes=tuple(sorted(set(codes))), has_null=NULL in constants)

    def _scaled(self, expression: Expression, expected: DataType) -> Formula:
        """Return the formula of an expression, rescaled to the scale of an expected decimal type."""
        formula = self.formula(expression, expected)
        term = self.term(expression)
        kind = None if isinstance(term, Constant) else self.kind(expression)
        if expected.family != "decimal" or kind is None or _scale_of(kind) == _scale_of(expected):
            return formula
        made = Calculation(
            "#", "scale", ("#0",), (kind.family,), "decimal", scales=(_scale_of(kind),), scale=_scale_of(expected),
            max_code=_MOST,
        )  # fmt: skip
        return Formula("call", (formula,), calculation=made)


def _with_one_zero(part: Formula, kind: DataType) -> Formula:
    """Return the operand of a comparison with -0.0 replaced by 0.0."""
    if not kind.family.startswith("float") or part.op == "column":
        return part
    if part.op == "constant":
        return part if part.code is None else replace(part, code=int(without_zero_signs(np.array([part.code]))[0]))
    return Formula("call", (part,), calculation=Calculation("#", "double", ("#0",), (kind.family,), kind.family))


def _common(kinds: Sequence[DataType | None]) -> DataType:
    """Return the type in which two values are compared."""
    typed = [kind for kind in kinds if kind is not None]
    if len(typed) < 2:
        return typed[0] if typed else INT64
    left, right = typed
    if "decimal" in (left.family, right.family):
        return max(typed, key=_scale_of)
    return left


def comparable(
    left: str, right: str, types: Mapping[str, DataType | None], calculations: list[Calculation]
) -> tuple[str, str]:
    """Return the names of two operands; of decimals, the coarser is rescaled to the finer scale.

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
    finest = max(scales)
    for i, (scale, kind) in enumerate(zip(scales, kinds, strict=True)):
        if scale == finest:
            continue
        finer = f"{names[i]}*10^{finest - scale}"
        if all(calculation.variable != finer for calculation in calculations):
            calculations.append(
                Calculation(
                    finer,
                    "scale",
                    (names[i],),
                    (kind.family,),
                    "decimal",
                    scales=(scale,),
                    scale=finest,
                    max_code=_MOST,
                )
            )
        names[i] = finer
    return names[0], names[1]


_MOST = (1 << 63) - 1
"""Largest int64 code."""


def _scale_of(kind: DataType) -> int:
    return kind.digits[1] if kind.family == "decimal" else 0


def _kind_of_constant(value: object, result: DataType) -> DataType:
    """Return the type of a constant; a number takes the result's type if that is a float."""
    if isinstance(value, str):
        return DataType("string")
    if result.family.startswith("float"):
        return result
    if isinstance(value, (float, Decimal)):
        return decimal_kind(value) if result.family == "decimal" else DataType("double")
    return INT64
