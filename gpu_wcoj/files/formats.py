"""Detection of file formats, blocks of complete lines, compression, and hints for messages."""

from __future__ import annotations

import gzip
import lzma
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import IO, Final, cast

import numpy as np

from gpu_wcoj.errors import InputFileError, UsageError
from gpu_wcoj.files.spec import STANDARD_INPUT, InputSpec

BLOCK_BYTES: Final = 8 << 20
"""Bytes that are read at a time."""
LINE_BYTES: Final = 64 << 20
"""Maximum bytes of a line; a file without line ends is not text."""

BOM: Final = b"\xef\xbb\xbf"
GZIP_MAGIC: Final = b"\x1f\x8b"
_PACKED: Final = {GZIP_MAGIC: ".gz", b"BZh": ".bz2", b"\xfd7zXZ\x00": ".xz", b"\x28\xb5\x2f\xfd": ".zst"}
"""First bytes of compressed files, and the ending of their names."""
_FOREIGN = {
    b"PK\x03\x04": "a zip archive",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
}
PACKED_ERRORS: Final = (gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError)


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file for reading.

    Raises
    ------
    InputFileError
        If it is missing, a folder or not readable.
    """
    try:
        with ExitStack() as stack:
            is_unnamed = path == Path(STANDARD_INPUT) and not path.exists()  # Windows has no such name
            file = cast("BufferedReader", sys.stdin.buffer) if is_unnamed else stack.enter_context(path.open("rb"))
            file.peek(1)  # complains now of what cannot be read
            stack.pop_all()  # all is well: the caller closes it
    except IsADirectoryError:
        raise InputFileError(f"'{path}' is a folder, not a file.\n  Name one file.") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputFileError(f"'{path}' cannot be read: {reason}.\n  Check the name and the permissions.") from None
    return file


def _packing_of(head: bytes) -> str | None:
    """Return the ending of names of files that begin so, if they are compressed."""
    return next((ending for magic, ending in _PACKED.items() if head.startswith(magic)), None)


def open_packed(file: IO[bytes], head: bytes) -> IO[bytes]:
    """Return the unpacked content of a compressed file whose first bytes are `head`."""
    packing = _packing_of(head)
    if packing == ".bz2":
        import bz2

        return cast(IO[bytes], bz2.BZ2File(file))
    if packing == ".xz":
        return cast(IO[bytes], lzma.LZMAFile(file))
    if packing == ".zst":
        import pyarrow as pa

        return cast(IO[bytes], pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd"))
    return cast(IO[bytes], gzip.GzipFile(fileobj=file))


def damaged_pack(path: Path, error: BaseException) -> InputFileError:
    """Return the error for compressed data that cannot be unpacked."""
    return InputFileError(f"'{path}' is not a whole {_packing_name(path)} file: {error}.\n  Copy or pack it again.")


def _packing_name(path: Path) -> str:
    with path.open("rb") as file:
        packing = _packing_of(file.read(8))
    return {".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}.get(packing or "", "gzip")


def unpacked(path: Path) -> Iterator[bytes]:
    """Yield the blocks of a compressed file.

    Raises
    ------
    InputFileError
        If it is damaged, or not complete.
    """
    with open_bytes(path) as file:
        content = open_packed(file, file.read(8))
        file.seek(0)
        try:
            while block := content.read(BLOCK_BYTES):
                yield block
        except (*PACKED_ERRORS, OSError) as error:
            raise damaged_pack(path, error) from None


def check_packed(path: Path) -> None:
    """Unpack a compressed file once to verify its checksum before any row is used."""
    for _ in unpacked(path):
        pass


@dataclass(frozen=True)
class Lines:
    """Complete lines of a file, each with its line end.

    Attributes
    ----------
    data
        The bytes. Line ends and carriage returns within quotes are `INNER_LF` and `INNER_CR`.
    first
        The number of the first line in the file, counted from 1.
    """

    data: bytes
    first: int

    def numbered(self) -> Iterator[tuple[int, bytes]]:
        """Yield the lines with their numbers in the file."""
        number = self.first
        for line in self.data.split(b"\n"):
            yield number, line
            number += 1 + line.count(INNER_LF)


INNER_LF, INNER_CR = b"\0", b"\x1d"
"""What stands for line ends and carriage returns within quoted values. A text file has no zero byte; the other
character is refused beside such values."""


def _closed(data: bytes, separator: str) -> tuple[bytes, bytes] | None:
    """Return lines in which all quoted values end, with inner line ends replaced, and the rest.

    None if no value with quotes has a line end in it, or some quote does not surely enclose a value.
    """
    text = np.frombuffer(b"\n" + data + b"\n", np.uint8)
    quotes = np.flatnonzero(text == ord('"'))
    ends = np.flatnonzero(text[:-1] == ord("\n"))[1:]
    is_inner = np.searchsorted(quotes, ends) % 2 == 1
    if not is_inner.any():
        return None
    opening, closing = quotes[::2], quotes[1::2]
    edge = np.zeros(256, bool)
    edge[[ord("\n"), ord("\r"), ord(separator), ord('"')]] = True
    outer = ends[~is_inner]
    if not (edge[text[opening - 1]].all() and edge[text[closing + 1]].all()):
        return None
    n = int(outer[-1]) if len(outer) else 0  # bytes of `data`, in front of which `text` has one more
    lines = text[1 : n + 1].copy()
    lines[ends[is_inner & (ends <= n)] - 1] = INNER_LF[0]
    returns = np.flatnonzero(lines == ord("\r"))
    inner = returns[np.searchsorted(quotes, returns + 1) % 2 == 1]
    lines[inner] = INNER_CR[0]
    return lines.tobytes(), data[n:]


class TextFile:
    """A text file, unpacked if it is compressed, read in blocks of complete lines."""

    def __init__(self, path: Path, skip: int, separator: str) -> None:
        self.path, self._separator = path, separator
        self._file = open_bytes(path)
        self._unpacked = self._file
        self._is_at_end = False
        head = self._peek(8)
        for magic, what in _FOREIGN.items():
            if head.startswith(magic):
                self.close()
                raise InputFileError(
                    f"'{path}' is {what}.\n  Text files may be plain UTF-8, or compressed with gzip, bzip2, xz or zstd."
                )
        if _packing_of(head) is not None:
            self._unpacked = open_packed(self._file, head)
        elif path.suffix in _PACKED.values():
            self.close()
            raise InputFileError(f"'{path}' is called {path.suffix} but is not such a file.\n  Pack it, or rename it.")
        self._skip = skip

    def _peek(self, size: int) -> bytes:
        peek = getattr(self._file, "peek")  # noqa: B009  # IO[bytes] does not declare it; open("rb") has it
        return cast(bytes, peek(size)[:size])

    @property
    def is_at_end(self) -> bool:
        """True if the last lines have been returned."""
        return self._is_at_end

    def blocks(self) -> Iterator[Lines]:
        """Yield the file's lines in order, about `BLOCK_BYTES` at a time, without skipped lines."""
        remainder, line, to_skip = b"", 1, self._skip
        chunk = self._read().removeprefix(BOM)
        while chunk:
            following = self._read()
            self._is_at_end = not following
            if not following and not chunk.endswith(b"\n"):
                chunk += b"\n"
            data = remainder + chunk if remainder else chunk
            chunk, end = following, data.rfind(b"\n") + 1
            data, remainder = data[:end], data[end:]
            if b"\0" in data:
                raise InputFileError(
                    f"'{self.path}' is not text: it holds zero bytes.\n"
                    "  Say format=parquet or format=arrow if that is what it is."
                )
            if self._separator != " " and b'"' in data and (closed := _closed(data, self._separator)) is not None:
                if INNER_CR in data:
                    raise InputFileError(
                        f"'{self.path}' has quoted values with line ends, and the character 0x1D beside them.\n"
                        "  Remove that character, or convert the file to Parquet."
                    )
                is_open = closed[1] and not following and not remainder  # then the quote has no end
                data, remainder = (closed[0] + closed[1], b"") if is_open else (closed[0], closed[1] + remainder)
            if len(remainder) > LINE_BYTES:
                raise InputFileError(
                    f"'{self.path}', line {line + data.count(10)}: longer than {LINE_BYTES >> 20} MiB.\n"
                    "  Text files have a row on every line."
                )
            if to_skip:
                data, line, to_skip = _without_lines(data, line, to_skip)
            if data:
                yield Lines(data, line)
                line += data.count(b"\n") + data.count(INNER_LF)

    def _read(self) -> bytes:
        try:
            return self._unpacked.read(BLOCK_BYTES)
        except PACKED_ERRORS as error:
            raise damaged_pack(self.path, error) from None
        except OSError as error:
            if error.errno is None:  # of bzip2 and zstd
                raise damaged_pack(self.path, error) from None
            raise InputFileError(f"'{self.path}' cannot be read: {error.strerror}.") from None

    def close(self) -> None:
        """Close the file."""
        self._unpacked.close()
        self._file.close()


