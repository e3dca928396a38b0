"""Types of what is calculated and aggregated, from the types that it is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

from gpu_wcoj.errors import TypeMismatchError
from gpu_wcoj.query.terms import CHECKED, Call, Constant
from gpu_wcoj.schema import INT64, MOST_DIGITS, DataType, decimal_of

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


def result_of(call: Call, kinds: Sequence[DataType | None], rule: str, is_last: bool = True) -> DataType | None:
    """The type of a call, whose arguments are variables and constants; None as long as it is not known.

    Parameters
    ----------
    kinds
        Per argument, the type of a variable, where known; of constants it does not count.
    rule
        For messages.
    is_last
        Whether arguments of no known type are taken to be of no type of their own: otherwise only what holds whatever
        they turn out to be is told.

    Raises
    ------
    TypeMismatchError
        If the operation does not take such arguments.

    Examples
    --------
    >>> from gpu_wcoj.query.terms import Variable
    >>> x, y = Variable("x"), Variable("y")
    >>> result_of(Call("+", (x, y)), [None, DataType("int32")], "").name
    'int64'
    >>> result_of(Call("*", (x, Constant(2))), [DataType("double"), None], "").name
    'double'
    >>> result_of(Call("*", (x, y)), [DataType("decimal128(9, 2)"), DataType("decimal128(4, 1)")], "").name
    'decimal128(13, 3)'
    """
    if call.op in _OF_TEXT:
        _check_text(call, kinds, rule)
        return _OF_TEXT[call.op]
    if call.op in _OF_TIME:
        _check_time(call, kinds, rule)
        return INT64
    known = _numbers(call, kinds, rule)
    if call.op == "double":
        return DOUBLE
    if len(known) < len(call.arguments) and not is_last:
        return None
    families = {kind.family for kind in known}
    if families & {"float32", "float64"}:
        return DOUBLE
    if "decimal" in families:
        return _decimal_of(call, known, rule) if len(known) == len(call.arguments) else None
    return INT64 if known else None


def _numbers(call: Call, kinds: Sequence[DataType | None], rule: str) -> list[DataType]:
    """The types of arguments, as far as they are known; constants have those of what they are calculated with."""
    of_variables: list[DataType] = []
    for argument, kind in zip(call.arguments, kinds, strict=True):
        if isinstance(argument, Constant):
            if type(argument.value) not in (int, float, Decimal):
                raise TypeMismatchError(f"'{argument}' in '{rule}' is no number, and '{call}' calculates with it.")
        elif kind is not None:
            if kind.family not in _NUMBER_FAMILIES:
                raise TypeMismatchError(
                    f"'{argument}' in '{rule}' is of type '{kind.name}', and '{call}' calculates with it.\n  {_NUMBERS}"
                )
            of_variables.append(kind)
    is_float = [kind.family.startswith("float") for kind in of_variables]
    values = [argument.value for argument in call.arguments if isinstance(argument, Constant)]
    is_fraction = any(isinstance(value, float) for value in values)
    if (any(is_float) and not all(is_float)) or (is_fraction and [kind.family for kind in of_variables] == ["integer"]):
        other = "a decimal" if any(kind.family == "decimal" for kind in of_variables) else "an integer"
        raise TypeMismatchError(
            f"'{call}' in '{rule}' mixes {other} and a float.\n"
            "  Give both columns one type: cast one of them, or declare it as int64 or double; or write double(...)."
        )
    if any(is_float):
        return [DOUBLE] * len(call.arguments) if len(of_variables) == len(kinds) - len(values) else [DOUBLE]
    if is_fraction and not of_variables:
        return [DOUBLE]
    return [*of_variables, *map(_kind_of_number, values)] if of_variables else []


def _kind_of_number(value: object) -> DataType:
    """The type of a constant beside integers and decimals."""
    return decimal_kind(value) if isinstance(value, (float, Decimal)) else _integer_kind(value)


def _integer_kind(value: object) -> DataType:
    """As narrow as it can be, so that no digits are taken away from decimals."""
    assert isinstance(value, int)
    bits = next(bits for bits in (8, 16, 32, 64) if -(2 ** (bits - 1)) <= value < 2 ** (bits - 1))
    return DataType(f"int{bits}")


def decimal_kind(value: float | Decimal) -> DataType:
    """The narrowest type of decimals that has a number, a float by its shortest text.

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
    if precision > MOST_DIGITS:
        raise TypeMismatchError(
            f"the constant {value} has {precision} digits, and decimals have at most {MOST_DIGITS}.\n"
            "  Write fewer digits, or calculate with doubles: double(x)."
        )
    return decimal_of(precision, scale)


