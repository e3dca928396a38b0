"""The errors a user can meet: what was wrong, the value, what is allowed and what to do."""

from __future__ import annotations

import difflib
import functools
import inspect
import os
import traceback
import typing
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from types import FrameType, FunctionType, TracebackType, UnionType
from typing import Any, Final, Literal, Self, TypeVar, cast

T = TypeVar("T")

FULL_TRACEBACK: Final = "GPU_WCOJ_FULL_TRACEBACK"
"""The environment variable with which errors keep the frames of this package."""


class Config:
    """Settings for all of the package: ``gw.config``.

    Attributes
    ----------
    traceback
        ``"short"``: errors show the lines of the user's code only. ``"full"``: also those of this package. It starts
        as ``"full"`` where the environment variable ``GPU_WCOJ_FULL_TRACEBACK`` is set.

    Examples
    --------
    >>> import gpu_wcoj as gw
    >>> gw.config.traceback = "long"
    Traceback (most recent call last):
    ...
    gpu_wcoj.errors.UsageError: config.traceback='long' is not allowed: expected 'short' or 'full'.
    """

    traceback: Literal["short", "full"]

    def __init__(self) -> None:
        self.traceback = "full" if os.environ.get(FULL_TRACEBACK) else "short"

    def __setattr__(self, name: str, value: object) -> None:
        if name != "traceback":
            raise UsageError.unknown_name("setting", name, ["traceback"])
        if value not in ("short", "full"):
            raise UsageError.invalid_value("config.traceback", value, "'short' or 'full'")
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        return f"Config(traceback={self.traceback!r})"


config: Final = Config()
"""The settings of this process."""


def nearest(name: str, candidates: Iterable[str], cutoff: float = 0.6) -> str:
    """Return ``" Did you mean 'x'?"`` for the candidate closest to `name`, or an empty string.

    `cutoff` is the smallest similarity, from 0 to 1.

    Examples
    --------
    >>> nearest("sorce", ["source", "target"])
    " Did you mean 'source'?"
    """
    close = difflib.get_close_matches(str(name), list(candidates), n=1, cutoff=cutoff)
    return f" Did you mean '{close[0]}'?" if close else ""


def listed(names: Iterable[str]) -> str:
    """Quote and join `names` for a message; an empty list reads ``none``."""
    return ", ".join(f"'{name}'" for name in names) or "none"


