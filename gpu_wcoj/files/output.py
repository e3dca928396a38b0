"""The changes of every tick as Parquet files, each written completely or not at all."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import os
import re
import shutil
import tempfile
import time
from collections.abc import Generator, Hashable, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Protocol

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from gpu_wcoj.data.column import Int64Array
from gpu_wcoj.destination import force, force_names, identity, replacing
from gpu_wcoj.errors import OutputFileError, UsageError

GROUP_ROWS: Final = 1 << 19
"""Minimum rows of a row group; smaller pieces are gathered."""


_TICK: Final = re.compile(r"(\.?)tick-(\d{9,})\.parquet(?:\.tmp)?")


class ToArrow(Protocol):
    """The interface of a Z-set that is written."""

    def to_arrow(self) -> pa.Table:
        """Return the rows with their weight as the last column."""
        ...


class ChangeWriter:
    """A writer of ``FOLDER/RELATION/tick-000000000.parquet`` files.

    Their columns are the relation's, ``weight`` and ``tick``.

    A tick in which a relation does not change makes no file. A file is written under another name and renamed when
    the tick is done, so what is there is whole; a tick that fails leaves nothing. It is flushed to the system, and
    forced to the disk only if that is asked for.

    Parameters
    ----------
    folder
        Made if it is not there.
    relations
        The relations whose changes are written, a folder each, which must not hold files yet.
    resumes_at
        The tick at which a run goes on that was stopped: files of earlier ticks stay, one of this tick is written
        again, and others must not be there. None for a run from the beginning.
    run
        The name of the run, where it may be gone on with; then ``FOLDER/.run`` has it, and files are forced to the
        disk when their tick is done.

    Raises
    ------
    OutputFileError
        If the folders cannot be made and written to.
    UsageError
        If they hold files already, which would mix two runs, or the folder is not that of the run that goes on.
    """

    def __init__(
        self, folder: Path, relations: Sequence[str], resumes_at: int | None = None, run: str | None = None
    ) -> None:
        self._folders = {relation: folder_of(folder, relation) for relation in relations}
        self._is_durable = run is not None
        if run is not None and resumes_at:
            _check_run(folder / ".run", run)
        self._open: dict[str, _TickFile] = {}
        self._tick = 0
        for path in self._folders.values():
            try:
                path.mkdir(parents=True, exist_ok=True)
                if resumes_at is not None:
                    _tidy(path, resumes_at)
                elif any(path.iterdir()):
                    raise UsageError(
                        f"the output folder '{path}' holds files already.\n  Empty it, or choose another with --output."
                    )
                with tempfile.TemporaryFile(dir=path):  # complains now if nothing can be written there
                    pass
            except OSError as error:
                raise _unwritable(path, error) from None
        if run is not None and not resumes_at:
            _name_run(folder / ".run", run)

    @contextmanager
    def tick(self, tick_number: int) -> Generator[None]:
        """Write the block's changes as one tick.

        Its files get their names at the end, or are removed after an error.
        """
        self._tick = tick_number
        try:
            yield
            for file in self._open.values():
                file.finish()
            for file in self._open.values():  # now all are complete
                file.publish()
        except BaseException:
            for file in self._open.values():
                file.discard()
            raise
        finally:
            self._open.clear()

    def write(self, relation: str, piece: ToArrow) -> None:
        """Add some of the changes of `relation`."""
        table = piece.to_arrow()
        if not table.num_rows:
            return
        if relation not in self._open:
            self._open[relation] = _TickFile(self._folders[relation], self._tick, self._is_durable)
        self._open[relation].add(table)


def folder_of(folder: Path, relation: str) -> Path:
    """Return the folder of a relation's files inside `folder`.

    Raises
    ------
    UsageError
        If the relation has a name that leads elsewhere, or that is kept for marks.

    Examples
    --------
    >>> folder_of(Path("out"), "my triangles")
    PosixPath('out/my triangles')
    """
    if not relation or relation.startswith(".") or set(relation) & {"/", os.sep, "\0"}:
        raise UsageError(
            f"a relation's name cannot be that of a folder: got '{relation}', expected a name without '/' that does "
            "not begin with '.'.\n  Give the relation another name."
        )
    return folder / relation


def _check_run(mark: Path, run: str) -> None:
    """Raise if a folder is not the output folder of the resumed run."""
    try:
        recorded = mark.read_bytes() if mark.is_file() else b""
    except OSError as error:
        raise OutputFileError(f"'{mark}' cannot be read: {error.strerror or error}.") from None
    if recorded != run.encode():
        raise UsageError(
            f"the folder '{mark.parent}' is not the one that this run has written its first ticks to.\n"
            "  Give that folder; or begin anew, with an empty folder and an empty checkpoint."
        )


def _name_run(mark: Path, run: str) -> None:
    """Record the name of the run that writes to a folder, after all checks."""
    try:
        with mark.open("wb") as file:
            file.write(run.encode())
            file.flush()
            os.fsync(file.fileno())
        force_names(mark.parent)
    except OSError as error:
        raise _unwritable(mark, error) from None


def _tidy(path: Path, resumes_at: int) -> None:
    """Remove the last tick of a stopped run; other unexpected files are an error."""
    for file in path.iterdir():
        match = _TICK.fullmatch(file.name)
        if match is None or int(match[2]) > resumes_at:
            raise UsageError(
                f"the output folder '{path}' holds '{file.name}', which the run that goes on at tick {resumes_at:,} "
                "has not written.\n  Give the folder that the run had, or remove the file."
            )
        if match[1] or int(match[2]) == resumes_at:
            file.unlink()


class ParquetFile:
    """A new Parquet file, whose rows are gathered into large row groups.

    Parameters
    ----------
    path
        The file.
    is_checked
        Whether pages have checksums, and are compressed by zstd instead of lz4, which is faster.
    is_durable
        Whether the file has a checksum, and `finish` forces it to the disk.
    """

    def __init__(self, path: Path, *, is_checked: bool = True, is_durable: bool = True) -> None:
        self.path = path
        self._is_checked = is_checked
        self._is_durable = is_durable
        self._gathered: list[pa.Table] = []
        self._rows = self._n_gathered = 0
        self._writer: pq.ParquetWriter | None = None
        with self._writing():
            self._file = self._opened()
        self._hashed = _Hashed(self._file)

    def add(self, table: pa.Table) -> None:
        """Add rows; they are written when they fill a row group."""
        self._gathered.append(table)
        self._n_gathered += table.num_rows
        if self._n_gathered >= GROUP_ROWS:
            self._write()

    def finish(self) -> tuple[int, int, str]:
        """Write the remaining rows, and return the number of rows of the file.

        With it are returned its bytes and their checksum, which are counted for durable files only.
        """
        try:
            if self._gathered:
                self._write()
            with self._writing():
                if self._writer is not None:
                    self._writer.close()
                if self._is_durable:
                    self._file.flush()
                    force(self._file.fileno())
                self._file.close()
        finally:
            with suppress(OSError):  # what was not written cannot be written now
                self._file.close()
        return self._rows, self._hashed.size, self._hashed.sha256.hexdigest()

    def discard(self) -> None:
        """Remove the file."""
        closing = [self._file.close] if self._writer is None else [self._writer.close, self._file.close]
        for remove in (*closing, self.path.unlink):
            with suppress(OSError, ValueError):  # what is closed already refuses the end of the file
                remove()

    def unwritable(self, error: OSError) -> OutputFileError:
        """Return the error that names the file for one of the system."""
        return _unwritable(self.path, error)

    def _opened(self) -> IO[bytes]:
        return self.path.open("xb")

    def _write(self) -> None:
        table = pa.concat_tables(self._gathered)
        self._gathered, self._n_gathered = [], 0
        self._rows += table.num_rows
        with self._writing():
            writer = self._writer or pq.ParquetWriter(
                pa.PythonFile(self._hashed, "w") if self._is_durable else self._file,
                table.schema,
                compression="zstd" if self._is_checked else "lz4",
                write_page_checksum=self._is_checked,
            )
            self._writer = writer
            writer.write_table(table, row_group_size=2 * GROUP_ROWS)

    @contextmanager
    def _writing(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise self.unwritable(error) from None


class _Hashed:
    """A file that is written once from start to end, with a checksum."""

    closed = False

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()
        self.size = 0

    def write(self, data: Any) -> int:
        """Append."""
        view = memoryview(data)
        self.sha256.update(view)
        self.size += view.nbytes
        self._file.write(view)
        return view.nbytes

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self.size

    def flush(self) -> None:
        """Pass buffered bytes to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """Leave the file open: who has opened it closes it."""


