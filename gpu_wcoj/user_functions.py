"""Functions with types that rules call: Python functions and SQL expressions."""

from __future__ import annotations

import datetime as dt
import inspect
import re
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, overload

import numpy as np

from gpu_wcoj.data.schema import DataType, declared_type
from gpu_wcoj.errors import UnsupportedTypeError, UsageError, counted, entry_point

# Declarations: names, types and options of functions.


Kind = str | type[Any]
"""A type: a name as in ``schema=``, or the Python type of its values."""

_OF_PYTHON: dict[object, str] = {
    int: "int64", float: "double", str: "string", bool: "bool", bytes: "binary", dt.date: "date32[day]",
    dt.datetime: "timestamp[us]",
}  # fmt: skip
_SHORT = {"int": "int64", "str": "string", "bytes": "binary", "date": "date32[day]", "timestamp": "timestamp[us]"}
"""Names of types that are no spellings of a declaration, as those there have parts."""


@dataclass(frozen=True, eq=False)
class TypedFunction:
    """A function with types that rules call.

    Attributes
    ----------
    name
        The name in rules.
    parameters, returns
        The types of the arguments and of the result.
    """

    is_functor: ClassVar[bool] = False
    """Whether it is part of a language, so that nobody can mend it."""

    name: str
    parameters: tuple[DataType, ...]
    returns: DataType

    @property
    def takes_nulls(self) -> bool:
        """Return whether it is called for null; otherwise null in any argument gives null."""
        return True

    def describe_call(self, arguments: Sequence[str]) -> str:
        """Return the text of a call with these arguments."""
        return f"{self.name}({', '.join(arguments)})"

    def describe_in_message(self, arguments: Sequence[str]) -> str:
        """Return the text of a call with these arguments, for messages."""
        return self.describe_call(arguments)


SQL_CALL = "sql"
"""Name of all SQL expressions in calls."""


@dataclass(frozen=True)
class SqlFunction(TypedFunction):
    """An SQL expression that DuckDB evaluates.

    Attributes
    ----------
    expression
        The text in DuckDB's dialect, over the columns ``"$0"``, ``"$1"``, ... for the arguments.

    Examples
    --------
    >>> made = SqlFunction(SQL_CALL, (DataType("double"),), DataType("double"), 'round("$0", 1)')
    >>> made.describe_call(["x + y"])
    'round(x + y, 1)'
    """

    expression: str = ""

    def describe_call(self, arguments: Sequence[str]) -> str:
        """Return the expression with the texts of the arguments in it."""
        return re.sub(r'"\$(\d+)"', lambda match: arguments[int(match[1])], self.expression)


@dataclass(frozen=True)
class GroupFunctions:
    """Aggregates of a group, or window functions over a partition, that DuckDB evaluates.

    Attributes
    ----------
    expressions
        The texts in DuckDB's dialect, over the columns ``"$0"``, ``"$1"``, ... of the rows.
    returns
        The types of the results.
    is_window
        Whether each row has results, and not each group.
    texts
        The results as the user has written them.
    """

    expressions: tuple[str, ...]
    returns: tuple[DataType, ...]
    is_window: bool
    texts: tuple[str, ...]

    def __str__(self) -> str:
        return ", ".join(self.texts or self.expressions)