def _without_lines(data: bytes, line: int, count: int) -> tuple[bytes, int, int]:
    start = 0
    while count and start < len(data):
        start = data.index(b"\n", start) + 1
        line, count = line + 1, count - 1
    return data[start:], line, count


# Detection of a file's format by its options, its first bytes and its name.


SEPARATORS: Final = {"csv": ",", "tsv": "\t", "text": " "}
"""The forms that are text, and what stands between fields there."""

_ENDINGS: Final = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".facts": "tsv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
_MAGIC: Final = {b"PAR1": "parquet", b"ARROW1": "arrow", b"\xff\xff\xff\xff": "arrow"}


def form_of(spec: InputSpec) -> tuple[str, bool]:
    """Return the format of a file and a flag for compression, by options, first bytes and name.

    Raises
    ------
    InputFileError
        If it cannot be read; if it has no bytes, and its form is none that files of no bytes can have.
    UsageError
        If it is a pipe, and not text.
    """
    if spec.path.is_fifo():  # its first bytes can be read once only
        if spec.format in ("parquet", "arrow", "json"):
            raise UsageError(
                f"'{spec.path}' is a pipe, and '{spec.format}' is read from files only.\n"
                "  Name a file; or send text through the pipe."
            )
        return spec.format or "text", False
    with open_bytes(spec.path) as file:
        head = file.read(8)
        is_empty = not head
        is_packed = _packing_of(head) is not None
        if is_packed:
            file.seek(0)
            try:
                head = open_packed(file, head).read(8)
            except (*PACKED_ERRORS, OSError) as error:
                raise damaged_pack(spec.path, error) from None
    form = spec.format or next((form for magic, form in _MAGIC.items() if head.startswith(magic)), None)
    is_text = spec.separator is not None and form_of_name(spec.path) == "json"
    form = form or ("text" if is_text else form_of_name(spec.path)) or "text"
    if is_empty and (form not in SEPARATORS or spec.path.suffix in _PACKED.values()):
        raise InputFileError(f"'{spec.path}' is empty.\n  A file of this kind has bytes also where it has no rows.")
    return form, is_packed


