"""Linear and bilinear operators: functions of rows, sources, delays, traces and joins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from gpu_wcoj.budget import reserve
from gpu_wcoj.data.column import Column
from gpu_wcoj.data.schema import NO_TYPE, DataType, declared_type
from gpu_wcoj.engine.ingest import arity_message, column_order, named_after, narrow_columns, read_change
from gpu_wcoj.errors import ArityError, SchemaError, TypeMismatchError, UnsupportedTypeError, UsageError
from gpu_wcoj.kernels.protocol import BoolArray, Int64Array
from gpu_wcoj.streams.device_context import NOTHING, Place, is_nothing
from gpu_wcoj.streams.operator import Node, Operator, Pending, Stateful, Time, split_by_iteration, take_due
from gpu_wcoj.streams.trace import ColumnName, Sorting, TimedTrace, Trace
from gpu_wcoj.zset.zset import ZSet, as_mask, column_positions, negate, select_columns, select_rows, take_rows, to_host

# Functions of users: what they are given, and columns made of what they return.


def input_arrays(zset: ZSet, chosen_columns: Sequence[str | int] | None = None) -> list[Any]:
    """Return a NumPy array per column, or per chosen column, masked at nulls.

    See `ZSet.to_numpy`.
    """
    from gpu_wcoj.arrow import to_numpy

    chosen = (
        zset.columns
        if chosen_columns is None
        else [zset.columns[position] for position in column_positions(zset.names, chosen_columns)]
    )
    return [to_numpy(to_host(column)) for column in chosen]


Names = Sequence[str] | Mapping[str, str]
"""Names of columns, or a mapping from names to types, for columns that may have only nulls."""


def as_names(names: Names | None) -> tuple[tuple[str, ...] | None, list[DataType | None]]:
    """Return the names, or None, and the requested type of each column."""
    if names is None:
        return None, []
    if isinstance(names, str):
        raise UsageError.wrong_type("names", names, "a list of texts", f"Write [{names!r}].")
    if isinstance(names, Mapping):
        return tuple(names), [DataType(declared_type(str(kind))) for kind in names.values()]
    labels = tuple(names)
    if len(set(labels)) < len(labels):
        twice = next(name for name in labels if labels.count(name) > 1)
        raise SchemaError.duplicate("column", twice, remedy="Name each column once.")
    return labels, [None] * len(labels)


def columns_from(
    place: Place, made: Any, given_names: Names | None, count: int, function: object
) -> tuple[tuple[str, ...], list[Column]]:
    """Return names and columns from the result of a function for `count` rows.

    The result is a dict, one array, or several arrays.
    """
    from gpu_wcoj.arrow import as_table

    names, kinds = as_names(given_names)
    if isinstance(made, (ZSet, str, bytes)) or not isinstance(made, (Mapping, np.ndarray, Iterable)):
        raise TypeMismatchError.wrong_type(f"the result of {_described(function)}", made, "arrays in a dict or a tuple")
    if isinstance(made, np.ndarray):
        made = (made,)
    if not isinstance(made, Mapping):
        parts = list(made)
        labels = [f"c{i}" for i in range(len(parts))] if names is None else list(names)
        if len(labels) != len(parts):
            raise ArityError.mismatch(
                _described(function), "returned the wrong number of columns", len(parts), f"{len(labels)}, one per name"
            )
        made = dict(zip(labels, parts, strict=True))
    elif names is not None and list(made) != list(names):
        raise ArityError.mismatch(_described(function), "returned the wrong columns", ", ".join(made), ", ".join(names))
    for name, values in made.items():
        if not hasattr(values, "__len__") or len(values) != count:
            size = len(values) if hasattr(values, "__len__") else "no"
            raise ArityError.mismatch(
                f"column '{name}' of {_described(function)}",
                "has the wrong number of values",
                size,
                f"{count}, the number of rows",
            )
    arrays = {name: values if isinstance(values, np.ndarray) else list(values) for name, values in made.items()}
    column_names, columns = as_table(
        arrays, _described(function), types=kinds, string=place.string, binary=place.binary
    )
    return column_names, [*place.moved([place.equated(column) for column in columns])]


def rows_from(
    place: Place, made: Sequence[Any], given_names: Names | None, function: object
) -> tuple[tuple[str, ...], list[Column]]:
    """Return names and columns of the rows that a function returned, at least one."""
    names, _ = as_names(given_names)
    for row in made:
        if not isinstance(row, tuple):
            raise TypeMismatchError.wrong_type(f"the result of {_described(function)}", row, "a tuple")
    width = len(made[0])
    if names is not None and len(names) != width:
        raise ArityError.mismatch(
            f"a row of {_described(function)}", "has the wrong number of values", width, f"{len(names)}, one per name"
        )
    if any(len(row) != width for row in made):
        different = next(row for row in made if len(row) != width)
        raise ArityError(
            f"{_described(function)} returned rows that differ in length: got {made[0]!r} and {different!r}."
        )
    labels = [f"c{i}" for i in range(width)] if names is None else list(names)
    if not labels:
        return (), []
    values = {label: [row[position] for row in made] for position, label in enumerate(labels)}
    return columns_from(place, values, given_names, len(made), function)


def _described(function: object) -> str:
    if isinstance(function, Callable):  # type: ignore[arg-type]  # mypy takes it for no class
        return f"the function '{getattr(function, '__name__', type(function).__name__)}'"
    return str(function)


class Select(Operator):
    """``out(r) = sum of in(s) over all s with r = columns of s``. Linear."""

    def __init__(self, columns: Sequence[str | int], names: Sequence[str] | None = None) -> None:
        self.columns, self.names = tuple(columns), None if names is None else tuple(names)

    def evaluate(self, rows: ZSet) -> ZSet:
        """Return the rows with these columns only."""
        if is_nothing(rows):
            return rows
        return select_columns(rows, column_positions(rows.names, self.columns), self.names)

    @property
    def label(self) -> str:
        """A short description of the operator."""
        return f"map to {', '.join(map(str, self.columns)) or 'no columns'}"


class Map(Operator):
    """``out(r) = sum of in(s) over all s with r = f(s)``: weights of equal rows add. Linear."""

    def __init__(self, function: Callable[..., Any], names: Names | None, columns: Sequence[str | int] | None) -> None:
        self.function, self.names, self.columns = function, names, columns

    def evaluate(self, rows: ZSet) -> ZSet:
        """Return the mapped rows."""
        if not len(rows):
            return NOTHING
        names, columns = self._columns(rows)
        return self.place.made(names, columns, rows.stored_weights if columns else rows.weights)

    def _columns(self, rows: ZSet) -> tuple[tuple[str, ...], list[Column]]:
        returned = self.function(*input_arrays(rows, self.columns))
        return columns_from(self.place, returned, self.names, len(rows), self.function)


class MapRows(Map):
    """The same with a function of one row, called for each row. Linear."""

    def _columns(self, rows: ZSet) -> tuple[tuple[str, ...], list[Column]]:
        made = [self.function(row) for row, _ in rows.rows()]
        return rows_from(self.place, made, self.names, self.function)


class Filter(Operator):
    """``out(r) = in(r) if condition(r) else 0``. Linear.

    The condition of the columns returns a mask. A null in it counts as False.
    """

    def __init__(self, condition: Callable[..., Any], columns: Sequence[str | int] | None) -> None:
        self.condition, self.columns = condition, columns

    def evaluate(self, rows: ZSet) -> ZSet:
        """Return the rows for which the condition holds."""
        if not len(rows):
            return rows
        mask = self._mask(rows)
        return select_rows(rows, self.place.backend.asarray(mask) if rows.columns else mask)

    def _mask(self, rows: ZSet) -> BoolArray:
        return as_mask(self.condition(*input_arrays(rows, self.columns)), len(rows))


class FilterRows(Filter):
    """The same with a function of one row, which returns True or False. Linear."""

    def _mask(self, rows: ZSet) -> BoolArray:
        answers = [self.condition(row) for row, _ in rows.rows()]
        for answer in answers:
            if not isinstance(answer, (bool, np.bool_)):
                raise UsageError.wrong_type("the result of the condition", answer, "True or False")
        return np.array(answers, bool)


_Made = tuple[Int64Array, tuple[str, ...], list[Column]]
"""Index of the source row of each new row, names of the new columns, and the new columns."""


class FlatMap(Operator):
    """``out(r) = sum of in(s) · (multiplicity of r in f(s))``. Linear.

    The function of columns returns ``(owner, columns)``: the index of the source row of each new row, and the columns.
    """

    def __init__(self, function: Callable[..., Any], names: Names | None, columns: Sequence[str | int] | None) -> None:
        self.function, self.names, self.columns = function, names, columns

    def evaluate(self, rows: ZSet) -> ZSet:
        """Return the rows made of all rows."""
        if not len(rows):
            return NOTHING
        owner, names, columns = self._columns(rows)
        if not len(owner):
            return NOTHING
        weights = rows.weights[owner]
        return self.place.made(names, columns, self.place.backend.asarray(weights) if columns else weights)

    def _columns(self, rows: ZSet) -> _Made:
        owner, made = self._called(rows)
        if not len(owner):
            return owner, (), []
        names, columns = columns_from(self.place, made, self.names, len(owner), self.function)
        return owner, names, columns

    def _called(self, rows: ZSet) -> tuple[Any, Any]:
        returned = self.function(*input_arrays(rows, self.columns))
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise UsageError.wrong_type(
                "the result of the function of flat_map",
                returned,
                "(owner, columns)",
                "Return the index of the source row of each new row as owner, or use flat_map_rows for single rows.",
            )
        owner = np.asarray(returned[0])
        if owner.ndim != 1 or (len(owner) and owner.dtype.kind not in "iu"):
            raise UsageError.wrong_type("the owner of flat_map", returned[0], "a one-dimensional array of integers")
        if len(owner) and (int(owner.min()) < 0 or int(owner.max()) >= len(rows)):
            bounds = f"{int(owner.min())} to {int(owner.max())}"
            raise UsageError.mismatch(
                "the owner of flat_map", "is out of range", bounds, f"row indices from 0 to {len(rows) - 1}"
            )
        return owner.astype(np.int64), returned[1]


class FlatMapRows(FlatMap):
    """The same with a function of one row, which returns the rows made of it. Linear."""

    def _columns(self, rows: ZSet) -> _Made:
        lists = [list(self.function(row)) for row, _ in rows.rows()]
        owner = np.repeat(np.arange(len(lists)), [len(made) for made in lists])
        made = [row for new_rows in lists for row in new_rows]
        if not made:
            return owner, (), []
        names, columns = rows_from(self.place, made, self.names, self.function)
        return owner, names, columns


class IndexWith(Operator):
    """``out(key(r), r) = in(r)``: the key columns come first. Linear.

    A key of columns moves these to the front; a key that a function makes of the columns is put before all of them.
    """

    def __init__(self, key: Sequence[str | int] | Callable[..., Any], names: Names | None) -> None:
        self.key, self.names = key, names

    def evaluate(self, rows: ZSet) -> ZSet:
        """Return the rows, sorted by their keys."""
        if is_nothing(rows):
            return rows
        if not callable(self.key):
            keys = column_positions(rows.names, self.key)
            remaining = [position for position in range(len(rows.names)) if position not in keys]
            return select_columns(rows, [*keys, *remaining])
        if not len(rows):
            return NOTHING
        names, columns = columns_from(self.place, self.key(*input_arrays(rows)), self.names, len(rows), self.key)
        return self.place.made([*names, *rows.names], [*columns, *rows.columns], rows.stored_weights)


class Negate(Operator):
    """``out(r) = -in(r)``, at the same time. Linear."""

    def evaluate(self, rows: ZSet | Trace | TimedTrace) -> ZSet | Trace | TimedTrace:
        """Return the rows with negated weights; entries of a trace keep their times."""
        if isinstance(rows, TimedTrace):
            return TimedTrace(self._negated(rows.earlier), self._negated(rows.present))
        return self._negated(rows) if isinstance(rows, Trace) else negate(rows)

    def _negated(self, trace: Trace) -> Trace:
        return Trace(trace.place, trace.sorting).append(negate(trace.consolidated()))


class Plus(Operator):
    """``out(r) = left(r) + right(r)``, with the names of `left`. Linear in both together."""

    def evaluate(self, left: ZSet, right: ZSet) -> ZSet:
        """Return the sum."""
        return self.place.plus(left, right)


class Minus(Operator):
    """``out(r) = left(r) - right(r)``, with the names of `left`. Linear in both together."""

    def evaluate(self, left: ZSet, right: ZSet) -> ZSet:
        """Return the difference."""
        return self.place.minus(left, right)


class Inspect(Operator):
    """``out = in``; a function is called with the value once per tick or iteration. Linear."""

    def __init__(self, function: Callable[[Any], object]) -> None:
        self.function = function

    def evaluate(self, value: Any) -> Any:
        """Return the value itself."""
        self.function(value)
        return value


# Sources: input from outside, or from a function of time.


class Source(Operator):
    """The input for a name in a tick as a Z-set; empty if there is none."""

    state: tuple[ZSet, tuple[str, ...] | None] = NOTHING, None
    """An empty Z-set with the known columns, which keep their first names, and the names of the last table or None."""

    def __init__(self, name: str, schema: Mapping[str, str] | None) -> None:
        self.name, self.schema = name, schema
        self.data: Any = None

    def clock_start(self, scope: int) -> None:
        """Set the declared columns before the first tick."""
        if scope == 0 and self.schema is not None:
            self.state = self.place.adopted(ZSet.empty(list(self.schema), list(self.schema.values()))), (*self.schema,)

    def evaluate(self) -> ZSet:
        """Return the rows of this tick."""
        empty, table_names = self.state
        if self.data is None:
            return empty
        rows = as_zset(self.place, self.data, self.name, empty, table_names, self.schema is not None)
        if not rows.columns and not len(rows):
            return empty
        names = named_after(rows.names, table_names)
        if empty.columns:
            rows = self._in_known_columns(rows, empty, table_names)
        self.state = (take_rows(rows, slice(0)), names) if rows.columns else (NOTHING, None)
        return rows

    def _in_known_columns(self, rows: ZSet, empty: ZSet, table_names: tuple[str, ...] | None) -> ZSet:
        """Return the rows in the known columns; a table's columns are already in their order."""
        if len(rows.columns) != len(empty.names):
            raise ArityError(arity_message(self.name, len(empty.names), rows.names, table_names))
        if isinstance(self.data, ZSet):
            rows = select_columns(rows, column_order(self.name, rows.names, table_names, self.schema is not None))
        columns = rows.columns
        if self.schema is not None:
            narrow = narrow_columns(self.name, empty.names, columns, [column.type for column in empty.columns])
            columns = tuple(self.place.moved(narrow))
        return self.place.plus(empty, self.place.trusted(empty.names, columns, rows.stored_weights))

    @property
    def label(self) -> str:
        """A short description of the operator."""
        return f"source '{self.name}'"


