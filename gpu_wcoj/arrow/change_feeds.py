"""Formats of change data, and tables of changes in them as rows with weights."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gpu_wcoj.arrow.read import as_arrow
from gpu_wcoj.arrow.table import as_read, collected
from gpu_wcoj.data.rows import weight_name
from gpu_wcoj.errors import SchemaError, TypeMismatchError

ENVELOPE = ("before", "after", "op")
"""The fields of Debezium's envelope that describe the change."""

ENVELOPE_COLUMNS = ("payload", "value")
"""Columns that may hold the envelope as a struct."""


@dataclass(frozen=True)
class Coded:
    """A format in which a column of codes marks each row as an insertion or a deletion."""

    column: str
    inserts: tuple[str | int, ...]
    deletes: tuple[str | int, ...]
    beside: tuple[str, ...] = ()
    """Columns that the source adds and that are not data."""
    order: str = ""
    """The one of these that orders the changes; deletions of one value come first. Empty if rows are in order."""

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
        "_commit_version",
    ),
    "iceberg": Coded(
        "_change_type",
        ("INSERT", "UPDATE_AFTER"),
        ("DELETE", "UPDATE_BEFORE"),
        ("_change_ordinal", "_commit_snapshot_id"),
        "_change_ordinal",
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

WHOLE_ROWS = "Let the source write whole rows (Postgres: REPLICA IDENTITY FULL), and drop tombstones."
OPERATIONS = "Filter others out, and tombstones, before; after a truncate, start anew."

_LOGGER = logging.getLogger("gpu_wcoj")

Columns = tuple[tuple[str, ...], list[Any]]
"""Names and columns of a table."""


def as_weighted(
    names: Sequence[str], arrays: Sequence[Any], data_names: Collection[str] | None, n_columns: int, what: str
) -> Columns | None:
    """Return changes of a known format as data columns and a column of weights, last.

    A table is taken as changes of a format only if it has the columns of the format beside those of the data, and the
    data have no column of these names. So no other table is taken for one. Rows are in the order of the changes, as the
    last operation on a row of a set wins.

    Parameters
    ----------
    names, arrays
        The columns of the table.
    data_names
        The columns of the relation; None if they have no names.
    n_columns
        The number of the relation's columns.
    what
        The name of the relation in messages.

    Returns
    -------
    None if the columns are of no format.

    Raises
    ------
    SchemaError
        If an event of Debezium has no row where it needs one.
    TypeMismatchError
        If a code is unknown or null, or the envelope has other types.
    """
    free = {*names} - {*(data_names or ())}
    for nested in (None, *ENVELOPE_COLUMNS):
        if {*ENVELOPE} <= free if nested is None else (nested in free and len(free) == len(names)):
            unnested = _without_envelope(names, arrays, nested, what)
            if unnested is not None:
                _LOGGER.info("%s: the changes are taken as 'debezium' (by its envelope)", what)
                return unnested
    for called, coded in CODED.items():
        beside = {coded.column, *coded.beside} & free
        data = [i for i, name in enumerate(names) if name not in beside]
        if coded.column not in free or len(data) != n_columns:
            continue
        columns = collected(names, arrays, what)
        codes = as_arrow(as_read(columns[names.index(coded.column)]), f"{what}, column '{coded.column}'")
        if called == "delta_cdf" and len(beside) == 1:  # Iceberg has the same column, and other codes
            iceberg = CODED["iceberg"]
            coded = Coded(coded.column, coded.inserts + iceberg.inserts, coded.deletes + iceberg.deletes)
        weights = _weights(codes, coded, called, what)
        _LOGGER.info("%s: the changes are taken as '%s' (by the column '%s')", what, called, coded.column)
        data_columns, rows = tuple(names[i] for i in data), [columns[i] for i in data]
        if coded.order in beside:
            numbers = as_arrow(as_read(columns[names.index(coded.order)]), f"{what}, column '{coded.order}'")
            order = np.lexsort((weights, pc.rank(numbers, tiebreaker="dense").to_numpy()))
            rows = [as_arrow(as_read(column), what).take(pa.array(order)) for column in rows]
            weights = weights[order]
        return (*data_columns, weight_name(data_columns)), [*rows, weights]
    return None


def may_be_feed(names: Collection[str], n_columns: int) -> bool:
    """Return True if a table of these columns may be changes of a relation in a known format.

    Examples
    --------
    >>> may_be_feed(["src", "dst", "op"], 2), may_be_feed(["src", "dst", "cost"], 2)
    (True, False)
    """
    is_coded = any(
        coded.column in names and len({*names} - {coded.column, *coded.beside}) == n_columns for coded in CODED.values()
    )
    return is_coded or {*ENVELOPE} <= {*names} or not {*ENVELOPE_COLUMNS}.isdisjoint(names)


def _weights(codes: pa.Array, coded: Coded, called: str, what: str) -> npt.NDArray[np.int64]:
    """Return the weight of each code."""
    is_text = isinstance(coded.inserts[0], str)
    try:
        cast = codes.cast(pa.string() if is_text else pa.int64())
    except pa.ArrowException:
        raise TypeMismatchError.mismatch(
            f"{what}, column '{coded.column}'", "has the wrong type", f"'{codes.type}'",
            f"{'text' if is_text else 'integers'}, the codes of '{called}'",
        ) from None  # fmt: skip
    inserted, deleted = (
        pc.is_in(cast, value_set=pa.array(allowed, cast.type)).to_numpy(zero_copy_only=False)
        for allowed in (coded.inserts, coded.deletes)
    )
    weights: npt.NDArray[np.int64] = inserted.astype(np.int64) - deleted
    if not weights.all():
        row = int(np.argmin(weights != 0))
        raise TypeMismatchError.mismatch(
            f"{what}, row {row}, column '{coded.column}'", f"is not a code of '{called}'",
            repr(codes[row].as_py()), f"one of {', '.join(map(str, coded.codes))}",
            "An update needs the old row too, as a deletion." if called == "op" else "",
        )  # fmt: skip
    return weights


def _without_envelope(names: Sequence[str], arrays: Sequence[Any], nested: str | None, what: str) -> Columns | None:
    """Return the rows of Debezium's events with their weights; None if they have another shape."""
    wanted = [names.index(name) for name in (ENVELOPE if nested is None else (nested,))]
    columns = collected([names[i] for i in wanted], [arrays[i] for i in wanted], what)
    sides = [as_arrow(as_read(column), what) for column in columns]
    if nested is not None:
        (events,) = sides
        if not pa.types.is_struct(events.type) or not {*ENVELOPE} <= {field.name for field in events.type}:
            return None
        sides = [pc.struct_field(events, name) for name in ENVELOPE]
    before, after, operations = sides
    if not all(pa.types.is_struct(side.type) or pa.types.is_null(side.type) for side in (before, after)):
        return None
    letters = operations.to_numpy(zero_copy_only=False).astype(object)
    is_known = np.isin(letters, ["c", "r", "u", "d"])
    if not is_known.all():
        row = int(np.argmin(is_known))
        raise TypeMismatchError.mismatch(
            f"{what}, row {row}, column 'op'", "is not an operation of Debezium", repr(operations[row].as_py()),
            "c, r, u or d", OPERATIONS,
        )  # fmt: skip
    pieces: list[pa.Table] = []
    places: list[npt.NDArray[np.int64]] = []
    for side, name, used in ((before, "before", "ud"), (after, "after", "cru")):
        rows = np.flatnonzero(np.isin(letters, [*used]))
        images = side.take(pa.array(rows))
        if images.null_count:
            row = int(rows[np.flatnonzero(images.is_null().to_numpy(zero_copy_only=False))[0]])
            raise SchemaError.with_parts(
                f"{what}, row {row}: '{name}' is null in an event whose op is '{letters[row]}'",
                subject=what, remedy=WHOLE_ROWS,
            )  # fmt: skip
        places.append(2 * rows + len(places))
        if not pa.types.is_null(side.type):
            pieces.append(pa.Table.from_arrays(images.flatten(), [field.name for field in side.type]))
    if not pieces:
        return (), []
    try:
        table = pa.concat_tables(pieces, promote_options="permissive")
    except pa.ArrowException as error:
        raise TypeMismatchError.mismatch(
            what, "has different types in before and after", f"{before.type} and {after.type}", "one type"
        ) from error
    weights = np.repeat(np.array([-1, 1], np.int64), [len(rows) for rows in places])
    order = np.argsort(np.concatenate(places))
    table = table.take(pa.array(order))
    return (*table.column_names, weight_name(table.column_names)), [*table.columns, weights[order]]
