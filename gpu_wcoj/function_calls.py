"""Calls of Python functions and SQL expressions, once a tick for equal arguments.

A function is evaluated on codes, as every calculation is: codes become the values that `ZSet.rows` returns, and results
become codes of the declared type. Each program keeps the results of its functions; see `BoundFunction`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from gpu_wcoj.arrow import decode, encode, sql_expressions
from gpu_wcoj.backend import cpu_backend
from gpu_wcoj.data.column import Column, Dictionary, dictionary_of, float_codes, floats_of
from gpu_wcoj.data.rows import as_python, is_masked_array
from gpu_wcoj.data.schema import TIME_UNITS, DataType
from gpu_wcoj.errors import CalculationError, FunctionError, TypeMismatchError, UnsupportedTypeError
from gpu_wcoj.functions import to_doubles
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.user_functions import Function, GroupFunctions, SqlFunction, TypedFunction
from gpu_wcoj.zset.arrays import BoolArray
from gpu_wcoj.zset.index import IndexedZSet
from gpu_wcoj.zset.zset import python_values

# Arguments: codes in the types of parameters, and the values that a function gets.


def _converted(codes: Int64Array, kind: DataType, to: DataType) -> tuple[Int64Array, BoolArray | None]:
    """Return codes in a parameter's type, and a mask of values that it does not have."""
    family = to.family
    if kind == to or family in ("bool", "string", "binary", *_AS_THEY_ARE):
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


_AS_THEY_ARE = ("uuid", "nested", "enum")
"""Families of which a type takes only the codes of the same type."""


def _decoded(
    kind: DataType, codes: Int64Array, dictionary: Dictionary | None, null: BoolArray | None = None
) -> list[Any]:
    """Return the Python values of codes, as `ZSet.rows` does, None where null."""
    if null is not None:
        values = [None] * len(codes)
        for row, value in zip(np.flatnonzero(~null).tolist(), _decoded(kind, codes[~null], dictionary), strict=True):
            values[row] = value
        return values
    if dictionary is not None and kind.family in ("string", "binary"):
        return dictionary.values_of(codes)
    array: Any = codes
    if kind.family == "bool":
        array = codes != 0
    elif kind.family.startswith("float"):
        array = floats_of(codes, 4 if kind.family == "float32" else 8)
    return list(array.tolist()) if kind.family in _NATIVE else python_values(Column(kind, codes, None, dictionary))


_NATIVE = ("integer", "bool", "float32", "float64")
"""Families whose values NumPy converts to Python's."""


def _array(kind: DataType, codes: Int64Array, dictionary: Dictionary | None, null: BoolArray | None) -> Any:
    """Return an array of values, masked where null; of texts and decimals, objects."""
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
            f"returned {value!r:.80} of type {type(value).__name__}, and it is declared to return '{kind}'", value
        )
    try:
        code = _code_of(kind, value, dictionary)
    except (ValueError, OverflowError) as error:
        return Failure(f"returned {value!r:.80}, which is not a value of '{kind}': {error}", value)
    low, high = kind.code_range
    if kind.family in ("integer", "decimal", "date", "timestamp", "zoned") and not low <= code <= high:
        return Failure(f"returned {value!r:.80}, which is outside of '{kind}'", value)
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


class Outcomes(NamedTuple):
    """Codes of results, a mask of nulls, and failures by row; codes are 0 for the last two."""

    codes: Int64Array
    null: BoolArray
    failures: dict[int, Failure]