def form_of_name(path: Path) -> str | None:
    """Return the format of a file name's ending; None for an unknown ending.

    Examples
    --------
    >>> form_of_name(Path("g.CSV.gz")), form_of_name(Path("g.parquet")), form_of_name(Path("/dev/stdin"))
    ('csv', 'parquet', None)
    """
    name = _plain_name(path)
    return next((form for ending, form in _ENDINGS.items() if name.endswith(ending)), None)


def is_facts(path: Path) -> bool:
    """Return True for the names of Soufflé's files: tab-separated, without a header line.

    Examples
    --------
    >>> is_facts(Path("edge.facts")), is_facts(Path("edge.facts.gz")), is_facts(Path("edge.csv"))
    (True, True, False)
    """
    return _plain_name(path).endswith(".facts")


def _plain_name(path: Path) -> str:
    name = path.name.lower()
    return name.removesuffix(next((ending for ending in _PACKED.values() if name.endswith(ending)), ""))


# Remedies for text files that differ from what was expected.
#
# They name options of the command line, or of ``.input``.


def unfit(spec: InputSpec, column: int | None) -> str:
    """Return the reason for a column's type and the remedy for a value that does not have it.

    Parameters
    ----------
    column
        Which of the relation's columns it is; None for weights and ticks.
    """
    declared = _kind_of(tuple(kind for _, kind in spec.declared or spec.expected), column)
    if declared is not None:
        why = f", and column {column} is declared as '{declared}'"
        return f"{why}.\n  Mend the line, or declare another type{header_hint(spec)}."
    if _kind_of(spec.types, column) is not None:
        return f", as 'types' says of the column.\n  Mend the line, or give another type{header_hint(spec)}."
    why = ", as the column's values before it are.\n  Mend the line; or "
    if spec.declared is not None:
        return f"{why}declare the column as float or symbol if it is not integers."
    return f"{why}say columns=... with types=float64,... or types=string,... if the column is not integers."


