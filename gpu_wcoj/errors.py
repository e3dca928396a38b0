"""The errors a user can meet: each says what was wrong, the value, what is allowed and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the known name closest to `name`, or an empty string.

    Examples
    --------
    >>> nearest("sorce", ["source", "target"])
    " Did you mean 'source'?"
    """
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" Did you mean '{close[0]}'?" if close else ""


def listed(names: Iterable[str]) -> str:
    """Quote and join `names` for a message; an empty list reads ``none``."""
    return ", ".join(f"'{name}'" for name in names) or "none"


class GpuWcojError(Exception):
    """Base of every error that this package raises on purpose."""

    def __str__(self) -> str:
        return " ".join(str(part) for part in self.args)


class UsageError(GpuWcojError, ValueError):
    """An option or argument is outside what is allowed."""


class DatalogSyntaxError(GpuWcojError, SyntaxError):
    """The text of a program cannot be read; the message shows line, column and the text."""

    def __init__(self, what: str, text: str, line: int, column: int, width: int = 1) -> None:
        lines = text.splitlines() or [""]
        shown = lines[line - 1] if 0 < line <= len(lines) else ""
        marker = " " * (column - 1) + "~" * max(1, min(width, max(1, len(shown) - column + 1)))
        message = f"{what} (line {line}, column {column})\n  {shown}\n  {marker}"
        super().__init__(message)
        self.msg, self.lineno, self.offset, self.text = message, line, column, shown


class UnsafeRuleError(GpuWcojError, ValueError):
    """A variable of a rule is bound by no positive atom."""

    def __init__(self, variable: str, where: str, rule: str) -> None:
        super().__init__(
            f"variable '{variable}' in {where} of '{rule}' is not bound by a positive atom.\n"
            "  Bind it in the body with a relation, or remove it."
        )


class UnsupportedError(GpuWcojError, NotImplementedError):
    """The program asks for something that the engine does not do."""


class SchemaError(GpuWcojError, ValueError):
    """Names, numbers of columns or types disagree."""


class ColumnError(SchemaError, KeyError):
    """A column name is not there."""

    def __init__(self, relation: str, column: str, available: Iterable[str]) -> None:
        known = list(available)
        super().__init__(
            f"relation '{relation}' has no column '{column}'.\n"
            f"  Available columns: {listed(known)}.{nearest(column, known)}"
        )


class UnknownRelationError(SchemaError, KeyError):
    """A relation name is not there."""

    def __init__(self, name: str, known: Iterable[str], what: str = "relations") -> None:
        names = sorted(known)
        super().__init__(f"there is no relation '{name}'.\n  The {what} are: {listed(names)}.{nearest(name, names)}")


class ArityError(SchemaError):
    """A relation is used with two different numbers of columns."""


class TypeMismatchError(SchemaError, TypeError):
    """Two types meet that do not join, or a value does not have the type of its column."""


class UnsupportedTypeError(TypeMismatchError):
    """A type, or a value of it, has no place in the engine."""


class WeightError(GpuWcojError, ValueError):
    """A weight is not a non-null integer."""


class WeightOverflowError(GpuWcojError, OverflowError):
    """The exact weight of a row of state or output leaves int64."""

    def __init__(self, relation: str, row: object, weight: int | None) -> None:
        amount = "its weight" if weight is None else f"its weight {weight}"
        super().__init__(
            f"relation '{relation}', row {row}: {amount} is outside int64, -2^63 to 2^63-1.\n"
            "  The tick was undone; the state is as before. Scale the weights down, or use set semantics."
        )


class BackendUnavailableError(GpuWcojError, ImportError):
    """A backend was asked for that this machine does not have."""


class InputFileError(GpuWcojError, ValueError):
    """A file cannot be read as what it was said to be."""


class MemoryBudgetError(GpuWcojError, MemoryError):
    """What was asked for does not fit the memory budget."""
