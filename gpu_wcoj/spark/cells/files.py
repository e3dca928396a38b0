"""Parquet files of changes of one attempt of one cell, in the folder layout of all views."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gpu_wcoj.checkpoint.canonical import checksum
from gpu_wcoj.checkpoint.folder import OsFolder, write_whole
from gpu_wcoj.errors import OutputFileError
from gpu_wcoj.files.output import folder_of


def write_output(place: str, head: str, rows: pa.Table, batch: int, stage: int, cell: int) -> list[Any]:
    """Write the changes of one head to disk; return path below `place`, rows, bytes, checksum."""
    buffer = io.BytesIO()
    pq.write_table(rows, buffer, compression="zstd", write_page_checksum=True)
    data = buffer.getvalue()
    when = "load" if batch < 0 else f"batch-{batch:012}"
    name = f"{when}-{stage:03}-{cell:05}-{os.urandom(8).hex()}.parquet"
    folder = OsFolder(folder_of(Path(place), head))
    try:
        folder.prepare()
        write_whole(folder.create(name), data)
        folder.sync()
    except OSError as error:
        raise OutputFileError.with_parts(
            f"'{folder.shown(name)}' cannot be written: {error.strerror or error}; the batch is not committed",
            subject=folder.shown(name),
            remedy="Check the folder and its disk, and start the query again.",
        ) from None
    return [f"{head}/{name}", rows.num_rows, len(data), checksum(data)]