class Generate(Operator):
    """A function of the time."""

    def __init__(self, function: Callable[[Time], Any]) -> None:
        self.function = function

    def evaluate(self) -> Any:
        """Return the function's value at the present time."""
        made = self.function(self.time)
        return as_zset(self.place, made, "the generator")

    @property
    def settled(self) -> bool:
        """False: the next value is unknown, so `until` of the subcircuit ends it."""
        return False


def as_zset(
    place: Place,
    data: Any,
    name: str,
    like: ZSet = NOTHING,
    table_names: tuple[str, ...] | None = None,
    is_declared: bool = False,
) -> ZSet:
    """Return a Z-set, a table with a column ``weight``, or rows as a Z-set of the circuit.

    Parameters
    ----------
    like
        The columns, as far as they are known.
    table_names, is_declared
        By what names tables have them; see `column_order`. The columns of a Z-set stay as they are.
    """
    if isinstance(data, ZSet):
        return place.adopted(data)
    arity, kinds = len(like.columns) or None, [column.type for column in like.columns]
    dictionaries = place.string, place.binary
    rows = read_change(name, data, arity, table_names, kinds, dictionaries, is_declared=is_declared)
    if not rows.names:
        return NOTHING
    for column_name, column in zip(rows.names, rows.columns, strict=True):
        if column.type.name == NO_TYPE:
            raise UnsupportedTypeError.with_parts(
                f"'{name}', column '{column_name}', holds nothing but nulls, so it has no type",
                remedy="Give the column a type where it is created.",
            )
    return place.adopted(ZSet.from_columns(rows.names, rows.columns, rows.weights))


