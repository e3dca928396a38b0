"""Text files as blocks of complete lines, gzipped or not."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, cast

from gpu_wcoj.errors import InputFileError

BLOCK_BYTES: Final = 8 << 20
"""Bytes that are read at a time."""
LINE_BYTES: Final = 64 << 20
"""Maximum bytes of a line; a file without line ends is not text."""

BOM: Final = b"\xef\xbb\xbf"
GZIP_MAGIC: Final = b"\x1f\x8b"
_FOREIGN = {
    b"\x28\xb5\x2f\xfd": "compressed with zstd",
    b"BZh": "compressed with bzip2",
    b"\xfd7zXZ": "compressed with xz",
    b"PK\x03\x04": "a zip archive",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
}
GZIP_ERRORS: Final = (gzip.BadGzipFile, EOFError, zlib.error)


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file for reading.

    Raises
    ------
    InputFileError
        If it is missing, a folder or not readable.
    """
    try:
        with ExitStack() as stack:
            file = stack.enter_context(path.open("rb"))
            file.peek(1)  # complains now of what cannot be read
            stack.pop_all()  # all is well: the caller closes it
    except IsADirectoryError:
        raise InputFileError(f"'{path}' is a folder, not a file.\n  Name one file.") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputFileError(f"'{path}' cannot be read: {reason}.\n  Check the name and the permissions.") from None
    return file


def damaged_gzip(path: Path, error: BaseException) -> InputFileError:
    """Return the error for gzip data that cannot be unpacked."""
    return InputFileError(f"'{path}' is not a whole gzip file: {error}.\n  Copy or pack it again.")


def check_gzip(path: Path) -> None:
    """Unpack a gzip file once to verify its checksum before any row is used."""
    try:
        with gzip.open(path) as file:
            while file.read(BLOCK_BYTES):
                pass
    except GZIP_ERRORS as error:
        raise damaged_gzip(path, error) from None


@dataclass(frozen=True)
class Lines:
    """Complete lines of a file, each with its line end.

    Attributes
    ----------
    data
        The bytes.
    first
        The number of the first line in the file, counted from 1.
    """

    data: bytes
    first: int


class TextFile:
    """A text file, unpacked if it is gzipped, read in blocks of complete lines."""

    def __init__(self, path: Path, skip: int) -> None:
        self.path = path
        self._file = open_bytes(path)
        self._unpacked = self._file
        self._is_at_end = False
        head = self._peek(8)
        for magic, what in _FOREIGN.items():
            if head.startswith(magic):
                self.close()
                raise InputFileError(f"'{path}' is {what}.\n  Text files may be plain UTF-8 or gzipped.")
        if head.startswith(GZIP_MAGIC):
            self._unpacked = cast(IO[bytes], gzip.GzipFile(fileobj=self._file))
        elif path.suffix == ".gz":
            self.close()
            raise InputFileError(f"'{path}' is called .gz but is not a gzip file.\n  Pack it, or rename it.")
        self._skip = skip

    def _peek(self, size: int) -> bytes:
        peek = getattr(self._file, "peek")  # noqa: B009  # IO[bytes] does not declare it; open("rb") has it
        return cast(bytes, peek(size)[:size])

    @property
    def is_gzip(self) -> bool:
        """True if the file is unpacked while it is read."""
        return self._unpacked is not self._file

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
            if len(remainder) > LINE_BYTES:
                raise InputFileError(
                    f"'{self.path}', line {line + data.count(10)}: longer than {LINE_BYTES >> 20} MiB.\n"
                    "  Text files have a row on every line."
                )
            if to_skip:
                data, line, to_skip = _without_lines(data, line, to_skip)
            if data:
                yield Lines(data, line)
                line += data.count(b"\n")

    def _read(self) -> bytes:
        try:
            return self._unpacked.read(BLOCK_BYTES)
        except GZIP_ERRORS as error:
            raise damaged_gzip(self.path, error) from None
        except OSError as error:
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
