"""The vertices and the edges of a graph, as they were given and as they change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_wcoj.column import Int64Array
from gpu_wcoj.errors import SchemaError, UsageError
from gpu_wcoj.incoming import Incoming, are_numbered, read_change
from gpu_wcoj.query.motif.form import ROW
from gpu_wcoj.weights import weight_name
from gpu_wcoj.zset.zset import ZSet

if TYPE_CHECKING:
    from gpu_wcoj.arrow.held import Held
    from gpu_wcoj.arrow.row_index import RowIndex
    from gpu_wcoj.program import Program


def given(data: Any, what: str) -> Any:
    """A table as it was given; a `ZSet` gives rows as often as they weigh."""
    from gpu_wcoj.arrow.given import as_given

    if not isinstance(data, ZSet):
        return as_given(data, what)
    weights = data.weights
    if bool((weights < 0).any()):
        raise UsageError(f"{what} hold a row of negative weight.\n  Begin with rows that are there.")
    rows = as_given(data.with_weight_name(None), what)
    return rows if bool((weights == 1).all()) else rows.take(np.repeat(np.arange(len(weights)), weights))


@dataclass(frozen=True, eq=False)
class Table:
    """One of the two. Immutable but for its index, which is made when a row is first looked for.

    Attributes
    ----------
    name
        ``vertices`` or ``edges``.
    names
        Names of all columns that rows come with.
    keys
        Columns without nulls: the id, or both ends.
    held
        The rows, of those columns that are needed.
    is_unique
        Whether no two rows may have the same keys, as of vertices.
    """

    name: str
    names: tuple[str, ...]
    keys: tuple[str, ...]
    held: Held
    is_unique: bool
    index: list[RowIndex] = field(default_factory=list)

    @staticmethod
    def of(name: str, data: Any, keys: Sequence[str], needed: Sequence[str]) -> Table:
        """Of a table as `given` gives it, these columns."""
        from gpu_wcoj.arrow.given import kinds_of, read_rows, refuse_nulls
        from gpu_wcoj.arrow.held import Held

        what = f"the {name}"
        rows = read_rows(data, what, needed)
        refuse_nulls(rows, keys, what)
        found = Table(name, tuple(kinds_of(data)), tuple(keys), Held.of(what, rows), name == "vertices")
        if found.is_unique:
            found.check_unique()
        return found

    def check_unique(self) -> None:
        """Raise if two rows have the same keys."""
        from gpu_wcoj.arrow.row_index import dictionaries, key_matrix

        rows, _ = self.held.present()
        matrix = key_matrix(rows.select(self.keys), self.held.what, *dictionaries(), self.keys)
        _, first, count = np.unique(matrix, axis=1, return_index=True, return_counts=True)
        if len(count) and int(count.max()) > 1:
            key = rows.select(self.keys).take(first[np.argmax(count)][None]).to_pylist()[0]
            raise SchemaError(
                f"the {self.name} have {count.max()} rows of the {self.keys[0]} {key[self.keys[0]]!r}.\n"
                "  A vertex is one row; leave the others out."
            )

    def changed(self, data: Any) -> Changed:
        """The table after a change.

        Raises
        ------
        SchemaError
            If a row goes that is not there, or a vertex comes that is.
        """
        from gpu_wcoj.arrow.given import as_given, refuse_nulls, split_change

        what = self.held.what
        if isinstance(data, ZSet):
            data = data.with_weight_name("weight")
        rows, weights = split_change(self._named(as_given(data, what)), what, self.names, self.held.schema.names)
        refuse_nulls(rows, self.keys, what)
        _, rows = self.held.alike(rows)
        gone = self.find(rows.take(np.flatnonzero(weights < 0)), -weights[weights < 0])
        coming = rows.take(np.repeat(np.flatnonzero(weights > 0), weights[weights > 0]))
        if self.is_unique and len(coming):
            self.check_new(coming, gone)
        every, come = self.held.plus(coming)
        return Changed(replace(self, held=every.minus(gone) if len(gone) else every), every, gone, come)

    def _named(self, data: Any) -> Any:
        """The rows under the names of the table's columns, where theirs only count."""
        from gpu_wcoj.arrow.given import kinds_of
        from gpu_wcoj.arrow.table import is_of_spark

        names, size = list(kinds_of(data)), len(self.names)
        if not are_numbered(names[:size]) or names[size:] not in ([], ["weight"]) or {*names} & {*self.names}:
            return data
        called = [*self.names, weight_name(self.names)][: len(names)]
        return data.toDF(*called) if is_of_spark(data) else data.rename_columns(called)

    def find(self, rows: Any, times: Int64Array) -> Int64Array:
        """Numbers of rows that hold the same, each so many times."""
        if len(rows) == 0:
            return np.empty(0, np.int64)
        found = self.indexed(self.held.schema.names).find(self.held, rows, times.tolist())
        for at, (numbers, wanted) in enumerate(zip(found, times.tolist(), strict=True)):
            if len(numbers) < wanted:
                (row,) = rows.slice(at, 1).to_pylist()
                there = f"{len(numbers)} times" if numbers else "not there"
                raise SchemaError(
                    f"a row of the {self.name} is to go {wanted} times and is {there}: {row!r:.200}.\n"
                    "  Nothing was changed. A row goes by its values in these columns, which are those that are kept."
                )
        return np.array([number for numbers in found for number in numbers], np.int64)

    def check_new(self, rows: Any, gone: Int64Array) -> None:
        """Raise if a row that comes has the keys of another one, of those that go aside."""
        from gpu_wcoj.arrow.row_index import dictionaries, key_matrix

        keys = key_matrix(rows.select(self.keys), self.held.what, *dictionaries())
        _, first, count = np.unique(keys, axis=1, return_index=True, return_counts=True)
        taken = first[count > 1].tolist()
        left = self.held.minus(gone) if len(gone) else self.held
        found = self.indexed(self.keys).find(left, rows, [1] * len(rows))
        taken += [at for at, numbers in enumerate(found) if numbers]
        if taken:
            key = rows.column(self.keys[0])[taken[0]].as_py()
            raise SchemaError(
                f"the vertex {key!r} comes, and is there already or comes twice.\n"
                "  Nothing was changed. To change a vertex, delete its row (weight -1) and insert the new one."
            )

    def indexed(self, columns: Sequence[str]) -> RowIndex:
        """The index of these columns, with all rows that are there."""
        from gpu_wcoj.arrow.row_index import RowIndex

        for one in self.index:
            if one.columns == tuple(columns):
                one.catch_up(self.held)
                return one
        one = RowIndex(columns, self.held.what, self.keys)
        one.catch_up(self.held)
        self.index.append(one)
        return one

    def whole(self, program: Program, columns: Sequence[str]) -> Incoming:
        """All rows, as the program's input."""
        nothing = np.empty(0, np.int64)
        return _incoming(self.name, program, self.held, nothing, self.held.present()[1], columns)


@dataclass(frozen=True, eq=False)
class Changed:
    """A change of a table.

    Attributes
    ----------
    after
        The table after it.
    every
        The rows of before and after.
    gone, come
        The numbers of those that went and came.
    """

    after: Table
    every: Held
    gone: Int64Array
    come: Int64Array

    def incoming(self, program: Program, columns: Sequence[str]) -> Incoming:
        """The change of the program's input."""
        read = _incoming(self.after.name, program, self.every, self.gone, self.come, columns)
        if not len(self.gone):
            return read
        weights = np.ones(len(self.gone) + len(self.come), np.int64)
        weights[: len(self.gone)] = -1
        return replace(read, weights=weights)


def _incoming(
    name: str, program: Program, held: Held, gone: Int64Array, come: Int64Array, columns: Sequence[str]
) -> Incoming:
    from gpu_wcoj.arrow.held import numbered

    rows = numbered(held, np.concatenate([gone, come]), columns, ROW)
    size = len(columns)
    return read_change(name, rows, size, tuple(columns), [None] * size, program.dictionaries, reserves_weight=False)
