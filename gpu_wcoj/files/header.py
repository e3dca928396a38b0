"""Detection of a header line in a text file.

The first line is names of columns, a row, or ambiguous.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import pyarrow as pa

from gpu_wcoj.arrow.types import to_pyarrow
from gpu_wcoj.data.schema import DataType
from gpu_wcoj.files.values import is_integer, is_number

SAMPLE_ROWS: Final = 1000
"""Rows after the first line that are examined. A constant, so that a file of any size costs the same."""

_MISSING: Final = frozenset(
    ("na", "n/a", "<na>", "nan", "null", "nil", "none", "missing", "unknown", "inf", "infinity", "true", "false")
)
"""Words that stand for a value where other rows have numbers."""
_HEXADECIMAL: Final = re.compile(r"[+-]?0x[0-9a-f]+", re.IGNORECASE)


def names_by_program(
    first: Sequence[str], following: Sequence[str], names: Collection[str], types: Mapping[int, str]
) -> bool | None:
    """Decide by the program and the options if the first line is a header; None if unknown.

    A line with all the names is a header. So is one that does not hold values of the types where the row after it does,
    unless it has a number elsewhere, which is a value of a row.

    Parameters
    ----------
    first, following
        The fields of the first line, and of the row after it; none if there is no such row.
    names
        Names that the columns must have.
    types
        Types of columns as Arrow spells them, by position.

    Examples
    --------
    >>> names_by_program(["y", "x"], ["bo", "cy"], ["x", "y"], {})
    True
    >>> names_by_program(["ann", "age"], ["bo", "6"], (), {1: "int64"})
    True
    >>> names_by_program(["ann", "5"], ["bo", "6"], (), {0: "string", 1: "int64"})
    False
    >>> names_by_program(["1", "x"], ["2", "3"], (), {1: "int64"})
    False
    >>> names_by_program(["ann", "bo"], ["bo", "cy"], ["x", "y"], {0: "string", 1: "string"}) is None
    True
    """
    cells = [cell.strip() for cell in first]
    if names and {*names} <= {*cells}:
        return True
    typed = {
        position: kind for position, kind in types.items() if position < len(cells) and _tells(kind) and cells[position]
    }
    if not typed:
        return None
    if any(_fits(cells[at], kind) for at, kind in typed.items()) or not all(
        _may_be_name(cells[position]) for position in typed
    ):
        return False
    if any(is_number(cell) for position, cell in enumerate(cells) if position not in typed):
        return False
    return all(
        _fits(following[position].strip(), kind) for position, kind in typed.items() if position < len(following)
    )


def names_by_rows(first: Sequence[str], sample: Sequence[Sequence[str]]) -> bool | None:
    """Decide by the rows after it if the first line is a header; None if ambiguous.

    Texts over numbers are names, numbers over numbers are values.

    Parameters
    ----------
    first
        The fields of the first line.
    sample
        The fields of rows after it, `SAMPLE_ROWS` at most.

    Examples
    --------
    >>> names_by_rows(["src", "n"], [["ann", "1"], ["bo", "2"]]), names_by_rows(["1", "2"], [["3", "4"]])
    (True, False)
    >>> names_by_rows(["ann", "bo"], [["bo", "cy"]]) is None  # a row of texts, or names
    True
    >>> names_by_rows(["NA", "5"], [["7", "6"]]) is None
    True
    """
    cells = [cell.strip() for cell in first]
    filled = [cell for cell in cells if cell]
    numbers = sum(map(is_number, filled))
    columns = [
        [row[position].strip() for row in sample if position < len(row) and row[position].strip()]
        for position in range(len(cells))
    ]
    if filled and numbers == len(filled):
        is_contradicted = any(columns) and not any(is_number(cell) for column in columns for cell in column)
        return None if is_contradicted else False
    if numbers:
        return None
    over_numbers = [
        cell for cell, column in zip(cells, columns, strict=True) if cell and column and all(map(is_number, column))
    ]
    return True if over_numbers and all(map(_may_be_name, over_numbers)) else None


def _tells(kind: str) -> bool:
    """Return True if some texts are not values of the type."""
    return DataType(kind).family not in ("string", "binary")


def _fits(cell: str, kind: str) -> bool:
    """Return True if a text spells a value of the type, or is empty."""
    family = DataType(kind).family
    if not cell:
        return True
    if family == "integer":
        return is_integer(cell)
    try:
        pa.scalar(cell.removeprefix("+")).cast(to_pyarrow(DataType(kind)))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def _may_be_name(cell: str) -> bool:
    """Return True if a text over numbers is a name.

    It is not if it is another spelling of a number, or of a missing one.
    """
    has_letter = any(char.isalpha() for char in cell)
    return has_letter and cell.lower() not in _MISSING and not _HEXADECIMAL.fullmatch(cell)
