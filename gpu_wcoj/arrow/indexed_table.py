"""Changing tables whose rows have stable numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from gpu_wcoj.arrow.read import as_arrow
from gpu_wcoj.arrow.table import as_read, as_table, collected, columns_by_name, is_of_spark
from gpu_wcoj.arrow.types import type_of
from gpu_wcoj.data.column import BoolArray, Dictionary, Int64Array, without_zero_signs
from gpu_wcoj.data.rows import as_weights, weight_name
from gpu_wcoj.errors import ColumnError, SchemaError, TypeMismatchError, UnsupportedTypeError, UsageError


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive rows of a table, in one piece.

    Attributes
    ----------
    rows
        The rows, including some that are deleted.
    numbers
        int64, their row numbers, ascending.
    is_there
        bool, True for rows that exist, False for deleted rows.
    """

    rows: pa.Table
    numbers: Int64Array
    is_there: BoolArray

    def __len__(self) -> int:
        return len(self.numbers)

    def joined(self, next_block: Block) -> Block:
        """Return these rows followed by those of `next_block`, without deleted rows."""
        parts = [block.rows.filter(pa.array(block.is_there)) for block in (self, next_block)]
        numbers = np.concatenate([block.numbers[block.is_there] for block in (self, next_block)])
        return Block(pa.concat_tables(parts).combine_chunks(), numbers, np.ones(len(numbers), bool))

    def without(self, numbers: Int64Array) -> Block:
        """Return the block without these rows; memory is freed once most rows are deleted."""
        is_there = self.is_there.copy()
        is_there[np.searchsorted(self.numbers, numbers)] = False
        left = Block(self.rows, self.numbers, is_there)
        if len(self) < 1024 or 2 * int(np.count_nonzero(is_there)) >= len(self):
            return left
        return left.joined(Block(self.rows.slice(0, 0), self.numbers[:0], self.is_there[:0]))