class Sink(Operator):
    """``out = in``; without rows, the columns seen so far. Linear."""

    state: ZSet = NOTHING
    """The columns, as far as they are known; no rows."""

    def clock_start(self, scope: int) -> None:
        """Reset at the start of the operator's clock."""
        if scope == 0:
            self.state = NOTHING

    def evaluate(self, value: Any) -> Any:
        """Return the value."""
        if not isinstance(value, ZSet):
            return value
        if is_nothing(value):
            return self.state
        if value.columns:
            self.state = take_rows(value, slice(0))
        return value


class Delay(Stateful):
    """``z⁻¹(s)[t] = s[t - 1]``, and 0 before the first tick or iteration. Linear."""

    def evaluate(self, rows: ZSet) -> ZSet:
        """Return the previous value."""
        before: ZSet = self.state[0]
        self.state = rows, self.is_same(before, rows)
        return before


class DelayTrace(Delay):
    """The trace before this tick's, or this iteration's, change. Linear.

    A trace that sums along one clock begins with 0 whenever that clock starts. One that keeps times goes over all
    ticks, and so does its delay: at iteration 0 it is what the tick before left.

    Attributes
    ----------
    timed
        Whether the trace keeps times.
    """

    def __init__(self, timed: bool) -> None:
        self.timed = timed

    def initial(self) -> Trace | TimedTrace:
        """Return the empty trace."""
        return TimedTrace.empty(self.place) if self.timed else Trace(self.place)

    def clock_start(self, scope: int) -> None:
        """Reset to an empty trace at the start of the trace's clock."""
        super().clock_start(scope - self.scope.depth if self.timed else scope)

    def evaluate(self, trace: Trace | TimedTrace) -> Trace | TimedTrace:  # type: ignore[override]  # no rows
        """Return the trace of the previous call."""
        before: Trace | TimedTrace = self.state[0]
        self.state = trace, before is trace
        return before


