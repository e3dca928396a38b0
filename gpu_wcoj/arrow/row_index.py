"""An index of rows by the values of some columns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from gpu_wcoj.arrow.table import as_table
from gpu_wcoj.data.column import Int64Array, without_zero_signs
from gpu_wcoj.dictionary import Dictionary
from gpu_wcoj.errors import UnsupportedTypeError

if TYPE_CHECKING:
    from gpu_wcoj.arrow.indexed_table import IndexedTable

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