@dataclass(frozen=True, eq=False)
class IndexedTable:
    """Rows of a table with numbers that stay the same while the rows exist. Immutable.

    A change costs its own size plus a copy of one bit per row: rows are stored in blocks of growing sizes.

    Attributes
    ----------
    what
        The name of the table in messages.
    blocks
        The rows in order of arrival; at least one block.
    next
        The number of the next new row.

    Examples
    --------
    >>> import pyarrow as pa
    >>> held, numbers = IndexedTable.from_table("the edges", pa.table({"src": [1, 1]})).plus(pa.table({"src": [7]}))
    >>> numbers, held.gather(numbers).to_pydict()
    (array([2]), {'src': [7]})
    """

    what: str
    blocks: tuple[Block, ...]
    next: int

    @staticmethod
    def from_table(what: str, rows: pa.Table) -> IndexedTable:
        """Return the rows of a table, numbered from 0."""
        block = Block(_unshared(rows), np.arange(len(rows)), np.ones(len(rows), bool))
        return IndexedTable(what, (block,), len(rows))

    @property
    def schema(self) -> pa.Schema:
        """The names and types of the columns."""
        return self.blocks[0].rows.schema

    @property
    def nothing(self) -> pa.Table:
        """An empty table with the same columns."""
        return self.blocks[0].rows.slice(0, 0)

    def plus(self, rows: pa.Table) -> tuple[IndexedTable, Int64Array]:
        """Return the table with more rows, and the numbers of these rows.

        Raises
        ------
        TypeMismatchError
            If values are not of a column's type.
        """
        table, new_rows = self.unify_types(rows)
        numbers = np.arange(self.next, self.next + len(new_rows))
        if not len(new_rows):
            return table, numbers
        blocks = [*table.blocks, Block(_unshared(new_rows), numbers, np.ones(len(new_rows), bool))]
        while len(blocks) > 1 and len(blocks[-2]) <= 2 * len(blocks[-1]):
            last_block = blocks.pop()
            blocks[-1] = blocks[-1].joined(last_block)
        return IndexedTable(self.what, tuple(blocks), self.next + len(new_rows)), numbers

    def unify_types(self, rows: pa.Table) -> tuple[IndexedTable, pa.Table]:
        """Return this table and the new rows in common types.

        The types are those of this table; a column without a type yet gets the type of the new rows.

        Raises
        ------
        TypeMismatchError
            If values are not of a column's type.
        """
        kinds, new_rows = list(self.schema.types), rows.select(self.schema.names)
        for position, (column_type, new_type) in enumerate(zip(self.schema.types, new_rows.schema.types, strict=True)):
            if column_type == new_type:
                continue
            if pa.types.is_null(column_type) or (self.next == 0 and not pa.types.is_null(new_type)):
                kinds[position] = new_type
                continue
            name = self.schema.names[position]
            if not (pa.types.is_null(new_type) or _widen(column_type, new_type)):
                raise TypeMismatchError.mismatch(
                    f"{self.what}, column '{name}',",
                    "have the wrong type",
                    f"'{new_type}'",
                    f"'{column_type}', the type of earlier rows",
                    "Nothing was changed. Only integers, time units and decimal scales widen. Cast the column.",
                )
            try:
                new_rows = new_rows.set_column(position, name, new_rows.column(position).cast(column_type))
            except pa.ArrowException as error:
                raise TypeMismatchError(
                    f"{self.what}, column '{name}', do not fit type '{column_type}' of earlier rows: "
                    f"{str(error).rstrip('.')}.\n"
                    "  Nothing was changed. Cast the column, or start over with a type that holds all values."
                ) from None
        if kinds == list(self.schema.types):
            return self, new_rows
        schema = pa.schema(list(zip(self.schema.names, kinds, strict=True)))
        blocks = tuple(Block(block.rows.cast(schema), block.numbers, block.is_there) for block in self.blocks)
        return IndexedTable(self.what, blocks, self.next), new_rows

    def minus(self, numbers: Int64Array) -> IndexedTable:
        """Return the table without these rows."""
        block_of_row = self._block_of(numbers)
        blocks = [
            block.without(numbers[block_of_row == position]) if (block_of_row == position).any() else block
            for position, block in enumerate(self.blocks)
        ]
        return IndexedTable(self.what, (*blocks[:1], *(block for block in blocks[1:] if len(block))), self.next)

    def are_there(self, numbers: Int64Array) -> BoolArray:
        """Return a mask of the row numbers that exist."""
        is_there = np.zeros(len(numbers), bool)
        block_of_row = self._block_of(numbers)
        for position, block in enumerate(self.blocks):
            (in_block,) = np.nonzero(block_of_row == position)
            places = np.searchsorted(block.numbers, numbers[in_block])
            inside = places < len(block)
            in_block, places = in_block[inside], places[inside]
            is_there[in_block] = (block.numbers[places] == numbers[in_block]) & block.is_there[places]
        return is_there

    def gather(self, numbers: Int64Array, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of these numbers, also of deleted rows that are still stored."""
        block_of_row = self._block_of(numbers)
        parts, order = [], []
        for position, block in enumerate(self.blocks):
            (in_block,) = np.nonzero(block_of_row == position)
            if len(in_block) or (position == 0 and not len(numbers)):
                chosen = block.rows if columns is None else block.rows.select(columns)
                parts.append(chosen.take(np.searchsorted(block.numbers, numbers[in_block])))
                order.append(in_block)
        if len(parts) == 1:
            return parts[0]
        return pa.concat_tables(parts).combine_chunks().take(np.argsort(np.concatenate(order), kind="stable"))

    def present(self) -> tuple[pa.Table, Int64Array]:
        """Return all rows that exist, and their numbers."""
        merged = self.blocks[0]
        for block in self.blocks[1:]:
            merged = merged.joined(block)
        if not bool(merged.is_there.all()):
            merged = merged.joined(Block(self.nothing, merged.numbers[:0], merged.is_there[:0]))
        return merged.rows, merged.numbers

    def since(self, first_number: int) -> tuple[pa.Table, Int64Array]:
        """Return the rows from this number on, and their numbers; deleted rows included."""
        parts = [(block, int(np.searchsorted(block.numbers, first_number))) for block in self.blocks]
        rows = pa.concat_tables([block.rows.slice(begin) for block, begin in parts])
        return rows, np.concatenate([block.numbers[begin:] for block, begin in parts])

    def _block_of(self, numbers: Int64Array) -> Int64Array:
        """Return the block in which each of the numbers would be stored."""
        begins = [int(block.numbers[0]) for block in self.blocks[1:]]
        return np.searchsorted(np.array(begins, np.int64), numbers, "right")


def _unshared(rows: pa.Table) -> pa.Table:
    """Return the rows in one piece of new memory.

    The input may lie over arrays that its owner still writes to.
    """
    return pa.concat_tables([rows.slice(0, 0), rows]).combine_chunks()  # copies, as there are two chunks


def _widen(column_type: pa.DataType, new_type: pa.DataType) -> bool:
    """Return True if both types are of one family; see `gpu_wcoj.data.schema.DataType.family`."""
    try:
        return type_of(column_type).family == type_of(new_type).family
    except TypeMismatchError:  # of a column that no rule reads
        return bool(column_type.id == new_type.id)


def rows_with_numbers(table: IndexedTable, numbers: Int64Array, columns: Sequence[str], row: str) -> pa.Table:
    """Return rows of these numbers and columns; the column `row` contains the numbers."""
    rows = table.gather(numbers, [name for name in columns if name != row])
    if row in columns:
        rows = rows.append_column(row, pa.array(numbers)).select(list(columns))
    return rows


# An index of rows by the values of some columns.


_MIX = np.uint64(0x9E3779B97F4A7C15)


def dictionaries() -> tuple[Dictionary, Dictionary]:
    """Return new dictionaries of texts and of bytes."""
    return Dictionary("string"), Dictionary("binary")


def encode_all(rows: pa.Table, what: str, string: Dictionary, binary: Dictionary) -> list[Any]:
    """Return the table's columns as codes."""
    return as_table(rows, what, string=string, binary=binary)[1]


def key_matrix(
    rows: pa.Table, what: str, string: Dictionary, binary: Dictionary, joined: Collection[str] = ()
) -> Int64Array:
    """Return rows as columns of integers that are equal for equal rows; nulls are equal.

    -0.0 and 0.0 differ, except in the columns `joined`, where they are equal.
    """
    lines: list[Any] = []
    for name in rows.column_names:
        column = rows.column(name)
        if pa.types.is_null(column.type):
            lines += [np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)]
            continue
        try:
            (code,) = encode_all(rows.select([name]), what, string, binary)
        except UnsupportedTypeError:  # lists and the like are compared by their repr
            texts = [None if value is None else repr(value) for value in column.to_pylist()]
            (code,) = encode_all(pa.table({name: pa.array(texts, pa.string())}), what, string, binary)
        codes = code.codes
        if name in joined and code.type.family in ("float32", "float64"):
            codes = without_zero_signs(codes)
        lines += [codes, np.ones(len(rows), np.int64) if code.valid is None else code.valid.astype(np.int64)]
    return np.stack(lines) if lines else np.zeros((0, len(rows)), np.int64)