# Imports into a subcircuit: δ0, and constant values.


class Introduce(Stateful):
    """``δ0(x)``: a value of the parent circuit at iteration 0, else 0. Linear."""

    def evaluate(self, value: ZSet) -> ZSet:
        """Return the value at iteration 0, else no rows."""
        now = value if self.time.iteration == 0 else NOTHING
        if self.time.iteration and value.columns:
            now = take_rows(value, slice(0))
        self.state = NOTHING, not len(now)
        return now


class Hold(Operator):
    """A value of the parent circuit, constant over all iterations. Linear."""

    def evaluate(self, value: Any) -> Any:
        """Return the value."""
        return value


# Feedbacks, which close loops, and streams that are defined later.


class Feedback(Stateful):
    """``z⁻¹`` whose input is read after the round, so that it may depend on its output. Linear.

    Attributes
    ----------
    source
        The node that it is given; None as long as it is not connected.
    """

    def __init__(self) -> None:
        self.source: Node | None = None

    def evaluate(self) -> ZSet:
        """Return the input of the previous time."""
        before: ZSet = self.state[0]
        return before

    def latch(self, value: ZSet) -> None:
        """Store the input for the next time."""
        self.state = value, self.is_same(self.state[0], value)


class Forward(Operator):
    """``out = in``, connected later. Linear."""

    def __init__(self) -> None:
        self.source: Node | None = None

    def evaluate(self, value: ZSet) -> ZSet:
        """Return the value."""
        return value