def _encoded(kind: DataType, values: list[Any], dictionary: Dictionary | None) -> Outcomes:
    """Return the codes of values of a type; those of common types at once."""
    n, family, kinds = len(values), kind.family, set(map(type, values))
    null = np.zeros(n, np.bool_)
    if type(None) in kinds:
        null = np.fromiter((value is None for value in values), np.bool_, n)
        found = _encoded(kind, [value for value in values if value is not None], dictionary)
        rows = np.flatnonzero(~null)
        codes = np.zeros(n, np.int64)
        codes[rows] = found.codes
        return Outcomes(codes, null, {int(rows[row]): failure for row, failure in found.failures.items()})
    low, high = kind.code_range
    if family == "integer" and kinds == {int} and low <= min(values) and max(values) <= high:
        return Outcomes(np.array(values, np.int64), null, {})
    if family == "float64" and kinds == {float}:
        return Outcomes(float_codes(np.array(values, np.float64)), null, {})
    if family == "bool" and kinds == {bool}:
        return Outcomes(np.array(values, np.int64), null, {})
    if family == "string" and kinds == {str} and dictionary is not None and "".join(values).isascii():
        return Outcomes(dictionary.codes_of(values), null, {})
    outcomes = [_outcome(kind, value, dictionary) for value in values]
    codes = np.fromiter((0 if isinstance(one, Failure) else one for one in outcomes), np.int64, n)
    return Outcomes(codes, null, {row: one for row, one in enumerate(outcomes) if isinstance(one, Failure)})


def _encoded_array(kind: DataType, array: Any, n: int, dictionary: Dictionary | None) -> Outcomes:
    """Return the codes of an array of results."""
    if not isinstance(array, np.ndarray) or array.shape != (n,):
        shown = f"an array of shape {array.shape}" if isinstance(array, np.ndarray) else f"{array!r:.80}"
        why = f"returned {shown} for {n} combinations of arguments, and it is declared to return an array of that many"
        return Outcomes(np.zeros(n, np.int64), np.zeros(n, np.bool_), dict.fromkeys(range(n), Failure(why, array)))
    mask = np.ma.getmaskarray(array) if is_masked_array(array) else None
    if mask is not None and bool(mask.any()):
        rows = np.flatnonzero(~mask)
        found = _encoded_array(kind, np.ma.getdata(array)[rows], len(rows), dictionary)
        codes, null = np.zeros(n, np.int64), mask.copy()
        codes[rows], null[rows] = found.codes, found.null
        return Outcomes(codes, null, {int(rows[row]): failure for row, failure in found.failures.items()})
    plain: Any = np.ma.getdata(array)
    low, high = kind.code_range
    is_integer = plain.dtype.kind in "iu"
    null = np.zeros(n, np.bool_)
    if kind.family == "integer" and is_integer and (n == 0 or (low <= int(plain.min()) and int(plain.max()) <= high)):
        return Outcomes(plain.astype(np.int64), null, {})
    if kind.family == "bool" and plain.dtype == np.bool_:
        return Outcomes(plain.astype(np.int64), null, {})
    if kind.family in ("float32", "float64") and (is_integer or plain.dtype.kind == "f"):
        plain = plain.astype(np.float64)
        if kind.family == "float64":
            return Outcomes(float_codes(plain), null, {})
    if plain.dtype.kind == "M" and kind.family in ("date", "timestamp", "zoned"):
        plain = _times(plain, kind)
    return _encoded(kind, list(map(as_python, plain.tolist())), dictionary)


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
"""Combinations of arguments whose results a program keeps for the next tick: about 10 MB."""

_MIN_SORTED = 512
"""Rows from which combinations of arguments are sorted and looked up in tries, instead of one by one in a dict."""

_MAX_TABLES = 6
"""Times that results of many rows are added before their tables are merged."""

_Key = tuple[int, ...]
"""A combination of arguments: their codes, and of a function that takes nulls one flag for each."""


