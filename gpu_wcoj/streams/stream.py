"""Streams: handles on the cells of a circuit, with a method for every operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from gpu_wcoj.errors import CircuitError, UsageError, entry_point
from gpu_wcoj.streams.aggregator import Aggregator
from gpu_wcoj.streams.aggregators import CountDistinct
from gpu_wcoj.streams.layout import Sorting
from gpu_wcoj.streams.matching import JoinShape
from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.streams.operators.aggregate import Aggregate, IncrementalAggregate, NestedAggregate
from gpu_wcoj.streams.operators.antijoin import Antijoin, incremental_antijoin
from gpu_wcoj.streams.operators.append import Append, TimedAppend
from gpu_wcoj.streams.operators.consolidate import Consolidate
from gpu_wcoj.streams.operators.count_distinct import IncrementalCountDistinct
from gpu_wcoj.streams.operators.delay import Delay
from gpu_wcoj.streams.operators.delay_trace import DelayTrace
from gpu_wcoj.streams.operators.differentiate import Differentiate
from gpu_wcoj.streams.operators.distinct import Distinct
from gpu_wcoj.streams.operators.filter import Filter, FilterRows
from gpu_wcoj.streams.operators.flat_map import FlatMap, FlatMapRows
from gpu_wcoj.streams.operators.incremental_distinct import IncrementalDistinct
from gpu_wcoj.streams.operators.incremental_join import incremental_join
from gpu_wcoj.streams.operators.index_with import IndexWith
from gpu_wcoj.streams.operators.inspect import Inspect
from gpu_wcoj.streams.operators.integrate import Integrate
from gpu_wcoj.streams.operators.join import Join
from gpu_wcoj.streams.operators.join_trace import JoinTrace
from gpu_wcoj.streams.operators.linear import Names
from gpu_wcoj.streams.operators.map import Map, MapRows, Select
from gpu_wcoj.streams.operators.minus import Minus
from gpu_wcoj.streams.operators.negate import Negate
from gpu_wcoj.streams.operators.nested_distinct import NestedDistinct
from gpu_wcoj.streams.operators.outer_join import Side, outer_join
from gpu_wcoj.streams.operators.plus import Plus
from gpu_wcoj.streams.operators.semijoin import Semijoin, incremental_semijoin

if TYPE_CHECKING:
    from gpu_wcoj.streams.node import Node
    from gpu_wcoj.streams.scope import Scope

Columns = str | int | Sequence[str | int]
_OF_TRACES = (Inspect, Negate, DelayTrace, Consolidate)
"""Operators whose first stream may be a trace."""
_WITH_TRACES = (
    IncrementalAggregate, IncrementalCountDistinct, IncrementalDistinct, JoinTrace, NestedAggregate, NestedDistinct,
)  # fmt: skip
"""Operators whose other streams may be traces."""
On = Columns | Mapping[str | int, str | int]
"""Columns of both sides, or a mapping from left to right columns."""


@entry_point
class Stream:
    """The output of a node. Its methods add nodes that read it.

    Methods named ``incremental_...`` map changes to changes: the sum of the outputs is the function of the sum of the
    inputs. In a subcircuit this holds under nested time. All other methods map the value at each time.

    Attributes
    ----------
    node
        The node of the stream.
    keys
        Number of its first columns that are a key; see `index_with`.
    sorting
        For traces, the columns for lookups.
    timed
        For traces, whether entries have times.

    Examples
    --------
    >>> from gpu_wcoj.streams import Circuit, Max
    >>> circuit = Circuit(backend="cpu")
    >>> paid = circuit.source("paid", {"who": "string", "amount": "int64"})
    >>> circuit.sink("most", paid.filter(lambda n: n < 100, of="amount").incremental_aggregate("who", Max("amount")))
    >>> circuit.step({"paid": [("Ada", 5), ("Bo", 7), ("Ada", 200)]})["most"].rows()
    [(('Ada', 5), 1), (('Bo', 7), 1)]
    >>> circuit.step({"paid": [("Ada", 9), (("Bo", 7), -1)]})["most"].rows()
    [(('Ada', 5), -1), (('Ada', 9), 1), (('Bo', 7), -1)]
    """

    def __init__(
        self, node: Node, keys: int | None = None, sorting: Sorting | None = None, timed: bool = False
    ) -> None:
        self.node, self.keys, self.sorting, self.timed = node, keys, sorting, timed

    def __repr__(self) -> str:
        return f"Stream({self.node})"

    @property
    def scope(self) -> Scope:
        """The circuit of the stream."""
        return self.node.scope

    @property
    def value(self) -> Any:
        """The present value: that of the last tick, or of the last iteration."""
        return self.node.value

    @property
    def is_trace(self) -> bool:
        """True if its values are traces."""
        return self.sorting is not None

    def named(self, name: str) -> Self:
        """Rename the node and return the stream."""
        self.node.name = name
        return self

    def _then(self, operator: Operator, *others: Stream, keys: int | None = None) -> Stream:
        for stream, takes_traces in ((self, _OF_TRACES), *((stream_read, _WITH_TRACES) for stream_read in others)):
            if stream.is_trace and not isinstance(operator, takes_traces):
                raise CircuitError(
                    f"'{operator.label}' takes Z-sets, and {stream} is a trace.\n  Use its consolidate()."
                )
        made = self.scope.add(operator, self, *others)
        made.keys = keys
        return made

    # Linear operators

    def map(self, to: Callable[..., Any] | Columns, names: Names | None = None, of: Columns | None = None) -> Stream:
        """Map every row to a row, all rows at once.

        Parameters
        ----------
        to
            A function that is called with one array per column, as in `ZSet.to_numpy`, and returns the new columns: one
            array, a tuple of arrays, or a dict. Or names or positions of columns to keep.
        names
            Names of the new columns; c0, c1, ... by default, or unchanged. A mapping from names to types sets the types
            of columns that a function returns, which matters for columns with only nulls.
        of
            The columns that the function gets; by default all.
        """
        if callable(to):
            return self._then(Map(to, names, _chosen(of)))
        return self._then(Select(_listed(to), None if names is None else tuple(names)))

    def map_rows(self, function: Callable[[tuple[Any, ...]], tuple[Any, ...]], names: Names | None = None) -> Stream:
        """Map every row to a row by a function of tuples, called row by row: slower than `map`."""
        return self._then(MapRows(function, names, None))

    def flat_map(self, function: Callable[..., Any], names: Names | None = None, of: Columns | None = None) -> Stream:
        """Map every row to any number of rows at once; the function returns ``(owner, columns)``."""
        return self._then(FlatMap(function, names, _chosen(of)))

    def flat_map_rows(self, function: Callable[..., Any], names: Names | None = None) -> Stream:
        """Map every row to any number of rows by a function from tuple to tuples."""
        return self._then(FlatMapRows(function, names, None))

    def filter(self, condition: Callable[..., Any], of: Columns | None = None) -> Stream:
        """Keep the rows for which the mask that the function returns for the columns is True."""
        return self._then(Filter(condition, _chosen(of)), keys=self.keys)

    def filter_rows(self, condition: Callable[[tuple[Any, ...]], bool]) -> Stream:
        """Keep the rows for which the function, called row by row, is True."""
        return self._then(FilterRows(condition, None), keys=self.keys)

    def index_with(self, key: Columns | Callable[..., Any], names: Names | None = None) -> Stream:
        """Put every row under a key, whose columns come first.

        Parameters
        ----------
        key
            Columns, which are moved to the front; or a function from all columns to key columns.
        names
            Names of the key columns that a function returns.
        """
        if callable(key):
            if names is None:
                raise UsageError.missing(
                    "a key function", "names for its columns", "Write index_with(function, names=[...])."
                )
            return self._then(IndexWith(key, names), keys=len(names))
        return self._then(IndexWith(_listed(key), None), keys=len(_listed(key)))

    def inspect(self, function: Callable[[Any], object]) -> Stream:
        """Return the stream itself; the function is called with every value."""
        made = self._then(Inspect(function), keys=self.keys)
        made.sorting, made.timed = self.sorting, self.timed
        return made

    def negate(self) -> Stream:
        """Return the stream with negated weights."""
        made = self._then(Negate(), keys=self.keys)
        made.sorting, made.timed = self.sorting, self.timed
        return made

    def plus(self, other: Stream) -> Stream:
        """Return the sum of two streams."""
        return self._then(Plus(), other, keys=self.keys)

    def minus(self, other: Stream) -> Stream:
        """Return the difference of two streams."""
        return self._then(Minus(), other, keys=self.keys)

    def __add__(self, other: Stream) -> Stream:
        return self.plus(other)

    def __sub__(self, other: Stream) -> Stream:
        return self.minus(other)

    def __neg__(self) -> Stream:
        return self.negate()

    def delay(self) -> Stream:
        """``z⁻¹``: the previous value of the stream; of a trace, the previous trace."""
        if self.sorting is None:
            return self._then(Delay(), keys=self.keys)
        made = self._shared(("delay", self.node), lambda: self._then(DelayTrace(self.timed)))
        made.sorting, made.timed = self.sorting, self.timed
        return made

    def differentiate(self) -> Stream:
        """``D``: the changes of the stream."""
        return self._then(Differentiate(), keys=self.keys)

    def integrate(self) -> Stream:
        """``I``: the sum of the stream so far, as a Z-set.

        In a subcircuit, over one tick's iterations.
        """
        return self._then(Integrate(), keys=self.keys)

    # Traces

    def trace(
        self,
        keys: Columns | None = (),
        *,
        by: Sequence[tuple[str | int, bool]] = (),
        timed: bool | None = None,
    ) -> Stream:
        """Return the sum of the stream so far as a trace: a tick costs the size of its change.

        Parameters
        ----------
        keys
            Columns for lookups; None for all.
        by
            Columns by which the rows of a key are sorted, True for a descending column.
        timed
            Whether entries have times; by default in subcircuits, where changes are under nested time. There, a trace
            without times sums over the iterations of one tick.
        """
        sorting = Sorting(None if keys is None else _listed(keys), tuple(by))
        timed = self.scope.depth > 0 if timed is None else timed
        operator = TimedAppend if timed else Append
        made = self._shared(("trace", self.node, sorting, timed), lambda: self._then(operator(sorting)))
        made.sorting, made.timed = sorting, timed
        return made

    def consolidate(self) -> Stream:
        """Return the rows of a trace as a Z-set."""
        self._check_trace("consolidate")
        return self._then(Consolidate())

    def _shared(self, key: object, make: Callable[[], Stream]) -> Stream:
        shared = self.scope.shared
        if key not in shared:
            shared[key] = make()
        return shared[key]

    def _check_trace(self, what: str) -> None:
        if self.sorting is None:
            raise CircuitError.mismatch(
                what, "has the wrong input", f"{self}, a stream of Z-sets", "a trace", "Use its trace()."
            )

    # Distinct and aggregates

    def distinct(self) -> Stream:
        """Return the rows of positive weight, each with weight 1."""
        return self._then(Distinct(), keys=self.keys)

    def incremental_distinct(self, trace: Stream | None = None) -> Stream:
        """Return the change of the set of rows of positive weight.

        Parameters
        ----------
        trace
            The trace of the changes: as it was before them, or, if it has times, including them and with all columns as
            keys. By default the trace of this stream.
        """
        if trace is None:
            trace = self.trace(None) if self.scope.depth else self.trace().delay()
        trace._check_trace("incremental_distinct")
        if trace.timed and (self.scope.depth == 0 or trace.sorting != Sorting(None)):
            raise CircuitError(
                f"incremental_distinct cannot use {trace}: expected a trace without times, or, in a subcircuit only,"
                " with times and all columns as keys.\n  Leave it out, or use trace(None)."
            )
        return self._then(NestedDistinct() if trace.timed and self.scope.depth else IncrementalDistinct(), trace)

    def aggregate(self, keys: Columns, aggregator: Aggregator) -> Stream:
        """Return the aggregator's rows of every group of rows that agree in the key columns."""
        return self._then(Aggregate(_listed(keys), _checked(aggregator)), keys=len(_listed(keys)))

    def incremental_aggregate(self, keys: Columns, aggregator: Aggregator) -> Stream:
        """Return the change of the aggregator's rows."""
        listed, by = _listed(keys), _checked(aggregator).sorts_by
        if self.scope.depth:
            return self._then(NestedAggregate(listed, aggregator), self.trace(listed), keys=len(listed))
        after = self.trace(listed, by=by)
        if isinstance(aggregator, CountDistinct):
            return self._then(IncrementalCountDistinct(listed, aggregator), after, keys=len(listed))
        return self._then(IncrementalAggregate(listed, aggregator), after, after.delay(), keys=len(listed))

    # Joins

    def join(self, other: Stream, on: On | None = None, select: Sequence[str] | None = None) -> Stream:
        """Join two streams on their keys; weights multiply.

        Output rows have the columns of this stream and the non-key columns of the other stream.

        Parameters
        ----------
        other
            A stream, whose values are joined time by time; or a trace, which this stream, a change, is joined with.
        on
            Columns of both streams, or a mapping from columns of this stream to columns of the other. By default the
            keys of both streams from `index_with`.
        select
            Columns to keep.
        """
        shape = self._shape(other, on, select)
        if other.sorting is None:
            return self._then(Join(shape), other)
        if other.sorting.keys is not None and on is not None and other.sorting.keys != shape.right:
            raise CircuitError(
                f"the trace {other} has the wrong keys: got {', '.join(map(str, other.sorting.keys)) or 'none'},"
                f" expected {', '.join(map(str, shape.right))} as in the join.\n  Create a trace with these keys."
            )
        return self._then(JoinTrace(shape), other)

    def incremental_join(self, other: Stream, on: On | None = None, select: Sequence[str] | None = None) -> Stream:
        """Return the change of a join from the changes of both sides; `on`, `select` as in `join`."""
        return incremental_join(self, other, self._shape(other, on, select))

    def semijoin(self, other: Stream, on: On | None = None) -> Stream:
        """Return the rows that have a match in the other stream."""
        return self._then(Semijoin(self._shape(other, on)), other, keys=self.keys)

    def incremental_semijoin(self, other: Stream, on: On | None = None) -> Stream:
        """Return the change of the rows that have a match."""
        return incremental_semijoin(self, other, self._shape(other, on))

    def antijoin(self, other: Stream, on: On | None = None) -> Stream:
        """Return the rows that have no match in the other stream."""
        return self._then(Antijoin(self._shape(other, on)), other, keys=self.keys)

    def incremental_antijoin(self, other: Stream, on: On | None = None) -> Stream:
        """Return the change of the rows that have no match."""
        return incremental_antijoin(self, other, self._shape(other, on))

    def outer_join(self, other: Stream, on: On | None = None, keep: Side = "left") -> Stream:
        """Return the join plus unmatched rows of one side or both, padded with nulls."""
        return outer_join(self, other, self._shape(other, on), _side(keep), incremental=False)

    def incremental_outer_join(self, other: Stream, on: On | None = None, keep: Side = "left") -> Stream:
        """Return the change of an outer join; `on` as in `join`, `keep` as in `outer_join`."""
        return outer_join(self, other, self._shape(other, on), _side(keep), incremental=True)

    def _shape(self, other: Stream, on: On | None, select: Sequence[str] | None = None) -> JoinShape:
        if on is None:
            right = other.keys if other.sorting is None or other.sorting.keys is None else len(other.sorting.keys)
            if self.keys is None or right is None or self.keys != right:
                raise UsageError(
                    "the join needs columns, which are missing.\n"
                    "  Write on='column', on=['a', 'b'] or on={'left': 'right'}, or index both sides with index_with."
                )
            keys = other.sorting.keys if other.sorting is not None else None
            return JoinShape(tuple(range(right)), keys or tuple(range(right)), _selected(select))
        if isinstance(on, Mapping):
            return JoinShape(tuple(on), tuple(on.values()), _selected(select))
        return JoinShape(_listed(on), _listed(on), _selected(select))


def _listed(columns: Columns) -> tuple[str | int, ...]:
    return (columns,) if isinstance(columns, (str, int)) else tuple(columns)


def _chosen(columns: Columns | None) -> tuple[str | int, ...] | None:
    return None if columns is None else _listed(columns)


def _selected(select: Sequence[str] | None) -> tuple[str, ...] | None:
    if isinstance(select, str):
        raise UsageError.wrong_type("select", select, "a list of columns", f"Write [{select!r}].")
    return None if select is None else tuple(select)


def _side(keep: Side) -> Side:
    if keep not in ("left", "right", "full"):
        raise UsageError.invalid_value("keep", keep, "'left', 'right' or 'full'")
    return keep


def _checked(aggregator: Aggregator) -> Aggregator:
    if not isinstance(aggregator, Aggregator):
        raise UsageError.wrong_type(
            "aggregator", aggregator, "an Aggregator", "Use Count(), Sum('column'), Min('column'), ..."
        )
    return aggregator