def counted(count: int, noun: str) -> str:
    """Return a number with a noun for a message.

    Examples
    --------
    >>> counted(1, "row"), counted(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{count:,} {noun}{'s' * (count != 1)}"


class SourceMap(str):
    """Name of a text that is joined from several, with the source of each line.

    Attributes
    ----------
    origins
        Per piece of the text in order, its first line, the name of its source and the line there.

    Examples
    --------
    >>> source = SourceMap("a.dl")
    >>> source.origins = ((1, "a.dl", 1), (2, "b.dl", 1), (5, "a.dl", 3))
    >>> source.locate(4), source.locate(6)
    (('b.dl', 3), ('a.dl', 4))
    """

    origins: tuple[tuple[int, str, int], ...] = ()

    def locate(self, line: int) -> tuple[str, int]:
        """Return the name of the source of a line, and its number there."""
        for first, name, there in reversed(self.origins):
            if first <= line:
                return name, line - first + there
        return str(self), line


def pointed(what: str, text: str, line: int, column: int, width: int = 1, source: str = "<text>") -> str:
    r"""Return `what` with line and column, and below it the marked line of `text`.

    Line 0 stands for an unknown place. Lines end at a line feed only. Of a long line the part around the place is
    shown; what would move the cursor is shown escaped, so that the marker stands right.

    Examples
    --------
    >>> print(pointed("expected ','", "p(x) :- q(x)\n        r(x).", 2, 9))
    expected ',' (line 2, column 9)
      r(x).
      ~
    """
    if line < 1:
        return what
    name, place_line = source.locate(line) if isinstance(source, SourceMap) else (source, line)
    place = f"line {place_line}, column {column}" + ("" if source == "<text>" else f" of {name}")
    shown = (text.split("\n")[line - 1 : line] or [""])[0].rstrip("\r")
    start = max(0, column - 1 - 60)
    before, after = shown[start : column - 1], shown[column - 1 : start + 160]
    marked = after[: max(1, width)]
    lead = ("..." if start else "") + _visible(before if start else before.lstrip())
    tail = "..." if len(shown) > start + 160 else ""
    line_shown = lead + _visible(after) + tail
    marker = " " * len(lead) + "~" * max(1, len(_visible(marked)))
    return f"{what.removesuffix('.')} ({place})\n  {line_shown}\n  {marker}"


def _visible(text: str) -> str:
    return "".join(char if char.isprintable() else " " if char == "\t" else ascii(char)[1:-1] for char in text)


class GpuWcojError(Exception):
    """Base of every error that this package raises on purpose.

    The class methods are the templates of messages: ``<problem>: got <value>, expected <allowed>.``, and the remedy on
    a line of its own. Each returns an error to raise.

    Attributes
    ----------
    subject
        The option, argument, relation, column or file at fault, or None.
    got
        The value at fault, or None.
    expected
        The allowed values in words, or None.
    remedy
        One imperative sentence or more, or None.
    """

    subject: str | None = None
    got: object = None
    expected: str | None = None
    remedy: str | None = None

    def __str__(self) -> str:
        return " ".join(str(part) for part in self.args)

    @classmethod
    def with_parts(
        cls, problem: str, *, subject: str | None = None, got: object = None, expected: str = "", remedy: str = ""
    ) -> Self:
        """Return an error of `problem`, a sentence without its full stop, with its fields.

        `got` is kept as a field; the sentence names it. `expected` and `remedy` are appended where they are given.

        Examples
        --------
        >>> print(UsageError.with_parts("the file is empty", expected="at least one row", remedy="Add a row."))
        the file is empty: expected at least one row.
          Add a row.
        """
        text = f"{problem}: expected {expected}." if expected else f"{problem}."
        error = cls(f"{text}\n  {remedy}" if remedy else text)
        error.subject, error.got = subject, got
        error.expected, error.remedy = expected or None, remedy or None
        return error

    def at_place(self, text: str, line: int, column: int, width: int = 1, source: str = "<text>") -> Self:
        """Return the error with a place in a text, as `pointed` shows it, after its first line.

        Examples
        --------
        >>> print(UsageError.with_parts("'x' is a text", remedy="Write a number.").at_place("p(x)", 1, 3))
        'x' is a text (line 1, column 3)
          p(x)
            ~
          Write a number.
        """
        first, *details = str(self).split("\n")
        error = type(self)("\n".join([pointed(first, text, line, column, width, source), *details]))
        error.subject, error.got, error.expected, error.remedy = self.subject, self.got, self.expected, self.remedy
        return error

    @classmethod
    def invalid_value(cls, name: str, value: object, expected: str, remedy: str = "") -> Self:
        """Return the error of an option or argument `name` whose value is outside what is allowed.

        Examples
        --------
        >>> print(UsageError.invalid_value("threads", 0, "an integer from 1 on"))
        threads=0 is not allowed: expected an integer from 1 on.
        """
        return cls.with_parts(
            f"{name}={value!r:.80} is not allowed", subject=name, got=value, expected=expected, remedy=remedy
        )

    @classmethod
    def wrong_type(cls, subject: str, value: object, expected: str, remedy: str = "") -> Self:
        """Return the error of a value of the wrong Python type, with the type and the value.

        Examples
        --------
        >>> print(UsageError.wrong_type("the program", 3, "text or Rules"))
        the program has the wrong type: got int (3), expected text or Rules.
        """
        shown = f"{type(value).__name__} ({value!r:.80})"
        text = f"{subject} has the wrong type: got {shown}, expected {expected}."
        error = cls(f"{text}\n  {remedy}" if remedy else text)
        error.subject, error.got, error.expected, error.remedy = subject, value, expected, remedy or None
        return error

    @classmethod
    def mismatch(cls, subject: str, problem: str, got: object, expected: object, remedy: str = "") -> Self:
        """Return the error of something that differs from what was declared, stored or given before.

        Examples
        --------
        >>> print(SchemaError.mismatch("relation 'edge'", "has the wrong number of columns", 3, 2))
        relation 'edge' has the wrong number of columns: got 3, expected 2.
        """
        text = f"{subject} {problem}: got {got}, expected {expected}."
        error = cls(f"{text}\n  {remedy}" if remedy else text)
        error.subject, error.got, error.expected, error.remedy = subject, got, str(expected), remedy or None
        return error

    @classmethod
    def unknown_name(cls, what: str, name: str, allowed: Iterable[str], remedy: str = "") -> Self:
        """Return the error of a name that is not among `allowed`, with the nearest of them.

        Examples
        --------
        >>> print(UsageError.unknown_name("option", "thread", ["threads", "backend"]))
        unknown option 'thread': expected one of 'backend', 'threads'. Did you mean 'threads'?
        """
        names = sorted(allowed)
        allowed = f"one of {listed(names)}" if names else "none"
        text = f"unknown {what} '{name}': expected {allowed}.{nearest(name, names)}"
        error = cls(f"{text}\n  {remedy}" if remedy else text)
        error.subject, error.got, error.expected, error.remedy = what, name, allowed, remedy or None
        return error

    @classmethod
    def duplicate(cls, what: str, name: str, where: str = "", remedy: str = "") -> Self:
        """Return the error of a name or key that is given more than once.

        Examples
        --------
        >>> print(SchemaError.duplicate("column", "src", "in relation 'edge'", "Rename one of them."))
        column 'src' is given twice in relation 'edge'.
          Rename one of them.
        """
        problem = f"{what} '{name}' is given twice" + (f" {where}" if where else "")
        return cls.with_parts(problem, subject=what, got=name, remedy=remedy)

    @classmethod
    def conflict(cls, first: str, second: str, remedy: str = "", why: str = "") -> Self:
        """Return the error of two options, arguments or parts that exclude each other.

        Examples
        --------
        >>> print(UsageError.conflict("tick_rows=10", "a 'tick' column", "Leave one of them out."))
        tick_rows=10 and a 'tick' column cannot be combined.
          Leave one of them out.
        """
        problem = f"{first} and {second} cannot be combined" + (f": {why}" if why else "")
        return cls.with_parts(problem, subject=first, got=second, remedy=remedy)

    @classmethod
    def missing(cls, subject: str, what: str, remedy: str = "") -> Self:
        """Return the error of something that lacks a part it needs.

        Examples
        --------
        >>> print(UsageError.missing("the table 'edges'", "a column 'src'", "Name it: src='...'."))
        the table 'edges' needs a column 'src', which is missing.
          Name it: src='...'.
        """
        return cls.with_parts(f"{subject} needs {what}, which is missing", subject=subject, got=what, remedy=remedy)

    @classmethod
    def wrong_state(cls, action: str, why: str, remedy: str = "") -> Self:
        """Return the error of an action that the state of its object does not allow.

        Examples
        --------
        >>> print(UsageError.wrong_state("share()", "the first tick was taken", "Create a new Program."))
        share() is not possible: the first tick was taken.
          Create a new Program.
        """
        return cls.with_parts(f"{action} is not possible: {why}", subject=action, remedy=remedy)

    @classmethod
    def unsupported(cls, feature: str, why: str = "", remedy: str = "") -> Self:
        """Return the error of something that the engine does not do.

        Examples
        --------
        >>> print(UnsupportedError.unsupported("a window function", remedy="Group the rows."))
        a window function is not supported.
          Group the rows.
        """
        return cls.with_parts(
            f"{feature} is not supported" + (f": {why}" if why else ""), subject=feature, remedy=remedy
        )

    @classmethod
    def missing_package(cls, feature: str, package: str, extra: str) -> Self:
        """Return the error of a feature whose optional package is not installed.

        Examples
        --------
        >>> print(BackendUnavailableError.missing_package("SQL", "sqlglot", "sql"))
        SQL needs sqlglot, which is not installed.
          Install it: pip install 'gpu_wcoj[sql]'.
        """
        remedy = f"Install it: pip install 'gpu_wcoj[{extra}]'."
        return cls.with_parts(f"{feature} needs {package}, which is not installed", subject=package, remedy=remedy)


class UsageError(GpuWcojError, ValueError):
    """An option or argument is outside what is allowed."""


class UnknownNameError(UsageError, AttributeError):
    """An object has no attribute of that name."""


class QuerySyntaxError(GpuWcojError, SyntaxError):
    """The text of a query cannot be read; the message shows line, column and text."""

    def __init__(
        self, what: str, text: str, line: int, column: int, width: int = 1, source: str = "<text>", hint: str = ""
    ) -> None:
        message = pointed(what, text, line, column, width, source)
        super().__init__(f"{message}\n  {hint}" if hint else message)
        self.msg, self.filename, self.lineno, self.offset = message, source, line, column
        self.text = (text.split("\n")[line - 1 : line] or [""])[0]


class DatalogSyntaxError(QuerySyntaxError):
    """The text of a Datalog program cannot be read."""


class EdnSyntaxError(QuerySyntaxError):
    """A query or data in EDN cannot be read.

    Attributes
    ----------
    relation
        The relation that the query names and that is not there, if that is the reason; else empty.
    """

    relation = ""


class MotifSyntaxError(QuerySyntaxError):
    """A motif cannot be read."""


class SqlSyntaxError(QuerySyntaxError):
    """A view in SQL cannot be read."""


class UnsafeRuleError(GpuWcojError, ValueError):
    """A variable of a rule is bound by no positive atom.

    Parameters
    ----------
    bound
        Another spelling of the variable, which is bound.
    point
        Adds the place to a sentence.
    """

    def __init__(
        self, variable: str, where: str, rule: str, bound: str | None = None, point: Callable[[str], str] | None = None
    ) -> None:
        instead = "Bind it in the body with a relation, or remove it."
        if bound is not None:
            instead = f"'{bound}' is, which is another variable. Write one of the two in all places."
        what = f"variable '{variable}' in {where} of '{rule}' is not bound by a positive atom"
        place = what if point is None else point(what)
        super().__init__(f"{place}{'.' if place == what else ''}\n  {instead}")


class UnsupportedError(GpuWcojError, NotImplementedError):
    """The program asks for something that the engine does not do."""


class SchemaError(GpuWcojError, ValueError):
    """Names, numbers of columns or types disagree."""


class ColumnError(SchemaError, KeyError):
    """A column does not exist; `relation` is None for a `table` without a name, as a Z-set."""

    def __init__(
        self, relation: str | None, column: str, available: Iterable[str], remedy: str = "", table: str = "the Z-set"
    ) -> None:
        known = list(available)
        where = table if relation is None else f"relation '{relation}'"
        super().__init__(
            f"{where} has no column '{column}'.\n  Available columns: {listed(known)}.{nearest(column, known)}"
            + (f"\n  {remedy}" if remedy else "")
        )


class UnknownRelationError(SchemaError, KeyError):
    """A relation does not exist.

    Parameters
    ----------
    available, what
        The names that are there, and what they are names of.
        ``IN_REACH`` is of a query's relations by their aliases.
    where
        The sentence that names the relation and the place that reads it; by default it names the relation only.
    remedy
        What to do beside another spelling.
    """

    IN_REACH: Final = "relations in reach"

    def __init__(
        self, name: str, available: Iterable[str], what: str = "relations", *, where: str = "", remedy: str = ""
    ) -> None:
        names = sorted(map(str, available))
        subject = where or f"unknown relation '{name}'."
        allowed = f"The {what} are: {listed(names)}.{nearest(name, names)}"
        super().__init__(f"{subject}\n  {allowed}" + (f"\n  {remedy}" if remedy else ""))
        self.relation = name
        self.is_alias = what == self.IN_REACH


class ArityError(SchemaError):
    """A relation is used with two different numbers of columns."""


class TypeMismatchError(SchemaError, TypeError):
    """Two types meet that do not join, or a value does not have the type of its column."""


class UnsupportedTypeError(TypeMismatchError):
    """A type, or a value of it, has no place in the engine."""


class WeightError(GpuWcojError, ValueError):
    """A weight is not a non-null integer."""


class WeightOverflowError(GpuWcojError, OverflowError):
    """The exact weight of a row of state, of output or of a Z-set leaves int64.

    Attributes
    ----------
    relation
        None where Z-sets were calculated with, outside of any relation and tick.
    """

    def __init__(self, relation: str | None, row: object, weight: int | None) -> None:
        where = "Z-set" if relation is None else f"relation '{relation}'"
        amount = "its weight" if weight is None else f"its weight {weight}"
        hint = "Scale weights down."
        if relation is not None:
            hint = (
                "The tick was undone; the state is as before. Scale weights down, or let the head keep more variables."
            )
        super().__init__(f"{where}, row {row}: {amount} is outside int64, -2^63 to 2^63-1.\n  {hint}")
        self.relation, self.row, self.weight = relation, row, weight


class AuxiliaryError(GpuWcojError):
    """An auxiliary relation became too large; the tick runs without it.

    It leaves a tick only where there is no memory to arrange the state anew.
    """

    def __init__(self, relation: str, why: str) -> None:
        super().__init__(
            f"'{relation}', which is kept for the rules, {why}.\n"
            "  The tick was undone; the state is as before. With strategy='wcoj' no such relations are kept."
        )


class CalculationError(GpuWcojError, ArithmeticError):
    """A calculation has no value: it leaves int64, or divides by zero.

    Attributes
    ----------
    is_unsupported
        Whether it has a value that no type of the engine holds.
    """

    is_unsupported = False

    def __init__(
        self, calculation: str, why: str, remedy: str = "Compare the operands first, so that such rows are left out."
    ) -> None:
        super().__init__(f"{calculation} {why}.\n  {remedy}")
        self.calculation = calculation


class FunctionError(CalculationError):
    """A Python function raised an exception, or its result is not of the declared type.

    The exception is the cause of this error.

    Attributes
    ----------
    function
        The name of the function.
    arguments
        The values of the arguments.
    value
        The value that the function returned, or None.
    """

    def __init__(self, where: str, function: str, arguments: tuple[Any, ...], why: str, value: object = None) -> None:
        call = f"{function}({', '.join(f'{argument!r:.80}' for argument in arguments)})"
        remedy = "Return a value of the declared type, or None for null; or exclude such arguments by a condition."
        GpuWcojError.__init__(self, f"{where}{call} {why}.\n  {remedy}")
        self.calculation, self.function, self.arguments, self.value = call, function, arguments, value


class NegativeWeightError(WeightError):
    """A row has a negative weight where rows are counted, summed, put in order or made distinct.

    Parameters
    ----------
    doing
        What is done with the rows.
    head, source
        The relation for which it is done, and the one that the row is of, as a program knows them.
    hint
        What else there is to do.
    """

    def __init__(self, doing: str, row: object, weight: int, head: str = "", source: str = "", hint: str = "") -> None:
        super().__init__(
            f"{doing}: the row {row} has the weight {weight}; 0 is the least that is allowed here.\n"
            f"  The tick was undone; the state is as before. Feed each deletion with the insertion that it takes back, "
            f"or later{hint}."
        )
        self.doing, self.row, self.weight, self.head, self.source = doing, row, weight, head, source


class AggregateOverflowError(GpuWcojError, OverflowError):
    """A count or a sum of a group leaves int64, or a decimal; `limits` says what is allowed."""

    def __init__(
        self,
        op: str,
        relation: str,
        group: tuple[object, ...],
        value: int | Decimal,
        where: str | None = None,
        limits: str = "int64, -2^63 to 2^63-1",
    ) -> None:
        rows = f"of the group {group}" if group else "of all rows"
        place = f"in '{relation}'" if where is None else where
        super().__init__(
            f"the {op} {rows} {place} is {value}, outside {limits}.\n"
            "  The tick was undone; the state is as before. Scale the values down, or calculate with floats; in SQL,\n"
            "  sum CAST(x AS HUGEINT)."
        )
        self.op, self.relation, self.group, self.value, self.limits = op, relation, group, value, limits


class TransactionError(GpuWcojError, ValueError):
    """A transaction is invalid; none of it was applied."""


class TransactionConflictError(TransactionError):
    """Parts of a transaction contradict each other, or a unique value of the database."""


class UnknownAttributeError(SchemaError, KeyError):
    """An attribute that a strict schema does not name.

    `where` is the sentence that names it, with its place.
    """

    def __init__(self, attribute: str, available: Iterable[str], where: str = "") -> None:
        names = sorted(available)
        close, hint = nearest(attribute, names), f"\n  The schema has {listed(names)}; Database.define adds to it."
        subject = f"attribute '{attribute}' is not in the schema, which is strict."
        super().__init__(f"{where}{hint}{close}" if where else f"{subject}{close}{hint}")
        self.attribute = attribute


class UnknownAttributeWarning(UserWarning):
    """A query asks for an attribute that neither the schema nor a datom of the database has."""


class UnreadRelationWarning(UserWarning):
    """A query does not read a relation that was passed, and reads one of a similar name."""


class CircuitError(UsageError):
    """The nodes of a circuit do not fit together."""


class IterationLimitError(GpuWcojError, RuntimeError):
    """A loop has not come to its fixpoint."""

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(
            f"{what} has not come to a fixpoint after {limit:,} iterations.\n"
            "  The tick was undone; the state is as before. Let it derive finitely many rows, or allow more iterations."
        )
        self.limit = limit


class TimeBudgetError(GpuWcojError, TimeoutError):
    """A tick or a query takes longer than its option `timeout` allows."""


class RowBudgetError(GpuWcojError, ValueError):
    """An answer, or its change in a tick, has more rows than the option `limit` allows."""


class BackendUnavailableError(GpuWcojError, ImportError):
    """A backend was asked for that this machine does not have."""


class JavaNotFoundError(BackendUnavailableError):
    """Spark has no Java to run on."""

    def __init__(self, min_version: int, places: Iterable[str]) -> None:
        listing = "".join(f"\n  {place}" for place in places)
        super().__init__(
            f"Spark needs Java {min_version} or newer, and none was found. Looked at:{listing}\n"
            "  Install the extra, pip install 'gpu_wcoj[spark]', which brings one, or set JAVA_HOME."
        )


class InputFileError(GpuWcojError, ValueError):
    """A file cannot be read as what it was said to be."""


class OutputFileError(GpuWcojError, OSError):
    """A file or folder cannot be written."""


class MemoryBudgetError(GpuWcojError, MemoryError):
    """Data, state or work exceeds the memory budget."""

    def deriving(self, relation: str) -> Self:
        """Return the error with the relation that was being derived.

        Examples
        --------
        >>> print(MemoryBudgetError("sorting 9 rows needs 1.0 GB").deriving("hop"))
        deriving 'hop': sorting 9 rows needs 1.0 GB
        """
        self.args = (f"deriving '{relation}': {self}",)
        return self


class DeviceMemoryError(GpuWcojError, MemoryError):
    """The device has no memory left for what was being done, however small its pieces."""

    def __init__(self, doing: str, free: int) -> None:
        super().__init__(
            f"the device ran out of memory while {doing}; {free:,} bytes are free.\n"
            "  A tick was undone; the state is as before. Feed fewer rows a tick, allow more with gpu_memory,\n"
            "  or use backend='cpu'."
        )
        self.doing, self.free = doing, free


class CheckpointError(GpuWcojError, ValueError):
    """A checkpoint cannot be used for what was asked of it."""


class CheckpointDamagedError(CheckpointError):
    """A file of a checkpoint is missing, or is not what was written."""

    def __init__(self, path: object, what: str) -> None:
        super().__init__(
            f"checkpoint file '{path}' {what}.\n"
            "  Nothing was read from it. Restore the folder from a copy, or begin a new checkpoint from the inputs."
        )
        self.path = path


class CheckpointMismatchError(CheckpointError):
    """A checkpoint belongs to another program, schema or layout."""

    def __init__(self, path: object, what: str, stored: object, given: object) -> None:
        super().__init__(
            f"what is given differs from the checkpoint '{path}' in its {what}.\n"
            f"  Checkpoint: {stored}\n  Given:      {given}\n  Use what it was made with, or begin a new checkpoint."
        )
        self.what, self.stored, self.given = what, stored, given


class BatchMismatchError(CheckpointError):
    """A batch is not the one that the checkpoint holds under its id, or not the next one."""


class LeaseLostError(CheckpointError):
    """Another writer has taken over the checkpoint."""


class CheckpointWriteError(GpuWcojError, OSError):
    """A file of a checkpoint cannot be written; made of the system's number and a text."""

    def __str__(self) -> str:
        return str(self.args[-1])


