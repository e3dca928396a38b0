"""How sources write changes down: the columns and codes of each format, and telling them apart."""

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
"""The formats by name; ``"auto"`` goes by the columns."""


@dataclass(frozen=True)
class Coded:
    """A format in which one column says of each row whether it came or went."""

    column: str
    inserts: tuple[str | int, ...]
    deletes: tuple[str | int, ...]
    beside: tuple[str, ...] = ()
    """Columns that the source adds and that are no data."""

    @property
    def codes(self) -> tuple[str | int, ...]:
        """All of them."""
        return self.inserts + self.deletes

    @staticmethod
    def from_codes(column: str, codes: Mapping[str | int, int]) -> Coded:
        """A format with codes of its own, each 1 (the row came) or -1 (it went)."""
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
    # No code stands for an update alone: without the old row it cannot be undone.
    "op": Coded(
        "op",
        _both_cases("i", "insert", "c", "create", "r", "read", "+i", "+u", "+", "update_after", "update_postimage"),
        _both_cases("d", "delete", "-d", "-u", "-", "update_before", "update_preimage"),
    ),
}
"""The formats with a column of codes. ``delta_cdf`` is that of Spark's own changes (4.2), too."""

WEIGHT = "weight"
"""The column that holds weights, in what comes in and in what goes out."""

ORDER = "_order_"
"""What the names of the order columns that go out begin with; a number follows."""

ENVELOPE = ("before", "after", "op")
"""The fields of Debezium's envelope that say what changed."""


def order_columns(names: Sequence[str]) -> list[str]:
    """Which of the columns that `normalise` gave say in which order the rows happened."""
    return [name for name in names if name.startswith(ORDER)]


@dataclass(frozen=True)
class DetectedFormat:
    """A format that was told by the columns: its name, the column that it goes by, and why it was taken."""

    format: str
    column: str | None
    because: str

    def __str__(self) -> str:
        return f"'{self.format}' ({self.because})"


@entry_point
def detect(df: DataFrame) -> DetectedFormat:
    """The format of a DataFrame of changes, by its columns.

    Raises
    ------
    SchemaError
        If the columns fit more than one format; then the caller has to say which it is.
    """
    schema = df.schema
    detected = [*_enveloped(schema), *_change_typed(schema), *_coded(schema)]
    if len(detected) > 1:
        raise SchemaError(
            f"the columns {listed(schema.names)} fit more than one format of changes: "
            f"{', '.join(map(str, detected))}.\n"
            f"  Say which it is: changes='{detected[0].format}'; a column that is data then stays data."
        )
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
    """Whether a type is a struct with the fields of Debezium's envelope."""
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
    raise SchemaError(
        f"the column '{column}' is that of Delta's changes and of Iceberg's, and no column beside it tells which.\n"
        "  Say it: changes='delta_cdf' (insert, delete, ...) or changes='iceberg' (INSERT, DELETE, ...)."
    )


def _coded(schema: StructType) -> list[DetectedFormat]:
    columns = {WEIGHT: WEIGHT, **{name: CODED[name].column for name in ("sign", "risingwave", "flink", "op")}}
    if is_envelope(schema):
        del columns["op"]
    return [
        DetectedFormat(name, column, f"by the column '{column}'")
        for name, column in columns.items()
        if column in schema.names
    ]
