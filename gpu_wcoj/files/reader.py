"""Opening a file by its form, and reading one whole."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import Final, Protocol

import pyarrow as pa

from gpu_wcoj.errors import UsageError
from gpu_wcoj.files.block import RowBlock
from gpu_wcoj.files.budget import over_budget
from gpu_wcoj.files.lines import GZIP_ERRORS, GZIP_MAGIC, check_gzip, damaged_gzip, open_bytes
from gpu_wcoj.files.spec import InputSpec

_ENDINGS: Final = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
}
_MAGIC: Final = {b"PAR1": "parquet", b"ARROW1": "arrow", b"\xff\xff\xff\xff": "arrow"}
_SEPARATORS: Final = {"csv": ",", "tsv": "\t", "text": " "}


class Reader(Protocol):
    """The rows of one file, in order."""

    @property
    def fraction(self) -> float | None:
        """How much of the file has been read, 0 to 1; None where that is not known."""

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """Names and types of the relation's columns; they are called c0, c1, ... if the file gives no names."""
        ...

    def blocks(self) -> Iterator[RowBlock]:
        """Yield the rows in order; once."""
        ...

    def close(self) -> None:
        """Let go of the file."""


def open_input(spec: InputSpec, arity: int | None, changes: bool, budget: int) -> Reader:
    """Open the file of `spec` for a relation of `arity` columns; of as many as it has where that is None.

    Raises
    ------
    InputFileError
        If there is no such file, or it is empty, damaged or not of its form.
    UsageError
        If the options do not fit the file.
    MemoryBudgetError
        If it cannot be read within `budget` bytes.
    """
    from gpu_wcoj.files.binary import BinaryReader
    from gpu_wcoj.files.text import TextReader

    form, is_gzip = _form(spec)
    if form in ("parquet", "arrow"):
        return BinaryReader(spec, form, is_gzip, arity, changes, budget)
    if is_gzip and changes:
        check_gzip(spec.path)
    return TextReader(spec, spec.separator or _SEPARATORS[form], arity, changes)


def read_table(spec: InputSpec, arity: int, budget: int) -> pa.Table:
    """Read the file of `spec` whole: the relation's columns, then ``weight`` if the options name one.

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


def columns_of(spec: InputSpec, changes: bool, budget: int) -> dict[str, str]:
    """The names of the columns that the file of `spec` has for its relation, and their types as Arrow spells them.

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
    return dict(reader.columns)


def _form(spec: InputSpec) -> tuple[str, bool]:
    """The form of a file, and whether it is gzipped, by its options, its first bytes and its name, in this order."""
    if spec.path.is_fifo():  # its first bytes can be read once only
        if spec.format in ("parquet", "arrow"):
            raise UsageError(
                f"'{spec.path}' is a pipe, and '{spec.format}' is read from files only.\n"
                "  Name a file; or send text through the pipe."
            )
        return spec.format or "text", False
    with open_bytes(spec.path) as file:
        head = file.read(8)
        is_gzip = head.startswith(GZIP_MAGIC)
        if is_gzip:
            file.seek(0)
            try:
                head = gzip.GzipFile(fileobj=file).read(8)
            except GZIP_ERRORS as error:
                raise damaged_gzip(spec.path, error) from None
    if spec.format is not None:
        return spec.format, is_gzip
    for magic, form in _MAGIC.items():
        if head.startswith(magic):
            return form, is_gzip
    name = spec.path.name.lower().removesuffix(".gz")
    return next((form for ending, form in _ENDINGS.items() if name.endswith(ending)), "text"), is_gzip
