"""Types of what is calculated and aggregated, from the types that it is made of."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_wcoj.errors import TypeMismatchError
from gpu_wcoj.query.terms import ARITHMETIC, Call, Constant
from gpu_wcoj.schema import INT64, DataType

DOUBLE = DataType("double")
STRING = DataType("string")

_NUMBERS = "Numbers are integers or floats; cast the column, or declare it as int64 or double."


def result_of(call: Call, kinds: Sequence[DataType | None], rule: str) -> DataType | None:
    """The type of a call, whose arguments are variables and constants; None as long as it is not known.

    Parameters
    ----------
    kinds
        Per argument, the type of a variable, where known; of constants it does not count.
    rule
        For messages.

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
    """
    if call.op not in ARITHMETIC:
        _check_text(call, kinds, rule)
        return INT64 if call.op == "strlen" else STRING
    families = []
    constants = []
    for argument, kind in zip(call.arguments, kinds, strict=True):
        if isinstance(argument, Constant):
            if type(argument.value) not in (int, float):
                raise TypeMismatchError(f"'{argument}' in '{rule}' is no number, and '{call}' calculates with it.")
            constants.append("integer" if isinstance(argument.value, int) else "float64")
        elif kind is not None:
            if kind.family not in ("integer", "float32", "float64"):
                raise TypeMismatchError(
                    f"'{argument}' in '{rule}' is of type '{kind.name}', and '{call}' calculates with it.\n  {_NUMBERS}"
                )
            families.append(kind.family)
    is_float = [family != "integer" for family in families]
    if (any(is_float) and not all(is_float)) or ("float64" in constants and families and not all(is_float)):
        raise TypeMismatchError(
            f"'{call}' in '{rule}' mixes an integer and a float.\n"
            "  Give both columns one type: cast one of them, or declare it as int64 or double."
        )
    if "float64" in constants or any(is_float):
        return DOUBLE
    return INT64 if families else None


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


def aggregate_of(op: str, kind: DataType | None, head: str) -> DataType | None:
    """The type of an aggregate of values of a type; None as long as it is not known, or if it is that of the values.

    Raises
    ------
    TypeMismatchError
        If such values have no such aggregate.

    Examples
    --------
    >>> aggregate_of("mean", DataType("int32"), "h").name
    'double'
    """
    if op == "count":
        return INT64
    if op in ("min", "max"):
        return None
    if kind is not None and kind.family not in ("integer", "float32", "float64"):
        raise TypeMismatchError(
            f"'{head}' is the {op} of values of type '{kind.name}', which are no numbers.\n  {_NUMBERS}"
        )
    if op == "mean":
        return DOUBLE
    return None if kind is None else INT64 if kind.family == "integer" else DOUBLE
