"""The vertices and the edges of a graph, and their changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_wcoj.data.column import Int64Array
from gpu_wcoj.engine.ingest import Incoming, are_numbered, read_change
from gpu_wcoj.errors import SchemaError, UsageError
from gpu_wcoj.query.motif.form import ROW
from gpu_wcoj.weights import weight_name
from gpu_wcoj.zset.zset import ZSet

if TYPE_CHECKING:
    from gpu_wcoj.arrow.indexed_table import IndexedTable
    from gpu_wcoj.arrow.row_index import RowIndex
    from gpu_wcoj.program import Program


def as_table(data: Any, what: str) -> Any:
    """Return data as a table; the rows of a `ZSet` are repeated by their weights."""
    from gpu_wcoj.arrow.given import as_arrow_or_spark

    if not isinstance(data, ZSet):
        return as_arrow_or_spark(data, what)
    weights = data.weights
    if bool((weights < 0).any()):
        raise UsageError(
            f"{what} have a row of negative weight: expected weights from 0 on.\n  Begin with present rows."
        )
    rows = as_arrow_or_spark(data.with_weight_name(None), what)
    return rows if bool((weights == 1).all()) else rows.take(np.repeat(np.arange(len(weights)), weights))


@dataclass(frozen=True, eq=False)
class Table:
    """The vertices or the edges. Immutable except for its lazily built indexes.

    Attributes
    ----------
    name
        ``vertices`` or ``edges``.
    names
        Names of all columns of inserted rows.
    keys
        Names of the columns without nulls: the id, or both ends.
    contents
        The rows, with the needed columns.
    is_unique
        True if keys are unique, as for vertices.
    """

    name: str
    names: tuple[str, ...]
    keys: tuple[str, ...]
    contents: IndexedTable
    is_unique: bool
    index: list[RowIndex] = field(default_factory=list)

    @staticmethod
    def from_data(name: str, data: Any, keys: Sequence[str], needed: Sequence[str]) -> Table:
        """Create a table from the needed columns of `data`, a result of `as_table`."""
        from gpu_wcoj.arrow.given import kinds_of, read_rows, refuse_nulls
        from gpu_wcoj.arrow.indexed_table import IndexedTable

        what = f"the {name}"
        rows = read_rows(data, what, needed)
        refuse_nulls(rows, keys, what)
        table = Table(name, tuple(kinds_of(data)), tuple(keys), IndexedTable.from_table(what, rows), name == "vertices")
        if table.is_unique:
            table.check_unique()
        return table

    def check_unique(self) -> None:
        """Raise if two rows have the same keys."""
        from gpu_wcoj.arrow.row_index import dictionaries, key_matrix

        rows, _ = self.contents.present()
        matrix = key_matrix(rows.select(self.keys), self.contents.what, *dictionaries(), self.keys)
        _, first, count = np.unique(matrix, axis=1, return_index=True, return_counts=True)
        if len(count) and int(count.max()) > 1:
            key = rows.select(self.keys).take(first[np.argmax(count)][None]).to_pylist()[0]
            raise SchemaError(
                f"the {self.name} have several rows of the {self.keys[0]} {key[self.keys[0]]!r}:"
                f" got {count.max()}, expected 1.\n"
                "  Remove the other rows of the vertex."
            )

    def apply_change(self, data: Any) -> TableChange:
        """Return the table after a change.

        Raises
        ------
        SchemaError
            If a deleted row is missing, or an inserted vertex is present.
        """
        from gpu_wcoj.arrow.given import as_arrow_or_spark, refuse_nulls, split_change

        what = self.contents.what
        if isinstance(data, ZSet):
            data = data.with_weight_name("weight")
        rows, weights = split_change(
            self._named(as_arrow_or_spark(data, what)), what, self.names, self.contents.schema.names
        )
        refuse_nulls(rows, self.keys, what)
        _, rows = self.contents.unify_types(rows)
        removed = self.find(rows.take(np.flatnonzero(weights < 0)), -weights[weights < 0])
        added_rows = rows.take(np.repeat(np.flatnonzero(weights > 0), weights[weights > 0]))
        if self.is_unique and len(added_rows):
            self.check_new(added_rows, removed)
        contents, added = self.contents.plus(added_rows)
        return TableChange(
            replace(self, contents=contents.minus(removed) if len(removed) else contents), contents, removed, added
        )

    def _named(self, data: Any) -> Any:
        """Return rows with unnamed columns under the column names of the table."""
        from gpu_wcoj.arrow.given import kinds_of
        from gpu_wcoj.arrow.table import is_of_spark

        names, size = list(kinds_of(data)), len(self.names)
        if not are_numbered(names[:size]) or names[size:] not in ([], ["weight"]) or {*names} & {*self.names}:
            return data
        called = [*self.names, weight_name(self.names)][: len(names)]
        return data.toDF(*called) if is_of_spark(data) else data.rename_columns(called)

    def find(self, rows: Any, times: Int64Array) -> Int64Array:
        """Return the numbers of `times` stored rows equal to each of `rows`."""
        if len(rows) == 0:
            return np.empty(0, np.int64)
        row_numbers = self.index_of(self.contents.schema.names).find(self.contents, rows, times.tolist())
        for index, (numbers, count) in enumerate(zip(row_numbers, times.tolist(), strict=True)):
            if len(numbers) < count:
                (row,) = rows.slice(index, 1).to_pylist()
                there = f"{len(numbers)} times" if numbers else "0 times"
                raise SchemaError(
                    f"a row of the {self.name} cannot be deleted {count} times, it is present {there}: {row!r:.200}.\n"
                    "  Nothing was changed. Rows are compared by these columns; other columns are not stored."
                )
        return np.array([number_ for numbers in row_numbers for number_ in numbers], np.int64)

    def check_new(self, rows: Any, removed: Int64Array) -> None:
        """Raise if an inserted row has the keys of another row that is not deleted."""
        from gpu_wcoj.arrow.row_index import dictionaries, key_matrix

        keys = key_matrix(rows.select(self.keys), self.contents.what, *dictionaries())
        _, first, count = np.unique(keys, axis=1, return_index=True, return_counts=True)
        repeated = first[count > 1].tolist()
        remaining = self.contents.minus(removed) if len(removed) else self.contents
        matches = self.index_of(self.keys).find(remaining, rows, [1] * len(rows))
        repeated += [index for index, numbers in enumerate(matches) if numbers]
        if repeated:
            key = rows.column(self.keys[0])[repeated[0]].as_py()
            raise SchemaError(
                f"the inserted vertex {key!r} is already present or is inserted twice.\n"
                "  Nothing was changed. To change a vertex, delete its row (weight -1) and insert the new one."
            )

    def index_of(self, columns: Sequence[str]) -> RowIndex:
        """Return an up-to-date index of these columns."""
        from gpu_wcoj.arrow.row_index import RowIndex

        for index in self.index:
            if index.columns == tuple(columns):
                index.catch_up(self.contents)
                return index
        index = RowIndex(columns, self.contents.what, self.keys)
        index.catch_up(self.contents)
        self.index.append(index)
        return index

    def all_rows(self, program: Program, columns: Sequence[str]) -> Incoming:
        """Return all rows as an input of the program."""
        nothing = np.empty(0, np.int64)
        return _incoming(self.name, program, self.contents, nothing, self.contents.present()[1], columns)


@dataclass(frozen=True, eq=False)
class TableChange:
    """A change of a table.

    Attributes
    ----------
    after
        The table after it.
    contents
        The rows before and after.
    removed, added
        The numbers of the deleted and inserted rows.
    """

    after: Table
    contents: IndexedTable
    removed: Int64Array
    added: Int64Array

    def to_input(self, program: Program, columns: Sequence[str]) -> Incoming:
        """Return the change as an input of the program."""
        read = _incoming(self.after.name, program, self.contents, self.removed, self.added, columns)
        if not len(self.removed):
            return read
        weights = np.ones(len(self.removed) + len(self.added), np.int64)
        weights[: len(self.removed)] = -1
        return replace(read, weights=weights)


def _incoming(
    name: str, program: Program, contents: IndexedTable, removed: Int64Array, added: Int64Array, columns: Sequence[str]
) -> Incoming:
    from gpu_wcoj.arrow.indexed_table import rows_with_numbers

    rows = rows_with_numbers(contents, np.concatenate([removed, added]), columns, ROW)
    size = len(columns)
    return read_change(name, rows, size, tuple(columns), [None] * size, program.dictionaries, reserves_weight=False)
