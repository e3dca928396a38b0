"""A complete relation as one file, written completely or not at all."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from gpu_wcoj.destination import identity, replacing
from gpu_wcoj.errors import UsageError


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


def write_whole(spec: OutputSpec, table: pa.Table) -> None:
    """Write the rows of `table`.

    Texts are quoted only if some text has a separator, line end or quote.

    Raises
    ------
    OutputFileError
        If the file cannot be written.
    """
    with replacing(spec.path, "Name a file that can, with filename= of .output.") as file:
        if spec.path.name.endswith(".parquet"):
            pq.write_table(table, file, compression="zstd", write_page_checksum=True)
        else:
            _write_text(file, spec, table)


def _write_text(file: IO[bytes], spec: OutputSpec, table: pa.Table) -> None:
    columns = [column.cast(pa.string()) if _is_odd(column.type) else column for column in table.columns]
    plain = pa.table(columns, table.column_names)
    if plain.num_columns == 1 and _has_empty_text(plain.column(0)):  # else an empty line, which readers pass over
        pa_csv.write_csv(plain, file, _options(spec, "needed"))
        return
    try:
        pa_csv.write_csv(plain, file, _options(spec, "none"))
    except pa.ArrowInvalid:
        file.seek(0)
        file.truncate()
        pa_csv.write_csv(plain, file, _options(spec, "needed"))


def _options(spec: OutputSpec, quotes: str) -> pa_csv.WriteOptions:
    return pa_csv.WriteOptions(include_header=spec.header, delimiter=spec.separator, quoting_style=quotes)


def _has_empty_text(column: pa.ChunkedArray) -> bool:
    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    return is_text and any(value == "" for value in column.unique().to_pylist())


def _is_odd(kind: pa.DataType) -> bool:
    return any(test(kind) for test in (pa.types.is_dictionary, pa.types.is_decimal, pa.types.is_string_view))
