"""Changes as Parquet files with unique names, forced to disk before the batch is committed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from gpu_wcoj.checkpoint.manifest import Manifest, OutputFile
from gpu_wcoj.errors import OutputFileError, UsageError
from gpu_wcoj.files.output import GROUP_ROWS, folder_of
from gpu_wcoj.program import Program
from gpu_wcoj.spark.listing import Listing
from gpu_wcoj.spark.output import Changes, WrittenBatch, with_batch
from gpu_wcoj.spark.types import spark_schema
from gpu_wcoj.zset.zset import ZSet

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/+")


class ToParquet:
    """A sink of Parquet files, which count once the checkpoint's manifest names them.

    See `gpu_wcoj.spark.output.Sink`.
    """

    is_listed = True

    def __init__(self, place: str) -> None:
        if _SCHEME.match(place):
            raise UsageError.invalid_value(
                "output", place, "a path of a local or mounted file system",
                "Name one, or let Spark write there: format='delta', or another format of Spark.",
            )  # fmt: skip
        self._listing = Listing(Path(place).expanduser().absolute())
        self._fence = 0

    def open(self, checkpoint: str, fence: int, last_manifest: Manifest | None) -> None:
        """See `Sink.open`."""
        self._fence = fence
        self._listing.resume(checkpoint, last_manifest)

    def process_batch(self, program: Program, changes: Changes, batch: int) -> WrittenBatch:
        """See `Sink.process_batch`."""
        attempt = Attempt(self._listing.path, batch, self._fence)
        try:
            counts = program.step_pieces(changes, attempt.add)
            files = attempt.finish()
        except BaseException:
            attempt.discard()
            raise
        relations = {name: json_schema(with_batch(program.empty(name).to_arrow(), batch)) for name in program.outputs}
        return WrittenBatch(counts, attempt.seconds, files, relations)

    def publish(self, manifest: Manifest) -> None:
        """See `Sink.publish`."""
        self._listing.publish(manifest)


class Attempt:
    """The files of one attempt at one batch: one for each output that changes."""

    def __init__(self, folder: Path, batch: int | None, fence: int) -> None:
        self.folder = folder
        self._batch = batch
        name = "load" if batch is None or batch < 0 else f"batch-{batch:012}"
        self._name = f"{name}-{fence:06}-{os.getpid()}.parquet"
        self._open: dict[str, _File] = {}
        self.seconds = 0.0

    def add(self, relation: str, piece: ZSet) -> None:
        """Add some of the changes of an output."""
        start = time.perf_counter()
        table = piece.to_arrow()
        if table.num_rows:
            if self._batch is not None:
                table = with_batch(table, self._batch)
            if relation not in self._open:
                self._open[relation] = _File(folder_of(self.folder, relation) / self._name)
            self._open[relation].add(table)
        self.seconds += time.perf_counter() - start

    def finish(self) -> tuple[OutputFile, ...]:
        """Force all files to disk and return them."""
        start = time.perf_counter()
        files = tuple(OutputFile(f"{relation}/{self._name}", *file.finish()) for relation, file in self._open.items())
        for folder in {self.folder, *(self.folder / relation for relation in self._open)}:
            if folder.is_dir():
                _force(folder)
        self.seconds += time.perf_counter() - start
        return files

    def discard(self) -> None:
        """Remove the files."""
        for file in self._open.values():
            file.discard()


class _File:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._gathered: list[pa.Table] = []
        self._rows = self._n_gathered = 0
        self._writer: pq.ParquetWriter | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = _Hashed(path.open("xb"))
        except OSError as error:
            raise _unwritable(path, error) from None

    def add(self, table: pa.Table) -> None:
        self._gathered.append(table)
        self._n_gathered += table.num_rows
        if self._n_gathered >= GROUP_ROWS:
            self._write()

    def finish(self) -> tuple[int, int, str]:
        """Return the file's rows, bytes and checksum."""
        if self._gathered:
            self._write()
        try:
            if self._writer is not None:
                self._writer.close()
            self._file.force()
        except OSError as error:
            raise _unwritable(self._path, error) from None
        finally:
            self._file.close()
        return self._rows, self._file.size, self._file.sha256.hexdigest()

    def discard(self) -> None:
        self._file.close()
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _write(self) -> None:
        table = pa.concat_tables(self._gathered)
        self._gathered, self._n_gathered = [], 0
        self._rows += table.num_rows
        try:
            writer = self._writer or pq.ParquetWriter(
                pa.PythonFile(self._file, "w"), table.schema, compression="zstd", write_page_checksum=True
            )
            self._writer = writer
            writer.write_table(table, row_group_size=2 * GROUP_ROWS)
        except OSError as error:
            raise _unwritable(self._path, error) from None


class _Hashed:
    """A file that is written once from start to end, with a checksum."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()
        self.size = 0

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return self._file.closed

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
        if not self._file.closed:
            self._file.flush()

    def force(self) -> None:
        """Force the file to disk."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def json_schema(table: pa.Table) -> dict[str, Any]:
    """Return the columns of a table, as Spark reads them, as plain values."""
    return dict(spark_schema(table.schema).jsonValue())


def _force(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _unwritable(path: Path, error: OSError) -> OutputFileError:
    return OutputFileError.with_parts(
        f"'{path}' cannot be written: {error.strerror or error}; the batch is not committed",
        subject=str(path), remedy="Check the folder and its disk, and start the query again.",
    )  # fmt: skip
