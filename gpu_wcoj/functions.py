"""Scalar functions on codes, many rows at once.

Integers are int64 and checked: a result outside int64, and a quotient or remainder by 0, are failures. ``/`` truncates
towards 0 and ``%`` has the sign of the dividend, as in C and in Soufflé. Floats follow IEEE 754; they have no failures,
except for ``quotient`` and ``rest``, which are ``/`` and ``%`` that fail for a divisor of 0. Text functions count
characters from 0: ``substr(text, begin, length)`` ends at the end of the text, and fails for a negative begin or
length; ``like`` fails if the escape is not one character or ends the pattern, ``match`` if RE2 does not accept the
pattern. Decimals are exact; a result outside int64 or the digits of its type is a failure.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Protocol

import numpy as np

from gpu_wcoj.backend import Backend, cpu_backend
from gpu_wcoj.data.column import Dictionary, float_codes, floats_of, without_zero_signs
from gpu_wcoj.data.schema import DataType
from gpu_wcoj.errors import GpuWcojError
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.arrangement import COMPARE
from gpu_wcoj.zset.arrays import BoolArray


class PythonFunction(Protocol):
    """A function that rules call, within a program; see `gpu_wcoj.function_calls.BoundFunction`."""

    @property
    def evaluator(self) -> str:
        """Return the name of the evaluator, as DuckDB or the Python function."""
        ...

    @property
    def takes_nulls(self) -> bool:
        """Return whether it is called for null."""
        ...

    def evaluate(
        self, kinds: Sequence[DataType], columns: Sequence[Int64Array], nulls: Sequence[BoolArray | None]
    ) -> tuple[Int64Array, BoolArray, BoolArray]:
        """Return the codes of results, a mask of nulls and a mask of failures, for rows on the host."""
        ...

    def error_of(self, where: str, kinds: Sequence[DataType], arguments: Sequence[int | None]) -> GpuWcojError:
        """Return the error of a call that failed."""
        ...


@dataclass(frozen=True)
class Formula:
    """A part of a null-aware calculation, on codes and null flags.

    Attributes
    ----------
    op
        A comparison operator, another null-aware function, ``column``, ``constant``, or ``call`` for a calculation that
        is null if a part is.
    parts
        The operands.
    place, flag
        Of a column, the positions of its codes and of its null flags among the calculation's arguments (-1: no nulls).
    code
        The code of a constant; None for null.
    codes
        Of ``among``, the sorted codes of the listed values.
    has_null
        Whether such a list contains null.
    family
        Of comparisons of text by order, the dictionary; otherwise an empty string.
    calculation
        The calculation of ``call``; its arguments are the parts.
    """

    op: str
    parts: tuple[Formula, ...] = ()
    place: int = -1
    flag: int = -1
    code: int | None = None
    codes: tuple[int, ...] = ()
    has_null: bool = False
    family: str = ""
    calculation: Calculation | None = None

    @cached_property
    def makes_text(self) -> bool:
        """Return whether texts are calculated, or Python functions called."""
        made = self.calculation
        makes_text = made is not None and (made.family == "string" or made.function is not None)
        return makes_text or any(part.makes_text for part in self.parts)


@dataclass(frozen=True)
class Calculation:
    """``variable = op(arguments)`` on codes.

    Attributes
    ----------
    arguments
        Per argument a variable's name or a constant's code.
    families
        Types of the arguments: ``integer``, ``float32``, ``float64``, ``decimal``, ``string``, ``date`` and so on.
    family
        Type of the result.
    drops
        Whether rows whose result is outside int64 are dropped, as the result must equal a value inside.
    is_inverse
        Whether it solves another calculation, which is checked later, for an argument; it may wrap around.
    scales, scale
        Of decimals, the digits after the point of the arguments and of the result.
    most
        Of a decimal result, the largest code.
    per_day
        Of a point in time, its units a day.
    keeps_zero_sign
        Whether a result of -0.0 is kept; where the result is compared, it becomes 0.0.
    formula
        The formula of a null-aware calculation; `op` is ``formula``, or ``flag`` for whether the result is null.
    shown
        The text of a null-aware calculation, with the rule's variable names.
    function, kinds
        Of a call of a Python function, the function, and the types of the arguments.
    """

    variable: str
    op: str
    arguments: tuple[str | int, ...]
    families: tuple[str, ...]
    family: str
    drops: bool = False
    is_inverse: bool = False
    scales: tuple[int, ...] = ()
    scale: int = 0
    max_code: int = 0
    per_day: int = 1
    keeps_zero_sign: bool = False
    formula: Formula | None = None
    text: object = field(default="", compare=False)
    function: PythonFunction | None = None
    kinds: tuple[DataType, ...] = ()

    @property
    def makes_text(self) -> bool:
        """Return whether texts are calculated, or Python functions called."""
        return self.formula.makes_text if self.formula is not None else self.family == "string"

    def __str__(self) -> str:
        if self.formula is not None:
            return f"{self.variable} = {self.text if self.op == 'formula' else f'isnull({self.text})'}"
        operands = list(map(str, self.arguments))
        if self.op.isidentifier():
            return f"{self.variable} = {self.op}({', '.join(operands)})"
        return f"{self.variable} = " + (
            f" {self.op} ".join(operands) if len(operands) > 1 else f"{self.op}{operands[0]}"
        )


def name_function(calculation: Calculation) -> str:
    """Return the evaluator of the first function in a calculation, or an empty string."""
    waiting = [calculation]
    formulas = [] if calculation.formula is None else [calculation.formula]
    while waiting or formulas:
        for made in waiting:
            if made.function is not None:
                return made.function.evaluator
        waiting = [formula.calculation for formula in formulas if formula.calculation is not None]
        formulas = [part for formula in formulas for part in formula.parts]
    return ""


# Years, months and days of dates, in the proleptic Gregorian calendar.


_DAYS_OF_ERA = 146_097
"""Days in 400 years."""


def calendar_of(op: str, codes: Int64Array, per_day: int, xp: Any) -> Int64Array:
    """Return the ``year``, ``month`` or ``day`` of points in time.

    Internally years begin in March, so that a leap day is the last day. Year 0 precedes year 1, and year -1 precedes 0.

    Parameters
    ----------
    codes
        Units since the beginning of 1970.
    per_day
        Units a day.

    Examples
    --------
    >>> import numpy as np
    >>> days = np.array([9204, -719469])
    >>> [calendar_of(op, days, 1, np).tolist() for op in ("year", "month", "day")]
    [[1995, 0], [3, 2], [15, 29]]
    """
    days = (codes if per_day == 1 else codes // per_day) + 719_468
    era = days // _DAYS_OF_ERA
    of_era = days - era * _DAYS_OF_ERA
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    if op == "day":
        day: Int64Array = of_year - (153 * month + 2) // 5 + 1
        return day
    calendar_month = xp.where(month < 10, month + 3, month - 9)
    part: Int64Array = calendar_month if op == "month" else year + era * 400 + (calendar_month <= 2)
    return part


# Upper and lower case of texts, character by character, as in DuckDB.
#
# Python and Java map texts as a whole: 'ß' becomes 'SS', and the mapping of 'Σ' depends on its place in the word. Here
# every character becomes one character, by Unicode's simple mapping, except that 'ß' becomes 'ẞ'.


_UPPER = {"ß": "ẞ"}
_LOWER = {"İ": "i"}


def upcase(text: str) -> str:
    """Convert each character to upper case.

    Examples
    --------
    >>> upcase("straße"), upcase("ﬁx"), upcase("ᾳ")
    ('STRAẞE', 'ﬁX', 'ᾼ')
    """
    return text.upper() if text.isascii() else "".join(map(_upper, text))


def downcase(text: str) -> str:
    """Convert each character to lower case.

    Examples
    --------
    >>> downcase("ΑΣ"), downcase("İ")
    ('ασ', 'i')
    """
    return text.lower() if text.isascii() else "".join(map(_lower, text))


@functools.lru_cache(maxsize=4096)
def _upper(char: str) -> str:
    candidates = (_UPPER.get(char, ""), char.upper(), char.title())
    return next((candidate for candidate in candidates if len(candidate) == 1), char)


@functools.lru_cache(maxsize=4096)
def _lower(char: str) -> str:
    return _LOWER.get(char, char.lower())


# Checked arithmetic of int64, many rows at once: results and masks of failures.


Calculated = tuple[Int64Array, BoolArray | None]
"""The codes, and a mask of failures; failed rows have codes that follow from the arguments."""


def add(xp: Any, left: Int64Array, right: Int64Array) -> Calculated:  # noqa: ARG001  # called as the others are
    """Return ``left + right``."""
    result = left + right
    return result, ((left ^ result) & (right ^ result)) < 0


def subtract(xp: Any, left: Int64Array, right: Int64Array | None = None) -> Calculated:
    """Return ``left - right``; for one argument, ``-left``."""
    if right is None:
        left, right = xp.zeros(len(left), np.int64), left
    result = left - right
    return result, ((left ^ right) & (left ^ result)) < 0


def multiply(xp: Any, left: Int64Array, right: Int64Array) -> Calculated:
    """Return ``left * right``.

    Overflow shows in the sign up to a magnitude of 2^64, and in a float product beyond.
    """
    result = left * right
    about = left.astype(np.float64) * right.astype(np.float64)
    large = xp.abs(about)
    return result, (large > 1.5 * 2.0**63) | ((large > 2.0**62) & ((result < 0) != (about < 0)))


def divide(xp: Any, left: Int64Array, right: Int64Array) -> Calculated:
    """Return ``left / right``, truncated towards 0."""
    failed = (right == 0) | ((right == -1) & (left == -(1 << 63)))
    by = xp.where(failed, 1, right)
    result = left // by
    return result + ((result * by != left) & ((left < 0) != (by < 0))), failed


def remainder(xp: Any, left: Int64Array, right: Int64Array) -> Calculated:
    """Return ``left % right``, with the sign of `left`."""
    failed = right == 0
    by = xp.where(failed | (right == -1), 1, right)
    result = left - left // by * by
    return xp.where((result != 0) & ((left < 0) != (by < 0)), result - by, result), failed


def absolute(xp: Any, values: Int64Array) -> Calculated:
    """Return ``abs(values)``."""
    return xp.abs(values), values == -(1 << 63)


INTEGER_OPERATIONS: dict[str, Callable[..., Calculated]] = {
    "+": add,
    "-": subtract,
    "*": multiply,
    "/": divide,
    "%": remainder,
    "quotient": divide,
    "rest": remainder,
    "abs": absolute,
}


# Checked arithmetic of decimals, which are int64 codes in units of 10^-scale.
#
# Sums, differences and remainders are calculated in the result's scale, products in the sum of the scales; a result
# outside int64 or the digits of its type has no value. Results are never rounded.


_MAX_INT64 = (1 << 63) - 1
"""The largest value of int64."""
_EXACT = 1 << 53
"""Magnitude of values up to which doubles represent every integer."""


def calculate_decimals(calculation: Calculation, arguments: Sequence[Int64Array], xp: Any) -> Calculated:
    """Return the codes of results, and a mask of failures.

    Examples
    --------
    >>> kinds = ("decimal", "integer")
    >>> one = Calculation("z", "+", ("x", "y"), kinds, "decimal", scales=(2, 0), scale=2, max_code=99999)
    >>> calculate_decimals(one, [np.array([150, 150]), np.array([1, 1000])], np)
    (array([   250, 100150]), array([False,  True]))
    """
    if calculation.op == "scale":
        return saturate(arguments[0], 10 ** (calculation.scale - calculation.scales[0]), xp), None
    failed: Any = False
    columns = list(arguments)
    natural = sum(calculation.scales)
    if calculation.op != "*":
        natural = calculation.scale
        for i, (column, scale) in enumerate(zip(arguments, calculation.scales, strict=True)):
            columns[i], lacks = _rescale(column, calculation.scale - scale, xp)
            failed = failed | lacks
    codes, lacks = INTEGER_OPERATIONS[calculation.op](xp, *columns)
    failed = failed | lacks
    codes, lacks = _rescale(codes, calculation.scale - natural, xp)
    return codes, failed | lacks | (codes > calculation.max_code) | (codes < -calculation.max_code)


def _rescale(codes: Int64Array, digits: int, xp: Any) -> tuple[Int64Array, Any]:
    if digits == 0:
        return codes, False
    return multiply(xp, codes, xp.full(len(codes), 10**digits, np.int64))


def saturate(codes: Int64Array, factor: int, xp: Any) -> Int64Array:
    """Convert codes to a finer scale, with saturation at int64, which keeps comparisons correct.

    Examples
    --------
    >>> saturate(np.array([12, -(10**18)]), 100, np)
    array([                1200, -9223372036854775807])
    """
    limit = _MAX_INT64 // factor
    within = xp.where((codes > limit) | (codes < -limit), 0, codes) * factor
    result: Int64Array = xp.where(codes > limit, _MAX_INT64, xp.where(codes < -limit, -_MAX_INT64, within))
    return result


def to_doubles(codes: Int64Array, scale: int, backend: Backend) -> Any:
    """Return the nearest double of each decimal.

    Examples
    --------
    >>> from gpu_wcoj.backend import cpu_backend
    >>> to_doubles(np.array([5, -1234]), 2, cpu_backend()).tolist()
    [0.05, -12.34]
    """
    values = codes.astype(np.float64)
    if scale == 0:
        return values
    values = values * float(10**-scale) if scale < 0 else values / float(10**scale)
    rounded = backend.to_host((codes > _EXACT) | (codes < -_EXACT))
    if bool(rounded.any()):  # rounding twice may differ from rounding once, as Python's integer quotient does
        host = backend.to_host(values).copy()
        by, times = 10 ** max(scale, 0), 10 ** max(-scale, 0)
        host[rounded] = [code * times / by for code in backend.to_host(codes)[rounded].tolist()]
        values = backend.asarray(host)
    return values


# SQL's LIKE: ``%`` matches any characters, ``_`` matches one.


def like(text: str, pattern: str, escape: str | None = None) -> bool | None:
    r"""Return whether a whole text matches a pattern. Linear in the text times the pattern.

    Parameters
    ----------
    escape
        The character that makes the next one literal.

    Returns
    -------
    bool or None
        None if the escape is not one character, or ends the pattern.

    Examples
    --------
    >>> like("forest green", "%green%"), like("a%b", "a!%_", "!"), like("ab", "_")
    (True, True, False)
    """
    pieces = _pieces(pattern, escape)
    if pieces is None:
        return None
    (first, n_first), *middle = pieces
    if not middle:
        return len(text) == n_first and first.match(text) is not None
    last_piece, n_last = middle.pop()
    offset, end = n_first, len(text) - n_last
    if end < offset or first.match(text) is None or last_piece.match(text, end) is None:
        return False
    for piece, _ in middle:
        match = piece.search(text, offset, end)
        if match is None:
            return False
        offset = match.end()
    return True


@lru_cache(maxsize=1024)
def _pieces(pattern: str, escape: str | None) -> Sequence[tuple[re.Pattern[str], int]] | None:
    """Return the parts between ``%`` signs, each of a fixed length."""
    if escape is not None and len(escape) != 1:
        return None
    pieces: list[list[str]] = [[]]
    characters = iter(pattern)
    for char in characters:
        if char == escape:
            following = next(characters, None)
            if following is None:
                return None
            pieces[-1].append(re.escape(following))
        elif char == "%":
            pieces.append([])
        else:
            pieces[-1].append("." if char == "_" else re.escape(char))
    return [(re.compile("".join(piece), re.DOTALL), len(piece)) for piece in pieces]


Ranks = Callable[[str], Int64Array]
"""Maps a family of text to the rank of every code in text order."""


def evaluate_calculation(
    calculation: Calculation,
    arguments: Sequence[Int64Array],
    alive: BoolArray,
    backend: Backend,
    dictionary: Dictionary | None = None,
    ranks: Ranks | None = None,
) -> Calculated:
    """Return the results for every row, and a mask of failures.

    Texts are calculated only for rows that are alive. A null-aware result that is null has code 0.

    Examples
    --------
    >>> division = Calculation("z", "/", ("x", "y"), ("integer", "integer"), "integer")
    >>> columns = [np.array([7, -7, 7]), np.array([2, 2, 0])]
    >>> evaluate_calculation(division, columns, np.ones(3, bool), cpu_backend())
    (array([ 3, -3,  7]), array([False, False,  True]))
    """
    if calculation.formula is not None:
        result = FormulaRun(arguments, backend, dictionary, ranks).evaluate(calculation.formula, alive)
        n = len(alive)
        lacks = backend.xp.zeros(n, np.bool_) if result.null is None else result.null
        if calculation.op == "flag":
            return lacks.astype(np.int64), None
        codes = result.codes
        if calculation.family.startswith("float") and not calculation.keeps_zero_sign:
            codes = without_zero_signs(codes, backend.xp)
        return backend.xp.where(lacks, 0, codes), result.failed
    if "string" in calculation.families:
        assert dictionary is not None
        return _evaluate_texts(calculation, arguments, alive, backend, dictionary)
    if calculation.op in ("year", "month", "day"):
        return calendar_of(calculation.op, arguments[0], calculation.per_day, backend.xp), None
    if calculation.family.startswith("float"):
        return _evaluate_floats(calculation, arguments, backend)
    if calculation.family == "decimal":
        return calculate_decimals(calculation, arguments, backend.xp)
    return INTEGER_OPERATIONS[calculation.op](backend.xp, *arguments)


@dataclass(frozen=True)
class Nullable:
    """Codes, or truth values, of many rows.

    Attributes
    ----------
    null
        Mask of rows without a value; None if there are none.
    failed
        Mask of rows for which a needed calculation fails; None if there are none.
    """

    codes: Any
    null: BoolArray | None = None
    failed: BoolArray | None = None


class FormulaRun:
    """A formula evaluated for many rows at once, in three-valued logic.

    A failed calculation is a fourth value beside true, false and unknown: AND with false it is false, and OR with true
    it is true. So the order of operands does not matter.

    Attributes
    ----------
    lost
        The calculations that were done, their arguments with masks of nulls, and masks of their failures.
    """

    def __init__(
        self, columns: Sequence[Int64Array], backend: Backend, dictionary: Dictionary | None, ranks: Ranks | None
    ) -> None:
        self.columns = columns
        self.backend = backend
        self.xp = backend.xp
        self.dictionary = dictionary
        self.ranks = ranks
        self.lost: list[tuple[Calculation, list[Nullable], BoolArray]] = []

    def evaluate(self, formula: Formula, alive: BoolArray) -> Nullable:
        """Evaluate a formula to codes."""
        xp, n = self.xp, len(alive)
        if formula.op == "column":
            flags = None if formula.flag < 0 else self.columns[formula.flag] != 0
            return Nullable(self.columns[formula.place], flags)
        if formula.op == "constant":
            is_null = formula.code is None
            return Nullable(xp.full(n, formula.code or 0, np.int64), xp.ones(n, np.bool_) if is_null else None)
        if formula.op == "call":
            return self._evaluate_call(formula, alive)
        if formula.op == "case":
            return self._evaluate_case(formula, alive)
        result = self.evaluate_truth(formula, alive)
        return Nullable(result.codes.astype(np.int64), result.null, result.failed)

    def evaluate_truth(self, formula: Formula, alive: BoolArray) -> Nullable:
        """Evaluate a formula to truth values, which are false if they are null or fail."""
        if formula.op in ("all", "any"):
            return self._evaluate_connective(formula, alive)
        if formula.op in COMPARE:
            left, right = (self.evaluate(part, alive) for part in formula.parts)
            codes = [left.codes, right.codes]
            if formula.family:
                assert self.ranks is not None
                rank = self.ranks(formula.family)
                codes = [rank[column] for column in codes]
            result = COMPARE[formula.op](*codes)
            return _settle(result, _union(left.null, right.null), _union(left.failed, right.failed))
        if formula.op == "among":
            (part,) = formula.parts
            value = self.evaluate(part, alive)
            result = self._contained(value.codes, formula.codes)
            lacks = _union(value.null, ~result if formula.has_null else None)
            return _settle(result, lacks, value.failed)
        if formula.op == "isnull":
            (part,) = formula.parts
            value = self.evaluate(part, alive)
            nothing = self.xp.zeros(len(alive), np.bool_)
            return _settle(nothing if value.null is None else value.null, None, value.failed)
        if formula.op == "istrue":
            (part,) = formula.parts
            value = self.evaluate_truth(part, alive)
            return Nullable(value.codes, None, value.failed)
        value = self.evaluate(formula, alive)
        return _settle(value.codes != 0, value.null, value.failed)

    def _evaluate_connective(self, formula: Formula, alive: BoolArray) -> Nullable:
        """Evaluate AND or OR; once a part decides a row, later parts are not calculated for it."""
        is_any = formula.op == "any"
        decided = self.xp.zeros(len(alive), np.bool_)
        null: BoolArray | None = None
        failed: BoolArray | None = None
        for part in formula.parts:
            result = self.evaluate_truth(part, alive & ~decided)
            null, failed = _union(null, result.null), _union(failed, result.failed)
            decides = result.codes if is_any else ~result.codes
            if not is_any:
                for lacks in (result.null, result.failed):
                    decides = decides if lacks is None else decides & ~lacks
            decided = decided | decides
        null = None if null is None else null & ~decided
        failed = None if failed is None else failed & ~decided
        return _settle(decided if is_any else ~decided, null, failed)

    def _evaluate_call(self, formula: Formula, alive: BoolArray) -> Nullable:
        """Evaluate a calculation; it is null if an argument is."""
        assert formula.calculation is not None
        values = [self.evaluate(part, alive) for part in formula.parts]
        if formula.calculation.function is not None:
            return self._evaluate_function(formula.calculation, formula.calculation.function, values, alive)
        null: BoolArray | None = None
        failed: BoolArray | None = None
        for value in values:
            null, failed = _union(null, value.null), _union(failed, value.failed)
        there = alive
        for lacks in (null, failed):
            there = there if lacks is None else there & ~lacks
        columns = [value.codes for value in values]
        codes, failures = evaluate_calculation(
            formula.calculation, columns, there, self.backend, self.dictionary, self.ranks
        )
        if failures is not None:
            failures = failures if null is None else failures & ~null
            self.lost.append((formula.calculation, values, failures))
            failed = _union(failed, failures)
        null = null if null is None or failed is None else null & ~failed
        return Nullable(codes, null, failed)

    def _evaluate_function(
        self, calculation: Calculation, function: PythonFunction, values: Sequence[Nullable], alive: BoolArray
    ) -> Nullable:
        """Call a Python function on the host for rows that are alive.

        The result is null if the function returns None, or is not called as an argument is null.
        """
        backend, n = self.backend, len(alive)
        masks: list[BoolArray | None] = [None] * len(values)
        null: BoolArray | None = None
        failed: BoolArray | None = None
        for value in values:
            null, failed = _union(null, value.null), _union(failed, value.failed)
        if function.takes_nulls:
            masks, null = [value.null for value in values], None
        there = alive
        for lacks in (null, failed):
            there = there if lacks is None else there & ~lacks
        (rows,) = np.nonzero(backend.to_host(there))
        codes = np.zeros(n, np.int64)
        is_null, has_failed = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
        if len(rows):
            columns = [backend.to_host(value.codes)[rows] for value in values]
            chosen = [None if mask is None else backend.to_host(mask)[rows] for mask in masks]
            codes[rows], is_null[rows], has_failed[rows] = function.evaluate(calculation.kinds, columns, chosen)
        failures = backend.asarray(has_failed)
        self.lost.append((calculation, list(values), failures))
        failed, null = _union(failed, failures), _union(null, backend.asarray(is_null))
        return Nullable(backend.asarray(codes), null if null is None or failed is None else null & ~failed, failed)

    def _evaluate_case(self, formula: Formula, alive: BoolArray) -> Nullable:
        """Return the value of the first true condition.

        A condition that fails before it fails the row.
        """
        xp, n = self.xp, len(alive)
        codes, null = xp.zeros(n, np.int64), xp.ones(n, np.bool_)
        failed = xp.zeros(n, np.bool_)
        left = xp.ones(n, np.bool_)  # no condition has been true or failed so far
        parts = formula.parts
        pairs: list[tuple[Formula | None, Formula]] = list(zip(parts[::2], parts[1::2], strict=False))
        if len(parts) % 2:
            pairs.append((None, parts[-1]))
        for condition, part in pairs:
            chosen = left
            if condition is not None:
                holds = self.evaluate_truth(condition, alive & left)
                chosen = left & holds.codes
                if holds.failed is not None:
                    failed = failed | (left & holds.failed)
                    left = left & ~holds.failed
            left = left & ~chosen
            value = self.evaluate(part, alive & chosen)
            codes = xp.where(chosen, value.codes, codes)
            null = xp.where(chosen, False if value.null is None else value.null, null)
            if value.failed is not None:
                failed = failed | (chosen & value.failed)
        return Nullable(codes, null & ~failed, failed)

    def _contained(self, codes: Int64Array, listed: tuple[int, ...]) -> BoolArray:
        """Return a mask of the codes that are in a sorted list."""
        xp = self.xp
        contained: BoolArray = xp.zeros(len(codes), np.bool_)
        if len(listed) <= MAX_COMPARED_CODES:
            for code in listed:
                contained = contained | (codes == code)
            return contained
        codes_listed = self.backend.asarray(np.array(listed, np.int64))
        places = xp.minimum(xp.searchsorted(codes_listed, codes), len(listed) - 1)
        matches: BoolArray = codes_listed[places] == codes
        return matches


MAX_COMPARED_CODES = 8
"""Number of codes up to which a list is compared code by code; longer lists are searched."""


def _union(left: BoolArray | None, right: BoolArray | None) -> BoolArray | None:
    if left is None or right is None:
        return right if left is None else left
    return left | right


def _settle(truth: BoolArray, null: BoolArray | None, failed: BoolArray | None) -> Nullable:
    """Make truth values false where they are null or fail; a failure is not null."""
    null = null if null is None or failed is None else null & ~failed
    for lacks in (null, failed):
        truth = truth if lacks is None else truth & ~lacks
    return Nullable(truth, null, failed)


def _evaluate_floats(calculation: Calculation, arguments: Sequence[Int64Array], backend: Backend) -> Calculated:
    xp = backend.xp
    width = 4 if calculation.family == "float32" else 8
    values: list[Any] = []
    for i, (column, family) in enumerate(zip(arguments, calculation.families, strict=True)):
        if family == "integer":
            values.append(column.astype(f"f{width}"))
        elif family == "decimal":
            values.append(to_doubles(column, calculation.scales[i], backend).astype(f"f{width}"))
        else:
            values.append(floats_of(column, 4 if family == "float32" else 8, xp).astype(f"f{width}"))
    with np.errstate(all="ignore"):
        if len(values) == 1:
            result = _UNARY_FLOAT[calculation.op](values[0])
        elif calculation.op in ("%", "rest"):
            result = _float_remainder(values[0], values[1], backend)
        else:
            result = _BINARY_FLOAT[calculation.op](values[0], values[1])
    codes = float_codes(result, xp)
    if not calculation.keeps_zero_sign:
        codes = without_zero_signs(codes, xp)
    return codes, values[1] == 0 if calculation.op in _FAILING else None


_FAILING = ("quotient", "rest")
_UNARY_FLOAT: dict[str, Callable[[Any], Any]] = {
    "-": lambda value: -value,
    "abs": abs,
    "double": lambda value: value,
}
_BINARY_FLOAT: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": lambda left, right: left / right,
    "quotient": lambda left, right: left / right,
}


def _float_remainder(left: Any, right: Any, backend: Backend) -> Any:
    """Return the exact remainder with the sign of the dividend.

    It is calculated on the host, as devices' array modules differ here.
    """
    return backend.asarray(np.fmod(backend.to_host(left), backend.to_host(right)))


def _evaluate_texts(
    calculation: Calculation,
    arguments: Sequence[Int64Array],
    alive: BoolArray,
    backend: Backend,
    dictionary: Dictionary,
) -> Calculated:
    """Calculate texts on the host, once for each distinct combination of arguments."""
    (rows,) = np.nonzero(backend.to_host(alive))
    codes, failures = np.zeros(len(alive), np.int64), np.zeros(len(alive), np.bool_)
    if len(rows):
        kernels = cpu_backend().kernels
        columns = [backend.to_host(column)[rows] for column in arguments]
        order = kernels.lexsort(columns)
        columns = [column[order] for column in columns]
        starts = kernels.run_starts(columns)
        results: list[Any] = []
        if calculation.op == "match":
            results += dictionary.match(*(column[starts] for column in columns))
        else:
            arguments_by_row = [
                dictionary.values_of(column[starts]) if family == "string" else column[starts].tolist()
                for column, family in zip(columns, calculation.families, strict=True)
            ]
            results += [_TEXT[calculation.op](*values) for values in zip(*arguments_by_row, strict=True)]
        missing = np.array([value is None for value in results], np.bool_)
        if calculation.family == "string":
            distinct = dictionary.codes_of(["" if value is None else value for value in results])
        else:
            distinct = np.array([value or 0 for value in results], np.int64)
        lengths = np.diff(np.append(starts, len(order)))
        codes[rows[order]], failures[rows[order]] = np.repeat(distinct, lengths), np.repeat(missing, lengths)
    return backend.asarray(codes), backend.asarray(failures)


def _substring(text: str, begin: int, length: int) -> str | None:
    return None if begin < 0 or length < 0 else text[begin : begin + length]


_TEXT: dict[str, Callable[..., Any]] = {
    "cat": lambda *texts: "".join(texts),
    "substr": _substring,
    "strlen": len,
    "lower": str.lower,
    "upper": str.upper,
    "downcase": downcase,
    "upcase": upcase,
    "like": like,
    "contains": lambda part, text: part in text,
}