_OURS: Final = ("gpu_wcoj", "cpu_fallback")
_OPERATORS: Final = (
    "__init__", "__call__", "__add__", "__sub__", "__neg__", "__mul__", "__rmul__", "__arrow_c_stream__"
)  # fmt: skip


def entry_point(target: T) -> T:
    """Mark a public function, or a class with all its public methods, as what users call.

    A `GpuWcojError` leaves it with the frames of the user's code only: the message says what to do, and the line that
    it is about is the user's. Any other error is a `UsageError` if an argument is of another type than it is declared
    to be. Else it is a mistake of this package and keeps its frames; so do all where ``config.traceback`` is
    ``"full"``. A call that succeeds does nothing more than before.

    A class that users do not call has an attribute ``_made_by``, the function that makes its objects.

    Examples
    --------
    >>> @entry_point
    ... def double(value):
    ...     return 2 * value
    >>> double(4)
    8
    """
    if not isinstance(target, type):
        return cast(T, _without_our_frames(cast(Callable[..., Any], target)))
    for name, member in list(vars(target).items()):
        if name.startswith("_") and name not in _OPERATORS:
            continue
        if isinstance(member, FunctionType):
            setattr(target, name, _without_our_frames(member))
        elif isinstance(member, (classmethod, staticmethod)):
            setattr(target, name, type(member)(_without_our_frames(member.__func__)))
    return target