class _TickFile(ParquetFile):
    """The changes of a relation in a tick; the file gets its name when it is finished."""

    def __init__(self, folder: Path, tick: int, is_durable: bool) -> None:
        self._tick = tick
        self._final = folder / f"tick-{tick:09}.parquet"
        super().__init__(folder / f".{self._final.name}.tmp", is_durable=is_durable)

    def add(self, table: pa.Table) -> None:
        """See `ParquetFile.add`."""
        name = "tick" if "tick" not in table.column_names else "_tick"
        ticks = pa.repeat(pa.scalar(self._tick, pa.int64()), table.num_rows)
        super().add(table.append_column(name, ticks))

    def publish(self) -> None:
        """Give the finished file its name."""
        with self._writing():
            self.path.replace(self._final)
            self.path = self._final
            if self._is_durable:
                force_names(self._final.parent)

    def unwritable(self, error: OSError) -> OutputFileError:
        """See `ParquetFile.unwritable`."""
        return _unwritable(self._final, error)


def write_columns(columns: Mapping[str, Int64Array], path: Path) -> None:
    """Write columns of integers as one Parquet file, completely or not at all.

    Raises
    ------
    OutputFileError
        If it cannot be written.
    """
    with replacing(path) as file:
        pq.write_table(pa.table(dict(columns)), file, compression="zstd", write_page_checksum=True)