class Append(Stateful):
    """``out[t] = out[t - 1] + in[t]`` as a trace: the sum along the stream's clock. Linear.

    A tick costs what its change holds, and the logarithm of the whole.
    """

    def __init__(self, sorting: Sorting = Sorting()) -> None:  # noqa: B008  # it is immutable
        self.sorting = sorting

    def initial(self) -> Trace | TimedTrace:
        """Return the empty trace."""
        return Trace(self.place, self.sorting)

    def evaluate(self, change: ZSet) -> Trace | TimedTrace:
        """Return the trace with the change."""
        trace: Trace = self.state[0].append(change)
        self.state = trace, not len(change)
        return trace


class TimedAppend(Append):
    """``out = out + in`` as a trace whose entries keep their times, over all ticks. Linear.

    In a subcircuit, an entry keeps its iteration, and this tick's stand apart from those of earlier ticks. Outside,
    an entry keeps its tick.
    """

    def initial(self) -> TimedTrace:
        """Return the empty trace."""
        return TimedTrace.empty(self.place, self.sorting)

    def clock_start(self, scope: int) -> None:
        """Start with an empty trace on the outermost clock.

        At each tick, the present becomes earlier.
        """
        if scope == self.scope.depth:
            super().clock_start(0)
        elif scope == 0:
            self.state = self.state[0].next_tick(), True

    def evaluate(self, change: ZSet) -> TimedTrace:
        """Return the trace with the change at this time."""
        time = self.time
        trace: TimedTrace = self.state[0].append(change, time.iteration if self.scope.depth else time.tick)
        self.state = trace, not len(change)
        return trace


