"""Conversion of CSV, TSV and whitespace text to columns: int64, float64 or string.

The types are decided on the first block of lines.

Where there are no rows, columns that no option gives a type have none: they are Arrow's ``null``.

Blocks are parsed by pyarrow at full speed with the types decided; where that fails, the block is parsed again as
text, value by value, either to name the line and the value that is wrong or because a number is spelled in a way that
pyarrow does not take (``+1``).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from gpu_wcoj.arrow.types import to_pyarrow
from gpu_wcoj.data.column import BoolArray
from gpu_wcoj.data.schema import DataType
from gpu_wcoj.errors import InputFileError, counted
from gpu_wcoj.files import formats
from gpu_wcoj.files.formats import BOM, INNER_CR, INNER_LF, Lines, TextFile, is_facts
from gpu_wcoj.files.record_batch import WEIGHT, RowBlock, fields_of_empty_file, make_block, numbered, select
from gpu_wcoj.files.spec import ColumnName, InputSpec

# Conversion of one column's texts to int64, float64 or string.
#
# Errors give the place of the first value that does not fit.


_INTEGER: Final = r"^[ \t]*[+-]?[0-9]+[ \t]*$"
_NUMBER: Final = r"^[ \t]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[ \t]*$"

_LEADING_ZEROS: Final = r"^[ \t]*[+-]?0[0-9]"
_ZERO: Final = 48
"""The code of the character 0 in a byte."""
_FIELDS_LOOKED_AT: Final = 1000
"""Fields that begin with a zero which are examined one by one before the complete block is scanned."""
_EXACT: Final = 2.0**53
"""Every integer of a smaller magnitude is exactly a 64-bit float."""

Place = Callable[[int], str]


def is_number(text: str) -> bool:
    """Return True if a text spells an integer or a decimal number.

    Examples
    --------
    >>> [is_number(text) for text in ("+1", " -2.5e3", "1_000", "nan", "")]
    [True, True, False, False, False]
    """
    return bool(_matches(pa.array([text]), _NUMBER)[0])


def is_integer(text: str) -> bool:
    """Return True if a text spells an integer of any size.

    Examples
    --------
    >>> [is_integer(text) for text in ("+1", "-20", "1.0", "")]
    [True, True, False, False]
    """
    return bool(_matches(pa.array([text]), _INTEGER)[0])


def may_lead_with_zero(data: bytes, separator: str) -> bool:
    r"""Return True if some field may begin with a zero and another digit; False is certain.

    Examples
    --------
    >>> [may_lead_with_zero(data, ",") for data in (b"1,007\n", b"0,10\n0.5,-0\n", b"-01,2\n")]
    [True, False, True]
    """
    if data[:2].isdigit() and data.startswith(b"0"):
        return True
    for start in {f"{separator}0".encode(), b"\n0", b"-0", b"+0", b'"0', b" 0", b"\t0"}:
        offset = data.find(start) if start[:1] in data else -1
        for _ in range(_FIELDS_LOOKED_AT):
            if offset < 0:
                break
            if data[offset + 2 : offset + 3].isdigit():
                return True
            offset = data.find(start, offset + 2)
        else:
            return _leads_with_zero(data)
    return False


def _leads_with_zero(data: bytes) -> bool:
    text = np.frombuffer(data + b"\n", np.uint8)
    zeros = np.flatnonzero(text == _ZERO)
    digit = (text >= _ZERO) & (text <= _ZERO + 9)
    zeros = zeros[digit[zeros + 1]]
    before = zeros[zeros > 0] - 1
    return len(before) < len(zeros) or not (digit[before] | (text[before] == ord("."))).all()


def changed_value(texts: pa.Array, numbers: pa.Array, is_guessed: bool) -> int | None:
    """Return the first row whose text says more than its number; None if there is none.

    That is a text with leading zeros, or an integer that a float rounds, where the type is guessed; and in any case a
    number too large for a float.

    Examples
    --------
    >>> changed_value(pa.array(["7", "007"]), pa.array([7, 7]), True)
    1
    >>> changed_value(pa.array(["0.5", "9007199254740993"]), pa.array([0.5, 9007199254740992.0]), True)
    1
    >>> changed_value(pa.array(["1e400"]), pa.array([float("inf")]), False)
    0
    """
    texts = texts.cast(pa.string())
    changed = np.zeros(len(texts), bool)
    if is_guessed:
        changed |= _matches(texts, _LEADING_ZEROS)
    if pa.types.is_floating(numbers.type):
        values = numbers.to_numpy(zero_copy_only=False)
        changed |= np.isinf(values) & _matches(texts, _NUMBER)
        if is_guessed:
            large = (np.abs(values) >= _EXACT) & np.isfinite(values) & _matches(texts, _INTEGER)
            changed[[row for row in np.flatnonzero(large) if int(texts[int(row)].as_py()) != int(values[row])]] = True
    return int(np.argmax(changed)) if changed.any() else None


def may_be_rounded(numbers: pa.Array) -> bool:
    """Return True if some float of a column is so large that integers are rounded to it."""
    if not pa.types.is_floating(numbers.type) or len(numbers) == numbers.null_count:
        return False
    values = numbers.to_numpy(zero_copy_only=False)
    return bool((np.abs(values) >= _EXACT).any())


def decide_type(texts: pa.Array, place: Place, hint: str) -> str:
    """Return ``"int64"`` or ``"float64"`` if all non-empty values are such, else ``"string"``.

    Raises
    ------
    InputFileError
        If some values are numbers and some are not; `place` says where row i stands, and `hint` what to do.
    """
    texts = _as_string(texts, place)
    filled = _flags(pc.not_equal(texts, ""))
    is_numeric = _matches(texts, _NUMBER) & filled
    if not is_numeric.any():
        return "string"
    if (is_numeric == filled).all():
        return "int64" if (_matches(texts, _INTEGER) == filled).all() else "float64"
    first = int(np.flatnonzero(filled)[0])
    conflicting = int(np.flatnonzero(filled & (is_numeric != is_numeric[first]))[0])
    kinds = ("a number", "text") if is_numeric[first] else ("text", "a number")
    raise InputFileError(
        f"{place(conflicting)}: '{texts[conflicting]}' is {kinds[1]}, but '{texts[first]}' in the same column is "
        f"{kinds[0]} ({place(first)}).\n  {hint}"
    )


def as_type(texts: pa.Array, kind: str, place: Place, why: str) -> pa.Array:
    """Return the values as ``"int64"``, ``"float64"`` or ``"string"``; an empty text is null.

    Raises
    ------
    InputFileError
        If a value is not of that kind; `place` says where row i stands, and `why` what asks for the kind.
    """
    texts = _as_string(texts, place)
    if kind == "string":
        return texts
    pattern = _INTEGER if kind == "int64" else None
    filled = _flags(pc.not_equal(texts, ""))
    if pattern is not None and len(wrong := np.flatnonzero(filled & ~_matches(texts, pattern))):
        raise _unfit(texts, int(wrong[0]), kind, place, why)
    plain = pc.replace_substring_regex(pc.utf8_trim(texts, " \t"), pattern=r"^\+", replacement="")
    plain = pc.if_else(pa.array(filled), plain, pa.scalar(None, pa.string()))
    target = pa.int64() if kind == "int64" else pa.float64()
    try:
        return plain.cast(target)
    except pa.ArrowInvalid:
        row = next(row for row, value in enumerate(plain) if not _casts(value, target))
        raise _unfit(texts, row, kind, place, why) from None


def _unfit(texts: pa.Array, row: int, kind: str, place: Place, why: str) -> InputFileError:
    what = "an integer of 64 bits" if kind == "int64" else "a number"
    return InputFileError(f"{place(row)}: '{texts[row]}' is not {what}{why}")


def _casts(value: pa.Scalar, target: pa.DataType) -> bool:
    try:
        value.cast(target)
    except pa.ArrowInvalid:
        return False
    return True


def _as_string(texts: pa.Array, place: Place) -> pa.Array:
    try:
        return texts.cast(pa.string())
    except pa.ArrowInvalid:
        row = next(row for row, value in enumerate(texts) if not _casts(value, pa.string()))
        raise InputFileError(
            f"{place(row)}: {texts[row].as_py()[:40]!r} is not UTF-8 text.\n  Convert the file to UTF-8."
        ) from None


def _matches(texts: pa.Array, pattern: str) -> BoolArray:
    return _flags(pc.match_substring_regex(texts, pattern))


def _flags(array: pa.Array) -> BoolArray:
    flags: BoolArray = array.to_numpy(zero_copy_only=False).astype(bool)
    return flags


# Conversion of whitespace text, as of SNAP, into text that a CSV parser reads.


_BLANK, _NEWLINE, _HASH = 32, 10, 35
_TO_BLANK: Final = bytes.maketrans(b"\t\r\v\f", b"    ")


def squeeze(data: bytes) -> bytes:
    r"""Reduce runs of blanks to one blank, and remove outer blanks and ``#`` lines.

    Lines of blanks alone become empty.

    Examples
    --------
    >>> squeeze(b"# SNAP\r\n 1\t 2 \r\n\n3 4\n")
    b'1 2\n\n3 4\n'
    """
    data = data.translate(_TO_BLANK)
    if b"  " in data or b" \n" in data or b"\n " in data or data.startswith(b" "):
        text = np.frombuffer(data, np.uint8)
        following = np.append(text[1:], np.uint8(_NEWLINE))
        text = text[(text != _BLANK) | ((following != _BLANK) & (following != _NEWLINE))]
        before = np.concatenate([np.array([_NEWLINE], np.uint8), text[:-1]])
        data = text[(text != _BLANK) | (before != _NEWLINE)].tobytes()
    if data.startswith(b"#") or b"\n#" in data:
        text = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(text == _NEWLINE) + 1
        starts = np.concatenate([[0], ends[:-1]])
        is_kept = np.repeat(text[starts] != _HASH, ends - starts)
        data = text[is_kept].tobytes()
    return data


def is_row(line: bytes) -> bool:
    r"""Return True if a line of whitespace text is a row: neither blank nor a comment.

    Examples
    --------
    >>> is_row(b"1 2"), is_row(b" # from to"), is_row(b"\t")
    (True, False, False)
    """
    line = line.strip()
    return bool(line) and not line.startswith(b"#")


# Detection of a header line in a text file.
#
# The first line is names of columns, a row, or ambiguous.


SAMPLE_ROWS: Final = 1000
"""Rows after the first line that are examined. A constant, so that a file of any size costs the same."""

_MISSING: Final = frozenset(
    ("na", "n/a", "<na>", "nan", "null", "nil", "none", "missing", "unknown", "inf", "infinity", "true", "false")
)
"""Words that stand for a value where other rows have numbers."""
_HEXADECIMAL: Final = re.compile(r"[+-]?0x[0-9a-f]+", re.IGNORECASE)


def names_by_program(
    first: Sequence[str], following: Sequence[str], names: Collection[str], types: Mapping[int, str]
) -> bool | None:
    """Decide by the program and the options if the first line is a header; None if unknown.

    A line with all the names is a header. So is one that does not hold values of the types where the row after it does,
    unless it has a number elsewhere, which is a value of a row.

    Parameters
    ----------
    first, following
        The fields of the first line, and of the row after it; none if there is no such row.
    names
        Names that the columns must have.
    types
        Types of columns as Arrow spells them, by position.

    Examples
    --------
    >>> names_by_program(["y", "x"], ["bo", "cy"], ["x", "y"], {})
    True
    >>> names_by_program(["ann", "age"], ["bo", "6"], (), {1: "int64"})
    True
    >>> names_by_program(["ann", "5"], ["bo", "6"], (), {0: "string", 1: "int64"})
    False
    >>> names_by_program(["1", "x"], ["2", "3"], (), {1: "int64"})
    False
    >>> names_by_program(["ann", "bo"], ["bo", "cy"], ["x", "y"], {0: "string", 1: "string"}) is None
    True
    """
    cells = [cell.strip() for cell in first]
    if names and {*names} <= {*cells}:
        return True
    typed = {
        position: kind for position, kind in types.items() if position < len(cells) and _tells(kind) and cells[position]
    }
    if not typed:
        return None
    if any(_fits(cells[at], kind) for at, kind in typed.items()) or not all(
        _may_be_name(cells[position]) for position in typed
    ):
        return False
    if any(is_number(cell) for position, cell in enumerate(cells) if position not in typed):
        return False
    return all(
        _fits(following[position].strip(), kind) for position, kind in typed.items() if position < len(following)
    )


def names_by_rows(first: Sequence[str], sample: Sequence[Sequence[str]]) -> bool | None:
    """Decide by the rows after it if the first line is a header; None if ambiguous.

    Texts over numbers are names, numbers over numbers are values.

    Parameters
    ----------
    first
        The fields of the first line.
    sample
        The fields of rows after it, `SAMPLE_ROWS` at most.

    Examples
    --------
    >>> names_by_rows(["src", "n"], [["ann", "1"], ["bo", "2"]]), names_by_rows(["1", "2"], [["3", "4"]])
    (True, False)
    >>> names_by_rows(["ann", "bo"], [["bo", "cy"]]) is None  # a row of texts, or names
    True
    >>> names_by_rows(["NA", "5"], [["7", "6"]]) is None
    True
    """
    cells = [cell.strip() for cell in first]
    filled = [cell for cell in cells if cell]
    numbers = sum(map(is_number, filled))
    columns = [
        [row[position].strip() for row in sample if position < len(row) and row[position].strip()]
        for position in range(len(cells))
    ]
    if filled and numbers == len(filled):
        is_contradicted = any(columns) and not any(is_number(cell) for column in columns for cell in column)
        return None if is_contradicted else False
    if numbers:
        return None
    over_numbers = [
        cell for cell, column in zip(cells, columns, strict=True) if cell and column and all(map(is_number, column))
    ]
    return True if over_numbers and all(map(_may_be_name, over_numbers)) else None


def _tells(kind: str) -> bool:
    """Return True if some texts are not values of the type."""
    return DataType(kind).family not in ("string", "binary")


def _fits(cell: str, kind: str) -> bool:
    """Return True if a text spells a value of the type, or is empty."""
    family = DataType(kind).family
    if not cell:
        return True
    if family == "integer":
        return is_integer(cell)
    try:
        pa.scalar(cell.removeprefix("+")).cast(to_pyarrow(DataType(kind)))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def _may_be_name(cell: str) -> bool:
    """Return True if a text over numbers is a name.

    It is not if it is another spelling of a number, or of a missing one.
    """
    has_letter = any(char.isalpha() for char in cell)
    return has_letter and cell.lower() not in _MISSING and not _HEXADECIMAL.fullmatch(cell)


_RAGGED = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")
_ARROW_TYPES = {"int64": pa.int64(), "float64": pa.float64(), "string": pa.string(), "null": pa.null()}

_OF_FAMILY = {"integer": "int64", "float32": "float64", "float64": "float64", "string": "string"}
"""As what a column of text is read that a program declares; what is of another family is as the file has it."""


class TextReader:
    """The rows of a text file, one block at a time.

    Parameters
    ----------
    spec
        The file and its options.
    separator
        The character between fields; a space stands for any run of blanks, and for ``#`` comments.
    arity
        How many columns the relation has; None for as many as the file has.
    changes
        Whether the rows are changes, among which a column called ``weight`` is the weight.
    """

    def __init__(self, spec: InputSpec, separator: str, arity: int | None, changes: bool) -> None:
        self._spec = spec
        self._separator = separator
        self._is_blank_separated = separator == " "
        self._file = TextFile(spec.path, spec.skip, separator)
        try:
            self._blocks = self._file.blocks()
            first = self._next_rows()
            if first is None:
                names, self._n_fields = None, self._without_header(arity)
            else:
                names, self._n_fields, first = self._header(first, arity, changes)
                first = first if self._first_row(first) is not None else self._next_rows()
            self._selection = select(spec, self._n_fields, names, arity, changes)
            self._types = self._no_types() if first is None else self._decide_types(first)
        except BaseException:
            self._file.close()
            raise
        self._first: Lines | None = first
        self._has_rows = first is not None
        self._n_rows = 0
        self._has_begun, self._is_after_blank = names is not None, False

    @property
    def n_rows(self) -> int | None:
        """The number of rows of the file; None until its last block has been read."""
        is_counted = self._first is None and self._file.is_at_end  # the first block waits until `blocks` is called
        return self._n_rows if is_counted or not self._has_rows else None

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """Names and types of the relation's columns; c0, c1, ... if the file has no names."""
        names = self._selection.own_names or numbered(len(self._selection.rows))
        types = [str(_ARROW_TYPES[self._types[position]]) for position in self._selection.rows]
        return tuple(zip(names, types, strict=True))

    def blocks(self) -> Iterator[RowBlock]:
        """Yield the rows in order."""
        last_tick = None
        if not self._has_rows:
            yield self._no_rows()
        first, self._first = self._first, None
        for lines in () if first is None else self._with_first(first):
            columns = self._columns(lines)
            if len(columns[0]) == 0:
                continue

            def place(row: int, lines: Lines = lines) -> str:
                return self._place(self._line_of(lines, row))

            block = make_block(self._spec, self._selection, columns, last_tick, place)
            if block.ticks is not None:
                last_tick = int(block.ticks[-1])
            self._n_rows += len(block)
            yield block

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _with_first(self, first: Lines) -> Iterator[Lines]:
        yield first
        yield from self._blocks

    def _place(self, line: int) -> str:
        return f"'{self._spec.path}', line {line}"

    def _next_rows(self) -> Lines | None:
        """Return the next lines that contain rows; None at the end of the file."""
        return next((lines for lines in self._blocks if self._first_row(lines) is not None), None)

    def _without_header(self, arity: int | None) -> int:
        """Return the number of fields of a file without lines that needs no header."""
        is_without = self._is_blank_separated or self._spec.declared is not None or is_facts(self._spec.path)
        if self._spec.header or (self._spec.header is None and not is_without):
            raise InputFileError(
                f"'{self._spec.path}' is empty: it has not even names of columns.\n"
                "  Write a line of names; or say header=no if the file has none where it has rows, too."
            )
        n_fields = fields_of_empty_file(self._spec, arity)
        if n_fields is None:
            raise InputFileError(
                f"'{self._spec.path}' is empty, so it does not tell how many columns '{self._spec.relation}' has.\n"
                f"  Give positions, as in '{self._spec}?columns=0,1'; or a file with a line of names."
            )
        return n_fields

    def _no_types(self) -> dict[int, str]:
        """Return the types of columns without values: given ones; integers for weights and ticks."""
        beside = (self._selection.weight, self._selection.tick)
        return {
            position: "int64" if position in beside else "null" for position in self._selection.used
        } | self._given_types()

    def _no_rows(self) -> RowBlock:
        types = self._types
        columns = [pa.array([], _ARROW_TYPES[types[position]]) for position in self._selection.used]
        return make_block(self._spec, self._selection, columns, None, str)

    def _row_lines(self, lines: Lines) -> list[int]:
        """Return the numbers of the lines that hold rows."""
        return [line_number for line_number, line in lines.numbered() if self._is_row(line)]

    def _first_row(self, lines: Lines) -> int | None:
        """Return the number of the first line that holds a row; None if there is none."""
        start, line_number = 0, lines.first
        while (end := lines.data.find(b"\n", start)) >= 0:
            if self._is_row(lines.data[start:end]):
                return line_number
            start, line_number = end + 1, line_number + 1 + lines.data.count(INNER_LF, start, end)
        return None

    def _is_row(self, line: bytes) -> bool:
        return is_row(line) if self._is_blank_separated else bool(line.rstrip(b"\r"))

    def _line_of(self, lines: Lines, row: int) -> int:
        return self._row_lines(lines)[row]

    def _header(self, lines: Lines, arity: int | None, changes: bool) -> tuple[tuple[str, ...] | None, int, Lines]:
        """Return the names in a header line or None, the number of fields, and the remaining lines."""
        self._normal(lines)  # complains of line ends that would make one line of the file
        line_number = self._first_row(lines)
        assert line_number is not None, "lines without a row are passed over"
        line = lines.data.split(b"\n", line_number - lines.first + 1)[line_number - lines.first]
        try:
            line_text = line.decode().removesuffix("\r")
        except UnicodeDecodeError:
            raise InputFileError(f"{self._place(line_number)}: not UTF-8 text.\n  Convert the file to UTF-8.") from None
        fields = self._fields(line_text, line_number)
        following = lines.data.split(b"\n", line_number - lines.first + 1)[-1]
        following_lines = Lines(following, line_number + 1 + line.count(INNER_LF))
        header = self._spec.header
        if header is None:
            header = self._names_columns(fields, self._sample(following_lines), arity, changes)
        if header is None:
            select(self._spec, len(fields), None, arity, changes)  # complains of a wrong number of columns first
            raise InputFileError(
                f"{self._place(line_number)}: '{line_text[:80]}' may be names of columns or a row.\n"
                f"  {formats.header(self._spec)}"
            )
        if not header:
            return None, len(fields), lines
        return tuple(field.strip() for field in fields), len(fields), following_lines

    def _names_columns(
        self, fields: list[str], sample: list[list[str]], arity: int | None, changes: bool
    ) -> bool | None:
        """Return True if the first line is a header; None if it is ambiguous."""
        spec = self._spec
        if spec.declared is not None or is_facts(spec.path):  # Soufflé's files have no names if nothing says so
            names = [name for name, _ in spec.declared or ()]
            is_doubtful = names == [field.strip() for field in fields] and not is_facts(spec.path)
            return None if is_doubtful else False
        chosen = [name for name in (*(spec.columns or ()), spec.weight, spec.tick) if isinstance(name, str)]
        if changes and spec.columns is None and spec.weight is None and arity is not None:
            beside = 1 if spec.tick is None else 2
            chosen += [WEIGHT] if len(fields) == arity + beside and WEIGHT in fields else []
        if chosen and not any(map(is_number, fields)):
            return True
        following = sample[0] if sample else ()
        has_names = names_by_program(
            fields, following, [name for name, _ in spec.expected], self._expected(len(fields))
        )
        if has_names is not None:
            return has_names
        has_names = names_by_rows(fields, sample)
        if self._is_blank_separated and (has_names or any(map(is_number, fields))):
            return False  # such text has no names by custom; where names stand over numbers, its types are refused
        return has_names

    def _expected(self, n_fields: int) -> dict[int, str]:
        """Return the types that options or the program give to columns, by position."""
        spec = self._spec
        beside = (spec.weight, spec.tick)
        rows: Sequence[ColumnName] = spec.columns or [
            position for position in range(n_fields) if position not in beside
        ]
        kinds = spec.types or tuple(kind for _, kind in spec.expected)
        kinds = tuple("double" if kind == "float64" else kind for kind in kinds)  # Arrow's word
        types = dict(zip(rows, kinds, strict=False)) if len(rows) == len(kinds) else {}
        types.update((column, "int64") for column in beside if column is not None)
        return {position: kind for position, kind in types.items() if isinstance(position, int) and kind is not None}

    def _sample(self, lines: Lines) -> list[list[str]]:
        """Return the fields of the first rows, as far as they can be split."""
        head = lines.data[: 1 << 20].rpartition(b"\n")[0]
        text = head.decode(errors="replace").split("\n", SAMPLE_ROWS)[:SAMPLE_ROWS]
        if self._is_blank_separated:
            return [line.split() for line in text if is_row(line.encode())]
        with suppress(csv.Error):  # what is wrong there is said when the rows are read
            return [row for row in csv.reader(text, delimiter=self._separator) if row]
        return []

    def _fields(self, line: str, line_number: int) -> list[str]:
        if self._is_blank_separated:
            return line.split()
        try:
            return [field.replace("\0", "\n") for field in next(csv.reader([line], delimiter=self._separator))]
        except csv.Error as error:
            raise InputFileError(
                f"{self._place(line_number)}: {error}.\n  Mend the line, or set sep or skip."
            ) from None

    def _decide_types(self, lines: Lines) -> dict[int, str]:
        types = self._given_types()
        undecided = [position for position in self._selection.used if position not in types]
        if not undecided:
            return types
        quick = {**types, **dict.fromkeys(undecided, "int64")}
        if self._parse(self._normal(lines), quick) is not None:
            return quick
        for position, column in zip(self._selection.used, self._text_columns(lines), strict=True):
            if position not in types:
                types[position] = decide_type(
                    column, lambda row: self._place(self._line_of(lines, row)), formats.mixed(self._spec)
                )
        return types

    def _given_types(self) -> dict[int, str]:
        """Return the types of columns by options or else by the program, if text has them.

        The keys are positions.
        """
        rows, file_names = self._selection.rows, self._selection.own_names
        if self._spec.types is not None:
            return {position: kind for position, kind in zip(rows, self._spec.types, strict=True) if kind is not None}
        expected = self._spec.expected
        if len(expected) != len(rows):
            return {}
        by_name = dict(expected)
        kinds = (
            [by_name[name] for name in file_names]
            if file_names is not None and {*file_names} == {*by_name}
            else by_name.values()
        )
        families = {
            position: DataType(kind).family for position, kind in zip(rows, kinds, strict=True) if kind is not None
        }
        return {position: _OF_FAMILY[family] for position, family in families.items() if family in _OF_FAMILY}

    def _columns(self, lines: Lines) -> list[pa.Array]:
        data = self._normal(lines)
        self._refuse_open(lines, data)
        parsed = self._parse(data, self._types)
        columns = self._slowly(lines) if parsed is None else parsed
        self._refuse_changed(lines, data, columns)
        return columns

    def _slowly(self, lines: Lines) -> list[pa.Array]:
        """Return the columns in use, parsed value by value."""
        texts = self._text_columns(lines)
        columns, rows = [], self._selection.rows

        def place(row: int) -> str:
            return self._place(self._line_of(lines, row))

        for position, text in zip(self._selection.used, texts, strict=True):
            why = formats.unfit(self._spec, rows.index(position) if position in rows else None)
            columns.append(as_type(text, self._types[position], place, why))
        return columns

    def _refuse_changed(self, lines: Lines, data: bytes, columns: list[pa.Array]) -> None:
        """Raise for numbers whose text says more than their value, if their type is a guess."""
        beside = (self._selection.weight, self._selection.tick)
        guessed = {position for position in self._types.keys() - self._given_types().keys() if position not in beside}
        has_zeros = any(self._types[position] != "string" for position in guessed) and may_lead_with_zero(
            data, self._separator
        )
        doubtful = [
            (place, at)
            for place, at in enumerate(self._selection.used)
            if may_be_rounded(columns[place]) or (has_zeros and at in guessed and self._types[at] != "string")
        ]
        texts = self._text_columns(lines) if doubtful else []
        for place, position in doubtful:
            row = changed_value(texts[place], columns[place], position in guessed)
            if row is not None:
                raise InputFileError(
                    f"{self._place(self._line_of(lines, row))}: '{texts[place][row].as_py().decode()}' would be read "
                    f"as the number {columns[place][row]}.\n  {formats.changed(self._spec, position in guessed)}"
                )

    def _refuse_open(self, lines: Lines, data: bytes) -> None:
        """Raise for lines that may be a row or nothing, and for quotes that do not enclose a value."""
        line_number = None
        if self._is_blank_separated:
            is_text = self._types.get(0, "string") == "string"
            if is_text and b"#" in lines.data:
                for at, line in enumerate(lines.data.split(b"\n"), lines.first):
                    fields = line.split()
                    if len(fields) == self._n_fields and fields[0].startswith(b"#") and fields[0].strip(b"#"):
                        raise InputFileError(
                            f"{self._place(at)}: '{line.decode(errors='backslashreplace').strip()[:80]}' may be a "
                            "comment or a row.\n  Put a blank after the # of a comment; where rows begin with #, "
                            "separate fields by tabs or commas, and say sep=tab or sep=comma."
                        )
        elif self._n_fields == 1:
            inner = data.rstrip(b"\n")
            if self._is_after_blank and inner:
                line_number = lines.first - 1
            elif (at := inner.find(b"\n\n")) >= 0:
                line_number = lines.first + inner[: at + 1].count(b"\n") + inner[:at].count(INNER_LF)
            elif inner.startswith(b"\n") and self._has_begun:
                line_number = lines.first
            self._is_after_blank = len(data) - len(inner) > 1 if inner else self._is_after_blank or bool(data)
            self._has_begun = self._has_begun or bool(inner)
            if line_number is not None:
                raise InputFileError(
                    f"{self._place(line_number)}: an empty line may be a row with an empty value or none, as rows have "
                    'one field.\n  Write "" for an empty text; else remove the line.'
                )
        if b'"' in data and not self._is_blank_separated and not _quotes_enclose(data, self._separator):
            self._refuse_quotes(lines)

    def _refuse_quotes(self, lines: Lines) -> None:
        for line_number, line_bytes in lines.numbered():
            line = line_bytes.decode(errors="replace")
            try:
                list(csv.reader([line.rstrip("\r")], delimiter=self._separator, strict=True))
            except csv.Error as error:
                if "expected after" in str(error):
                    raise InputFileError(
                        f"{self._place(line_number)}: a quoted value goes on after its closing quote: '{line[:80]}'.\n"
                        "  Write a quote inside a quoted value twice; or leave out the quotes around it."
                    ) from None

    def _normal(self, lines: Lines) -> bytes:
        if self._is_blank_separated:
            return squeeze(lines.data)
        data = lines.data.replace(b"\r\n", b"\n")
        if b"\r" in data:
            before = data[: data.index(b"\r")]
            raise InputFileError(
                f"{self._place(lines.first + before.count(10))}: a carriage return inside a line.\n"
                "  Lines end with LF or CR LF."
            )
        return data

    def _parse(self, data: bytes, types: dict[int, str]) -> list[pa.Array] | None:
        """Return the columns in use with these types; None if the fast parser may be wrong."""
        if b"0x" in data or b"0X" in data:  # pyarrow takes 0x1F for an integer
            return None
        arrow = {position: _ARROW_TYPES[kind] for position, kind in types.items()}
        try:
            table = self._read(data, arrow, use_threads=True)
        except (pa.ArrowInvalid, pa.ArrowKeyError):
            return None
        if table.num_rows != _count_rows(data) or self._ends_in_quotes(data):
            return None
        return [column.combine_chunks() for column in table.columns]

    def _read(self, data: bytes, types: dict[int, pa.DataType], use_threads: bool) -> pa.Table:
        used = sorted(types)
        if not data.strip(b"\n"):
            return pa.table({f"f{position}": pa.array([], types[position]) for position in used})
        if data.startswith(BOM):  # pyarrow would take it off, but only the start of a file is the place for it
            data = BOM + data
        table = pa_csv.read_csv(
            pa.BufferReader(_copied(data)),
            read_options=pa_csv.ReadOptions(
                column_names=[f"f{i}" for i in range(self._n_fields)],
                use_threads=use_threads,
                block_size=(1 << 20) if use_threads else len(data) + 1,
            ),
            parse_options=pa_csv.ParseOptions(
                delimiter=self._separator,
                quote_char=False if self._is_blank_separated else '"',
            ),
            convert_options=pa_csv.ConvertOptions(
                column_types={f"f{position}": kind for position, kind in types.items()},
                include_columns=[f"f{position}" for position in used],
                null_values=[""],
                strings_can_be_null=False,
            ),
        )
        if INNER_LF in data:
            for place, (name, kind) in enumerate(zip(table.schema.names, table.schema.types, strict=True)):
                if pa.types.is_string(kind) or pa.types.is_binary(kind):
                    table = table.set_column(place, name, _with_inner_ends(table.column(place)))
        return table

    def _text_columns(self, lines: Lines) -> list[pa.Array]:
        """Return the columns in use as bytes, by the slow parser that knows every line."""
        data = self._normal(lines)
        try:
            table = self._read(data, dict.fromkeys(self._selection.used, pa.binary()), use_threads=False)
        except pa.ArrowInvalid as error:
            ragged = _RAGGED.search(str(error))
            if ragged is None:
                raise
            raise self._ragged(lines, *map(int, ragged.groups())) from None
        line_number = None
        if table.num_rows != _count_rows(data):
            line_number = next(n for n, line in lines.numbered() if line.count(b'"') % 2)
        elif self._ends_in_quotes(data):
            line_number = self._row_lines(lines)[-1]
        if line_number is not None:
            raise InputFileError(
                f"{self._place(line_number)}: a quoted value that does not end.\n"
                "  Close the quote, and write a quote inside a quoted value twice."
            )
        return [column.combine_chunks() for column in table.columns]

    def _ends_in_quotes(self, data: bytes) -> bool:
        """Return True if the last line opens a quote that it does not close."""
        if self._is_blank_separated or b'"' not in data:
            return False
        last_line = data.rstrip(b"\n").rpartition(b"\n")[2].decode(errors="replace")
        try:
            list(csv.reader([last_line], delimiter=self._separator, strict=True))
        except csv.Error as error:
            return "unexpected end of data" in str(error)
        return False

    def _ragged(self, lines: Lines, row: int, expected: int, actual: int) -> InputFileError:
        line_number = self._line_of(lines, row - 1)
        line_text = dict(lines.numbered())[line_number].decode(errors="backslashreplace").strip()
        return InputFileError(
            f"{self._place(line_number)}: {counted(actual, 'field')} where the lines before have {expected}:"
            f" '{line_text[:80]}'.\n"
            f"  {formats.ragged(self._spec)}"
        )