@dataclass(frozen=True, eq=False)
class Function(TypedFunction):
    """A Python function with declared types, made by `function`; it can be called as before.

    Attributes
    ----------
    call
        The Python function.
    nulls
        Whether it is called for null, as None; otherwise null in any argument gives null.
    arrays
        Whether it takes and returns NumPy arrays.
    """

    call: Callable[..., Any]
    nulls: bool = False
    arrays: bool = False

    @property
    def takes_nulls(self) -> bool:
        """Return whether it is called for null."""
        return self.nulls

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Call the Python function."""
        return self.call(*arguments, **options)

    def __repr__(self) -> str:
        return f"Function({self.signature})"

    def __reduce__(self) -> str:
        return str(vars(self).get("__qualname__", self.name))  # by reference, as Python functions are

    @cached_property
    def signature(self) -> str:
        """The name, the types and the options, as text for people, and for checkpoints to compare."""
        options = "".join(f", {option}=True" for option in ("nulls", "arrays") if getattr(self, option))
        return f"{self.name}({', '.join(kind.name for kind in self.parameters)}) -> {self.returns.name}{options}"


@overload
def function(
    *types: Kind, returns: Kind | None = None, name: str | None = None, nulls: bool = False, arrays: bool = False
) -> Callable[[Callable[..., Any]], Function]: ...


@overload
def function(
    call: Callable[..., Any],
    /,
    *types: Kind,
    returns: Kind | None = None,
    name: str | None = None,
    nulls: bool = False,
    arrays: bool = False,
) -> Function: ...


@entry_point
def function(
    *types: Any, returns: Kind | None = None, name: str | None = None, nulls: bool = False, arrays: bool = False
) -> Any:
    """Declare the types of a Python function, so that rules and SQL can call it.

    The function must be deterministic: equal arguments give equal results, in every tick. It is called at most once a
    tick for each distinct combination of arguments, and also for rows that other conditions of a rule drop. Pass it to
    `Program`, `query` or `view` in ``functions=``.

    Parameters
    ----------
    types
        The types of the arguments: names as in ``schema=`` (``"int64"``, ``"float64"``, ``"string"``,
        ``"decimal(9, 2)"``), or Python types (``int``, ``float``, ``str``, ``bool``, ``bytes``, ``date``,
        ``datetime``). By default those of the annotations. A Python function may stand before them.
    returns
        The type of the result. By default that of the annotation.
    name
        The name in rules. By default that of the Python function.
    nulls
        Call the function for null too, as None. By default null in any argument gives null without a call.
    arrays
        Call the function with NumPy arrays, one element for each combination of arguments, for an array of the same
        length. With `nulls`, arrays with nulls are masked arrays. A masked element of the result is null.

    Returns
    -------
    Function
        It can be called as the Python function. A decorator if no Python function is given.

    Raises
    ------
    UsageError, UnsupportedTypeError
        If the name or a type cannot be used, or a type is missing.

    Examples
    --------
    >>> import gpu_wcoj as gw
    >>> @gw.function
    ... def score(amount: int, text: str) -> float:
    ...     return amount / (1 + len(text))
    >>> text = "risky(a, s) :- transfer(a, note, amount), s = score(amount, note), s > 20.0."
    >>> gw.query(text, transfer=[(1, "rent", 500), (2, "gift", 50)], functions=[score]).rows()
    [(1, 100.0)]
    >>> twice = gw.function(lambda values: 2 * values, "int64", returns="int64", name="twice", arrays=True)
    >>> gw.query("h(twice(x)) :- r(x).", r=[(3,), (4,)], functions=[twice]).rows()
    [(6,), (8,)]
    """
    for option, value in (("nulls", nulls), ("arrays", arrays)):
        if not isinstance(value, (bool, np.bool_)):
            raise UsageError.invalid_value(option, value, "True or False")
    options = returns, name, bool(nulls), bool(arrays)
    if types and callable(types[0]) and not isinstance(types[0], type) and types[0] not in _OF_PYTHON:
        return _declare(types[0], types[1:], *options)
    return lambda call: _declare(call, types, *options)


def _declare(
    call: Any, types: Sequence[Any], returns: Kind | None, name: str | None, nulls: bool, arrays: bool
) -> Function:
    if not callable(call):
        raise UsageError.wrong_type("the argument of gpu_wcoj.function", call, "a Python function")
    call = call.call if isinstance(call, Function) else call
    called = name if name is not None else getattr(call, "__name__", "")
    if not isinstance(called, str) or not called.isidentifier() or called == "_":
        raise UsageError.with_parts(
            f"{called!r} cannot be the name of a function in rules",
            subject="name", got=called, remedy="Give it one of letters, digits and underscores: name='score'.",
        )  # fmt: skip
    parameters, result = _kinds_of(call, called, types, returns)
    if not parameters:
        raise UsageError.with_parts(
            f"the function '{called}' takes no argument",
            subject=called, remedy="Write its value into the text, or give it a parameter.",
        )  # fmt: skip
    try:
        inspect.signature(call).bind(*parameters)
    except TypeError as error:
        raise UsageError.with_parts(
            f"the function '{called}' cannot be called with {counted(len(parameters), 'argument')}: {error}",
            subject=called, got=len(parameters), remedy="Name one type for each argument.",
        ) from None  # fmt: skip
    except ValueError:  # a function of C without a signature
        pass
    declared = Function(called, parameters, result, call, nulls, arrays)
    for attribute in ("__module__", "__qualname__", "__name__", "__doc__"):
        if hasattr(call, attribute):
            vars(declared)[attribute] = getattr(call, attribute)
    vars(declared)["__wrapped__"] = call
    return declared


def _kinds_of(
    call: Any, name: str, types: Sequence[Any], returns: Kind | None
) -> tuple[tuple[DataType, ...], DataType]:
    """Return the types of arguments and result, those that are not given from the annotations."""
    annotations: dict[str, Any] = {}
    if not types or returns is None:
        try:
            annotations = typing.get_type_hints(call)
        except (TypeError, NameError, AttributeError):
            annotations = dict(getattr(call, "__annotations__", {}))
    if not types:
        try:
            signature = inspect.signature(call)
        except (TypeError, ValueError):
            raise _missing_type(name, "its arguments") from None
        types = []
        for parameter in signature.parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise _missing_type(name, f"'{parameter}'")
            is_needed = parameter.default is parameter.empty
            if is_needed and parameter.kind is not parameter.KEYWORD_ONLY:
                if parameter.name not in annotations:
                    raise _missing_type(name, f"'{parameter.name}'")
                types.append(annotations[parameter.name])
    if returns is None:
        if "return" not in annotations:
            raise _missing_type(name, "the result")
        returns = annotations["return"]
    return tuple(_kind(kind, name) for kind in types), _kind(returns, name)


def _missing_type(name: str, what: str) -> UsageError:
    remedy = "Write @gpu_wcoj.function('int64', returns='float64'), or annotate the function."
    return UsageError.missing(f"the function '{name}'", f"a type of {what}", remedy)


_NOT_PASSED = ("time", "duration", "uuid", "enum", "nested", "wide")
"""Families of types that Python functions neither take nor return."""


def _kind(kind: Any, name: str) -> DataType:
    """Return the type of a parameter or a result of a function."""
    data_type = _named_kind(kind, name)
    if data_type.family in _NOT_PASSED or data_type.name.startswith("fixed_size"):
        raise UnsupportedTypeError.unsupported(
            f"the type '{data_type}' for the function '{name}'",
            remedy="Declare an integer, a float, a decimal, a text, bytes, a date or a timestamp.",
        )
    return data_type


def _named_kind(kind: Any, name: str) -> DataType:
    if isinstance(kind, str):
        try:
            return DataType(declared_type(_SHORT.get(kind, kind)))
        except UnsupportedTypeError as error:
            raise UnsupportedTypeError(f"the function '{name}': {error}") from None
    if isinstance(kind, DataType):
        return kind
    members = [member for member in typing.get_args(kind) if member is not type(None)]
    if type(None) in typing.get_args(kind) and len(members) == 1:  # None is null, in any type
        return _kind(members[0], name)
    try:
        return DataType(_OF_PYTHON[kind])
    except (KeyError, TypeError):
        shown = getattr(kind, "__name__", None) or repr(kind)
        raise UnsupportedTypeError.with_parts(
            f"the function '{name}' has the type {shown}, which stands for no type of a column",
            subject=name, got=kind, expected="int, float, str, bool, bytes, date, datetime, or a name of a type",
            remedy="Write its name, as 'int64', 'decimal(9, 2)' or 'timestamp[us, tz=UTC]'.",
        ) from None  # fmt: skip


# Arguments: which types a parameter takes, and their codes in its type.


_WIDENED = {
    ("integer", "float32"), ("integer", "float64"), ("integer", "decimal"), ("decimal", "float32"),
    ("decimal", "float64"), ("float32", "float64"),
}  # fmt: skip


def takes(parameter: DataType, kind: DataType) -> bool:
    """Return whether values of a type can be arguments for a parameter.

    Examples
    --------
    >>> takes(DataType("double"), DataType("int32")), takes(DataType("int64"), DataType("double"))
    (True, False)
    """
    return kind.family == parameter.family or (kind.family, parameter.family) in _WIDENED
