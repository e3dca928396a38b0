"""Tables that change: rows with numbers of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gpu_wcoj.arrow.types import type_of
from gpu_wcoj.column import BoolArray, Int64Array
from gpu_wcoj.errors import TypeMismatchError


@dataclass(frozen=True, eq=False)
class Block:
    """Rows that came one after the other, in one piece.

    Attributes
    ----------
    rows
        The rows, also some that are gone.
    numbers
        int64, theirs, ascending.
    is_there
        Which of the rows are there.
    """

    rows: pa.Table
    numbers: Int64Array
    is_there: BoolArray

    def __len__(self) -> int:
        return len(self.numbers)

    def joined(self, other: Block) -> Block:
        """These rows, then those of `other`, without what is gone."""
        parts = [one.rows.filter(pa.array(one.is_there)) for one in (self, other)]
        numbers = np.concatenate([one.numbers[one.is_there] for one in (self, other)])
        return Block(pa.concat_tables(parts).combine_chunks(), numbers, np.ones(len(numbers), bool))

    def without(self, numbers: Int64Array) -> Block:
        """Without these rows; where most are gone, their memory is."""
        is_there = self.is_there.copy()
        is_there[np.searchsorted(self.numbers, numbers)] = False
        left = Block(self.rows, self.numbers, is_there)
        if len(self) < 1024 or 2 * int(np.count_nonzero(is_there)) >= len(self):
            return left
        return left.joined(Block(self.rows.slice(0, 0), self.numbers[:0], self.is_there[:0]))


@dataclass(frozen=True, eq=False)
class Held:
    """Rows of a table with numbers, which they keep as long as they are there. Immutable.

    A change costs what it brings, and a copy of a bit a row: rows stand in blocks of growing sizes.

    Attributes
    ----------
    what
        What to call the table in messages.
    blocks
        The rows, in the order in which they came; one block at least.
    next
        The number of the next new row.

    Examples
    --------
    >>> import pyarrow as pa
    >>> held, numbers = Held.of("the edges", pa.table({"src": [1, 1]})).plus(pa.table({"src": [7]}))
    >>> numbers, held.take(numbers).to_pydict()
    (array([2]), {'src': [7]})
    """

    what: str
    blocks: tuple[Block, ...]
    next: int

    @staticmethod
    def of(what: str, rows: pa.Table) -> Held:
        """The rows of a table, numbered from 0."""
        whole = Block(_unshared(rows), np.arange(len(rows)), np.ones(len(rows), bool))
        return Held(what, (whole,), len(rows))

    @property
    def schema(self) -> pa.Schema:
        """The names and types of the columns."""
        return self.blocks[0].rows.schema

    @property
    def nothing(self) -> pa.Table:
        """No rows."""
        return self.blocks[0].rows.slice(0, 0)

    def plus(self, rows: pa.Table) -> tuple[Held, Int64Array]:
        """With more rows, and their numbers.

        Raises
        ------
        TypeMismatchError
            If values are none of a column's type.
        """
        own, given = self.alike(rows)
        numbers = np.arange(self.next, self.next + len(given))
        if not len(given):
            return own, numbers
        blocks = [*own.blocks, Block(_unshared(given), numbers, np.ones(len(given), bool))]
        while len(blocks) > 1 and len(blocks[-2]) <= 2 * len(blocks[-1]):
            last = blocks.pop()
            blocks[-1] = blocks[-1].joined(last)
        return Held(self.what, tuple(blocks), self.next + len(given)), numbers

    def alike(self, rows: pa.Table) -> tuple[Held, pa.Table]:
        """The own rows and others, in the types of the own ones; where no row has shown a type yet, in the others'.

        Raises
        ------
        TypeMismatchError
            If values are none of a column's type.
        """
        kinds, other = list(self.schema.types), rows.select(self.schema.names)
        for at, (known, given) in enumerate(zip(self.schema.types, other.schema.types, strict=True)):
            if known == given:
                continue
            if pa.types.is_null(known) or (self.next == 0 and not pa.types.is_null(given)):
                kinds[at] = given
                continue
            name = self.schema.names[at]
            if not (pa.types.is_null(given) or _widen(known, given)):
                raise TypeMismatchError(
                    f"{self.what}, column '{name}', are of type '{given}', and have been so far of type '{known}'.\n"
                    "  Nothing was changed. Only integers, time units and decimal scales widen; cast the column."
                )
            try:
                other = other.set_column(at, name, other.column(at).cast(known))
            except pa.ArrowException as error:
                raise TypeMismatchError(
                    f"{self.what}, column '{name}', have been so far of type '{known}': {str(error).rstrip('.')}.\n"
                    "  Nothing was changed. Cast the column, or begin anew with a type that holds all values."
                ) from None
        if kinds == list(self.schema.types):
            return self, other
        schema = pa.schema(list(zip(self.schema.names, kinds, strict=True)))
        blocks = tuple(Block(one.rows.cast(schema), one.numbers, one.is_there) for one in self.blocks)
        return Held(self.what, blocks, self.next), other

    def minus(self, numbers: Int64Array) -> Held:
        """Without these rows."""
        own = self._block_of(numbers)
        blocks = [
            block.without(numbers[own == at]) if (own == at).any() else block for at, block in enumerate(self.blocks)
        ]
        return Held(self.what, (*blocks[:1], *(one for one in blocks[1:] if len(one))), self.next)

    def are_there(self, numbers: Int64Array) -> BoolArray:
        """Which rows of these numbers are there."""
        found = np.zeros(len(numbers), bool)
        own = self._block_of(numbers)
        for at, block in enumerate(self.blocks):
            (mine,) = np.nonzero(own == at)
            places = np.searchsorted(block.numbers, numbers[mine])
            inside = places < len(block)
            mine, places = mine[inside], places[inside]
            found[mine] = (block.numbers[places] == numbers[mine]) & block.is_there[places]
        return found

    def take(self, numbers: Int64Array, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of these numbers, also of some that are gone."""
        own = self._block_of(numbers)
        parts, order = [], []
        for at, block in enumerate(self.blocks):
            (mine,) = np.nonzero(own == at)
            if len(mine) or (at == 0 and not len(numbers)):
                chosen = block.rows if columns is None else block.rows.select(columns)
                parts.append(chosen.take(np.searchsorted(block.numbers, numbers[mine])))
                order.append(mine)
        if len(parts) == 1:
            return parts[0]
        return pa.concat_tables(parts).combine_chunks().take(np.argsort(np.concatenate(order), kind="stable"))

    def present(self) -> tuple[pa.Table, Int64Array]:
        """All rows that are there, and their numbers."""
        whole = self.blocks[0]
        for block in self.blocks[1:]:
            whole = whole.joined(block)
        if not bool(whole.is_there.all()):
            whole = whole.joined(Block(self.nothing, whole.numbers[:0], whole.is_there[:0]))
        return whole.rows, whole.numbers

    def since(self, number: int) -> tuple[pa.Table, Int64Array]:
        """The rows from this number on, and their numbers; also some that are gone."""
        parts = [(block, int(np.searchsorted(block.numbers, number))) for block in self.blocks]
        rows = pa.concat_tables([block.rows.slice(begin) for block, begin in parts])
        return rows, np.concatenate([block.numbers[begin:] for block, begin in parts])

    def _block_of(self, numbers: Int64Array) -> Int64Array:
        """The block in which each of the numbers would stand."""
        begins = [int(block.numbers[0]) for block in self.blocks[1:]]
        return np.searchsorted(np.array(begins, np.int64), numbers, "right")


def _unshared(rows: pa.Table) -> pa.Table:
    """The rows in one piece, in memory of their own: a table may lie over arrays that its owner still writes to."""
    return pa.concat_tables([rows.slice(0, 0), rows]).combine_chunks()  # which copies, as there are two chunks


def _widen(known: pa.DataType, given: pa.DataType) -> bool:
    """Whether values of the one type may be values of the other, as anywhere: see `gpu_wcoj.schema.DataType.family`."""
    try:
        return type_of(known).family == type_of(given).family
    except TypeMismatchError:  # only carried along
        return bool(known.id == given.id)


def numbered(held: Held, numbers: Int64Array, columns: Sequence[str], row: str) -> pa.Table:
    """Rows of these numbers, of these columns; the column `row` has the numbers."""
    rows = held.take(numbers, [name for name in columns if name != row])
    if row in columns:
        rows = rows.append_column(row, pa.array(numbers)).select(list(columns))
    return rows
