"""Opening a file by its format, and reading a complete file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from gpu_wcoj.errors import UsageError
from gpu_wcoj.files.block import RowBlock
from gpu_wcoj.files.budget import over_budget
from gpu_wcoj.files.format import check_gzip
from gpu_wcoj.files.forms import SEPARATORS, form_of
from gpu_wcoj.files.spec import InputSpec


class Reader(Protocol):
    """The rows of one file, in order."""

    @property
    def n_rows(self) -> int | None:
        """The number of rows of the file; None while unknown."""

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """Names and types of the relation's columns; c0, c1, ... if the file has no names."""
        ...

    def blocks(self) -> Iterator[RowBlock]:
        """Yield the rows in order; may be called once."""
        ...

    def close(self) -> None:
        """Close the file."""


def open_input(spec: InputSpec, arity: int | None, changes: bool, budget: int) -> Reader:
    """Open the file of `spec` for a relation of `arity` columns; None accepts any number.

    Raises
    ------
    InputFileError
        If there is no such file, or it is damaged, not of its form, or without rows and names of columns.
    UsageError
        If the options do not fit the file.
    MemoryBudgetError
        If it cannot be read within `budget` bytes.
    """
    from gpu_wcoj.files.binary import BinaryReader
    from gpu_wcoj.files.text import TextReader

    form, is_gzip = form_of(spec)
    if form in ("parquet", "arrow"):
        return BinaryReader(spec, form, is_gzip, arity, changes, budget)
    if is_gzip and changes:
        check_gzip(spec.path)
    return TextReader(spec, spec.separator or SEPARATORS[form], arity, changes)


def read_table(spec: InputSpec, arity: int, budget: int) -> pa.Table:
    """Read the complete file of `spec`: the relation's columns, then ``weight`` if requested.

    Raises
    ------
    InputFileError, UsageError, MemoryBudgetError
        As `open_input`; nothing is returned of a file that cannot be read to its end.
    """
    reader = open_input(spec, arity, False, budget)
    try:
        batches, n_bytes = [], 0
        for block in reader.blocks():
            batches.append(block.rows)
            n_bytes += block.rows.nbytes
            if n_bytes > budget:
                raise over_budget(f"'{spec.path}'", n_bytes, budget)
    finally:
        reader.close()
    return pa.Table.from_batches(batches)


def columns_of(spec: InputSpec, changes: bool, budget: int) -> dict[str, str | None]:
    """Return the names of the file's columns for its relation, and their Arrow types.

    A column of text without rows has no type, None.

    Parameters
    ----------
    changes
        Whether the file has changes: then a column that is called ``weight`` is none of them.

    Raises
    ------
    InputFileError, UsageError, MemoryBudgetError
        As `open_input`; and if two columns have the same name, or the file can be read once only.
    """
    if spec.path.is_fifo():
        raise UsageError(f"'{spec.path}' can be read once only, and its columns are needed before.\n  Name a file.")
    reader = open_input(spec, None, changes, budget)
    reader.close()
    names = [name for name, _ in reader.columns]
    if doubled := [name for name in names if names.count(name) > 1]:
        raise UsageError(
            f"'{spec.path}' has two columns '{doubled[0]}'.\n  Choose among them, as in '{spec}?columns=0,1'."
        )
    return {name: None if kind == str(pa.null()) else kind for name, kind in reader.columns}