def write_parts(columns: Mapping[str, Int64Array], folder: Path, count: int) -> None:
    """Write columns of integers as `count` Parquet files of about the same size.

    Each is written completely or not at all.

    Their times are a second apart, the last one now: by that, Spark takes the files of a stream in order.

    Raises
    ------
    OutputFileError
        If they cannot be written.
    UsageError
        If the folder holds files already.
    """
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"the folder '{folder}' holds files already.\n  Empty it, or choose another.")
    n_rows = len(next(iter(columns.values())))
    now = int(time.time())
    for part in range(count):
        rows = slice(n_rows * part // count, n_rows * (part + 1) // count)
        path = folder / f"{part:05}.parquet"
        write_columns({name: values[rows] for name, values in columns.items()}, path)
        os.utime(path, (now - count + part, now - count + part))


def _unwritable(path: Path, error: OSError) -> OutputFileError:
    reason = error.strerror or str(error)
    return OutputFileError(f"'{path}' cannot be written: {reason}.\n  Name a folder that can be written to.")


# A complete relation as one file, written completely or not at all.


@dataclass(frozen=True)
class OutputSpec:
    """A relation and its output file.

    Attributes
    ----------
    separator, header
        Of a text file: what stands between the fields, and whether the first line names the columns. A file whose
        name ends in ``.parquet`` has none of that.
    """

    relation: str
    path: Path
    separator: str = "\t"
    header: bool = False


def check_apart(specs: Iterable[OutputSpec]) -> None:
    """Raise if two relations have the same output file, under any names or links.

    Raises
    ------
    UsageError
        If two are; the null device takes any number.
    """
    seen: dict[Hashable, OutputSpec] = {}
    for spec in specs:
        place = identity(spec.path)
        if place is not None and (earlier := seen.setdefault(place, spec)) is not spec:
            raise UsageError(
                f"relations '{earlier.relation}' and '{spec.relation}' are written to the same file: got "
                f"'{earlier.path}' and '{spec.path}'.\n  Give each a file of its own, with filename= of .output."
            )


def write_whole(spec: OutputSpec, table: pa.Table, remedy: str = "Name a file that can.") -> None:
    """Write the rows of `table`.

    Texts are quoted only if some text has a separator, line end or quote.

    Raises
    ------
    OutputFileError
        If the file cannot be written.
    """
    with replacing(spec.path, remedy) as file:
        if spec.path.name.endswith(".parquet"):
            pq.write_table(table, file, compression="zstd", write_page_checksum=True)
        elif spec.path.name.endswith(".gz"):
            with tempfile.TemporaryFile() as plain, gzip.open(file, "wb") as compressed:
                write_text(plain, spec, table)
                plain.seek(0)
                shutil.copyfileobj(plain, compressed)
        else:
            write_text(file, spec, table)


def write_text(file: IO[bytes], spec: OutputSpec, table: pa.Table) -> None:
    """Write the rows of `table` as text to an empty file; quotes as in `write_whole`."""
    names = io.StringIO()
    if spec.header:
        csv.writer(names, delimiter=spec.separator, lineterminator="\n").writerow(table.column_names)
    header = names.getvalue().encode()
    _ = file.write(header)
    columns = [column.cast(pa.string()) if _is_odd(column.type) else column for column in table.columns]
    converted = pa.table(columns, table.column_names)
    # If there is no header, PyArrow writes 16 KiB of zero bytes for a first batch without rows.
    plain = pa.Table.from_batches([batch for batch in converted.to_batches() if batch.num_rows], converted.schema)
    if plain.num_columns == 1 and _has_empty_text(plain.column(0)):  # else an empty line, which readers pass over
        pa_csv.write_csv(plain, file, _options(spec, "needed"))
        return
    try:
        pa_csv.write_csv(plain, file, _options(spec, "none"))
    except pa.ArrowInvalid:
        file.seek(len(header))
        file.truncate()
        pa_csv.write_csv(plain, file, _options(spec, "needed"))


def _options(spec: OutputSpec, quotes: str) -> pa_csv.WriteOptions:
    return pa_csv.WriteOptions(include_header=False, delimiter=spec.separator, quoting_style=quotes)


def _has_empty_text(column: pa.ChunkedArray) -> bool:
    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    return is_text and any(value == "" for value in column.unique().to_pylist())


def _is_odd(kind: pa.DataType) -> bool:
    return any(test(kind) for test in (pa.types.is_dictionary, pa.types.is_decimal, pa.types.is_string_view))
