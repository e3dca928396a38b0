"""Changing tables whose rows have stable numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gpu_wcoj.arrow.types import type_of
from gpu_wcoj.data.column import BoolArray, Int64Array
from gpu_wcoj.errors import TypeMismatchError


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