def _without_our_frames(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        try:
            try:
                return function(*arguments, **options)
            except (TypeError, AttributeError, ValueError, LookupError, OverflowError) as error:
                misuse = None if isinstance(error, GpuWcojError) else _misuse(function, arguments, options, error)
                if misuse is None:
                    raise
                raise misuse from error
        except GpuWcojError as error:
            if config.traceback == "short":
                error.__traceback__ = _of_users(error.__traceback__)
                hides_context = error.__suppress_context__
                if not isinstance(error, FunctionError):  # its cause is the user's, also if their function is C
                    error.__cause__ = _from_users(error.__cause__)
                error.__context__ = _from_users(error.__context__)
                error.__suppress_context__ = hides_context
            raise  # which adds no frame of its own

    return call


def _misuse(
    function: Callable[..., Any], arguments: tuple[Any, ...], options: Mapping[str, Any], error: Exception
) -> UsageError | None:
    """Return the error of a user's call whose arguments are not as the function declares them."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    callers = frames[0].f_back
    if _is_users(frames[-1]) or callers is None or not _is_users(callers):
        return None
    signature = inspect.signature(function)
    try:
        given = signature.bind(*arguments, **options).arguments
    except TypeError:
        owner = type(arguments[0]) if arguments else None
        made_by = getattr(owner, "_made_by", None)
        if owner is None or made_by is None:
            return None  # Python says what is missing
        return UsageError.wrong_state(f"{owner.__name__}()", f"{made_by} makes its objects", f"Call {made_by}.")
    try:
        kinds = typing.get_type_hints(function)
    except (NameError, TypeError):  # a name that type checkers alone import
        return None
    for name, argument in given.items():
        kind = signature.parameters[name].kind
        values = (
            argument.values() if kind is kind.VAR_KEYWORD else argument if kind is kind.VAR_POSITIONAL else [argument]
        )
        for value in values:
            if name in kinds and not _fits(value, kinds[name]):
                declared = str(function.__annotations__[name])
                return UsageError.wrong_type(f"the argument '{name}' of {function.__qualname__}()", value, declared)
    return None


def _fits(value: object, kind: Any) -> bool:
    """Return whether a value, with its elements, may be of a declared type.

    Examples
    --------
    >>> _fits({"a": 1}, Mapping[str, int]), _fits(["a", 1], Iterable[str] | None), _fits(None, int | str)
    (True, False, False)
    """
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, UnionType):
        return any(_fits(value, part) for part in parts)
    if origin is typing.Literal:
        return isinstance(value, str) and value in parts
    if kind is None or kind is type(None):
        return value is None
    declared = origin or kind
    if declared in (Any, object) or not isinstance(declared, type) or getattr(declared, "_is_protocol", False):
        return True
    if declared is float:
        declared = (int, float)
    if not isinstance(value, declared):
        return False
    if isinstance(value, dict) and len(parts) == 2:
        return all(_fits(key, parts[0]) and _fits(item, parts[1]) for key, item in value.items())
    if isinstance(value, (list, tuple)) and len(parts) == 1:
        return all(_fits(item, parts[0]) for item in value)
    return True


def _of_users(trace: TracebackType | None) -> TracebackType | None:
    """The frames that are neither this package's nor of what it has called."""
    frames = []
    while trace is not None:
        if _is_users(trace.tb_frame):
            frames.append(trace)
        trace = trace.tb_next
    kept: TracebackType | None = None
    for one in reversed(frames):
        kept = TracebackType(kept, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return kept


def callers_frame() -> FrameType | None:
    """Return the frame of the function outside of this package that has called it."""
    frame = inspect.currentframe()
    while frame is not None and _is_ours(frame.f_globals.get("__name__")):
        frame = frame.f_back
    return frame


def callers_level() -> int:
    """Return the `stacklevel` with which a warning points at the caller of this package."""
    level, frame = 0, inspect.currentframe()
    while frame is not None and _is_ours(frame.f_globals.get("__name__")):
        level, frame = level + 1, frame.f_back
    return level


def _is_users(frame: FrameType) -> bool:
    return not (_is_ours(frame.f_globals.get("__name__")) or _is_installed(frame.f_code.co_filename))


def _is_ours(module: object) -> bool:
    return isinstance(module, str) and module.partition(".")[0] in _OURS


def _is_installed(file: str) -> bool:
    """Return whether code is of Python's own library or of another package."""
    return (
        "site-packages" in file
        or "dist-packages" in file
        or file.startswith(("<frozen", os.path.dirname(os.__file__)))
        or file.endswith((".pyx", ".pxi"))  # of Cython, which names its sources
    )


def _from_users(error: BaseException | None) -> BaseException | None:
    """The first of an error and those that it came up in that has been raised by a user's code."""
    while error is not None and _of_users(error.__traceback__) is None:
        error = error.__context__
    return error
