"""Tables that change: rows with numbers of their own, which are found by what they hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpu_wcoj.arrow.table import as_table, columns_by_name
from gpu_wcoj.arrow.types import type_of
from gpu_wcoj.column import BoolArray, Int64Array
from gpu_wcoj.dictionary import Dictionary
from gpu_wcoj.errors import ColumnError, SchemaError, TypeMismatchError, UnsupportedTypeError, UsageError
from gpu_wcoj.weights import as_weights

_MIX = np.uint64(0x9E3779B97F4A7C15)


def as_given(data: Any, what: str) -> Any:
    """Anything that is shaped as a table as one of Arrow, or a DataFrame of Spark as it is, which is not read yet.

    Examples
    --------
    >>> as_given({"id": [1, 2], "name": ["x", "y"]}, "the vertices").to_pydict()
    {'id': [1, 2], 'name': ['x', 'y']}
    """
    if is_of_spark(data):
        if data.isStreaming:
            raise UsageError(f"{what} are a stream.\n  Collect its batches, and pass each to apply.")
        return data
    arrays = columns_by_name(data, what)
    return pa.table({name: _array(values, f"{what}, column '{name}'") for name, values in arrays.items()})


def is_of_spark(data: Any) -> bool:
    """Whether `data` is a DataFrame of Spark, whichever kind."""
    return type(data).__module__.startswith("pyspark.sql") and hasattr(data, "toArrow")


def kinds_of(data: Any) -> dict[str, str]:
    """The columns of a table as `as_given` gives it, and the families of their types; empty where there is none.

    Examples
    --------
    >>> kinds_of(pa.table({"n": [1], "tags": [["x"]]}))
    {'n': 'integer', 'tags': ''}
    """
    if is_of_spark(data):
        return {one.name: _SPARK_KINDS.get(one.dataType.typeName(), "") for one in data.schema.fields}
    return {one.name: _kind(one.type) for one in data.schema}


def _without_views(kind: pa.DataType) -> pa.DataType:
    """The type in which rows can be taken: views of texts and bytes are copied."""
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _without_views(kind.value_type), kind.ordered)
    if pa.types.is_struct(kind):
        return pa.struct([one.with_type(_without_views(one.type)) for one in kind])
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


def _kind(given: pa.DataType) -> str:
    try:
        return type_of(given).family
    except UnsupportedTypeError:
        return ""


def read_rows(data: Any, what: str, columns: Sequence[str]) -> pa.Table:
    """These columns of a table as `as_given` gives it; what is Spark's is collected.

    Raises
    ------
    ColumnError
        If a column is missing.
    """
    known = list(kinds_of(data))
    for name in columns:
        if name not in known:
            raise ColumnError(what.removeprefix("the "), name, known)
    if is_of_spark(data):
        quoted = [f"`{name.replace('`', '``')}`" for name in columns]
        return as_given(data.select(*quoted).toArrow(), what)
    return data.select(list(columns))


def _array(values: Any, what: str) -> pa.ChunkedArray:
    if isinstance(values, pa.Array):
        values = pa.chunked_array([values])
    if isinstance(values, pa.ChunkedArray):
        kind = _without_views(values.type)
        return values if kind == values.type else values.cast(kind)
    try:
        if isinstance(values, np.ma.MaskedArray):
            array = pa.array(np.asarray(values), mask=np.ma.getmaskarray(values))
        elif isinstance(values, np.ndarray) and values.dtype.kind in "OTSU":
            array = pa.array(values.tolist())
        else:
            array = pa.array(values)
    except (pa.ArrowException, UnicodeError, OverflowError) as error:
        raise UnsupportedTypeError(f"{what}: {error}.") from None
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


def split_change(data: Any, what: str, names: Sequence[str], columns: Sequence[str]) -> tuple[pa.Table, Int64Array]:
    """The rows of a change and their weights, each row once; those of no weight are left out.

    Parameters
    ----------
    data
        A table as `as_given` gives it, with the columns `names` and, where it has one more, weights: ``weight``, or
        ``_weight`` where the table has a column of that name.
    columns
        Which of them are needed.
    """
    given = list(kinds_of(data))
    weight = "weight"
    while weight in names:
        weight = f"_{weight}"
    for name in given:
        if name not in (*names, weight):
            raise ColumnError(what.removeprefix("the "), name, (*names, weight))
    rows = read_rows(data, what, columns)
    if weight not in given:
        return rows, np.ones(len(rows), np.int64)
    column = encode_all(read_rows(data, what, [weight]), what, *dictionaries())[0]
    weights = as_weights(column, f"{what}: the weights")
    if bool((weights == 1).all()):
        return rows, weights
    keys = key_matrix(rows, what, *dictionaries())
    _, first, place = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    exact = np.zeros(len(first), object)
    np.add.at(exact, place.ravel(), weights.astype(object))
    kept = np.flatnonzero(exact != 0)
    return rows.take(first[kept]), as_weights(exact[kept].tolist(), f"{what}: the weights")


def dictionaries() -> tuple[Dictionary, Dictionary]:
    """Fresh ones, of texts and of bytes."""
    return Dictionary("string"), Dictionary("binary")


def encode_all(rows: pa.Table, what: str, string: Dictionary, binary: Dictionary) -> list[Any]:
    """The table's columns as codes."""
    return as_table(rows, what, string=string, binary=binary)[1]