class Consolidate(Operator):
    """``out(r) = sum of the weights of all entries of r`` over all times. Linear.

    O(rows of the trace).
    """

    def evaluate(self, trace: Trace | TimedTrace) -> ZSet:
        """Return all rows of the trace."""
        return trace.consolidated()


# Pairs of rows with equal keys: the common part of all joins of two streams.


@dataclass(frozen=True)
class JoinShape:
    """The key columns and the output columns of a join of two streams.

    Output rows have the columns of the left, then the non-key columns of the right, with the suffix ``_right`` if the
    name is taken.

    Attributes
    ----------
    left, right
        The key columns of both sides, pair by pair.
    select
        The output columns by name; None for all.
    """

    left: tuple[ColumnName, ...]
    right: tuple[ColumnName, ...]
    select: tuple[str, ...] | None = None

    def __str__(self) -> str:
        return ", ".join(f"{left} = {right}" for left, right in zip(self.left, self.right, strict=True))

    @property
    def mirrored(self) -> JoinShape:
        """The shape of the join from the right to the left."""
        return JoinShape(self.right, self.left)

    def output(self, left: Sequence[str], right: Sequence[str]) -> tuple[list[str], list[tuple[bool, int]]]:
        """Return the names of the output columns, and for each its side (True: left) and position."""
        keys = column_positions(right, self.right, "the right of the join")
        names, sources = list(left), [(True, position) for position in range(len(left))]
        for column, name in enumerate(right):
            if column not in keys:
                while name in names:
                    name += "_right"
                names.append(name)
                sources.append((False, column))
        if self.select is None:
            return names, sources
        chosen = column_positions(names, self.select, "the join")
        return [names[position] for position in chosen], [sources[position] for position in chosen]


def match_rows(
    place: Place, shape: JoinShape, change: ZSet, trace: Trace | TimedTrace, change_is_left: bool, now: int | None
) -> list[tuple[int, ZSet]]:
    """Return all pairs of a change row and a trace row with equal keys, by iteration.

    Parameters
    ----------
    now
        The iteration of the change; None if the trace's times do not count.
    """
    if not len(change) or not (trace.names or len(trace)):  # rows without columns are rows
        return []
    key_positions = column_positions(change.names, shape.left if change_is_left else shape.right)
    entries = trace.below([change.columns[position] for position in key_positions], count=len(change))
    if entries is None or not len(entries.owner):
        return []
    left, right = (change.names, trace.names) if change_is_left else (trace.names, change.names)
    names, sources = shape.output(left, right)
    if place.backend.device is None:
        n_rows = len(entries.owner)
        reserve(8 * n_rows * (len(sources) + 4), "joining", n_rows)
    columns = [
        change.columns[position].gather(entries.owner) if is_left == change_is_left else entries.columns[position]
        for is_left, position in sources
    ]
    weights = place.backend.asarray(change.stored_weights)[entries.owner], entries.weights
    if now is None:
        return [(0, place.exact(names, columns, *weights))]
    return split_by_iteration(place, names, columns, weights, entries.columns[-1].stored, now)


def keyed(place: Place, rows: ZSet, keys: Sequence[ColumnName]) -> Trace:
    """Return the rows of a Z-set as a trace, for lookup by these columns."""
    return Trace(place, Sorting(tuple(keys))).append(rows)


def has_match(place: Place, shape: JoinShape, left: ZSet, right: ZSet) -> Int64Array:
    """Return the left rows whose key has a positive sum of weights on the right."""
    nothing: Int64Array = place.xp.zeros(0, np.int64)
    if is_nothing(right) or not len(left):
        return nothing
    keys = select_columns(right, column_positions(right.names, shape.right, "the right of the join"))
    keys = select_rows(keys, keys.stored_weights > 0)
    key_columns = [
        left.columns[position] for position in column_positions(left.names, shape.left, "the left of the join")
    ]
    matches = keyed(place, keys, range(len(shape.right))).below(key_columns, count=len(left))
    if matches is None:
        return nothing
    rows: Int64Array = place.xp.sort(matches.owner)
    return rows


