"""Types of calculations and aggregates, from the types of their arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

from gpu_wcoj.data.schema import INT64, MAX_DIGITS, DataType, decimal_of
from gpu_wcoj.errors import TypeMismatchError
from gpu_wcoj.query.constant_folding import is_spelled
from gpu_wcoj.query.ir import CHECKED, COMPARING, NULL_AWARE, Call, Constant, Expression, Variable

BOOL = DataType("bool")
DOUBLE = DataType("double")
STRING = DataType("string")

_NUMBERS = "Numbers are integers, decimals or floats; cast the column, or declare it as int64 or double."
_NUMBER_FAMILIES = ("integer", "decimal", "float32", "float64")
_OF_TEXT = {
    **dict.fromkeys(("cat", "substr", "lower", "upper", "downcase", "upcase"), STRING), "strlen": INT64,
    **dict.fromkeys(("like", "match", "contains"), BOOL),
}  # fmt: skip
_OF_TIME = ("year", "month", "day")


def kind_of(
    expression: Expression,
    kinds: Callable[[Variable], DataType | None],
    rule: object = "",
    is_last: bool = True,
) -> DataType | None:
    """Return the type of an expression by those of its variables; None if unknown or constant.

    Examples
    --------
    >>> x = Variable("x")
    >>> kind_of(Call("case", (Call("gt", (x, Constant(1))), Call("double", (x,)))), lambda _: INT64).name
    'double'
    """
    if isinstance(expression, Variable):
        return kinds(expression)
    if not isinstance(expression, Call):
        return None
    of_arguments = [kind_of(argument, kinds, rule, is_last) for argument in expression.arguments]
    return result_of(expression, of_arguments, rule, is_last)


def result_of(call: Call, kinds: Sequence[DataType | None], rule: object, is_last: bool = True) -> DataType | None:
    """Return the type of a call by those of its arguments; None while unknown.

    Parameters
    ----------
    kinds
        Per argument, the type of a variable, or None if unknown; types of constants are ignored.
    rule
        Rule that messages name; only they convert it to text.
    is_last
        If True, arguments of unknown type adapt to the other arguments; otherwise the result is None unless it holds
        for any type of these arguments.

    Raises
    ------
    TypeMismatchError
        If the operation does not take such arguments.

    Examples
    --------
    >>> from gpu_wcoj.query.ir import Variable
    >>> x, y = Variable("x"), Variable("y")
    >>> result_of(Call("+", (x, y)), [None, DataType("int32")], "").name
    'int64'
    >>> result_of(Call("*", (x, Constant(2))), [DataType("double"), None], "").name
    'double'
    >>> result_of(Call("*", (x, y)), [DataType("decimal128(9, 2)"), DataType("decimal128(4, 1)")], "").name
    'decimal128(13, 3)'
    """
    if call.op in NULL_AWARE:
        return _null_aware(call, kinds, rule, is_last)
    if call.op in _OF_TEXT:
        _check_text(call, kinds, rule)
        return _OF_TEXT[call.op]
    if call.op in _OF_TIME:
        _check_time(call, kinds, rule)
        return INT64
    types = _numbers(call, kinds, rule)
    if call.op == "double":
        return DOUBLE
    if len(types) < len(call.arguments) and not is_last:
        return None
    families = {kind.family for kind in types}
    if families & {"float32", "float64"}:
        return DOUBLE
    if "decimal" in families:
        return _decimal_of(call, types, rule) if len(types) == len(call.arguments) else None
    return INT64 if types else None


def _null_aware(call: Call, kinds: Sequence[DataType | None], rule: object, is_last: bool) -> DataType | None:
    """Return the type of a call of three-valued logic; its operands have to be of one type."""
    pairs = list(zip(call.arguments, kinds, strict=True))
    if call.op in COMPARING or call.op == "among":
        _ = _together(call, pairs, rule)
        return BOOL
    if call.op == "isnull":
        return BOOL
    if call.op != "case":
        _check_conditions(call, pairs, rule)
        return BOOL
    _check_conditions(call, pairs[: len(pairs) // 2 * 2 : 2], rule)
    values = [*pairs[1::2], *(pairs[-1:] if len(pairs) % 2 else ())]
    is_open = any(kind is None and not isinstance(value, Constant) for value, kind in values)
    if is_open and not (is_last and any(kind is not None for _, kind in values)):
        return None
    return _together(call, values, rule)


def _check_conditions(call: Call, pairs: Sequence[tuple[Expression, DataType | None]], rule: object) -> None:
    for condition, kind in pairs:
        is_wrong = (
            condition.value not in (None, True, False) if isinstance(condition, Constant) else kind not in (None, BOOL)
        )
        if is_wrong or (isinstance(condition, Constant) and type(condition.value) in (int, float)):
            description = "a constant" if kind is None else f"of type '{kind.name}'"
            raise TypeMismatchError.with_parts(
                f"'{condition}' in '{rule}' is {description}, and '{call.op}' takes conditions",
                subject=str(condition),
                expected="a condition",
                remedy="Compare it with a value.",
            )


def _together(call: Call, pairs: Sequence[tuple[Expression, DataType | None]], rule: object) -> DataType | None:
    """Return the common type of values compared with each other; constants adapt to it."""
    common: DataType | None = None
    for expression, kind in pairs:
        if kind is None or is_spelled(expression):
            continue
        if common is None or common.family == kind.family:
            common = kind if common is None else common.common(kind, is_computed=True)
        elif {common.family, kind.family} == {"integer", "decimal"} and call.op != "case":
            common = kind if kind.family == "decimal" else common
        else:
            raise TypeMismatchError.with_parts(
                f"'{call.op}' in '{rule}' has '{expression}' of type '{kind.name}' beside a value of type "
                f"'{common.name}'",
                subject=str(expression),
                got=kind.name,
                remedy="Cast a column, so that both are of one type.",
            )
    constants = [value.value for value, _ in pairs if isinstance(value, Constant) and value.value is not None]
    constants += [constant for value, _ in pairs if isinstance(value, Call) and is_spelled(value) for constant in ("",)]
    if common is None:
        groups = {_group(type(value)) for value in constants}
        is_wrong = len(groups) > 1
    else:
        fitting = {"bool": bool, "string": str, "date": str, "timestamp": str, "zoned": str}.get(common.family, float)
        is_wrong = any(_group(type(value)) is not fitting for value in constants)
    if is_wrong:
        beside = "" if common is None else f" beside a value of type '{common.name}'"
        raise TypeMismatchError.with_parts(
            f"'{call.op}' in '{rule}' has the constants {', '.join(map(repr, constants[:5]))}{beside}",
            subject=call.op,
            got=tuple(constants),
            remedy="Write constants of one type.",
        )
    if call.op != "case":
        return common
    if common is None:
        return type_of_constants(constants) if constants else None
    if common.family == "decimal":
        for value in constants:
            exact = Decimal(value) if isinstance(value, int) else value
            assert isinstance(exact, (float, Decimal))
            common = common.common(decimal_kind(exact), is_computed=True)
    elif common.family == "integer" and any(isinstance(value, Decimal) for value in constants):
        return type_of_constants([*constants, 10 ** (MAX_DIGITS - max(map(_n_behind, constants))) - 1])
    elif common.family == "integer" and any(isinstance(value, float) for value in constants):
        raise TypeMismatchError.with_parts(
            f"'{call}' in '{rule}' mixes an integer and a float",
            subject=str(call),
            remedy="Write double(...) around the integer.",
        )
    elif common.family == "integer" and constants:
        common = INT64
    return common


def _n_behind(value: object) -> int:
    """Return the number of digits after the decimal point."""
    exponent = value.as_tuple().exponent if isinstance(value, Decimal) else 0
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _group(kind: type) -> type:
    """Return the Python type of a constant, float for all numbers."""
    return float if kind in (int, float, Decimal) else kind


def _numbers(call: Call, kinds: Sequence[DataType | None], rule: object) -> list[DataType]:
    """Return the known types of arguments; constants take the types of the other arguments."""
    of_variables: list[DataType] = []
    for argument, kind in zip(call.arguments, kinds, strict=True):
        if isinstance(argument, Constant):
            if type(argument.value) not in (int, float, Decimal):
                raise TypeMismatchError.with_parts(
                    f"'{argument}' in '{rule}' is not a number, and '{call}' calculates with it",
                    subject=str(argument),
                    got=argument.value,
                    remedy="Write a number.",
                )
        elif kind is not None:
            if kind.family not in _NUMBER_FAMILIES:
                raise TypeMismatchError.with_parts(
                    f"'{argument}' in '{rule}' is of type '{kind.name}', and '{call}' calculates with it",
                    subject=str(argument),
                    got=kind.name,
                    remedy=_NUMBERS,
                )
            of_variables.append(kind)
    is_float = [kind.family.startswith("float") for kind in of_variables]
    values = [argument.value for argument in call.arguments if isinstance(argument, Constant)]
    is_fraction = any(isinstance(value, float) for value in values)
    if (any(is_float) and not all(is_float)) or (is_fraction and [kind.family for kind in of_variables] == ["integer"]):
        exact = "a decimal" if any(kind.family == "decimal" for kind in of_variables) else "an integer"
        raise TypeMismatchError.with_parts(
            f"'{call}' in '{rule}' mixes {exact} and a float",
            subject=str(call),
            remedy="Give both columns one type: cast one of them, or declare it as int64 or double; or write "
            "double(...).",
        )
    if any(is_float):
        return [DOUBLE] * len(call.arguments) if len(of_variables) == len(kinds) - len(values) else [DOUBLE]
    if is_fraction and not of_variables:
        return [DOUBLE]
    return [*of_variables, *map(_kind_of_number, values)] if of_variables else []


def _kind_of_number(value: object) -> DataType:
    """Return the type of a constant beside integers and decimals."""
    return decimal_kind(value) if isinstance(value, (float, Decimal)) else _integer_kind(value)


def _integer_kind(value: object) -> DataType:
    """Return the narrowest integer type, so that decimals keep their digits."""
    assert isinstance(value, int)
    bits = next(bits for bits in (8, 16, 32, 64) if -(2 ** (bits - 1)) <= value < 2 ** (bits - 1))
    return DataType(f"int{bits}")


def decimal_kind(value: float | Decimal) -> DataType:
    """Return the narrowest decimal type that holds a number, a float by its shortest text.

    Raises
    ------
    TypeMismatchError
        If it has more than 18 digits.

    Examples
    --------
    >>> decimal_kind(0.05).name, decimal_kind(Decimal("12.50")).name
    ('decimal128(2, 2)', 'decimal128(4, 2)')
    """
    _, digits, exponent = Decimal(repr(value) if isinstance(value, float) else value).as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale)
    if precision > MAX_DIGITS:
        raise TypeMismatchError.with_parts(
            f"the constant {value} has {precision} digits, and decimals have at most {MAX_DIGITS}",
            subject="the constant",
            got=value,
            remedy="Write fewer digits, or calculate with doubles: double(x).",
        )
    return decimal_of(precision, scale)


def type_of_constant(value: object) -> DataType:
    """Return the default type of a constant; double for a decimal of too many digits.

    Examples
    --------
    >>> type_of_constant(True).name, type_of_constant("x").name
    ('bool', 'string')
    """
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, str):
        return STRING
    if isinstance(value, Decimal):
        try:
            return decimal_kind(value)
        except TypeMismatchError:
            return DOUBLE
    return DOUBLE if isinstance(value, float) else INT64


def type_of_constants(values: Sequence[object]) -> DataType:
    """Return the default type of a column that holds these constants.

    Examples
    --------
    >>> type_of_constants([1, 0.5]).name, type_of_constants([Decimal("0.25"), 12]).name
    ('double', 'decimal128(4, 2)')
    """
    kinds = {type_of_constant(value) for value in values}
    families = {kind.family for kind in kinds}
    if len(kinds) == 1 or not families <= {"integer", "decimal", "float64"}:
        return type_of_constant(values[0])
    if "float64" in families:
        return DOUBLE
    scales = [kind.digits[1] for kind in kinds]
    wholes = [len(str(abs(int(value)))) for value in values if isinstance(value, (int, Decimal))]
    return decimal_of(max(wholes) + max(scales), max(scales)) if max(wholes) + max(scales) <= MAX_DIGITS else DOUBLE


def _decimal_of(call: Call, types: Sequence[DataType], rule: object) -> DataType:
    """Return the type of a decimal result: enough digits for all results, at most 18."""
    precisions, scales = zip(*(kind.digits for kind in types), strict=True)
    if CHECKED.get(call.op, call.op) == "/":
        instead = Call(call.op, tuple(Call("double", (argument,)) for argument in call.arguments))
        raise TypeMismatchError.with_parts(
            f"'{call}' in '{rule}' divides decimals, which has no exact result",
            subject=str(call),
            remedy=f"Write {instead}.",
        )
    if call.op == "*":
        if sum(scales) > MAX_DIGITS:
            raise TypeMismatchError.with_parts(
                f"'{call}' in '{rule}' has {sum(scales)} digits behind the point, and decimals have at most "
                f"{MAX_DIGITS} in all",
                subject=str(call),
                got=sum(scales),
                remedy="Calculate with doubles: double(x).",
            )
        return decimal_of(sum(precisions), sum(scales))
    scale = max(scales)
    n_integral = max(
        precision - scale_of_argument for precision, scale_of_argument in zip(precisions, scales, strict=True)
    )
    return decimal_of(n_integral + scale + (call.op in "+-" and len(types) > 1), scale)


def _check_text(call: Call, kinds: Sequence[DataType | None], rule: object) -> None:
    families = ("string", "integer", "integer") if call.op == "substr" else ("string",) * len(kinds)
    for argument, kind, family in zip(call.arguments, kinds, families, strict=True):
        if isinstance(argument, Constant):
            family_of_argument = {int: "integer", str: "string"}.get(type(argument.value), "another type")
        elif kind is not None:
            family_of_argument = kind.family
        else:
            continue
        if family_of_argument != family:
            word = "a text" if family == "string" else "an integer"
            description = "a constant of another type" if kind is None else f"of type '{kind.name}'"
            raise TypeMismatchError.with_parts(
                f"'{call.op}' takes {word}, and '{argument}' in '{rule}' is {description}",
                subject=str(argument),
                got=family_of_argument if kind is None else kind.name,
                remedy="Cast the column, or leave it out.",
            )


def _check_time(call: Call, kinds: Sequence[DataType | None], rule: object) -> None:
    (argument,), (kind,) = call.arguments, kinds
    if isinstance(argument, Constant):
        raise TypeMismatchError.with_parts(
            f"'{call.op}' takes a column of dates or timestamps, and '{call}' in '{rule}' has a constant",
            subject=str(call),
            got=argument.value,
            remedy="Write the result in its place.",
        )
    if kind is None or kind.family in ("date", "timestamp"):
        return
    if kind.family == "zoned" and kind.value_name.endswith("tz=UTC]"):
        return
    if kind.family == "zoned":
        raise TypeMismatchError.with_parts(
            f"'{argument}' in '{rule}' is of type '{kind.name}', and '{call.op}' supports no time zone except UTC",
            subject=str(argument),
            got=kind.name,
            remedy="Cast the column to local timestamps without a time zone.",
        )
    raise TypeMismatchError.with_parts(
        f"'{call.op}' takes a date or a timestamp, and '{argument}' in '{rule}' is of type '{kind.name}'",
        subject=str(argument),
        got=kind.name,
        remedy="Cast the column, or leave it out.",
    )


def aggregate_of(op: str, kind: DataType | None, place: Callable[[], str]) -> DataType | None:
    """Return the type of an aggregate; None while unknown, or if it is that of the values.

    Parameters
    ----------
    place
        Return the words in a message that name the aggregate's head.

    Raises
    ------
    TypeMismatchError
        If such values have no such aggregate.

    Examples
    --------
    >>> aggregate_of("mean", DataType("int32"), lambda: "of 'h'").name
    'double'
    >>> aggregate_of("sum", DataType("decimal128(5, 2)"), lambda: "of 'h'").name
    'decimal128(18, 2)'
    """
    if op == "count":
        return INT64
    if op in ("min", "max"):
        return None
    if kind is not None and kind.family not in _NUMBER_FAMILIES:
        raise TypeMismatchError.with_parts(
            f"the {op} {place()} aggregates values of type '{kind.name}', which are not numbers",
            subject=op,
            got=kind.name,
            remedy=_NUMBERS,
        )
    if op == "mean":
        return DOUBLE
    if kind is not None and kind.family == "decimal":
        return decimal_of(MAX_DIGITS, kind.digits[1])
    return None if kind is None else INT64 if kind.family == "integer" else DOUBLE
