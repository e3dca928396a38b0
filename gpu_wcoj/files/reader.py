"""Opening a file by its format, and reading a complete file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from os import PathLike
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from gpu_wcoj.arrow.table import LazyTable
from gpu_wcoj.arrow.types import to_pyarrow
from gpu_wcoj.data.schema import DataType
from gpu_wcoj.errors import GpuWcojError, InputFileError, TypeMismatchError, UsageError
from gpu_wcoj.files.binary import BinaryReader
from gpu_wcoj.files.formats import SEPARATORS, check_packed, form_of, header_hint
from gpu_wcoj.files.record_batch import RowBlock, memory_budget, over_budget
from gpu_wcoj.files.spec import InputSpec, named_files
from gpu_wcoj.files.text import TextReader


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
    if spec.more:
        return ChainedReader(spec, arity, changes, budget)
    form, is_packed = form_of(spec)
    if form in ("parquet", "arrow", "json"):
        return BinaryReader(spec, form, is_packed, arity, changes, budget)
    if is_packed and changes:
        check_packed(spec.path)
    return TextReader(spec, spec.separator or SEPARATORS[form], arity, changes)


class ChainedReader:
    """The rows of the files of a relation, one file after the other.

    Parameters
    ----------
    spec, arity, changes, budget
        As of `open_input`.
    """

    def __init__(self, spec: InputSpec, arity: int | None, changes: bool, budget: int) -> None:
        self._specs = [replace(spec, path=path, more=()) for path in (spec.path, *spec.more)]
        self._options = arity, changes, budget
        self._reader = open_input(self._specs[0], *self._options)
        self.columns = self._reader.columns

    @property
    def n_rows(self) -> int | None:
        """None, as the number of rows is unknown before the last file."""

    def blocks(self) -> Iterator[RowBlock]:
        """Yield the rows in order; files without rows may have any types."""
        last_tick: int | None = None
        types: pa.Schema | None = None
        empty: RowBlock | None = None
        for i, spec in enumerate(self._specs):
            if i:
                self._reader.close()
                self._reader = open_input(spec, *self._options)
            if [name for name, _ in self._reader.columns] != [name for name, _ in self.columns]:
                raise self._other_columns(spec)
            for block in self._reader.blocks():
                if not len(block):
                    empty = empty or block
                    continue
                types = types or block.rows.schema
                if block.rows.schema != types:
                    raise self._other_columns(spec)
                if block.ticks is not None:
                    if last_tick is not None and block.ticks[0] < last_tick:
                        raise InputFileError(
                            f"'{spec.path}' begins with tick {block.ticks[0]}, and the file before it ends with "
                            f"{last_tick}.\n  Name the files in the order of their ticks."
                        )
                    last_tick = int(block.ticks[-1])
                yield block
        if types is None and empty is not None:
            yield empty

    def _other_columns(self, spec: InputSpec) -> InputFileError:
        """Return the error for a file with other columns than the first."""
        one, other = (", ".join(f"{name} {kind}" for name, kind in columns) for columns in (
            self.columns, self._reader.columns
        ))  # fmt: skip
        return InputFileError(
            f"'{spec.path}' has the columns {other}, and '{self._specs[0].path}' has {one}.\n"
            "  Files of one relation have the same columns; for text files, say columns=... with types=..."
        )

    def close(self) -> None:
        """Close the file that is open."""
        self._reader.close()


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


FEW_VALUES = 1 << 20
"""Values of a file that are read with its schema: reading them costs less than another process (some 0.2 s)."""


class FileTable(LazyTable):
    """The rows of files, which are read when their columns are needed.

    Parameters
    ----------
    spec
        The files and their options.

    Raises
    ------
    InputFileError, UsageError, MemoryBudgetError
        As `columns_of`, already when the names of the columns are needed.
    """

    def __init__(self, spec: InputSpec) -> None:
        self._spec = spec
        self._schema: pa.Schema | None = None
        self._rows: pa.Table | None = None  # all rows, if they are few

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        if self._schema is None:
            reader = _open_repeatable(self._spec, False, memory_budget())
            try:
                names = [name for name, _ in reader.columns]
                blocks = reader.blocks()
                block = next(blocks, None)
                if block is not None and reader.n_rows is not None and reader.n_rows * len(names) <= FEW_VALUES:
                    with suppress(GpuWcojError):  # of a column that may not be read
                        rows = pa.Table.from_batches([part.rows for part in (block, *blocks)])
                        self._rows = rows.rename_columns(names)
            finally:
                reader.close()
            types = [pa.null()] * len(names) if block is None else block.rows.schema.types
            self._schema = pa.schema(list(zip(names, types, strict=True)))
        return self._schema

    def read(self, names: Sequence[str]) -> pa.Table:
        """Return all rows of these columns."""
        schema = self.schema
        if self._rows is not None:
            return self._rows.select(list(names))
        spec, positions = self._spec, [schema.get_field_index(name) for name in names]
        columns = tuple(position if spec.columns is None else spec.columns[position] for position in positions)
        types = None if spec.types is None else tuple(spec.types[position] for position in positions)
        table = read_table(replace(spec, columns=columns, types=types), len(names), memory_budget())
        return table.rename_columns(list(names))


def table_of_file(relation: str, location: str | PathLike[str]) -> FileTable:
    """Return the table of a file, a folder or a pattern, for a relation.

    Raises
    ------
    TypeMismatchError
        If there is no file of this name.
    UsageError, InputFileError
        As `named_files`.
    """
    spec = named_files(relation, location)
    if spec is None:
        raise TypeMismatchError.mismatch(
            f"relation '{relation}'", "is not a table", f"{str(location)!r:.80}", "a table, or the name of a file",
            f"There is no file '{location!s:.80}'.",
        )  # fmt: skip
    return FileTable(spec)


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
    reader = _open_repeatable(spec, changes, budget)
    reader.close()
    return {name: None if kind == str(pa.null()) else kind for name, kind in reader.columns}


def _open_repeatable(spec: InputSpec, changes: bool, budget: int) -> Reader:
    """Open a file that is opened again for its rows, with distinct names of columns."""
    if spec.path.is_fifo():
        raise UsageError(f"'{spec.path}' can be read once only, and its columns are needed before.\n  Name a file.")
    reader = open_input(spec, None, changes, budget)
    names = [name for name, _ in reader.columns]
    if doubled := [name for name in names if names.count(name) > 1]:
        reader.close()
        raise UsageError(
            f"'{spec.path}' has two columns '{doubled[0]}'.\n  Choose among them, as in '{spec}?columns=0,1'."
        )
    return reader


# Conversion of a file's rows to the declared types of its relation.


def as_declared(table: pa.Table, spec: InputSpec, kinds: Sequence[str | None]) -> pa.Table:
    """Return the rows of a file in the types `kinds`; None keeps the type of the file.

    Raises
    ------
    InputFileError
        If a value is not of its column's type.

    Examples
    --------
    >>> from pathlib import Path
    >>> rows = pa.table({"day": ["2024-01-31"], "n": [5]})
    >>> as_declared(rows, InputSpec("r", Path("r.facts")), ["date32[day]", None]).schema.types
    [DataType(date32[day]), DataType(int64)]
    """
    columns = []
    for position, (column, kind) in enumerate(zip(table.columns, kinds, strict=True)):
        target = column.type if kind is None else to_pyarrow(DataType(kind))
        try:
            columns.append(column if column.type == target else column.cast(target))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InputFileError(
                f"'{spec.path}', column {position}, is declared as '{kind}': {error}.\n"
                f"  Mend the file, or declare another type{header_hint(spec)}."
            ) from None
    return pa.table(columns, table.column_names)


# Division of change files into ticks, by a number of rows or by a tick column.


DEFAULT_TICK_ROWS: Final = 1000
"""Rows per tick of a change file without a tick column."""


def ticks(readers: Mapping[str, Reader], tick_rows: int | None, budget: int) -> Iterator[dict[str, pa.Table]]:
    """Yield the rows of every tick by relation, in the order of the files.

    With tick columns, a tick holds the rows of all files that carry one value of it, and the values ascend; without,
    the next `tick_rows` rows of each file.

    Raises
    ------
    UsageError
        If only some of the files have a tick column, or `tick_rows` is given beside one.
    MemoryBudgetError
        If the rows of one tick take more than `budget` bytes.
    """
    cursors = {name: _Cursor(name, reader.blocks(), budget) for name, reader in readers.items()}
    if not any(cursor.has_ticks for cursor in cursors.values()):
        yield from _by_rows(cursors, tick_rows or DEFAULT_TICK_ROWS)
        return
    without = [name for name, cursor in cursors.items() if not cursor.has_ticks and not cursor.is_done]
    if without:
        raise UsageError(
            f"the changes of '{without[0]}' have no tick column, those of others do.\n"
            "  Give 'tick' for every file of changes, or for none."
        )
    if tick_rows is not None:
        raise UsageError(
            f"ticks are cut by their column and by --tick-rows {tick_rows}.\n  Leave out --tick-rows, or option 'tick'."
        )
    yield from _by_value(cursors)


def _by_rows(cursors: dict[str, _Cursor], count: int) -> Iterator[dict[str, pa.Table]]:
    while tick := {name: cursor.next_rows(count) for name, cursor in cursors.items() if not cursor.is_done}:
        yield tick


def _by_value(cursors: dict[str, _Cursor]) -> Iterator[dict[str, pa.Table]]:
    while waiting := {name: cursor for name, cursor in cursors.items() if not cursor.is_done}:
        now = min(cursor.tick for cursor in waiting.values())
        yield {name: cursor.take_tick() for name, cursor in waiting.items() if cursor.tick == now}


class _Cursor:
    """A position in a file of changes."""

    def __init__(self, name: str, blocks: Iterator[RowBlock], budget: int) -> None:
        self._name = name
        self._blocks = blocks
        self._budget = budget
        self._block: RowBlock | None = None
        self._start = 0
        self._advance()

    @property
    def is_done(self) -> bool:
        """True if no row is left."""
        return self._block is None

    @property
    def has_ticks(self) -> bool:
        """True if the rows have ticks."""
        return self._block is not None and self._block.ticks is not None

    @property
    def tick(self) -> int:
        """The tick of the next row."""
        assert self._block is not None
        assert self._block.ticks is not None
        return int(self._block.ticks[self._start])

    def next_rows(self, count: int) -> pa.Table:
        """Return the next `count` rows, or the remaining rows if there are fewer."""
        pieces: list[pa.RecordBatch] = []
        while count and self._block is not None:
            stop = min(len(self._block), self._start + count)
            count -= stop - self._start
            self._take_until(stop, pieces)
        return pa.Table.from_batches(pieces)

    def take_tick(self) -> pa.Table:
        """Return the next rows of the same tick."""
        tick = self.tick
        pieces: list[pa.RecordBatch] = []
        while self._block is not None and self.tick == tick:
            assert self._block.ticks is not None
            self._take_until(int(np.searchsorted(self._block.ticks, tick, side="right")), pieces)
        return pa.Table.from_batches(pieces)

    def _take_until(self, stop: int, pieces: list[pa.RecordBatch]) -> None:
        assert self._block is not None
        pieces.append(self._block.slice(self._start, stop).rows)
        n_bytes = sum(piece.nbytes for piece in pieces) if len(pieces) > 1 else 0
        if n_bytes > self._budget:
            raise over_budget(f"one tick of '{self._name}'", n_bytes, self._budget)
        self._start = stop
        if stop == len(self._block):
            self._advance()

    def _advance(self) -> None:
        self._start = 0
        self._block = next((block for block in self._blocks if len(block)), None)
