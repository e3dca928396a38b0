"""Runs on the disk: immutable Parquet files of sorted rows or of dictionary values.

Every page has a checksum, and so has the whole file; the latter is kept by whoever refers to the file.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gpu_wcoj.checkpoint.canonical import checksum
from gpu_wcoj.checkpoint.folder import Folder, NewFile
from gpu_wcoj.errors import CheckpointDamagedError
from gpu_wcoj.kernels.protocol import Int64Array

GROUP_ROWS: Final = 1 << 20
"""Rows of a Parquet row group."""
_BUFFER: Final = 1 << 20
"""Bytes that are gathered before a write."""


@dataclass(frozen=True)
class Run:
    """A file of rows or values.

    Attributes
    ----------
    file
        Its name.
    rows, bytes, sha256
        How many rows it has, its size, and the checksum of all of it.
    first
        Of values of a dictionary, the code of the first one.
    """

    file: str
    rows: int
    bytes: int
    sha256: str
    first: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return vars(self)


class _Checked(io.RawIOBase):
    """A buffered sink for Parquet that computes the checksum."""

    def __init__(self, file: NewFile) -> None:
        super().__init__()
        self.size = 0
        self.hash = hashlib.sha256()
        self._file = file
        self._waiting: list[bytes] = []
        self._n_waiting = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.size

    def write(self, data: Any) -> int:
        piece = bytes(data)
        self.hash.update(piece)
        self.size += len(piece)
        self._waiting.append(piece)
        self._n_waiting += len(piece)
        if self._n_waiting >= _BUFFER:
            self.pour()
        return len(piece)

    def pour(self) -> None:
        """Write the buffered data."""
        waiting, self._waiting, self._n_waiting = b"".join(self._waiting), [], 0
        if waiting:
            self._file.write(waiting)


def write_rows(folder: Folder, name: str, columns: Sequence[Int64Array], weights: Int64Array) -> Run:
    """Write sorted distinct rows of a relation and force the file to the disk.

    Its name need not be on the disk yet.

    Weights are left out where all are 1.
    """
    named = {f"c{i}": column for i, column in enumerate(columns)}
    if not bool((weights == 1).all()):
        named["weight"] = weights
    return _write(folder, name, pa.table({key: pa.array(column) for key, column in named.items()}))


def read_rows(folder: Folder, run: Run, width: int) -> tuple[list[Int64Array], Int64Array]:
    """Return the columns and weights of a run.

    Raises
    ------
    CheckpointDamagedError
        If the file is not there, or is not what was written.
    """
    table = _read(folder, run)
    names = [f"c{i}" for i in range(width)]
    if table.column_names not in (names, [*names, "weight"]) or set(table.schema.types) - {pa.int64()}:
        raise CheckpointDamagedError(folder.shown(run.file), f"does not have {width} columns of int64")
    arrays: list[Int64Array] = [column.to_numpy() for column in table.columns]
    return arrays[:width], arrays[width] if len(arrays) > width else np.ones(run.rows, np.int64)


def write_values(folder: Folder, name: str, values: pa.Array, first: int) -> Run:
    """Write the values of a dictionary from the code `first` on."""
    return _write(folder, name, pa.table({"value": values}), first)


def read_values(folder: Folder, run: Run, kind: Literal["string", "binary"]) -> pa.ChunkedArray:
    """Return the values of a dictionary run; see `read_rows`."""
    table = _read(folder, run)
    expected = pa.schema([("value", pa.large_string() if kind == "string" else pa.large_binary())])
    if not table.schema.equals(expected):
        raise CheckpointDamagedError(folder.shown(run.file), f"does not hold {kind} values")
    return table.column(0)


def _write(folder: Folder, name: str, table: pa.Table, first: int = 0) -> Run:
    file = folder.create(name)
    try:
        sink = _Checked(file)
        numeric = [field.name for field in table.schema if field.type == pa.int64()]
        writer = pq.ParquetWriter(
            pa.PythonFile(sink, mode="w"),
            table.schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=False,
            column_encoding=dict.fromkeys(numeric, "DELTA_BINARY_PACKED") or None,
            write_page_checksum=True,
            write_statistics=False,
        )
        writer.write_table(table, row_group_size=GROUP_ROWS)
        writer.close()
        sink.pour()
        file.sync()
    finally:
        file.close()
    return Run(name, table.num_rows, sink.size, sink.hash.hexdigest(), first)


def checked_bytes(folder: Folder, run: Run) -> bytes:
    """Return the verified bytes of a run; raises the errors of `read_rows`."""
    path = folder.shown(run.file)
    try:
        data = folder.read(run.file)
    except FileNotFoundError:
        raise CheckpointDamagedError(path, "is missing") from None
    if len(data) != run.bytes:
        raise CheckpointDamagedError(path, f"has {len(data):,} bytes, and was written with {run.bytes:,}")
    if checksum(data) != run.sha256:
        raise CheckpointDamagedError(path, "does not have the checksum that it was written with")
    return data


def _read(folder: Folder, run: Run) -> pa.Table:
    data, path = checked_bytes(folder, run), folder.shown(run.file)
    try:
        table = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True).read(use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise CheckpointDamagedError(path, f"cannot be read ({error})") from None
    if table.num_rows != run.rows:
        raise CheckpointDamagedError(path, f"has {table.num_rows:,} rows, and was written with {run.rows:,}")
    return table
