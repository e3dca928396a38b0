"""Selection of a file's columns for the row, the weight and the tick."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gpu_wcoj.arrow.change_feeds import may_be_feed
from gpu_wcoj.data.column import Int64Array
from gpu_wcoj.data.rows import weight_among, weight_name
from gpu_wcoj.errors import InputFileError, MemoryBudgetError, UsageError, WeightError, counted, listed, nearest
from gpu_wcoj.files.formats import too_few
from gpu_wcoj.files.spec import ColumnName, InputSpec
from gpu_wcoj.units import format_bytes, machine_memory, parse_bytes

WEIGHT = "weight"


@dataclass(frozen=True)
class Selection:
    """Positions of columns in a file.

    Attributes
    ----------
    rows
        The columns of the relation, in its order.
    weight, tick
        The column of weights and that of ticks; None if there is none.
    names
        What the columns of `rows` are called on the way in, then ``"weight"`` if there are weights, or ``"_weight"``
        beside a column of that name.
    own_names
        What the file calls the columns of `rows`; None if it gives no names.
    """

    rows: tuple[int, ...]
    weight: int | None
    tick: int | None
    names: tuple[str, ...]
    own_names: tuple[str, ...] | None = None

    @property
    def used(self) -> tuple[int, ...]:
        """Every position in use, without duplicates, ascending."""
        extra = (position for position in (self.weight, self.tick) if position is not None)
        return tuple(sorted({*self.rows, *extra}))


def select(spec: InputSpec, n_columns: int, names: Sequence[str] | None, arity: int | None, changes: bool) -> Selection:
    """Select the columns of `spec` among `n_columns`, whose names, if any, are `names`.

    Without ``columns`` these are all but weight and tick. Among changes, one column too many that is called
    ``weight`` is the weight; where no number of columns is asked for (`arity` is None), any that is called so. Changes
    in a known format may have the columns of the format, too.

    Raises
    ------
    UsageError
        If a column is not there, or the number of columns is not `arity`.
    """
    weight = None if spec.weight is None else _position(spec, spec.weight, n_columns, names)
    tick = None if spec.tick is None else _position(spec, spec.tick, n_columns, names)
    if spec.declared is not None and arity is not None and n_columns < arity:
        raise UsageError(
            f"relation '{spec.relation}' has {counted(arity, 'column')}, but '{spec.path}' has {n_columns}.\n"
            f"  {too_few(spec)}."
        )
    if spec.columns is not None:
        rows = tuple(_position(spec, column, n_columns, names) for column in spec.columns)
    else:
        rows = tuple(position for position in range(n_columns) if position not in (weight, tick))
        if changes and weight is None and names is not None and WEIGHT in names and arity in (None, len(rows) - 1):
            weight = names.index(weight_among(names) or WEIGHT)
            rows = tuple(position for position in rows if position != weight)
    is_feed = changes and names is not None and weight is None and arity is not None and may_be_feed(names, arity)
    if arity is not None and len(rows) != arity and not is_feed:
        raise UsageError(_wrong_arity(spec, len(rows), n_columns, names, arity, weight, tick))
    program_names = [name for name, _ in spec.declared or spec.expected]
    if names is not None and spec.columns is None and len(program_names) == len(rows):
        own_names = [names[position] for position in rows]
        if own_names != program_names and sorted(own_names) == sorted(program_names):
            rows = tuple(rows[own_names.index(name)] for name in program_names)
    file_names = None if names is None else tuple(names[position] for position in rows)
    if file_names is not None and spec.declared and not {name for name, _ in spec.declared} & {*file_names}:
        file_names = None
    called = _names(file_names, len(rows))
    return Selection(rows, weight, tick, (*called, weight_name(called)) if weight is not None else called, file_names)


def fields_of_empty_file(spec: InputSpec, arity: int | None) -> int | None:
    """Return the number of fields per line of a file without lines, by options or relation.

    None where neither does.

    Examples
    --------
    >>> from pathlib import Path
    >>> edges = InputSpec("edge", Path("e.txt"), weight=2)
    >>> fields_of_empty_file(edges, 2), fields_of_empty_file(edges, None)
    (3, None)
    >>> fields_of_empty_file(InputSpec("edge", Path("e.txt"), columns=(4, 0)), None)
    5
    """
    beside = [column for column in (spec.weight, spec.tick) if column is not None]
    if spec.columns is None:
        return None if arity is None else arity + len(beside)
    return 1 + max((column for column in (*spec.columns, *beside) if isinstance(column, int)), default=0)


def _position(spec: InputSpec, column: ColumnName, n_columns: int, names: Sequence[str] | None) -> int:
    if isinstance(column, int):
        if column < n_columns:
            return column
        raise UsageError(
            f"'{spec.path}' has no column {column}: it has {n_columns}.\n"
            f"  Columns are counted from 0, so 0 to {n_columns - 1} are allowed."
        )
    if names is None:
        raise UsageError(
            f"'{spec.path}' has no column '{column}': its columns have no names.\n"
            "  Give positions, counted from 0, or header=yes if its first line holds the names."
        )
    if names.count(column) > 1:
        raise UsageError(
            f"'{spec.path}' has {counted(names.count(column), 'column')} called '{column}'.\n  Give a position from 0."
        )
    if column not in names:
        raise UsageError(
            f"'{spec.path}' has no column '{column}'.\n  Its columns are: {listed(names)}.{nearest(column, names)}"
        )
    return names.index(column)


def _names(file_names: tuple[str, ...] | None, n_columns: int) -> tuple[str, ...]:
    if file_names is not None and len(set(file_names)) == len(file_names):
        return file_names
    return numbered(n_columns)


def numbered(n_columns: int) -> tuple[str, ...]:
    """Return names for columns without names."""
    return tuple(f"c{i}" for i in range(n_columns))


def _wrong_arity(
    spec: InputSpec,
    n_rows: int,
    n_columns: int,
    names: Sequence[str] | None,
    arity: int,
    weight: int | None,
    tick: int | None,
) -> str:
    named = "" if names is None else f" ({listed(names)})"
    if spec.columns is None:
        extra_columns = [what for what, position in (("weight", weight), ("tick", tick)) if position is not None]
        left = f", {n_rows} beside {' and '.join(extra_columns)}" if extra_columns else ""
        hint = f"Choose {arity} of them by position or name, as in '{spec}?columns={','.join(map(str, range(arity)))}'"
        if n_columns < arity:
            hint = too_few(spec)
        there = f"'{spec.path}' has {n_columns}{named}{left}"
        return f"relation '{spec.relation}' has {counted(arity, 'column')}, but {there}.\n  {hint}."
    return (
        f"relation '{spec.relation}' has {counted(arity, 'column')}, but 'columns' of '{spec.path}' chooses {n_rows}.\n"
        f"  Choose {arity}."
    )


# A piece of a file on its way to a tick: rows, with validated weights and ticks.


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


# The memory budget of file readers, and the error of exceeding it.


VARIABLE = "GPU_WCOJ_MEMORY_BUDGET"


def memory_budget(amount: str | None = None) -> int:
    """Return the maximum bytes of rows in memory while reading.

    It is `amount`, else the environment's, else half of the memory.

    The memory is that of the machine, or of the control group where that is less.
    """
    text = amount or os.environ.get(VARIABLE)
    if text:
        return parse_bytes(text, "--memory" if amount else VARIABLE)
    return machine_memory() // 2


def over_budget(what: str, need: int, budget: int) -> MemoryBudgetError:
    """Return the error for data that needs more than the budget."""
    return MemoryBudgetError(
        f"{what} takes {format_bytes(need)} of memory or more; the budget is {format_bytes(budget)}.\n"
        f"  If the data is meant to be this large, raise it with --memory or {VARIABLE}; "
        "or feed it in ticks with --changes."
    )
