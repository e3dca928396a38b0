"""A piece of a file on its way to a tick: rows, with validated weights and ticks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gpu_wcoj.data.column import Int64Array
from gpu_wcoj.errors import InputFileError, WeightError
from gpu_wcoj.files.record_batch import Selection
from gpu_wcoj.files.spec import InputSpec


@dataclass(frozen=True)
class RowBlock:
    """Consecutive rows of a file.

    Attributes
    ----------
    rows
        The columns of the relation, then ``weight`` (int64) if there are weights.
    ticks
        int64, shape (n,): the tick of each row, never descending; None if the file has no tick column.
    """

    rows: pa.RecordBatch
    ticks: Int64Array | None

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def slice(self, start: int, stop: int) -> RowBlock:
        """Return the rows from `start` up to, not including, `stop`."""
        ticks = None if self.ticks is None else self.ticks[start:stop]
        return RowBlock(self.rows.slice(start, stop - start), ticks)


def make_block(
    spec: InputSpec,
    selection: Selection,
    columns: Sequence[pa.Array],
    last_tick: int | None,
    place: Callable[[int], str],
) -> RowBlock:
    """Combine the columns at ``selection.used`` to a block; `place` names the place of row i.

    Raises
    ------
    WeightError, InputFileError
        If a weight is not an integer; if a tick is not an integer or time, or is less than the one before it.
    """
    column_at = dict(zip(selection.used, columns, strict=True))
    rows = [column_at[position] for position in selection.rows]
    if selection.weight is not None:
        rows.append(_weights(spec, column_at[selection.weight], place))
    ticks = None if selection.tick is None else _ticks(spec, column_at[selection.tick], last_tick, place)
    return RowBlock(pa.RecordBatch.from_arrays(rows, names=list(selection.names)), ticks)


def _weights(spec: InputSpec, column: pa.Array, place: Callable[[int], str]) -> pa.Array:
    if not pa.types.is_integer(column.type):
        example = f", for example {column[0]}" if len(column) else ""
        raise WeightError(
            f"'{spec.path}': the weight column is of type {column.type}{example}.\n"
            "  Weights are integers: choose another column, or leave 'weight' out."
        )
    _no_null(column, "weight", place)
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise WeightError(f"'{spec.path}': a weight is outside int64.\n  {error}.") from None


def _ticks(spec: InputSpec, column: pa.Array, last_tick: int | None, place: Callable[[int], str]) -> Int64Array:
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        example = f", for example {column[0]}" if len(column) else ""
        raise InputFileError(
            f"'{spec.path}': the tick column is of type {kind}{example}.\n"
            "  Ticks are integers, dates or timestamps: choose another column, or use --tick-rows."
        )
    _no_null(column, "tick", place)
    if pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    ticks: Int64Array = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    before = np.concatenate([[ticks[0] if last_tick is None else last_tick], ticks[:-1]]) if len(ticks) else ticks
    if len(down := np.flatnonzero(ticks < before)):
        row = int(down[0])
        raise InputFileError(
            f"{place(row)}: tick {ticks[row]} comes after tick {before[row]}.\n"
            "  Rows follow in the order of their ticks: sort the file by that column."
        )
    return ticks


def _no_null(column: pa.Array, what: str, place: Callable[[int], str]) -> None:
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        kind = WeightError if what == "weight" else InputFileError
        raise kind(f"{place(row)}: the {what} is missing.\n  Give every row a {what}.")