def _with_inner_ends(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return texts with the line ends that they have in the file."""
    for inner, end in ((INNER_LF, b"\n"), (INNER_CR, b"\r")):
        pattern, by = (inner, end) if pa.types.is_binary(column.type) else (inner.decode(), end.decode())
        column = pc.replace_substring(column, pattern=pattern, replacement=by)
    return column


def _copied(data: bytes) -> pa.Buffer:
    """Copy the bytes to Arrow memory: an Arrow thread may free it after Python has ended."""
    buffer = pa.allocate_buffer(len(data))
    pa.FixedSizeBufferWriter(buffer).write(data)
    return buffer


def _quotes_enclose(data: bytes, separator: str) -> bool:
    """Return True if every quote surely encloses a value or is doubled."""
    text = np.frombuffer(b"\n" + data + b"\n", np.uint8)
    quotes = np.flatnonzero(text == ord('"'))
    edge = np.zeros(256, bool)
    edge[[ord("\n"), ord(separator), ord('"')]] = True
    opening, closing = quotes[::2], quotes[1::2]
    return bool(edge[text[opening - 1]].all() and edge[text[closing + 1]].all())


def _count_rows(data: bytes) -> int:
    """Return the number of lines of `data` that are not empty; it ends with a line end."""
    if b"\n\n" not in data and not data.startswith(b"\n"):
        return data.count(b"\n")
    text = np.frombuffer(data, np.uint8)
    ends = text == 10
    return int(np.count_nonzero(ends & ~np.concatenate([[True], ends[:-1]])))
