"""Conversion of a file's rows to the declared types of its relation."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from gpu_wcoj.arrow.types import to_pyarrow
from gpu_wcoj.data.schema import DataType
from gpu_wcoj.errors import InputFileError
from gpu_wcoj.files.advice import header_hint
from gpu_wcoj.files.spec import InputSpec


def as_declared(table: pa.Table, spec: InputSpec, kinds: Sequence[str | None]) -> pa.Table:
    """Return the rows of a file in the types `kinds`; None keeps the type of the file.

    Raises
    ------
    InputFileError
        If a value is not of its column's type.

    Examples
    --------
    >>> from pathlib import Path
    >>> rows = pa.table({"day": ["2024-01-31"], "n": [5]})
    >>> as_declared(rows, InputSpec("r", Path("r.facts")), ["date32[day]", None]).schema.types
    [DataType(date32[day]), DataType(int64)]
    """
    columns = []
    for position, (column, kind) in enumerate(zip(table.columns, kinds, strict=True)):
        target = column.type if kind is None else to_pyarrow(DataType(kind))
        try:
            columns.append(column if column.type == target else column.cast(target))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InputFileError(
                f"'{spec.path}', column {position}, is declared as '{kind}': {error}.\n"
                f"  Mend the file, or declare another type{header_hint(spec)}."
            ) from None
    return pa.table(columns, table.column_names)