def pad_rows(place: Place, shape: JoinShape, rows: ZSet, other_side: ZSet, rows_are_left: bool) -> ZSet:
    """Return rows of one side without a match as rows of an outer join, padded with nulls."""
    if not len(rows):
        return NOTHING
    if not other_side.columns:
        raise UsageError(
            "an outer join has rows without a match, but the columns of the other side are unknown.\n"
            "  Declare them: source(name, schema={'column': 'type', ...}). Behind an aggregate, a join, a delay or\n"
            "  a map they are known from its first row on."
        )
    left, right = (rows, other_side) if rows_are_left else (other_side, rows)
    names, sources = shape.output(left.names, right.names)
    pairs = dict(zip(column_positions(left.names, shape.left), column_positions(right.names, shape.right), strict=True))
    columns: list[Column] = []
    for is_left, position in sources:
        if is_left == rows_are_left:
            columns.append(rows.columns[position])
        elif is_left and position in pairs:
            columns.append(rows.columns[pairs[position]])
        else:
            columns.append(place.nulls(other_side.columns[position], len(rows)))
    return place.made(names, columns, rows.stored_weights)


class Join(Operator):
    """``out(l, r) = left(l) · right(r)`` for equal keys; null equals nothing. Bilinear.

    It pairs what the two streams hold at one time. O(rows of both, and of the result), times a logarithm.
    """

    def __init__(self, shape: JoinShape) -> None:
        self.shape = shape

    def evaluate(self, left: ZSet, right: ZSet) -> ZSet:
        """Return all pairs."""
        if not len(left) or not len(right):
            return NOTHING
        pairs = match_rows(self.place, self.shape, left, keyed(self.place, right, self.shape.right), True, None)
        return pairs[0][1] if pairs else NOTHING

    @property
    def label(self) -> str:
        """A short description of the operator."""
        return f"join on {self.shape}"


class JoinTrace(Pending):
    """``out(l, r) = change(l) · trace(r)`` for equal keys; null equals nothing. Bilinear.

    With a trace that keeps times, in a subcircuit, a pair belongs to the later of both iterations, and waits for it.
    O(rows of the change, and of the result), times a logarithm of the trace.

    Parameters
    ----------
    change_is_left
        Whether the change is on the left of the join.
    """

    def __init__(self, shape: JoinShape, change_is_left: bool = True) -> None:
        self.shape, self.change_is_left = shape, change_is_left

    def evaluate(self, change: ZSet, trace: Trace | TimedTrace) -> ZSet:
        """Return all pairs of this time."""
        is_timed = isinstance(trace, TimedTrace) and self.scope.depth > 0
        now = self.time.iteration if is_timed else 0
        results = match_rows(self.place, self.shape, change, trace, self.change_is_left, now if is_timed else None)
        out, self.state = take_due(self.place, self.state, results, now)
        return out

    @property
    def label(self) -> str:
        """A short description of the operator."""
        return f"join with a trace on {self.shape}"


class Semijoin(Operator):
    """``out(l) = left(l) · d(sum of right(r) with l's key)``.

    Linear in the left, not in the right.
    """

    def __init__(self, shape: JoinShape) -> None:
        self.shape = shape

    def evaluate(self, left: ZSet, right: ZSet) -> ZSet:
        """Return the rows that have a match."""
        return take_rows(left, has_match(self.place, self.shape, left, right)) if len(left) else left


# Antijoin: the rows of one stream that have no match in another.


class Antijoin(Semijoin):
    """``out = left - semijoin(left, right)``; a null key has no match. Linear in the left only."""

    def evaluate(self, left: ZSet, right: ZSet) -> ZSet:
        """Return the rows that have no match."""
        if not len(left):
            return left
        without = self.place.xp.ones(len(left), np.bool_)
        without[has_match(self.place, self.shape, left, right)] = False
        return select_rows(left, without)


Side = Literal["left", "right", "full"]


class Pad(Operator):
    """Rows of one side of an outer join, padded with nulls for the other side. Linear.

    Parameters
    ----------
    rows_are_left
        Of which side the rows are.
    """

    state: ZSet = NOTHING
    """The other side's columns, as far as they are known; no rows."""

    def __init__(self, shape: JoinShape, rows_are_left: bool) -> None:
        self.shape, self.rows_are_left = shape, rows_are_left

    def evaluate(self, rows: ZSet, other_side: ZSet) -> ZSet:
        """Return the padded rows."""
        if other_side.columns:
            self.state = self.place.plus(take_rows(other_side, slice(0)), self.state)
        return pad_rows(self.place, self.shape, rows, self.state, self.rows_are_left)