class _Table(NamedTuple):
    """Results in the order of the rows of a trie of combinations of arguments."""

    keys: IndexedZSet
    codes: Int64Array
    null: BoolArray


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

    function: TypedFunction
    dictionaries: tuple[Dictionary, Dictionary]
    _recent: dict[_Key, int | None] = field(default_factory=dict)
    _tables: list[_Table] = field(default_factory=list)
    _failures: dict[_Key, Failure] = field(default_factory=dict)
    _truncations: int = 0
    _last: tuple[list[Int64Array], tuple[Int64Array, BoolArray, BoolArray]] | None = None

    @property
    def evaluator(self) -> str:
        """Return the name of the evaluator."""
        return "DuckDB" if isinstance(self.function, SqlFunction) else f"the Python function {self.function.name}"

    @property
    def takes_nulls(self) -> bool:
        """Return whether the function is called for null."""
        return self.function.takes_nulls

    def begin(self) -> None:
        """Begin a tick."""
        if len(self._recent) + sum(len(table.codes) for table in self._tables) > MAX_REMEMBERED:
            self._clear()
        self._failures.clear()
        self._last = None

    def _clear(self) -> None:
        self._recent.clear()
        self._tables.clear()
        self._failures.clear()
        self._last = None

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
        truncations = sum(dictionary.truncations for dictionary in self.dictionaries)
        if truncations != self._truncations:  # codes of texts have lost their meaning
            self._clear()
            self._truncations = truncations
        n = len(columns[0])
        keys: list[Int64Array] = []
        unfit = np.zeros(n, np.bool_)
        for codes, kind, parameter, mask in zip(columns, kinds, self.function.parameters, nulls, strict=True):
            converted, failed = _converted(codes, kind, parameter)
            if failed is not None:
                unfit |= failed if mask is None else failed & ~mask
            keys.append(converted if mask is None else np.where(mask, 0, converted))
        if self.takes_nulls:
            keys += [np.zeros(n, np.int64) if mask is None else mask.astype(np.int64) for mask in nulls]
        if bool(unfit.any()):
            (rows,) = np.nonzero(~unfit)
            found = self._results([key[rows] for key in keys]) if len(rows) else None
            codes, null, failed = np.zeros(n, np.int64), np.zeros(n, np.bool_), unfit
            if found is not None:
                codes[rows], null[rows], failed[rows] = found
            return codes, null, failed
        return self._results(keys)

    def error_of(self, where: str, kinds: Sequence[DataType], arguments: Sequence[int | None]) -> CalculationError:
        """Return the error of a call that failed in this tick, with its cause; see `FunctionError`."""
        columns = [np.array([0 if code is None else code], np.int64) for code in arguments]
        nulls = [None if code is not None else np.ones(1, np.bool_) for code in arguments]
        _ = self.evaluate(kinds, columns, nulls)
        failure: Failure | None = None
        shown: list[Any] = []
        key: list[int] = []
        for kind, parameter, column, code in zip(kinds, self.function.parameters, columns, arguments, strict=True):
            converted, unfit = _converted(column, kind, parameter)
            if code is not None and unfit is not None and bool(unfit[0]):
                failure = Failure(f"takes '{parameter.name}', which one of these arguments is not")
            else:
                kind, column = parameter, converted
            key.append(0 if code is None else int(converted[0]))
            try:
                shown += [None] if code is None else _decoded(kind, column, dictionary_of(kind, self.dictionaries))
            except UnsupportedTypeError:
                shown.append(code)
        if failure is None:
            flags = [int(code is None) for code in arguments] if self.takes_nulls else []
            failure = self._failures[(*key, *flags)]
            if isinstance(self.function, SqlFunction) and failure.cause is None:
                arrays = [decode(column) for column in self._arguments(columns, nulls)]
                failure = _failed_in_sql(sql_expressions.failure_of(self.function.expression, arrays)) or failure
        if isinstance(self.function, SqlFunction):
            shown_call = self.function.describe_call([f"{value!r:.80}" for value in shown])
            return _failed_expression(shown_call, failure.why, failure.cause)
        if self.function.is_functor:
            call = self.function.describe_in_message([f"{value!r:.80}" for value in shown])
            why = failure.why if failure.cause is None else f"has no value: {failure.cause}"
            return CalculationError(where + call, why)
        error = FunctionError(where, self.function.name, tuple(shown), failure.why, failure.value)
        error.__cause__ = failure.cause
        return error

    def _results(self, keys: list[Int64Array]) -> tuple[Int64Array, BoolArray, BoolArray]:
        """Return codes, nulls and failures for combinations of arguments that the parameters have."""
        if len(keys[0]) < _MIN_SORTED:
            return self._look_up_each(keys)
        if self._last is not None and all(map(np.array_equal, self._last[0], keys)):  # for the flags of nulls
            return self._last[1]
        kernels = cpu_backend().kernels
        order = kernels.lexsort(keys)
        starts = kernels.run_starts([key[order] for key in keys])
        place = np.empty(len(order), np.int64)
        place[order] = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(order))))
        chosen = order[starts]
        codes, null, failed = self._look_up_sorted([key[chosen] for key in keys])
        result = codes[place], null[place], failed[place]
        self._last = keys, result
        return result

    def _look_up_each(self, keys: Sequence[Int64Array]) -> tuple[Int64Array, BoolArray, BoolArray]:
        """Return codes, nulls and failures of few rows; results are kept in the dict."""
        listed: list[_Key] = list(zip(*(key.tolist() for key in keys), strict=True))
        recent, failures = self._recent, self._failures
        missing = [key for key in dict.fromkeys(listed) if key not in recent and key not in failures]
        if missing:
            columns = [np.array(column, np.int64) for column in zip(*missing, strict=True)]
            codes, null, lacking = self._look_up_tables(columns)
            if len(lacking):
                found = self._call([column[lacking] for column in columns])
                codes[lacking], null[lacking] = found.codes, found.null
                failures.update((missing[lacking[row]], failure) for row, failure in found.failures.items())
            new = zip(missing, codes.tolist(), null.tolist(), strict=True)
            recent.update((key, None if is_null else code) for key, code, is_null in new if key not in failures)
        outcomes = [recent.get(key) for key in listed]
        n = len(listed)
        failed = np.fromiter((key in failures for key in listed), np.bool_, n)
        null = np.fromiter((one is None for one in outcomes), np.bool_, n) & ~failed
        return np.fromiter((one or 0 for one in outcomes), np.int64, n), null, failed

    def _look_up_sorted(self, keys: list[Int64Array]) -> tuple[Int64Array, BoolArray, BoolArray]:
        """Return codes, nulls and failures of sorted distinct rows; results are kept in a table."""
        if self._recent:
            recent, self._recent = self._recent, {}
            listed = sorted(recent)
            outcomes = [recent[key] for key in listed]
            codes = np.array([one or 0 for one in outcomes], np.int64)
            null = np.array([one is None for one in outcomes], np.bool_)
            self._keep([np.array(column, np.int64) for column in zip(*listed, strict=True)], codes, null)
        codes, null, lacking = self._look_up_tables(keys)
        failed = np.zeros(len(codes), np.bool_)
        if self._failures and len(lacking):
            known = zip(*(key[lacking].tolist() for key in keys), strict=True)
            failed[lacking] = np.fromiter((key in self._failures for key in known), np.bool_, len(lacking))
            lacking = lacking[~failed[lacking]]
        if len(lacking):
            chosen = [key[lacking] for key in keys]
            found = self._call(chosen)
            codes[lacking], null[lacking] = found.codes, found.null
            if found.failures:
                rows = np.fromiter(found.failures, np.int64, len(found.failures))
                failed[lacking[rows]] = True
                lost = zip(*(key[rows].tolist() for key in chosen), strict=True)
                self._failures.update(zip(lost, found.failures.values(), strict=True))
                lacking = lacking[~failed[lacking]]
            if len(lacking):
                self._keep([key[lacking] for key in keys], codes[lacking], null[lacking])
        return codes, null, failed

    def _look_up_tables(self, keys: Sequence[Int64Array]) -> tuple[Int64Array, BoolArray, Int64Array]:
        """Return codes and nulls from the tables, and the rows that no table has."""
        n = len(keys[0])
        codes, null, is_missing = np.zeros(n, np.int64), np.zeros(n, np.bool_), np.ones(n, np.bool_)
        for table in self._tables:
            position = table.keys.locate(keys)
            (rows,) = np.nonzero(position >= 0)
            codes[rows], null[rows] = table.codes[position[rows]], table.null[position[rows]]
            is_missing[rows] = False
        return codes, null, np.flatnonzero(is_missing)

    def _keep(self, keys: Sequence[Int64Array], codes: Int64Array, null: BoolArray) -> None:
        """Keep results of sorted distinct combinations of arguments that no table has."""
        tables = [*self._tables, _Table(IndexedZSet.from_sorted(keys, 1, cpu_backend()), codes, null)]
        if len(tables) > _MAX_TABLES:
            joined = [
                np.concatenate(column) for column in zip(*(table.keys.columns() for table in tables), strict=True)
            ]
            order = cpu_backend().kernels.lexsort(joined)
            trie = IndexedZSet.from_sorted([column[order] for column in joined], 1, cpu_backend())
            codes = np.concatenate([table.codes for table in tables])[order]
            null = np.concatenate([table.null for table in tables])[order]
            tables = [_Table(trie, codes, null)]
        self._tables[:] = tables

    def _call(self, keys: Sequence[Int64Array]) -> Outcomes:
        """Return the outcomes of calls for distinct combinations of arguments."""
        function, n = self.function, len(keys[0])
        n_arguments = len(function.parameters)
        columns = keys[:n_arguments]
        masks = [flag != 0 if bool(flag.any()) else None for flag in keys[n_arguments:]] or [None] * n_arguments
        if isinstance(function, SqlFunction):
            return self._call_sql(function, keys, columns, masks)
        assert isinstance(function, Function)
        parts = list(zip(function.parameters, columns, masks, strict=True))
        returns, dictionary = function.returns, dictionary_of(function.returns, self.dictionaries)
        try:
            if function.arrays:
                arrays = [
                    _array(kind, column, dictionary_of(kind, self.dictionaries), mask) for kind, column, mask in parts
                ]
                try:
                    return _encoded_array(returns, function.call(*arrays), n, dictionary)
                except Exception as error:  # of the user's function; then each row is called for by itself
                    if n == 1:
                        return _failed(_raised(error))
                    return _joined([self._call([key[row : row + 1] for key in keys]) for row in range(n)])
            values = [
                _decoded(kind, column, dictionary_of(kind, self.dictionaries), mask) for kind, column, mask in parts
            ]
        except UnsupportedTypeError as error:  # of a time that Python does not have
            if n == 1:
                return _failed(Failure(f"cannot be called: {str(error).splitlines()[0].rstrip('.')}", None, error))
            return _joined([self._call([key[row : row + 1] for key in keys]) for row in range(n)])
        results: list[Any] = []
        failures: dict[int, Failure] = {}
        call = function.call
        for arguments in zip(*values, strict=True):
            try:
                results.append(call(*arguments))
            except Exception as error:  # of the user's function; the tick decides whether its row counts
                failures[len(results)] = _raised(error)
                results.append(None)
        found = _encoded(returns, results, dictionary)
        failures.update(found.failures)
        found.null[list(failures)] = False
        return found._replace(failures=failures)

    def _arguments(self, columns: Sequence[Int64Array], masks: Sequence[BoolArray | None]) -> list[Column]:
        """Return arguments as columns."""
        return [
            Column(kind, codes, None if mask is None else ~mask, dictionary_of(kind, self.dictionaries))
            for kind, codes, mask in zip(self.function.parameters, columns, masks, strict=True)
        ]

    def _call_sql(
        self, function: SqlFunction, keys: Sequence[Int64Array], columns: Sequence[Int64Array],
        masks: Sequence[BoolArray | None],
    ) -> Outcomes:  # fmt: skip
        """Return the outcomes of an SQL expression."""
        n, returns = len(keys[0]), function.returns
        arrays = [decode(column) for column in self._arguments(columns, masks)]
        values, failed = sql_expressions.evaluate(function.expression, arrays, returns)
        try:
            column = encode(values, returns, string=self.dictionaries[0], binary=self.dictionaries[1])
        except (UnsupportedTypeError, TypeMismatchError) as error:  # of a value that no column can hold
            if n == 1:
                return _failed(Failure(f"has a value that no column holds: {_reason(error)}", None, error))
            return _joined([self._call([key[row : row + 1] for key in keys]) for row in range(n)])
        null = np.zeros(n, np.bool_) if column.valid is None else ~column.valid
        null[failed] = False
        failures = dict.fromkeys(np.flatnonzero(failed).tolist(), Failure("has no value"))
        return Outcomes(np.array(column.codes), null, failures)