def _decimal_of(call: Call, known: Sequence[DataType], rule: str) -> DataType:
    """The type of a decimal result: enough digits for all results, at most 18."""
    precisions, scales = zip(*(kind.digits for kind in known), strict=True)
    if CHECKED.get(call.op, call.op) == "/":
        instead = Call(call.op, tuple(Call("double", (one,)) for one in call.arguments))
        raise TypeMismatchError(
            f"'{call}' in '{rule}' divides decimals, which has no exact result.\n  Write {instead}."
        )
    if call.op == "*":
        if sum(scales) > MOST_DIGITS:
            raise TypeMismatchError(
                f"'{call}' in '{rule}' has {sum(scales)} digits behind the point; decimals have at most "
                f"{MOST_DIGITS} in all.\n  Calculate with doubles: double(x)."
            )
        return decimal_of(sum(precisions), sum(scales))
    scale = max(scales)
    whole = max(precision - own for precision, own in zip(precisions, scales, strict=True))
    return decimal_of(whole + scale + (call.op in "+-" and len(known) > 1), scale)


def _check_text(call: Call, kinds: Sequence[DataType | None], rule: str) -> None:
    wanted = ("string", "integer", "integer") if call.op == "substr" else ("string",) * len(kinds)
    for argument, kind, family in zip(call.arguments, kinds, wanted, strict=True):
        if isinstance(argument, Constant):
            found = {int: "integer", str: "string"}.get(type(argument.value), "another")
        elif kind is not None:
            found = kind.family
        else:
            continue
        if found != family:
            word = "a text" if family == "string" else "an integer"
            what = f"'{argument}' in '{rule}' is none" + ("" if kind is None else f": it is of type '{kind.name}'")
            raise TypeMismatchError(f"'{call.op}' takes {word}, and {what}.\n  Cast the column, or leave it out.")


def _check_time(call: Call, kinds: Sequence[DataType | None], rule: str) -> None:
    (argument,), (kind,) = call.arguments, kinds
    if isinstance(argument, Constant):
        raise TypeMismatchError(
            f"'{call}' in '{rule}' is of a constant, and '{call.op}' takes a column of dates or timestamps.\n"
            "  Write its value."
        )
    if kind is None or kind.family in ("date", "timestamp"):
        return
    if kind.family == "zoned" and kind.value_name.endswith("tz=UTC]"):
        return
    if kind.family == "zoned":
        raise TypeMismatchError(
            f"'{argument}' in '{rule}' is of type '{kind.name}', and '{call.op}' takes no zone but UTC.\n"
            "  Cast the column to the zone's timestamps without one."
        )
    raise TypeMismatchError(
        f"'{call.op}' takes a date or a timestamp, and '{argument}' in '{rule}' is none: it is of type '{kind.name}'.\n"
        "  Cast the column, or leave it out."
    )


def aggregate_of(op: str, kind: DataType | None, place: Callable[[], str]) -> DataType | None:
    """The type of an aggregate of values of a type; None as long as it is not known, or if it is that of the values.

    Parameters
    ----------
    place
        Says what has it, in words.

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
        raise TypeMismatchError(
            f"the {op} {place()} is of values of type '{kind.name}', which are no numbers.\n  {_NUMBERS}"
        )
    if op == "mean":
        return DOUBLE
    if kind is not None and kind.family == "decimal":
        return decimal_of(MOST_DIGITS, kind.digits[1])
    return None if kind is None else INT64 if kind.family == "integer" else DOUBLE
