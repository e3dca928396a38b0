"""A whole relation as one file, which is whole or not there."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from gpu_wcoj.errors import OutputFileError


@dataclass(frozen=True)
class OutputSpec:
    """A relation and the file that it is written to.

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


def write_whole(spec: OutputSpec, table: pa.Table) -> None:
    """Write the rows of `table`. Texts have quotes around them only if some text has a separator, line end or quote.

    Raises
    ------
    OutputFileError
        If the file cannot be written.
    """
    temporary = spec.path.with_name(f".{spec.path.name}.{os.getpid()}.tmp")
    try:
        spec.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as file:
                if spec.path.name.endswith(".parquet"):
                    pq.write_table(table, file, compression="zstd", write_page_checksum=True)
                else:
                    _write_text(file, spec, table)
            temporary.replace(spec.path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputFileError(
            f"'{spec.path}' cannot be written: {reason}.\n  Name a file that can, with filename= of .output."
        ) from None


def _write_text(file: IO[bytes], spec: OutputSpec, table: pa.Table) -> None:
    columns = [column.cast(pa.string()) if _is_odd(column.type) else column for column in table.columns]
    plain = pa.table(columns, table.column_names)
    try:
        pa_csv.write_csv(plain, file, _options(spec, "none"))
    except pa.ArrowInvalid:
        file.seek(0)
        file.truncate()
        pa_csv.write_csv(plain, file, _options(spec, "needed"))


def _options(spec: OutputSpec, quotes: str) -> pa_csv.WriteOptions:
    return pa_csv.WriteOptions(include_header=spec.header, delimiter=spec.separator, quoting_style=quotes)


def _is_odd(kind: pa.DataType) -> bool:
    return any(test(kind) for test in (pa.types.is_dictionary, pa.types.is_decimal, pa.types.is_string_view))
