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
from collections.abc import Iterator, Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from gpu_wcoj.data.schema import DataType
from gpu_wcoj.errors import InputFileError
from gpu_wcoj.files import advice
from gpu_wcoj.files.blanks import is_row, squeeze
from gpu_wcoj.files.block import RowBlock, make_block
from gpu_wcoj.files.format import BOM, Lines, TextFile
from gpu_wcoj.files.forms import is_facts
from gpu_wcoj.files.header import SAMPLE_ROWS, names_by_program, names_by_rows
from gpu_wcoj.files.record_batch import WEIGHT, fields_of_empty_file, numbered, select
from gpu_wcoj.files.spec import ColumnName, InputSpec
from gpu_wcoj.files.values import (
    as_type,
    changed_value,
    decide_type,
    is_number,
    may_be_rounded,
    may_lead_with_zero,
)

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
        self._file = TextFile(spec.path, spec.skip)
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
        for lines in self._blocks:
            if b"\0" in lines.data:
                raise InputFileError(
                    f"'{self._spec.path}' is not text: it holds zero bytes.\n"
                    "  Say format=parquet or format=arrow if that is what it is."
                )
            if self._first_row(lines) is not None:
                return lines
        return None

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
        rows = enumerate(lines.data.split(b"\n"), lines.first)
        return [line_number for line_number, line in rows if self._is_row(line)]

    def _first_row(self, lines: Lines) -> int | None:
        """Return the number of the first line that holds a row; None if there is none."""
        start, line_number = 0, lines.first
        while (end := lines.data.find(b"\n", start)) >= 0:
            if self._is_row(lines.data[start:end]):
                return line_number
            start, line_number = end + 1, line_number + 1
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
        following_lines = Lines(lines.data.split(b"\n", line_number - lines.first + 1)[-1], line_number + 1)
        header = self._spec.header
        if header is None:
            header = self._names_columns(fields, self._sample(following_lines), arity, changes)
        if header is None:
            select(self._spec, len(fields), None, arity, changes)  # complains of a wrong number of columns first
            raise InputFileError(
                f"{self._place(line_number)}: '{line_text[:80]}' may be names of columns or a row.\n"
                f"  {advice.header(self._spec)}"
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
            return next(csv.reader([line], delimiter=self._separator))
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
                    column, lambda row: self._place(self._line_of(lines, row)), advice.mixed(self._spec)
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
            why = advice.unfit(self._spec, rows.index(position) if position in rows else None)
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
                    f"as the number {columns[place][row]}.\n  {advice.changed(self._spec, position in guessed)}"
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
                line_number = lines.first + inner[: at + 1].count(b"\n")
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
        for line_number, line in enumerate(lines.data.decode(errors="replace").split("\n"), lines.first):
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
        return pa_csv.read_csv(
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
            line_number = next(n for n, line in enumerate(data.split(b"\n"), lines.first) if line.count(b'"') % 2)
        elif self._ends_in_quotes(data):
            line_number = self._row_lines(lines)[-1]
        if line_number is not None:
            raise InputFileError(
                f"{self._place(line_number)}: a quoted value that does not end on its line.\n"
                "  Values cannot hold line ends; every quote is closed on its line."
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
        line_text = lines.data.split(b"\n")[line_number - lines.first].decode(errors="backslashreplace").strip()
        return InputFileError(
            f"{self._place(line_number)}: {actual} fields where the lines before have {expected}: '{line_text[:80]}'.\n"
            f"  {advice.ragged(self._spec)}"
        )


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