def key_matrix(rows: pa.Table, what: str, string: Dictionary, binary: Dictionary) -> Int64Array:
    """What rows hold, as integers: a column per row, equal where rows are. Nulls are equal to nulls."""
    lines: list[Any] = []
    for name in rows.column_names:
        column = rows.column(name)
        if pa.types.is_null(column.type):
            lines += [np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)]
            continue
        try:
            (code,) = encode_all(rows.select([name]), what, string, binary)
        except UnsupportedTypeError:  # lists and the like are told apart by how they are written
            texts = [None if value is None else repr(value) for value in column.to_pylist()]
            (code,) = encode_all(pa.table({name: pa.array(texts, pa.string())}), what, string, binary)
        lines += [code.codes, np.ones(len(rows), np.int64) if code.valid is None else code.valid.astype(np.int64)]
    return np.stack(lines) if lines else np.zeros((0, len(rows)), np.int64)


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
        whole = Block(rows.combine_chunks(), np.arange(len(rows)), np.ones(len(rows), bool))
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
        blocks = [*own.blocks, Block(given.combine_chunks(), numbers, np.ones(len(given), bool))]
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
            if pa.types.is_null(known) or self.next == 0:
                kinds[at] = given
                continue
            name = self.schema.names[at]
            try:
                other = other.set_column(at, name, other.column(at).cast(known))
            except pa.ArrowException as error:
                raise TypeMismatchError(f"{self.what}, column '{name}': {error}.") from None
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


class RowIndex:
    """Finds rows by what some of their columns hold.

    Hashes are sorted once; those of later rows stand beside until they are many. What is found is compared, and has to
    be there: rows that are gone do no harm.
    """

    def __init__(self, columns: Sequence[str], what: str) -> None:
        self.columns = tuple(columns)
        self.what = what
        self.dictionaries = dictionaries()
        self._hashes = np.empty(0, np.uint64)
        self._numbers = np.empty(0, np.int64)
        self._recent: dict[int, list[int]] = {}
        self._n_recent = 0
        self._next = 0

    def catch_up(self, held: Held) -> None:
        """Take in the rows that have come since; of a change that may be undone, none."""
        if self._next < held.next:
            self._add(*held.since(self._next))
            self._next = held.next

    def _add(self, rows: pa.Table, numbers: Int64Array) -> None:
        """Take in rows."""
        hashes = self._hashed(self._keys(rows))
        if self._n_recent + len(rows) > max(1024, len(self._hashes) // 4):
            recent = [(one, number) for one, found in self._recent.items() for number in found]
            more = np.array([one for one, _ in recent], np.uint64)
            own = np.array([number for _, number in recent], np.int64)
            every = np.concatenate([self._hashes, more, hashes])
            order = np.argsort(every, kind="stable")
            self._hashes, self._numbers = every[order], np.concatenate([self._numbers, own, numbers])[order]
            self._recent, self._n_recent = {}, 0
            return
        for one, number in zip(hashes.tolist(), numbers.tolist(), strict=True):
            self._recent.setdefault(one, []).append(number)
        self._n_recent += len(rows)

    def find(self, held: Held, rows: pa.Table, wanted: Sequence[int]) -> list[list[int]]:
        """Per row, the numbers of up to `wanted` rows of `held` that hold the same in the index' columns."""
        keys = self._keys(rows)
        hashes = self._hashed(keys)
        begins = np.searchsorted(self._hashes, hashes, "left")
        ends = np.searchsorted(self._hashes, hashes, "right")
        candidates: list[tuple[int, int]] = []
        for at, one in enumerate(hashes.tolist()):
            own = [*self._numbers[begins[at] : ends[at]].tolist(), *self._recent.get(one, ())]
            candidates += [(at, number) for number in own]
        numbers = np.array([number for _, number in candidates], np.int64)
        (alive,) = np.nonzero(held.are_there(numbers))
        found: list[list[int]] = [[] for _ in range(len(rows))]
        own_keys = self._keys(held.take(numbers[alive]))
        for column, place in enumerate(alive.tolist()):
            at, number = candidates[place]
            if len(found[at]) < wanted[at] and bool((own_keys[:, column] == keys[:, at]).all()):
                found[at].append(number)
        return found

    def _keys(self, rows: pa.Table) -> Int64Array:
        return key_matrix(rows.select(self.columns), self.what, *self.dictionaries)

    def _hashed(self, keys: Int64Array) -> Any:
        hashes = np.zeros(keys.shape[1], np.uint64)
        for line in keys:
            hashes = (hashes ^ line.view(np.uint64)) * _MIX
            hashes ^= hashes >> np.uint64(29)
        return hashes


def numbered(held: Held, numbers: Int64Array, columns: Sequence[str], row: str) -> pa.Table:
    """Rows of these numbers, of these columns; the column `row` has the numbers."""
    rows = held.take(numbers, [name for name in columns if name != row])
    if row in columns:
        rows = rows.append_column(row, pa.array(numbers)).select(list(columns))
    return rows


def refuse_nulls(rows: pa.Table, columns: Iterable[str], what: str) -> None:
    """Raise if one of these columns has a null."""
    for name in columns:
        if rows.column(name).null_count:
            row = rows.column(name).is_null().to_pylist().index(True)
            raise SchemaError(
                f"{what}, column '{name}': row {row} is null.\n  Leave such rows out before they come in."
            )


def distinct_values(values: Any, what: str) -> pa.Table:
    """A table of one column: values, each once, without nulls.

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
        table = as_given(values, what)
        if is_of_spark(table):
            table = read_rows(table, what, table.columns)
        if table.num_columns != 1:
            raise SchemaError(f"{what} are a table of {table.num_columns} columns; one is allowed.")
        array = table.column(0)
    return pa.table({"id": pc.unique(array.drop_null())})