def mixed(spec: InputSpec) -> str:
    """Return the remedy for a column of numbers and texts."""
    if spec.declared is not None:
        return f"Mend the line{header_hint(spec)}; or declare the column as symbol if it is text."
    return (
        "Mend the line; or say header=yes or skip=N if the first line is not a row, "
        "or columns=... with types=string,... if the column is text."
    )


def ragged(spec: InputSpec) -> str:
    """Return the remedy for a line with more or fewer fields than the first."""
    options = "sep, header or skip" if spec.declared is None else "delimiter or headers of .input"
    return f"Every line has the same number of fields; mend the line, or set {options}."


def too_few(spec: InputSpec) -> str:
    """Return the remedy for a file with too few columns."""
    if spec.declared is not None:
        now = {"\t": "tabs", " ": "blanks"}.get(spec.separator or "\t", f"'{spec.separator}'")
        return f'They are taken to be separated by {now}; if it is something else, say delimiter="," in .input'
    if spec.format is None and spec.separator is None and form_of_name(spec.path) is None:
        return (
            "Its name does not end as those of CSV or TSV, so it was read as fields between blanks: "
            f"if it is CSV, say '{spec}?format=csv'; else sep=semicolon, pipe, tab, ..."
        )
    return "If the fields are separated by something else, say so with sep=comma, tab, space, ..."


def changed(spec: InputSpec, is_guessed: bool) -> str:
    """Return the remedy for a number whose text says more than its value."""
    if not is_guessed:
        return "Mend the line, or give the column another type."
    if spec.declared is not None:
        return "Declare the column as symbol if it is text, or as number or float if the value is meant."
    return "Say columns=... with types=string,... if it is text, or types=int64,... or float64 if the value is meant."


def header(spec: InputSpec) -> str:
    """Return the remedy for a first line that may be names of columns or a row."""
    if spec.declared is not None:
        return "Say headers=true or headers=false in .input."
    return "Say header=yes or header=no."


def header_hint(spec: InputSpec) -> str:
    """Return the further remedy if the first line may have been read as a row."""
    if spec.header:
        return ""
    return f"; or say {'header=yes' if spec.declared is None else 'headers=true'} if the first line is names of columns"


def _kind_of(kinds: tuple[str | None, ...] | None, column: int | None) -> str | None:
    return None if kinds is None or column is None or column >= len(kinds) else kinds[column]