class RowIndex:
    """Finds rows by the values of some of their columns.

    Hashes are sorted once; hashes of later rows are kept separately until there are many. Candidates are compared in
    full and must exist: deleted rows in the index do no harm.
    """

    def __init__(self, columns: Sequence[str], what: str, joined: Collection[str] = ()) -> None:
        self.columns = tuple(columns)
        self.joined = joined
        self.what = what
        self.dictionaries = dictionaries()
        self._hashes = np.empty(0, np.uint64)
        self._numbers = np.empty(0, np.int64)
        self._recent: dict[int, list[int]] = {}
        self._n_recent = 0
        self._next = 0

    def catch_up(self, table: IndexedTable) -> None:
        """Add the rows that are new since the last call; not rows of a change that may be undone."""
        if self._next < table.next:
            self._add(*table.since(self._next))
            self._next = table.next

    def _add(self, rows: pa.Table, numbers: Int64Array) -> None:
        """Add rows."""
        hashes = self._hashed(self._keys(rows))
        if self._n_recent + len(rows) > max(1024, len(self._hashes) // 4):
            recent = [(value, row_number) for value, row_numbers in self._recent.items() for row_number in row_numbers]
            more = np.array([hash_value for hash_value, _ in recent], np.uint64)
            recent_numbers = np.array([row_number for _, row_number in recent], np.int64)
            every = np.concatenate([self._hashes, more, hashes])
            order = np.argsort(every, kind="stable")
            self._hashes, self._numbers = every[order], np.concatenate([self._numbers, recent_numbers, numbers])[order]
            self._recent, self._n_recent = {}, 0
            return
        for new_hash, new_number in zip(hashes.tolist(), numbers.tolist(), strict=True):
            self._recent.setdefault(new_hash, []).append(new_number)
        self._n_recent += len(rows)

    def find(self, table: IndexedTable, rows: pa.Table, limits: Sequence[int]) -> list[list[int]]:
        """Return per row the numbers of rows of `table` with equal values, at most `limits`."""
        keys = self._keys(rows)
        hashes = self._hashed(keys)
        begins = np.searchsorted(self._hashes, hashes, "left")
        ends = np.searchsorted(self._hashes, hashes, "right")
        candidates: list[tuple[int, int]] = []
        for row, hash_value in enumerate(hashes.tolist()):
            row_numbers = [*self._numbers[begins[row] : ends[row]].tolist(), *self._recent.get(hash_value, ())]
            candidates += [(row, row_number) for row_number in row_numbers]
        numbers = np.array([row_number for _, row_number in candidates], np.int64)
        (alive,) = np.nonzero(table.are_there(numbers))
        matches: list[list[int]] = [[] for _ in range(len(rows))]
        candidate_keys = self._keys(table.gather(numbers[alive]))
        for column, place in enumerate(alive.tolist()):
            row, row_number = candidates[place]
            if len(matches[row]) < limits[row] and bool((candidate_keys[:, column] == keys[:, row]).all()):
                matches[row].append(row_number)
        return matches

    def _keys(self, rows: pa.Table) -> Int64Array:
        return key_matrix(rows.select(self.columns), self.what, *self.dictionaries, self.joined)

    def _hashed(self, keys: Int64Array) -> Any:
        hashes = np.zeros(keys.shape[1], np.uint64)
        for line in keys:
            hashes = (hashes ^ line.view(np.uint64)) * _MIX
            hashes ^= hashes >> np.uint64(29)
        return hashes


# Tables as passed in, complete or as changes: Arrow tables or Spark DataFrames.


def as_arrow_or_spark(data: Any, what: str) -> Any:
    """Return a table-like object as an Arrow table; a Spark DataFrame is returned unread.

    Examples
    --------
    >>> as_arrow_or_spark({"id": [1, 2], "name": ["x", "y"]}, "the vertices").to_pydict()
    {'id': [1, 2], 'name': ['x', 'y']}
    """
    if is_of_spark(data):
        if data.isStreaming:
            raise UsageError.unsupported(
                f"a stream as {what}", remedy="Collect its batches, and pass each batch to apply()."
            )
        return data
    arrays = columns_by_name(data, what)
    columns = map(as_read, collected(tuple(arrays), list(arrays.values()), what))
    named = zip(arrays, columns, strict=True)
    return pa.table({name: _array(values, f"{what}, column '{name}'") for name, values in named})


def kinds_of(data: Any) -> dict[str, str]:
    """Return the columns of a table of `as_arrow_or_spark` and their type families.

    The family is empty for types that rules cannot read.

    Examples
    --------
    >>> kinds_of(pa.table({"n": [1], "tags": [["x"]]}))
    {'n': 'integer', 'tags': ''}
    """
    if is_of_spark(data):
        return {column.name: _SPARK_KINDS.get(column.dataType.typeName(), "") for column in data.schema.fields}
    return {column.name: _kind(column.type) for column in data.schema}


def _without_views(kind: pa.DataType) -> pa.DataType:
    """Return the type without views of texts and bytes, whose rows cannot be gathered."""
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _without_views(kind.value_type), kind.ordered)
    if pa.types.is_struct(kind):
        return pa.struct([child.with_type(_without_views(child.type)) for child in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_without_views(kind.value_type)))
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_without_views(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(_without_views(kind.key_type), _without_views(kind.item_type))
    return kind


_SPARK_KINDS = {
    **dict.fromkeys(("byte", "short", "integer", "long"), "integer"), "float": "float32", "double": "float64",
    "string": "string", "boolean": "bool",
}  # fmt: skip


def _kind(arrow_type: pa.DataType) -> str:
    try:
        family = type_of(arrow_type).family
    except UnsupportedTypeError:
        return ""
    return "" if family == "nested" else family


def read_rows(data: Any, what: str, columns: Sequence[str]) -> pa.Table:
    """Return these columns of a table of `as_arrow_or_spark`; a Spark DataFrame is collected.

    Raises
    ------
    ColumnError
        If a column is missing.
    """
    available = list(kinds_of(data))
    for name in columns:
        if name not in available:
            raise ColumnError(what.removeprefix("the "), name, available)
    if is_of_spark(data):
        quoted = [f"`{name.replace('`', '``')}`" for name in columns]
        return as_arrow_or_spark(data.select(*quoted).toArrow(), what)
    return data.select(list(columns))


def _array(values: Any, what: str) -> pa.ChunkedArray:
    """Return one column in Arrow's form; columns that no rule reads may be nested."""
    array = as_arrow(values, what)
    if not isinstance(array, pa.ChunkedArray):
        array = pa.chunked_array([array])
    kind = _without_views(array.type)
    return array if kind == array.type else array.cast(kind)


def split_change(data: Any, what: str, names: Sequence[str], columns: Sequence[str]) -> tuple[pa.Table, Int64Array]:
    """Return the distinct rows of a change and their non-zero weights.

    Parameters
    ----------
    data
        A table of `as_arrow_or_spark` with the columns `names` and optionally weights: ``weight``,
        or ``_weight`` if the table has a column of that name.
    columns
        The columns to return.
    """
    available = list(kinds_of(data))
    weight = weight_name(names)
    for name in available:
        if name not in (*names, weight):
            raise ColumnError(what.removeprefix("the "), name, (*names, weight))
    rows = read_rows(data, what, columns)
    if weight not in available:
        return rows, np.ones(len(rows), np.int64)
    column = encode_all(read_rows(data, what, [weight]), what, *dictionaries())[0]
    weights = as_weights(column, f"{what}: the weights")
    if bool((weights == 1).all()):
        return rows, weights
    keys = key_matrix(rows, what, *dictionaries())
    _, first, place = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    exact = np.zeros(len(first), object)
    np.add.at(exact, place.ravel(), weights.astype(object))
    nonzero = np.flatnonzero(exact != 0)
    return rows.take(first[nonzero]), as_weights(exact[nonzero].tolist(), f"{what}: the weights")


def refuse_nulls(rows: pa.Table, columns: Iterable[str], what: str) -> None:
    """Raise if one of these columns has a null."""
    for name in columns:
        if rows.column(name).null_count:
            row = rows.column(name).is_null().to_pylist().index(True)
            raise SchemaError(null_message(what, name, f"row {row}"))


def null_message(what: str, column: str, row: str) -> str:
    """Return the message for a null in a key column."""
    return f"{what}, column '{column}': {row} is null.\n  Leave out such rows before you pass them."


def nulls(size: int) -> pa.Array:
    """Return a column of nulls."""
    return pa.nulls(size)


def distinct_values(values: Any, what: str) -> pa.Table:
    """Return a table of one column with distinct values, without nulls.

    Parameters
    ----------
    values
        An array or list of them, or a table with one column.
    """
    if isinstance(values, (list, tuple, set, frozenset, range)):
        array = _array(list(values), what)
    elif isinstance(values, np.ndarray) and values.ndim == 1:
        array = _array(values, what)
    else:
        table = as_arrow_or_spark(values, what)
        if is_of_spark(table):
            table = read_rows(table, what, table.columns)
        if table.num_columns != 1:
            raise SchemaError.mismatch(what, "have the wrong number of columns", table.num_columns, 1)
        array = table.column(0)
    return pa.table({"id": array.drop_null().unique()})
