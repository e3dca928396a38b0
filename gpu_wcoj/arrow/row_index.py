"""Rows found by what they hold."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from gpu_wcoj.arrow.table import as_table
from gpu_wcoj.column import Int64Array, without_zero_signs
from gpu_wcoj.dictionary import Dictionary
from gpu_wcoj.errors import UnsupportedTypeError

if TYPE_CHECKING:
    from gpu_wcoj.arrow.held import Held

_MIX = np.uint64(0x9E3779B97F4A7C15)


def dictionaries() -> tuple[Dictionary, Dictionary]:
    """Fresh ones, of texts and of bytes."""
    return Dictionary("string"), Dictionary("binary")


def encode_all(rows: pa.Table, what: str, string: Dictionary, binary: Dictionary) -> list[Any]:
    """The table's columns as codes."""
    return as_table(rows, what, string=string, binary=binary)[1]


def key_matrix(
    rows: pa.Table, what: str, string: Dictionary, binary: Dictionary, joined: Collection[str] = ()
) -> Int64Array:
    """What rows hold, as integers: a column per row, equal where rows are. Nulls are equal to nulls.

    Zeros are told apart by their sign, but in the columns that are `joined`, where -0.0 equals 0.0.
    """
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
        codes = code.codes
        if name in joined and code.type.family in ("float32", "float64"):
            codes = without_zero_signs(codes)
        lines += [codes, np.ones(len(rows), np.int64) if code.valid is None else code.valid.astype(np.int64)]
    return np.stack(lines) if lines else np.zeros((0, len(rows)), np.int64)


class RowIndex:
    """Finds rows by what some of their columns hold.

    Hashes are sorted once; those of later rows stand beside until they are many. What is found is compared, and has to
    be there: rows that are gone do no harm.
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
        return key_matrix(rows.select(self.columns), self.what, *self.dictionaries, self.joined)

    def _hashed(self, keys: Int64Array) -> Any:
        hashes = np.zeros(keys.shape[1], np.uint64)
        for line in keys:
            hashes = (hashes ^ line.view(np.uint64)) * _MIX
            hashes ^= hashes >> np.uint64(29)
        return hashes
