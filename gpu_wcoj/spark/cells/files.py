"""Changes of answers as Parquet files of one attempt of one cell, in the layout of the outputs of any view."""

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
    """Write the changes of one head and force them to the disk: path below `place`, rows, bytes and checksum."""
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
        raise OutputFileError(
            f"'{folder.shown(name)}' cannot be written: {error.strerror or error}.\n  The batch is not committed."
        ) from None
    return [f"{head}/{name}", rows.num_rows, len(data), checksum(data)]