class GroupRows(NamedTuple):
    """Rows of groups on the host.

    Attributes
    ----------
    owner
        The group of each row.
    codes, null
        Per column, codes and a mask of nulls or None.
    repeats
        The number of times that each row occurs.
    """

    owner: Int64Array
    codes: Sequence[Int64Array]
    null: Sequence[BoolArray | None]
    repeats: Int64Array


class ComputedRows(NamedTuple):
    """Results of groups.

    Attributes
    ----------
    rows
        Per result, the number of its row among the rows of groups; that of a group is one of its rows.
    codes, null
        Per expression, codes and a mask of nulls.
    """

    rows: Int64Array
    codes: list[Int64Array]
    null: list[BoolArray]


@dataclass(frozen=True, eq=False)
class BoundGroups:
    """Functions of groups, within a program.

    Attributes
    ----------
    kinds
        The types of the columns.
    results
        The types of the results' columns, None if unknown: these may have a finer unit or scale than the results.
    dictionaries
        The program's dictionaries of text and of bytes.
    """

    functions: GroupFunctions
    kinds: tuple[DataType, ...]
    results: tuple[DataType | None, ...]
    dictionaries: tuple[Dictionary, Dictionary]

    def compute(self, where: str, rows: GroupRows) -> ComputedRows:
        """Return the results; rows of a group are in the order of their values, nulls last.

        Raises
        ------
        CalculationError
            If DuckDB has no result for a group; the text begins with `where`.
        """
        functions, order = self.functions, self._order(rows)
        order = np.repeat(order, rows.repeats[order])
        columns = [
            Column(kind, codes[order], None if null is None else ~null[order], dictionary_of(kind, self.dictionaries))
            for kind, codes, null in zip(self.kinds, rows.codes, rows.null, strict=True)
        ]
        arrays = list(map(decode, columns))
        try:
            place, values = sql_expressions.compute_groups(
                functions.expressions, arrays, rows.owner[order], functions.returns, functions.is_window
            )
            results = [
                _in_unit(encode(array, kind, string=self.dictionaries[0], binary=self.dictionaries[1]), to)
                for array, kind, to in zip(values, functions.returns, self.results, strict=True)
            ]
        except (ValueError, UnsupportedTypeError, TypeMismatchError) as error:
            reason = _reason(error)
            if reason == sql_expressions.SEVERAL_ROWS:
                remedy = "Aggregate it, or add conditions that leave one row."
                raise CalculationError("a query as a value", "has more than one row", remedy) from None
            raise _failed_expression(f"{where}{functions}", f"has no value: {reason}", error) from None
        if not functions.is_window:  # of each group, any row
            first: Int64Array = np.zeros(int(rows.owner.max()) + 1, np.int64)
            first[rows.owner] = np.arange(len(rows.owner))
            numbers = first[place]
        else:
            numbers = order[place]
        null = [np.zeros(len(place), np.bool_) if one.valid is None else ~one.valid for one in results]
        return ComputedRows(numbers, [np.array(one.codes) for one in results], null)

    def _order(self, rows: GroupRows) -> Int64Array:
        """Return the order of rows by group and then by their values, nulls last."""
        keys: list[Any] = []
        for kind, codes, null in zip(self.kinds, rows.codes, rows.null, strict=True):
            dictionary = dictionary_of(kind, self.dictionaries)
            if null is not None:
                keys.append(null)
            if dictionary is not None:
                is_value = np.ones(len(codes), np.bool_) if null is None else ~null
                distinct, place = np.unique(codes[is_value], return_inverse=True)
                values = dictionary.values_of(distinct)
                rank = np.empty(len(distinct), np.int64)
                rank[sorted(range(len(values)), key=values.__getitem__)] = np.arange(len(distinct))
                codes = np.zeros(len(codes), np.int64)
                codes[is_value] = rank[place]
            keys.append(codes)
        order: Int64Array = np.lexsort([*reversed(keys), rows.owner])
        return order


