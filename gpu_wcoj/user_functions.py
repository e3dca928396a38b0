"""Python functions with declared types, which rules call by name.

A function is evaluated on codes, as every calculation is: codes become the values that `ZSet.rows` returns, and results
become codes of the declared type. Each program keeps the results of its functions, so that a tick calls a function at
most once for each distinct combination of arguments; see `BoundFunction`.
"""

from __future__ import annotations

import datetime as dt
import inspect
import typing
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple, overload

import numpy as np

from gpu_wcoj.backend import cpu_backend
from gpu_wcoj.data.column import Column, Dictionary, float_codes, floats_of
from gpu_wcoj.data.rows import as_python, is_masked_array
from gpu_wcoj.data.schema import TIME_UNITS, DataType, declared_type
from gpu_wcoj.errors import FunctionError, UnsupportedTypeError, UsageError, entry_point
from gpu_wcoj.functions import to_doubles
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.zset.arrays import BoolArray
from gpu_wcoj.zset.zset import python_values

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
class Function:
    """A Python function with declared types, made by `function`; it can be called as before.

    Attributes
    ----------
    name
        The name in rules.
    parameters, returns
        The types of the arguments and of the result.
    call
        The Python function.
    nulls
        Whether it is called for null, as None; otherwise null in any argument gives null.
    arrays
        Whether it takes and returns NumPy arrays.
    """

    name: str
    parameters: tuple[DataType, ...]
    returns: DataType
    call: Callable[..., Any]
    nulls: bool = False
    arrays: bool = False

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Call the Python function."""
        return self.call(*arguments, **options)

    def __repr__(self) -> str:
        return f"Function({self.signature})"

    def __reduce__(self) -> str:
        return str(vars(self).get("__qualname__", self.name))  # by reference, as Python functions are

    @cached_property
    def signature(self) -> str:
        """The name and the types, as text for people, and for checkpoints to compare."""
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
    [((1, 100.0), 1)]
    >>> twice = gw.function(lambda values: 2 * values, "int64", returns="int64", name="twice", arrays=True)
    >>> gw.query("h(twice(x)) :- r(x).", r=[(3,), (4,)], functions=[twice]).rows()
    [((6,), 1), ((8,), 1)]
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
            f"the function '{called}' cannot be called with {len(parameters)} arguments: {error}",
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


def _kind(kind: Any, name: str) -> DataType:
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


def _converted(codes: Int64Array, kind: DataType, to: DataType) -> tuple[Int64Array, BoolArray | None]:
    """Return codes in a parameter's type, and a mask of values that it does not have."""
    family = to.family
    if kind == to or family in ("bool", "string", "binary"):
        return codes, None
    if family in ("float32", "float64"):
        if kind.family == family:
            return codes, None
        if kind.family == "float32":
            values: Any = floats_of(codes, 4)
        elif kind.family == "decimal":
            values = to_doubles(codes, kind.digits[1], cpu_backend())
        else:
            values = codes
        return float_codes(values.astype("f4" if family == "float32" else "f8")), None
    low, high = to.code_range
    if kind.family == "integer" and family == "decimal":
        up, down = 10 ** max(0, to.digits[1]), 10 ** max(0, -to.digits[1])
    else:
        up, down = kind.factor_to(to), to.factor_to(kind)
    failed = (codes < -(-low * down // up)) | (codes > high * down // up) | (codes % down != 0)
    codes = np.where(failed, 0, codes)
    return (codes if up == down else codes // down * up), failed


def _decoded(
    kind: DataType, codes: Int64Array, dictionary: Dictionary | None, null: BoolArray | None = None
) -> list[Any]:
    """Return the Python values of codes, as `ZSet.rows` does, None where null."""
    if null is not None:
        values = [None] * len(codes)
        for row, value in zip(np.flatnonzero(~null).tolist(), _decoded(kind, codes[~null], dictionary), strict=True):
            values[row] = value
        return values
    if dictionary is not None:
        return dictionary.values_of(codes)
    array: Any = codes
    if kind.family == "bool":
        array = codes != 0
    elif kind.family.startswith("float"):
        array = floats_of(codes, 4 if kind.family == "float32" else 8)
    return list(array.tolist()) if kind.family in _NATIVE else python_values(Column(kind, codes))


_NATIVE = ("integer", "bool", "float32", "float64")
"""Families whose values NumPy converts to Python's."""


def _array(kind: DataType, codes: Int64Array, dictionary: Dictionary | None, null: BoolArray | None) -> Any:
    """Return a writable array of values, masked where null; texts, bytes and decimals are objects."""
    if kind.family in ("string", "binary", "decimal"):
        array = np.empty(len(codes), object)
        array[:] = _decoded(kind, codes, dictionary, null)
    elif kind.family.startswith("float"):
        array = floats_of(codes, 4 if kind.family == "float32" else 8).copy()
    elif kind.family in ("integer", "bool"):
        array = codes.astype(kind.value_name)
    else:
        unit = {"date32[day]": "D", "date64[ms]": "ms"}.get(kind.value_name) or _unit(kind)
        array = codes.astype(np.int64, copy=True).view(f"M8[{unit}]")
    return array if null is None else np.ma.masked_array(array, null)


def _unit(kind: DataType) -> str:
    return kind.value_name.removeprefix("timestamp[").partition(",")[0].rstrip("]")


# Results: Python values and arrays as codes of the declared type.


class Failure(NamedTuple):
    """A call without a result.

    Attributes
    ----------
    why
        What happened, as the end of a sentence about the call.
    value
        The value that is no result, or None.
    cause
        The exception that the function raised, or None.
    """

    why: str
    value: object = None
    cause: Exception | None = None


Outcome = int | Failure | None
"""The code of a result, None for null, or a failure."""

_RESULTS: dict[str, tuple[type, ...]] = {
    "integer": (int,), "bool": (bool,), "float32": (float, int), "float64": (float, int), "string": (str,),
    "binary": (bytes,), "decimal": (Decimal, int), "date": (dt.date,), "timestamp": (dt.datetime,),
    "zoned": (dt.datetime,),
}  # fmt: skip
"""Python types of results, by the family of the declared type."""
_EPOCH = dt.datetime(1970, 1, 1)
_PER_SECOND = 1_000_000
"""Microseconds in a second."""


def _outcome(kind: DataType, value: Any, dictionary: Dictionary | None) -> Outcome:
    """Return the code of a value of a type; null for None."""
    value = as_python(value)
    if value is None:
        return None
    if type(value) not in _RESULTS[kind.family]:
        return Failure(
            f"returned {value!r:.80} of type {type(value).__name__}, and it is declared to return '{kind.name}'", value
        )
    try:
        code = _code_of(kind, value, dictionary)
    except (ValueError, OverflowError) as error:
        return Failure(f"returned {value!r:.80}, which is not a value of '{kind.name}': {error}", value)
    low, high = kind.code_range
    if kind.family in ("integer", "decimal", "date", "timestamp", "zoned") and not low <= code <= high:
        return Failure(f"returned {value!r:.80}, which is outside of '{kind.name}'", value)
    return code


def _code_of(kind: DataType, value: Any, dictionary: Dictionary | None) -> int:
    """Return the code of a value of the right Python type.

    Raises
    ------
    ValueError, OverflowError
        If the type does not have the value.
    """
    family = kind.family
    if family in ("integer", "bool"):
        return int(value)
    if family.startswith("float"):
        return int(float_codes(_floats([value], family))[0])
    if dictionary is not None:
        if isinstance(value, str):
            value.encode()
        return int(dictionary.codes_of([value])[0])
    if family == "decimal":
        exact = Decimal(value)
        if not exact.is_finite():
            raise ValueError("it has no digits")
        _, digits, exponent = exact.as_tuple()
        shift = int(exponent) + kind.digits[1]
        number = int("".join(map(str, digits)))
        if number and (shift > 2 * len(str(kind.code_range[1])) or (shift < 0 and number % 10 ** min(-shift, 99))):
            raise ValueError(f"it needs more than {kind.digits[1]} digits after the point, or too many before it")
        number = number * 10**shift if shift >= 0 else number // 10 ** min(-shift, 99)
        return int(-number if exact.is_signed() else number)
    if family == "date":
        return int((value.toordinal() - _EPOCH.toordinal()) * (1 if kind.value_name == "date32[day]" else 86_400_000))
    if (family == "zoned") != (value.utcoffset() is not None):
        raise ValueError("it has no time zone" if family == "zoned" else "it has a time zone")
    since = (value.astimezone(dt.UTC).replace(tzinfo=None) if family == "zoned" else value) - _EPOCH
    micros = since // dt.timedelta(microseconds=1)
    per_second = 1000 ** TIME_UNITS.index(_unit(kind))
    if micros * per_second % _PER_SECOND:
        raise ValueError("it has a finer unit")
    return int(micros * per_second // _PER_SECOND)


def _floats(values: Iterable[Any], family: str) -> Any:
    """Return an array of floats; raise OverflowError for a finite number that becomes infinite."""
    doubles = np.array(list(map(float, values)), np.float64)
    if family == "float64":
        return doubles
    with np.errstate(over="ignore"):
        singles = doubles.astype(np.float32)
    if bool((np.isinf(singles) & np.isfinite(doubles)).any()):
        raise OverflowError("it is too large for 32 bits")
    return singles


def _outcomes(kind: DataType, values: list[Any], dictionary: Dictionary | None) -> list[Outcome]:
    """Return the codes of values of a type; those of common types at once."""
    family, kinds = kind.family, set(map(type, values))
    low, high = kind.code_range
    outcomes: list[Outcome] = []
    if family == "integer" and kinds == {int} and low <= min(values) and max(values) <= high:
        outcomes += values
    elif family == "float64" and kinds == {float}:
        outcomes += float_codes(np.array(values, np.float64)).tolist()
    elif family == "bool" and kinds == {bool}:
        outcomes += map(int, values)
    elif family == "string" and kinds == {str} and dictionary is not None and "".join(values).isascii():
        outcomes += dictionary.codes_of(values).tolist()
    else:
        outcomes += [_outcome(kind, value, dictionary) for value in values]
    return outcomes


def _outcomes_of_array(kind: DataType, array: Any, n: int, dictionary: Dictionary | None) -> list[Outcome]:
    """Return the codes of an array of results."""
    if not isinstance(array, np.ndarray) or array.shape != (n,):
        shown = f"an array of shape {array.shape}" if isinstance(array, np.ndarray) else f"{array!r:.80}"
        why = f"returned {shown} for {n} combinations of arguments, and it is declared to return an array of that many"
        return [Failure(why, array)] * n
    mask = np.ma.getmaskarray(array) if is_masked_array(array) else None
    plain = np.ma.getdata(array) if mask is not None else array
    if plain.dtype.kind in "iu" and kind.family in ("float32", "float64"):
        plain = plain.astype(np.float64)
    if plain.dtype.kind == "f" and kind.family in ("float32", "float64"):
        plain = plain.astype(np.float64)
    elif plain.dtype.kind == "M" and kind.family in ("date", "timestamp", "zoned"):
        plain = _times(plain, kind)
    values = plain.tolist()
    if mask is not None:
        values = [None if is_null else value for value, is_null in zip(values, mask.tolist(), strict=True)]
    return _outcomes(kind, values, dictionary)


def _times(array: Any, kind: DataType) -> Any:
    """Return NumPy times as Python's, with the zone of UTC where the type has one."""
    exact = array.astype("M8[D]" if kind.family == "date" else "M8[us]")
    if not bool((exact == array)[~np.isnat(array)].all()):
        return array  # of a finer unit, which the caller refuses
    times = np.empty(len(array), object)
    times[:] = exact.tolist()
    if kind.family == "zoned":
        times[:] = [None if value is None else value.replace(tzinfo=dt.UTC) for value in times]
    return times


# Calls: each distinct combination of arguments once a tick.


MAX_REMEMBERED = 65_536
"""Results of a function that a program keeps for the next tick, in combinations of arguments: about 10 MB."""

_MIN_SORTED = 64
"""Rows from which combinations of arguments are sorted to find the distinct ones, instead of looked up each."""

_Key = tuple[int | None, ...]
_UNKNOWN: Any = object()


@dataclass(eq=False)
class BoundFunction:
    """A function within a program, with the results of its calls.

    A result is kept until the next tick at least, so that no tick calls the function twice for equal arguments,
    however often joins evaluate it. It is kept longer as long as there are at most `MAX_REMEMBERED`. Failures are kept
    until the next tick.

    Attributes
    ----------
    dictionaries
        The program's dictionaries of text and of bytes.
    """

    function: Function
    dictionaries: tuple[Dictionary, Dictionary]
    _results: dict[_Key, Outcome] = field(default_factory=dict)
    _truncations: int = 0

    @property
    def takes_nulls(self) -> bool:
        """Return whether the function is called for null."""
        return self.function.nulls

    def begin(self) -> None:
        """Begin a tick."""
        if len(self._results) > MAX_REMEMBERED:
            self._results.clear()
        failed = [key for key, outcome in self._results.items() if isinstance(outcome, Failure)]
        for key in failed:
            del self._results[key]

    def evaluate(
        self, kinds: Sequence[DataType], columns: Sequence[Int64Array], nulls: Sequence[BoolArray | None]
    ) -> tuple[Int64Array, BoolArray, BoolArray]:
        """Return the codes of results, a mask of nulls and a mask of failures.

        Parameters
        ----------
        kinds
            The types of the arguments.
        columns, nulls
            Per argument, int64 codes of shape (n,) on the host, and a mask of nulls or None.
        """
        n = len(columns[0])
        order, first = None, list(columns)
        flags = [None if mask is None or not bool(mask.any()) else mask for mask in nulls]
        if n >= _MIN_SORTED:
            kernels = cpu_backend().kernels
            sorted_by = [*first, *(mask.astype(np.int64) for mask in flags if mask is not None)]
            order = kernels.lexsort(sorted_by)
            starts = kernels.run_starts([column[order] for column in sorted_by])
            lengths = np.diff(np.append(starts, n))
            chosen = order[starts]
            first = [column[chosen] for column in first]
            flags = [None if mask is None else mask[chosen] for mask in flags]
        outcomes = self._look_up(kinds, first, flags)
        n_distinct = len(outcomes)
        codes = np.fromiter((0 if type(one) is not int else one for one in outcomes), np.int64, n_distinct)
        null = np.fromiter((one is None for one in outcomes), np.bool_, n_distinct)
        failed = np.fromiter((isinstance(one, Failure) for one in outcomes), np.bool_, n_distinct)
        if order is None:
            return codes, null, failed
        place = np.empty(n, np.int64)
        place[order] = np.repeat(np.arange(n_distinct), lengths)
        return codes[place], null[place], failed[place]

    def error_of(self, where: str, kinds: Sequence[DataType], arguments: Sequence[int | None]) -> FunctionError:
        """Return the error of a call that failed in this tick, with its cause; see `FunctionError`."""
        columns = [np.array([0 if code is None else code], np.int64) for code in arguments]
        nulls = [None if code is not None else np.ones(1, np.bool_) for code in arguments]
        (failure,) = self._look_up(kinds, columns, nulls)
        shown: list[Any] = []
        for kind, parameter, column, code in zip(kinds, self.function.parameters, columns, arguments, strict=True):
            converted, unfit = _converted(column, kind, parameter)
            if unfit is None or not bool(unfit[0]):
                kind, column = parameter, converted
            try:
                shown += [None] if code is None else _decoded(kind, column, self._dictionary(kind))
            except UnsupportedTypeError:
                shown.append(code)
        assert isinstance(failure, Failure)
        error = FunctionError(where, self.function.name, tuple(shown), failure.why, failure.value)
        error.__cause__ = failure.cause
        return error

    def _dictionary(self, kind: DataType) -> Dictionary | None:
        return None if not kind.has_dictionary else self.dictionaries[0 if kind.family == "string" else 1]

    def _look_up(
        self, kinds: Sequence[DataType], columns: Sequence[Int64Array], nulls: Sequence[BoolArray | None]
    ) -> list[Outcome]:
        """Return the outcomes for rows of arguments, most of which are distinct."""
        truncations = sum(dictionary.truncations for dictionary in self.dictionaries)
        if truncations != self._truncations:  # codes of texts have lost their meaning
            self._results.clear()
            self._truncations = truncations
        keys_by_column: list[list[Any]] = []
        unfit: dict[int, Failure] = {}
        for codes, kind, parameter, mask in zip(columns, kinds, self.function.parameters, nulls, strict=True):
            converted, failed = _converted(codes, kind, parameter)
            if failed is not None and bool(failed.any()):
                for row in np.flatnonzero(failed if mask is None else failed & ~mask).tolist():
                    unfit[row] = Failure(f"takes '{parameter.name}', which one of these arguments is not")
            listed = converted.tolist()
            if mask is not None:
                listed = [None if is_null else code for code, is_null in zip(listed, mask.tolist(), strict=True)]
            keys_by_column.append(listed)
        keys: list[_Key] = list(zip(*keys_by_column, strict=True))
        known = self._results
        asked = keys if not unfit else [key for row, key in enumerate(keys) if row not in unfit]
        missing = [key for key in dict.fromkeys(asked) if key not in known]
        if missing:
            known.update(zip(missing, self._call(missing), strict=True))
        outcomes: list[Outcome] = [known.get(key, _UNKNOWN) for key in keys]
        for row, failure in unfit.items():
            outcomes[row] = failure
        return outcomes

    def _call(self, keys: list[_Key]) -> list[Outcome]:
        """Return the outcomes of calls for combinations of arguments, in the parameters' codes."""
        function = self.function
        columns = [np.array([code or 0 for code in column], np.int64) for column in zip(*keys, strict=True)]
        masks = [
            np.array([code is None for code in column], np.bool_) if None in column else None
            for column in zip(*keys, strict=True)
        ]
        if function.arrays:
            return self._call_arrays(columns, masks)
        try:
            values = [
                _decoded(kind, column, self._dictionary(kind), mask)
                for kind, column, mask in zip(function.parameters, columns, masks, strict=True)
            ]
        except UnsupportedTypeError as error:
            if len(keys) == 1:
                return [Failure(f"cannot be called: {str(error).splitlines()[0].rstrip('.')}", None, error)]
            return [outcome for key in keys for outcome in self._call([key])]
        results: list[Any] = []
        failures: dict[int, Failure] = {}
        call = function.call
        for arguments in zip(*values, strict=True):
            try:
                results.append(call(*arguments))
            except Exception as error:  # of the user's function; the tick decides whether its row counts
                failures[len(results)] = _raised(error)
                results.append(None)
        outcomes = _outcomes(function.returns, results, self._dictionary(function.returns))
        for row, failure in failures.items():
            outcomes[row] = failure
        return outcomes

    def _call_arrays(self, columns: Sequence[Int64Array], masks: Sequence[BoolArray | None]) -> list[Outcome]:
        """Call a function of arrays; one that raises is called again for each element."""
        function, n = self.function, len(columns[0])
        arrays = [
            _array(kind, column, self._dictionary(kind), mask)
            for kind, column, mask in zip(function.parameters, columns, masks, strict=True)
        ]
        try:
            result = function.call(*arrays)
        except Exception as error:  # of the user's function
            if n == 1:
                return [_raised(error)]
            outcomes: list[Outcome] = []
            for row in range(n):
                cut = slice(row, row + 1)
                parts = [None if mask is None else mask[cut] for mask in masks]
                outcomes += self._call_arrays([column[cut] for column in columns], parts)
            return outcomes
        return _outcomes_of_array(function.returns, result, n, self._dictionary(function.returns))


def _raised(error: Exception) -> Failure:
    """Return the failure of a call that raised, without the frame of this module."""
    trace = error.__traceback__
    text = str(error)
    shown = f"{type(error).__name__}: {text:.200}" if text else type(error).__name__
    return Failure(f"raised {shown}", None, error.with_traceback(trace and trace.tb_next))
