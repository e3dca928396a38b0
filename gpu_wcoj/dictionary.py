"""Text and bytes as int64 codes: an append-only mapping shared by a program's relations.

A code is the position at which its value first arrived, so codes never change. The values live in a hash map: a batch
costs time in its own size, however large the dictionary has become. Codes say nothing about the order of the values;
`Dictionary.rank` does.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from itertools import count
from threading import RLock
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gpu_wcoj.data.column import BoolArray, Int64Array
from gpu_wcoj.errors import TypeMismatchError, UnsupportedTypeError
from gpu_wcoj.locks import register_for_forks

if TYPE_CHECKING:
    import pyarrow as pa  # loaded by the methods that need it: a program without text has a dictionary, too

_MAX_PYTHON_VALUES = 512
"""Maximum number of values that are encoded one by one in Python; longer arrays use Arrow."""


def _frozen(array: Int64Array) -> Int64Array:
    array.flags.writeable = False
    return array


_EMPTY = _frozen(np.empty(0, np.int64))


class Dictionary:
    """An append-only mapping between values of one kind and their codes 0, 1, 2, ...

    The kind is ``"string"`` or ``"binary"``.

    Examples
    --------
    >>> import pyarrow as pa
    >>> names = Dictionary("string")
    >>> names.encode(pa.array(["Rome", "Oslo", "Rome"]))
    array([0, 1, 0])
    >>> names.rank()
    array([1, 0])
    >>> names.decode(names.encode(pa.array(["Oslo"]))).to_pylist()
    ['Oslo']
    """

    __slots__ = ("__weakref__", "_arrow", "_codes", "_lock", "_order", "_rank", "_values", "kind")

    def __init__(self, kind: Literal["string", "binary"] = "string") -> None:
        self.kind: Literal["string", "binary"] = kind
        self._values: list[str | bytes] = []
        self._codes: dict[str | bytes, int] = {}
        self._arrow: pa.Array | None = None
        self._order = self._rank = _EMPTY
        self.begin_anew()
        register_for_forks(self)

    def __getstate__(self) -> tuple[Literal["string", "binary"], list[str | bytes]]:
        return self.kind, self._values

    def __setstate__(self, state: tuple[Literal["string", "binary"], list[str | bytes]]) -> None:
        kind, values = state
        Dictionary.__init__(self, kind)
        self._codes_of_values(values)

    def begin_anew(self) -> None:
        """Create a new, free lock.

        Rows of one tick may be read while another thread runs the next one.
        """
        self._lock = RLock()

    def fresh(self) -> Dictionary:
        """Return an empty dictionary of the same kind."""
        return Dictionary(self.kind)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Dictionary({self.kind!r}, {len(self)} values)"

    @property
    def _arrow_type(self) -> pa.DataType:
        import pyarrow as pa

        return pa.large_string() if self.kind == "string" else pa.large_binary()

    def encode(self, array: pa.Array | pa.ChunkedArray) -> Int64Array:
        """Return the codes of the values; missing values are added in order. Nulls get code 0.

        Raises
        ------
        UnsupportedTypeError
            If a text is not valid UTF-8.
        """
        import pyarrow as pa

        if isinstance(array, pa.ChunkedArray):
            return np.concatenate([np.empty(0, np.int64), *map(self.encode, array.chunks)])
        if array.null_count:
            present = array.is_valid().to_numpy(zero_copy_only=False)
            codes = np.zeros(len(array), np.int64)
            codes[present] = self.encode(array.cast(self._arrow_type).drop_null())
            return codes
        if len(array) <= _MAX_PYTHON_VALUES:
            return self._codes_of(array)
        encoded = array.cast(self._arrow_type).dictionary_encode()
        places: Int64Array = encoded.indices.to_numpy()
        return self._codes_of(encoded.dictionary)[places]

    def encode_one(self, value: str | bytes) -> int:
        """Return the code of one value, which is added if it is missing.

        Raises
        ------
        TypeMismatchError
            If the value is not of this dictionary's kind.
        UnsupportedTypeError
            If a text is not valid Unicode.
        """
        if not isinstance(value, str if self.kind == "string" else bytes):
            raise TypeMismatchError.wrong_type("the value", value, f"{self.kind}, the kind of this dictionary")
        if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError as error:
                raise UnsupportedTypeError(f"the text {value!r} is not valid Unicode: {error.reason}.") from None
        return int(self._codes_of_values([value])[0])

    def codes_of(self, values: list[str] | list[bytes]) -> Int64Array:
        """Return the codes of valid values of this kind; missing values are added."""
        return self._codes_of_values(values)

    def values_of(self, codes: Int64Array) -> list[Any]:
        """Return the values of the codes."""
        return [self._values[code] for code in codes.tolist()]

    def match(self, patterns: Int64Array, texts: Int64Array) -> list[bool | None]:
        """Match each text in full against the pattern beside it; None if RE2 rejects the pattern.

        Complexity
        ----------
        Linear in the texts for each pattern, as RE2 does not backtrack.
        """
        import pyarrow.compute as pc

        matches: list[bool | None] = [None] * len(texts)
        order = np.argsort(patterns, kind="stable")
        starts = np.flatnonzero(np.diff(patterns[order], prepend=-1))
        for rows in np.split(order, starts[1:]) if len(order) else ():
            pattern = whole_pattern(str(self._values[patterns[rows[0]]]))
            if pattern is not None:
                matched = pc.match_substring_regex(self.decode(texts[rows]), pattern).to_pylist()
                for row, is_match in zip(rows.tolist(), matched, strict=True):
                    matches[row] = is_match
        return matches

    def value_of(self, code: int) -> str | bytes:
        """Return the value of a code."""
        return self._values[code]

    def find(self, value: str | bytes) -> int | None:
        """Return the code of a value, or None if the value is missing."""
        return self._codes.get(value)

    def decode(self, codes: Int64Array, valid: BoolArray | None = None) -> pa.Array:
        """Return the values of the codes as ``large_string`` or ``large_binary``.

        Rows with a False `valid` are null.
        """
        import pyarrow as pa

        if len(codes) * 8 < len(self):
            code_list = codes.tolist() if valid is None else np.where(valid, codes, -1).tolist()
            return pa.array([None if code < 0 else self._values[code] for code in code_list], self._arrow_type)
        return self._all_values().take(pa.array(codes, mask=None if valid is None else ~valid))

    def _all_values(self) -> pa.Array:
        """Return every value, by code; cached, and extended when the dictionary has grown."""
        import pyarrow as pa

        with self._lock:
            if self._arrow is None:
                self._arrow = pa.array(self._values, self._arrow_type)
            elif len(self._arrow) < len(self):
                fresh = pa.array(self._values[len(self._arrow) :], self._arrow_type)
                self._arrow = pa.concat_arrays([self._arrow, fresh])
            return self._arrow

    def truncate(self, size: int) -> None:
        """Remove every value that was added after the dictionary had `size` values."""
        with self._lock:
            for value in self._values[size:]:
                del self._codes[value]
            del self._values[size:]
            self._arrow = None if self._arrow is None else self._arrow[:size]
            if len(self._order) > size:
                self._order = self._rank = _EMPTY

    def rank(self) -> Int64Array:
        """Return for every code the rank of its value in (UTF-8) byte order.

        The array is read-only and cached until the dictionary grows.

        Complexity
        ----------
        Linear in the dictionary after a small growth, n log n after a large one.
        """
        with self._lock:
            return self._ranked()

    def _ranked(self) -> Int64Array:
        n_ordered, size = len(self._order), len(self)
        if n_ordered < size:
            if (size - n_ordered) * 16 < n_ordered:
                fresh = sorted(range(n_ordered, size), key=self._sort_key)
                places = [bisect_left(self._order, self._sort_key(code), key=self._sort_key) for code in fresh]
                self._order = np.insert(self._order, places, fresh)
            else:
                import pyarrow.compute as pc

                self._order = pc.sort_indices(self.decode(np.arange(size))).to_numpy().astype(np.int64)
            ranks = np.empty(size, np.int64)
            ranks[self._order] = np.arange(size)
            self._rank = _frozen(ranks)
        return self._rank

    def recode(self, source: Dictionary, codes: Int64Array) -> Int64Array:
        """Return the codes here of codes of `source`; only values in use are added.

        Complexity
        ----------
        Linear in the number of codes, independent of the size of either dictionary.
        """
        if source is self or not len(codes):
            return codes
        if len(codes) <= _MAX_PYTHON_VALUES:
            return self._codes_of_values([source._values[code] for code in codes.tolist()])
        used, places = np.unique(codes, return_inverse=True)
        return self.encode(source.decode(used))[places]

    def translate(self, source: Dictionary) -> Int64Array:
        """Return the code here of every code of `source`; missing values are added."""
        return self.recode(source, np.arange(len(source)))

    def _sort_key(self, code: int) -> Any:
        return self._values[code]

    def _codes_of(self, array: pa.Array) -> Int64Array:
        """Return the codes of values without nulls, looked up one by one."""
        try:
            values = array.to_pylist()
        except UnicodeDecodeError as error:
            raise UnsupportedTypeError(
                f"the text {error.object!r} is not valid UTF-8.\n"
                "  Cast the column to binary, or repair it before you pass it."
            ) from None
        return self._codes_of_values(values)

    def _codes_of_values(self, values: list[Any]) -> Int64Array:
        with self._lock:
            codes = list(map(self._codes.get, values))
            if None in codes:
                fresh = [value for value in dict.fromkeys(values) if value not in self._codes]
                self._codes.update(zip(fresh, count(len(self._values)), strict=False))
                self._values.extend(fresh)
                codes = list(map(self._codes.get, values))
        return np.array(codes, np.int64)


@lru_cache(maxsize=1024)
def whole_pattern(pattern: str) -> str | None:
    r"""Return the pattern anchored at both ends of a text; None if RE2 rejects `pattern`.

    Examples
    --------
    >>> whole_pattern("a|b"), whole_pattern("a)(?:b"), whole_pattern(r"(a)\1")
    ('\\A(?:a|b)\\z', None, None)
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    text = pa.array([""], pa.large_string())
    anchored = rf"\A(?:{pattern})\z"
    try:
        for expression in (pattern, anchored):
            pc.match_substring_regex(text, expression)
    except pa.ArrowInvalid:
        return None
    return anchored
