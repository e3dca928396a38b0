"""Formats of change data: their columns and codes, and detection by columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from gpu_wcoj.errors import SchemaError, entry_point, listed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

Format: TypeAlias = Literal[
    "auto", "append", "weight", "sign", "op", "debezium", "delta_cdf", "iceberg", "flink", "risingwave"
]
"""The formats by name; ``"auto"`` detects the format by the columns."""


@dataclass(frozen=True)
class Coded:
    """A format in which a column of codes marks each row as an insertion or a deletion."""

    column: str
    inserts: tuple[str | int, ...]
    deletes: tuple[str | int, ...]
    beside: tuple[str, ...] = ()
    """Columns that the source adds and that are not data."""

    @property
    def codes(self) -> tuple[str | int, ...]:
        """All codes."""
        return self.inserts + self.deletes

    @staticmethod
    def from_codes(column: str, codes: Mapping[str | int, int]) -> Coded:
        """Return a format with user-defined codes: 1 for an insertion, -1 for a deletion."""
        return Coded(
            column,
            tuple(code for code, sign in codes.items() if sign == 1),
            tuple(code for code, sign in codes.items() if sign == -1),
        )


def _both_cases(*codes: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(spelt for code in codes for spelt in (code, code.upper())))


CODED = {
    "delta_cdf": Coded(
        "_change_type",
        ("insert", "update_postimage"),
        ("delete", "update_preimage"),
        ("_commit_version", "_commit_timestamp"),
    ),
    "iceberg": Coded(
        "_change_type",
        ("INSERT", "UPDATE_AFTER"),
        ("DELETE", "UPDATE_BEFORE"),
        ("_change_ordinal", "_commit_snapshot_id"),
    ),
    "flink": Coded("row_kind", ("+I", "+U", "INSERT", "UPDATE_AFTER"), ("-D", "-U", "DELETE", "UPDATE_BEFORE")),
    "risingwave": Coded("changelog_op", (1, 3), (2, 4), ("_changelog_row_id",)),
    "sign": Coded("sign", (1,), (-1,)),
    # Updates have no code without a row image: the old row is needed to retract it.
    "op": Coded(
        "op",
        _both_cases("i", "insert", "c", "create", "r", "read", "+i", "+u", "+", "update_after", "update_postimage"),
        _both_cases("d", "delete", "-d", "-u", "-", "update_before", "update_preimage"),
    ),
}
"""The formats with a column of codes. ``delta_cdf`` is also the format of Spark's own changes (from 4.2 on)."""

WEIGHT = "weight"
"""The column of weights, in the input and in the output."""

ORDER = "_order_"
"""The prefix of the order columns in normalised rows; an integer follows."""

ENVELOPE = ("before", "after", "op")
"""The fields of Debezium's envelope that describe the change."""


def order_columns(names: Sequence[str]) -> list[str]:
    """Return the order columns among the columns of normalised rows."""
    return [name for name in names if name.startswith(ORDER)]


@dataclass(frozen=True)
class DetectedFormat:
    """A format detected by the columns: its name, the deciding column, and the reason."""

    format: str
    column: str | None
    because: str

    def __str__(self) -> str:
        return f"'{self.format}' ({self.because})"


@entry_point
def detect(df: DataFrame) -> DetectedFormat:
    """Return the format of a DataFrame of changes, detected by its columns.

    Raises
    ------
    SchemaError
        If the columns fit more than one format; then pass the format.
    """
    schema = df.schema
    detected = [*_enveloped(schema), *_change_typed(schema), *_coded(schema)]
    if len(detected) > 1:
        raise SchemaError.with_parts(
            f"the columns {listed(schema.names)} fit more than one format of changes: {', '.join(map(str, detected))}",
            subject="changes", got=schema.names,
            remedy=f"Pass the format: changes='{detected[0].format}'; other columns are then data.",
        )  # fmt: skip
    return detected[0] if detected else DetectedFormat("append", None, "no column says what a row does")


def _enveloped(schema: StructType) -> list[DetectedFormat]:
    if is_envelope(schema):
        return [DetectedFormat("debezium", None, "by the columns 'before', 'after' and 'op'")]
    return [
        DetectedFormat("debezium", field.name, f"by the fields 'before', 'after' and 'op' of the column '{field.name}'")
        for field in schema
        if field.name in {"payload", "value"} and is_envelope(field.dataType)
    ]


def is_envelope(kind: DataType) -> bool:
    """Return whether a type is a struct with the fields of Debezium's envelope."""
    from pyspark.sql.types import StructType

    if not isinstance(kind, StructType) or not set(ENVELOPE) <= set(kind.names):
        return False
    return all(isinstance(kind[side].dataType, StructType) for side in ("before", "after"))


def _change_typed(schema: StructType) -> list[DetectedFormat]:
    column = CODED["delta_cdf"].column
    if column not in schema.names:
        return []
    for name in ("delta_cdf", "iceberg"):
        signs = [beside for beside in CODED[name].beside if beside in schema.names]
        if signs:
            return [DetectedFormat(name, column, f"by the columns '{column}' and {listed(signs)}")]
    raise SchemaError.with_parts(
        f"the column '{column}' occurs in Delta's and in Iceberg's changes, and the other columns do not decide",
        subject="changes", got=column,
        remedy="Pass changes='delta_cdf' (insert, delete, ...) or changes='iceberg' (INSERT, DELETE, ...).",
    )  # fmt: skip


def _coded(schema: StructType) -> list[DetectedFormat]:
    columns = {WEIGHT: WEIGHT, **{name: CODED[name].column for name in ("sign", "risingwave", "flink", "op")}}
    if is_envelope(schema):
        del columns["op"]
    return [
        DetectedFormat(name, column, f"by the column '{column}'")
        for name, column in columns.items()
        if column in schema.names
    ]