class FunctionCalls:
    """The functions of a program, each with its results.

    Attributes
    ----------
    dictionaries
        The program's dictionaries of text and of bytes.
    """

    def __init__(self, dictionaries: tuple[Dictionary, Dictionary]) -> None:
        self.dictionaries = dictionaries
        self._bound: dict[TypedFunction, BoundFunction] = {}

    def bind(self, function: TypedFunction) -> BoundFunction:
        """Return a function within the program, always the same one."""
        return self._bound.setdefault(function, BoundFunction(function, self.dictionaries))

    def bind_groups(
        self, functions: GroupFunctions, kinds: tuple[DataType, ...], results: tuple[DataType | None, ...]
    ) -> BoundGroups:
        """Return functions of groups, over columns of these types; see `BoundGroups`."""
        return BoundGroups(functions, kinds, results, self.dictionaries)

    def begin(self) -> None:
        """Begin a tick, in which functions are called once for equal arguments."""
        for bound in self._bound.values():
            bound.begin()


def _in_unit(column: Column, to: DataType | None) -> Column:
    """Return results in the unit of times or the scale of decimals of their column."""
    return column if to is None or to.scale in (None, column.type.scale) else column.as_type(to)


def _failed(failure: Failure) -> Outcomes:
    """Return the outcomes of one call that failed."""
    return Outcomes(np.zeros(1, np.int64), np.zeros(1, np.bool_), {0: failure})


def _joined(outcomes: Sequence[Outcomes]) -> Outcomes:
    """Return the outcomes of several single calls as one."""
    failures = {row: failure for row, one in enumerate(outcomes) for failure in one.failures.values()}
    codes = np.concatenate([one.codes for one in outcomes])
    return Outcomes(codes, np.concatenate([one.null for one in outcomes]), failures)


SQL_REMEDY = "Leave such rows out by a condition; TRY_CAST gives NULL where a cast fails."
"""What to do about an SQL expression without a value."""


_UNKEPT_REMEDY = (
    "A view keeps it as a text, CAST(... AS VARCHAR), or by its parts: those of an interval are "
    "datepart('month', ...), datepart('day', ...) and so on."
)
"""What to do about a result of an SQL expression that no column holds."""


def _reason(error: Exception) -> str:
    """Return the first line of an error about the only value of a column."""
    return str(error).splitlines()[0].replace("the column: ", "").replace(" (row 0)", "", 1).rstrip(".")


def _failed_expression(call: str, why: str, cause: BaseException | None) -> CalculationError:
    """Return the error of an SQL expression, with a remedy for its cause."""
    is_unsupported = isinstance(cause, UnsupportedTypeError)
    failed = CalculationError(call, why, _UNKEPT_REMEDY if is_unsupported else SQL_REMEDY)
    failed.is_unsupported = is_unsupported
    return failed


def _failed_in_sql(error: Exception | None) -> Failure | None:
    """Return the failure with DuckDB's reason."""
    return None if error is None else Failure(f"has no value: {str(error)[:1].lower()}{str(error)[1:]}")


def _raised(error: Exception) -> Failure:
    """Return the failure of a call that raised, without the frame of this module."""
    trace = error.__traceback__
    text = str(error)
    shown = f"{type(error).__name__}: {text:.200}" if text else type(error).__name__
    return Failure(f"raised {shown}", None, error.with_traceback(trace and trace.tb_next))
