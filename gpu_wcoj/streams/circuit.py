"""Circuits: sources, operators and sinks, stepped tick by tick, and subcircuits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self, cast

from gpu_wcoj.backend import Backend, BackendName, select_backend
from gpu_wcoj.data.column import Dictionary
from gpu_wcoj.data.schema import declared_type
from gpu_wcoj.engine.options import validate_positive
from gpu_wcoj.errors import CircuitError, IterationLimitError, UnknownRelationError, UsageError, entry_point
from gpu_wcoj.locks import NotCopied, StateLock
from gpu_wcoj.query.ir import Rule
from gpu_wcoj.streams.aggregators import (
    Aggregate,
    Aggregator,
    Distinct,
    IncrementalAggregate,
    IncrementalDistinct,
    NestedAggregate,
    NestedDistinct,
)
from gpu_wcoj.streams.device_context import Place
from gpu_wcoj.streams.linear import (
    Antijoin,
    Append,
    Consolidate,
    Delay,
    DelayTrace,
    Feedback,
    Filter,
    FilterRows,
    FlatMap,
    FlatMapRows,
    Forward,
    Generate,
    Hold,
    IndexWith,
    Inspect,
    Introduce,
    Join,
    JoinShape,
    JoinTrace,
    Map,
    MapRows,
    Minus,
    Names,
    Negate,
    Pad,
    Plus,
    Select,
    Semijoin,
    Side,
    Sink,
    Source,
    TimedAppend,
)
from gpu_wcoj.streams.multiway import Multiway
from gpu_wcoj.streams.operator import Kind, Node, Operator, OperatorScope, Time, in_order
from gpu_wcoj.streams.trace import Sorting
from gpu_wcoj.zset.arrays import within_memory

# Streams: handles on the cells of a circuit, with a method for every operator.


Columns = str | int | Sequence[str | int]
_OF_TRACES = (Inspect, Negate, DelayTrace, Consolidate)
"""Operators whose first stream may be a trace."""
_WITH_TRACES = (
    IncrementalAggregate, IncrementalDistinct, JoinTrace, NestedAggregate, NestedDistinct,
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
        return cast("Scope", self.node.scope)  # every node is made by a Scope

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

    def _then(self, operator: Operator, *others: Stream, keys: int | None = None, like: Stream | None = None) -> Stream:
        """Return the output of a new node; a trace if `like` is one."""
        for stream, takes_traces in ((self, _OF_TRACES), *((stream_read, _WITH_TRACES) for stream_read in others)):
            if stream.is_trace and not isinstance(operator, takes_traces):
                raise CircuitError(
                    f"'{operator.label}' takes Z-sets, and {stream} is a trace.\n  Use its consolidate()."
                )
        made = self.scope.add(operator, self, *others)
        return made if like is None and keys is None else made._typed(keys, like)

    def _typed(self, keys: int | None, like: Stream | None = None) -> Self:
        self.keys = keys
        if like is not None:
            self.sorting, self.timed = like.sorting, like.timed
        return self

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

        Examples
        --------
        >>> circuit = Circuit(backend="cpu")
        >>> r = circuit.source("r")
        >>> circuit.sink("out", r.map(lambda a, b: (a + b,), names=["sum"]))
        >>> circuit.step({"r": [(1, 2), (1, 3)]})["out"].rows()
        [((3,), 1), ((4,), 1)]
        """
        if callable(to):
            return self._then(Map(to, names, _chosen(of)))
        return self._then(Select(_listed(to), None if names is None else tuple(names)))

    def map_rows(self, function: Callable[[tuple[Any, ...]], tuple[Any, ...]], names: Names | None = None) -> Stream:
        """Map every row to a row by a function of tuples, called row by row: slower than `map`.

        Examples
        --------
        >>> circuit = Circuit(backend="cpu")
        >>> r = circuit.source("r")
        >>> circuit.sink("out", r.map_rows(lambda row: (row[0] + row[1],)))
        >>> circuit.step({"r": [(1, 2), (1, 3)]})["out"].rows()
        [((3,), 1), ((4,), 1)]
        """
        return self._then(MapRows(function, names, None))

    def flat_map(self, function: Callable[..., Any], names: Names | None = None, of: Columns | None = None) -> Stream:
        """Map every row to any number of rows at once; the function returns ``(owner, columns)``.

        Examples
        --------
        >>> import numpy as np
        >>> circuit = Circuit(backend="cpu")
        >>> r = circuit.source("r")
        >>> circuit.sink("out", r.flat_map(lambda a, n: (np.repeat(np.arange(len(a)), n), np.repeat(a, n))))
        >>> circuit.step({"r": [(7, 2), (8, 0)]})["out"].rows()
        [((7,), 2)]
        """
        return self._then(FlatMap(function, names, _chosen(of)))

    def flat_map_rows(self, function: Callable[..., Any], names: Names | None = None) -> Stream:
        """Map every row to any number of rows by a function from tuple to tuples.

        Examples
        --------
        >>> circuit = Circuit(backend="cpu")
        >>> r = circuit.source("r")
        >>> circuit.sink("out", r.flat_map_rows(lambda row: [(value,) for value in row]))
        >>> circuit.step({"r": [(1, 2)]})["out"].rows()
        [((1,), 1), ((2,), 1)]
        """
        return self._then(FlatMapRows(function, names, None))

    def filter(self, condition: Callable[..., Any], of: Columns | None = None) -> Stream:
        """Keep the rows for which the mask that the function returns for the columns is True.

        Examples
        --------
        >>> circuit = Circuit(backend="cpu")
        >>> r = circuit.source("r")
        >>> circuit.sink("out", r.filter(lambda b: b > 2, of=[1]))
        >>> circuit.step({"r": [(1, 2), (1, 3)]})["out"].rows()
        [((1, 3), 1)]
        """
        return self._then(Filter(condition, _chosen(of)), keys=self.keys)

    def filter_rows(self, condition: Callable[[tuple[Any, ...]], bool]) -> Stream:
        """Keep the rows for which the function, called row by row, is True.

        Examples
        --------
        >>> circuit = Circuit(backend="cpu")
        >>> r = circuit.source("r")
        >>> circuit.sink("out", r.filter_rows(lambda row: row[1] > 2))
        >>> circuit.step({"r": [(1, 2), (1, 3)]})["out"].rows()
        [((1, 3), 1)]
        """
        return self._then(FilterRows(condition, None), keys=self.keys)

    def index_with(self, key: Columns | Callable[..., Any], names: Names | None = None) -> Stream:
        """Put every row under a key, whose columns come first.

        Parameters
        ----------
        key
            Columns, which are moved to the front; or a function from all columns to key columns.
        names
            Names of the key columns that a function returns.

        Examples
        --------
        >>> circuit = Circuit(backend="cpu")
        >>> r = circuit.source("r")
        >>> circuit.sink("out", r.index_with([1]))
        >>> circuit.step({"r": [(1, 2), (1, 3)]})["out"].rows()
        [((2, 1), 1), ((3, 1), 1)]
        """
        if callable(key):
            if names is None:
                raise UsageError.missing(
                    "a key function", "a name for each of its columns", "Write index_with(function, names=[...])."
                )
            return self._then(IndexWith(key, names), keys=len(names))
        return self._then(IndexWith(_listed(key), None), keys=len(_listed(key)))

    def inspect(self, function: Callable[[Any], object]) -> Stream:
        """Return the stream itself; the function is called with every value."""
        return self._then(Inspect(function), keys=self.keys, like=self)

    def negate(self) -> Stream:
        """Return the stream with negated weights.

        Examples
        --------
        >>> circuit = Circuit(backend="cpu")
        >>> r = circuit.source("r")
        >>> circuit.sink("out", r.negate())
        >>> circuit.step({"r": [(1, 2)]})["out"].rows()
        [((1, 2), -1)]
        """
        return self._then(Negate(), keys=self.keys, like=self)

    def plus(self, other: Stream) -> Stream:
        """Return the sum of two streams.

        Examples
        --------
        >>> circuit = Circuit(backend="cpu")
        >>> r, s = circuit.source("r"), circuit.source("s")
        >>> circuit.sink("out", r.plus(s))
        >>> circuit.step({"r": [(1,)], "s": [(1,), (2,)]})["out"].rows()
        [((1,), 2), ((2,), 1)]
        """
        return self._then(Plus(), other, keys=self.keys)

    def minus(self, other: Stream) -> Stream:
        """Return the difference of two streams.

        Examples
        --------
        >>> circuit = Circuit(backend="cpu")
        >>> r, s = circuit.source("r"), circuit.source("s")
        >>> circuit.sink("out", r.minus(s))
        >>> circuit.step({"r": [(1,)], "s": [(1,), (2,)]})["out"].rows()
        [((2,), -1)]
        """
        return self._then(Minus(), other, keys=self.keys)

    def __add__(self, other: Stream) -> Stream:
        return self.plus(other)

    def __sub__(self, other: Stream) -> Stream:
        return self.minus(other)

    def __neg__(self) -> Stream:
        return self.negate()

    def delay(self) -> Stream:
        """``z⁻¹``: the previous value of the stream; of a trace, the previous trace.

        Examples
        --------
        >>> circuit = Circuit(backend="cpu")
        >>> r = circuit.source("r")
        >>> circuit.sink("out", r.delay())
        >>> circuit.step({"r": [(1,)]})["out"].rows()
        []
        >>> circuit.step({"r": [(2,)]})["out"].rows()
        [((1,), 1)]
        """
        if self.sorting is None:
            return self._then(Delay(), keys=self.keys)
        return self._shared(("delay", self.node), lambda: self._then(DelayTrace(self.timed), like=self))

    def differentiate(self) -> Stream:
        """``D``: the changes of the stream.

        Examples
        --------
        >>> circuit = Circuit(backend="cpu")
        >>> r = circuit.source("r")
        >>> circuit.sink("out", r.differentiate())
        >>> circuit.step({"r": [(1,)]})["out"].rows()
        [((1,), 1)]
        >>> circuit.step({"r": [(1,), (2,)]})["out"].rows()
        [((2,), 1)]
        """
        return self - self.delay()

    def integrate(self) -> Stream:
        """``I``: the sum of the stream so far, as a Z-set.

        In a subcircuit, over one tick's iterations.

        Examples
        --------
        >>> circuit = Circuit(backend="cpu")
        >>> r = circuit.source("r")
        >>> circuit.sink("out", r.integrate())
        >>> circuit.step({"r": [(1,)]})["out"].rows()
        [((1,), 1)]
        >>> circuit.step({"r": [(2,)]})["out"].rows()
        [((1,), 1), ((2,), 1)]
        """
        return self.trace(timed=False).consolidate()._typed(self.keys)

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

        Examples
        --------
        >>> circuit = Circuit(backend="cpu")
        >>> r = circuit.source("r")
        >>> circuit.sink("out", r.trace().consolidate())
        >>> circuit.step({"r": [(1,)]})["out"].rows()
        [((1,), 1)]
        >>> circuit.step({"r": [(2,)]})["out"].rows()
        [((1,), 1), ((2,), 1)]
        """
        sorting = Sorting(None if keys is None else _listed(keys), tuple(by))
        timed = self.scope.depth > 0 if timed is None else timed
        operator = TimedAppend if timed else Append
        made = self._shared(("trace", self.node, sorting, timed), lambda: self._then(operator(sorting)))
        made.sorting, made.timed = sorting, timed
        return made

    def consolidate(self) -> Stream:
        """Return the rows of a trace as a Z-set.

        Examples
        --------
        >>> circuit = Circuit(backend="cpu")
        >>> r = circuit.source("r")
        >>> circuit.sink("out", r.trace().consolidate())
        >>> circuit.step({"r": [(1,)]})["out"].rows()
        [((1,), 1)]
        """
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
        """Return the rows of positive weight, each with weight 1.

        Examples
        --------
        >>> circuit = Circuit(backend="cpu")
        >>> r = circuit.source("r")
        >>> circuit.sink("out", r.distinct())
        >>> circuit.step({"r": [((1,), 3), ((2,), -1)]})["out"].rows()
        [((1,), 1)]
        """
        return self._then(Distinct(), keys=self.keys)

    def incremental_distinct(self, trace: Stream | None = None) -> Stream:
        """Return the change of the set of rows of positive weight.

        Parameters
        ----------
        trace
            The trace of the changes: as it was before them, or, if it has times, including them and with all columns as
            keys. By default the trace of this stream.

        Examples
        --------
        >>> circuit = Circuit(backend="cpu")
        >>> r = circuit.source("r")
        >>> circuit.sink("out", r.incremental_distinct())
        >>> circuit.step({"r": [((1,), 2)]})["out"].rows()
        [((1,), 1)]
        >>> circuit.step({"r": [((1,), -1)]})["out"].rows()
        []
        >>> circuit.step({"r": [((1,), -1)]})["out"].rows()
        [((1,), -1)]
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
        """Return the aggregator's rows of every group of rows that agree in the key columns.

        Examples
        --------
        >>> from gpu_wcoj.streams import Sum
        >>> circuit = Circuit(backend="cpu")
        >>> r = circuit.source("r")
        >>> circuit.sink("out", r.aggregate([0], Sum(1)))
        >>> circuit.step({"r": [(1, 2), (1, 3)]})["out"].rows()
        [((1, 5), 1)]
        """
        return self._then(Aggregate(_listed(keys), _checked(aggregator)), keys=len(_listed(keys)))

    def incremental_aggregate(self, keys: Columns, aggregator: Aggregator) -> Stream:
        """Return the change of the aggregator's rows.

        Examples
        --------
        >>> from gpu_wcoj.streams import Sum
        >>> circuit = Circuit(backend="cpu")
        >>> r = circuit.source("r")
        >>> circuit.sink("out", r.incremental_aggregate([0], Sum(1)))
        >>> circuit.step({"r": [(1, 2), (1, 3)]})["out"].rows()
        [((1, 5), 1)]
        >>> circuit.step({"r": [((1, 3), -1)]})["out"].rows()
        [((1, 2), 1), ((1, 5), -1)]
        """
        listed, by = _listed(keys), _checked(aggregator).sorts_by
        if self.scope.depth:
            return self._then(NestedAggregate(listed, aggregator), self.trace(listed), keys=len(listed))
        after = self.trace(listed, by=by)
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

        Examples
        --------
        >>> circuit = Circuit(backend="cpu")
        >>> r, s = circuit.source("r"), circuit.source("s")
        >>> circuit.sink("out", r.join(s, on={1: 0}))
        >>> circuit.step({"r": [(1, 2), (5, 6)], "s": [(2, 7)]})["out"].rows()
        [((1, 2, 7), 1)]
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
        """Return the change of a join from the changes of both sides; `on`, `select` as in `join`.

        Examples
        --------
        >>> circuit = Circuit(backend="cpu")
        >>> r, s = circuit.source("r"), circuit.source("s")
        >>> circuit.sink("out", r.incremental_join(s, on={1: 0}))
        >>> circuit.step({"r": [(1, 2)], "s": []})["out"].rows()
        []
        >>> circuit.step({"r": [], "s": [(2, 7)]})["out"].rows()
        [((1, 2, 7), 1)]
        """
        return _incremental_join(self, other, self._shape(other, on, select))

    def semijoin(self, other: Stream, on: On | None = None) -> Stream:
        """Return the rows that have a match in the other stream.

        Examples
        --------
        >>> circuit = Circuit(backend="cpu")
        >>> r, s = circuit.source("r"), circuit.source("s")
        >>> circuit.sink("out", r.semijoin(s, on={1: 0}))
        >>> circuit.step({"r": [(1, 2), (5, 6)], "s": [(2, 7)]})["out"].rows()
        [((1, 2), 1)]
        """
        return self._then(Semijoin(self._shape(other, on)), other, keys=self.keys)

    def incremental_semijoin(self, other: Stream, on: On | None = None) -> Stream:
        """Return the change of the rows that have a match.

        Examples
        --------
        >>> circuit = Circuit(backend="cpu")
        >>> r, s = circuit.source("r"), circuit.source("s")
        >>> circuit.sink("out", r.incremental_semijoin(s, on={1: 0}))
        >>> circuit.step({"r": [(1, 2)], "s": []})["out"].rows()
        []
        >>> circuit.step({"r": [], "s": [(2, 7)]})["out"].rows()
        [((1, 2), 1)]
        """
        return _incremental_semijoin(self, other, self._shape(other, on))

    def antijoin(self, other: Stream, on: On | None = None) -> Stream:
        """Return the rows that have no match in the other stream.

        Examples
        --------
        >>> circuit = Circuit(backend="cpu")
        >>> r, s = circuit.source("r"), circuit.source("s")
        >>> circuit.sink("out", r.antijoin(s, on={1: 0}))
        >>> circuit.step({"r": [(1, 2), (5, 6)], "s": [(2, 7)]})["out"].rows()
        [((5, 6), 1)]
        """
        return self._then(Antijoin(self._shape(other, on)), other, keys=self.keys)

    def incremental_antijoin(self, other: Stream, on: On | None = None) -> Stream:
        """Return the change of the rows that have no match.

        Examples
        --------
        >>> circuit = Circuit(backend="cpu")
        >>> r, s = circuit.source("r"), circuit.source("s")
        >>> circuit.sink("out", r.incremental_antijoin(s, on={1: 0}))
        >>> circuit.step({"r": [(1, 2)], "s": []})["out"].rows()
        [((1, 2), 1)]
        >>> circuit.step({"r": [], "s": [(2, 7)]})["out"].rows()
        [((1, 2), -1)]
        """
        return self - _incremental_semijoin(self, other, self._shape(other, on))

    def outer_join(self, other: Stream, on: On | None = None, keep: Side = "left") -> Stream:
        """Return the join plus unmatched rows of one side or both, padded with nulls.

        Examples
        --------
        >>> circuit = Circuit(backend="cpu")
        >>> left, right = circuit.source("left"), circuit.source("right")
        >>> circuit.sink("out", left.outer_join(right, on={1: 0}))
        >>> circuit.step({"left": [(1, 2), (5, 6)], "right": [(2, 7)]})["out"].rows()
        [((1, 2, 7), 1), ((5, 6, None), 1)]
        """
        return _outer_join(self, other, self._shape(other, on), _side(keep), incremental=False)

    def incremental_outer_join(self, other: Stream, on: On | None = None, keep: Side = "left") -> Stream:
        """Return the change of an outer join; `on` as in `join`, `keep` as in `outer_join`.

        Examples
        --------
        >>> circuit = Circuit(backend="cpu")
        >>> left = circuit.source("left")
        >>> right = circuit.source("right", schema={"b": "int64", "c": "int64"})
        >>> circuit.sink("out", left.incremental_outer_join(right, on={1: "b"}))
        >>> circuit.step({"left": [(1, 2)]})["out"].rows()
        [((1, 2, None), 1)]
        >>> circuit.step({"right": [(2, 7)]})["out"].rows()
        [((1, 2, None), -1), ((1, 2, 7), 1)]
        """
        return _outer_join(self, other, self._shape(other, on), _side(keep), incremental=True)

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


# Streams whose source is connected later: feedbacks and forward declarations.


class FeedbackStream(Stream):
    """The output of a feedback."""

    def connect(self, stream: Stream) -> None:
        """Connect the input of the feedback, which it returns at the next time."""
        _connect(self, stream, Feedback)


class ForwardStream(Stream):
    """A stream that is defined later."""

    def connect(self, stream: Stream) -> None:
        """Define the stream as equal to `stream`."""
        _connect(self, stream, Forward)
        self.node.inputs.append(stream.node)


def _connect(end: Stream, stream: Stream, kind: type[Feedback | Forward]) -> None:
    operator = end.node.operator
    assert isinstance(operator, kind)
    if stream.scope is not end.scope:
        raise CircuitError(f"{stream} belongs to the wrong circuit: expected a stream of the circuit of {end}.")
    if operator.source is not None:
        raise CircuitError.wrong_state(
            "connect()", f"{end} is connected with node {operator.source}", "Connect each feedback once."
        )
    operator.source = stream.node


# Common base of circuits and subcircuits: nodes and one round of evaluation.


def _incremental_join(left: Stream, right: Stream, shape: JoinShape) -> Stream:
    """``dl ⋈ z⁻¹(R) + L ⋈ dr``: two joins with shared traces. Bilinear in dl and dr.

    In a subcircuit the traces keep times, and the result is that under nested time.
    """
    scope = left.scope
    before = right.trace(shape.right).delay()
    after = left.trace(shape.left)
    first = scope.add(JoinTrace(shape), left, before)
    second = scope.add(JoinTrace(shape, change_is_left=False), right, after)
    return scope.add(Plus(), first, second)


def _incremental_semijoin(left: Stream, right: Stream, shape: JoinShape) -> Stream:
    """Return the change of a semijoin: an incremental join with the distinct keys of the right."""
    keys = right.map(shape.right).incremental_distinct()
    return _incremental_join(left, keys, JoinShape(shape.left, tuple(range(len(shape.right)))))


def _outer_join(left: Stream, right: Stream, shape: JoinShape, keep: Side, incremental: bool) -> Stream:
    """Return the join plus unmatched rows of the left, the right or both sides. Not linear."""
    scope = left.scope
    result = _incremental_join(left, right, shape) if incremental else scope.add(Join(shape), left, right)
    for name, rows, other, keyed in (("left", left, right, shape), ("right", right, left, shape.mirrored)):
        if keep in (name, "full"):
            if incremental:
                unmatched = rows - _incremental_semijoin(rows, other, keyed)
            else:
                unmatched = scope.add(Antijoin(keyed), rows, other)
            result += scope.add(Pad(shape, name == "left"), unmatched, other)
    return result


@entry_point
class Scope(OperatorScope):
    """Nodes that are evaluated together; see `OperatorScope`."""

    def __init__(self, place: Place, path: tuple[int, ...]) -> None:
        super().__init__(place, path)
        self.shared: dict[object, Stream] = {}
        self._order: tuple[Node, ...] = ()

    def refuse_change(self) -> None:
        """Raise if nodes can no longer be added."""
        raise NotImplementedError

    # Nodes

    def add(self, operator: Operator, *inputs: Stream, name: str = "") -> Stream:
        """Add a node with this operator that reads these streams; return its output.

        Raises
        ------
        CircuitError
            If a stream belongs to another circuit, the operator has a node already, or the circuit has run.
        """
        return Stream(self._node("operator", operator, inputs, name))

    def _node(self, kind: Kind, operator: Operator, inputs: tuple[Stream, ...], name: str = "") -> Node:
        self.refuse_change()
        for stream in inputs:
            if stream.scope is not self:
                raise CircuitError(
                    f"{stream} belongs to another circuit, or to another level of this circuit.\n"
                    "  Use introduce and hold to import streams into a subcircuit, eliminate and export to export them."
                )
        if "scope" in vars(operator):
            raise CircuitError(f"the operator '{operator.label}' has a node already.\n  Create another operator.")
        operator.scope = self
        node = Node(self, len(self.nodes), kind, operator, [stream.node for stream in inputs], name)
        self.nodes.append(node)
        self._order = ()
        return node

    def generate(self, function: Callable[[Time], Any], name: str = "") -> Stream:
        """Add a source whose value is a function of the time: a Z-set, or rows.

        Its next value is unknown, so a subcircuit with such a source needs `until` to end.
        """
        return Stream(self._node("source", Generate(function), (), name))

    def feedback(self, name: str = "") -> FeedbackStream:
        """Add a stream that returns its input of the previous time; empty at first.

        Connect it with `FeedbackStream.connect`. Every loop needs a feedback.
        """
        return FeedbackStream(self._node("feedback", Feedback(), (), name or "feedback"))

    def forward(self, name: str = "") -> ForwardStream:
        """Add a stream that is defined later, by `ForwardStream.connect`."""
        return ForwardStream(self._node("operator", Forward(), (), name or "forward"))

    def multiway(
        self, rule: str | Rule, relations: Mapping[str, Stream], *, incremental: bool = True, name: str = ""
    ) -> Stream:
        """Add the worst-case optimal join of any number of streams.

        Parameters
        ----------
        rule
            One rule of positive atoms and comparisons, as text or terms. Weights multiply, and add where the head
            omits variables.
        relations
            The stream of each relation of the body. A relation may occur in several atoms.
        incremental
            Whether the streams and the result are changes, also under nested time. Otherwise the values at each time
            are joined.

        Examples
        --------
        >>> from gpu_wcoj.streams import Circuit
        >>> circuit = Circuit(backend="cpu")
        >>> rule = "triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c)."
        >>> circuit.sink("triangle", circuit.multiway(rule, {"edge": circuit.source("edge")}))
        >>> circuit.step({"edge": [(1, 2), (2, 3)]})["triangle"].rows()
        []
        >>> circuit.step({"edge": [((1, 3), 2)]})["triangle"].rows()
        [((1, 2, 3), 2)]
        """
        operator = Multiway(rule, list(relations), incremental)
        return self.add(operator, *relations.values(), name=name or operator.label)

    # Evaluation

    def prepare(self) -> None:
        """Sort the nodes into evaluation order.

        Raises
        ------
        CircuitError
            If there is a cycle without a feedback, or a feedback or forward without an input.
        """
        for child in self.children:
            child.prepare()
        if self._order:
            return
        for node in self.nodes:
            if isinstance(node.operator, (Feedback, Forward)) and node.operator.source is None:
                raise CircuitError(f"node {node} is not connected.\n  Call its method connect with a stream.")
        self._order = in_order(self.nodes)

    @property
    def children(self) -> list[Scope]:
        """The subcircuits."""
        return []

    def operators(self) -> Iterator[Operator]:
        """Yield all operators in evaluation order, including those of subcircuits."""
        for node in self._order or self.nodes:
            yield node.operator
        for child in self.children:
            yield from child.operators()

    def all_nodes(self) -> Iterator[Node]:
        """Yield all nodes, including those of subcircuits."""
        yield from self.nodes
        for child in self.children:
            yield from child.all_nodes()

    def evaluate(self) -> None:
        """Evaluate one round: all cells, then the inputs of all feedbacks."""
        for node in self._order:
            node.evaluate()
        for node in self._order:
            if isinstance(node.operator, Feedback):
                assert node.operator.source is not None
                node.operator.latch(node.operator.source.value)

    def clock_start(self, scope: int) -> None:
        """Start a clock of all operators: 0 is the clock of this circuit."""
        for node in self._order:
            node.operator.clock_start(scope)
        for child in self.children:
            child.clock_start(scope + 1)

    def clock_stop(self, scope: int) -> None:
        """Stop a clock of all operators."""
        for child in self.children:
            child.clock_stop(scope + 1)
        for node in self._order:
            node.operator.clock_stop(scope)

    def explain(self) -> str:
        """Return the nodes in evaluation order, each with its id, kind and inputs."""
        self.prepare()
        lines = []
        for node in self._order:
            read = ", ".join(".".join(map(str, source.global_id)) for source in node.inputs)
            lines.append("  " * self.depth + f"{node} ({node.kind})" + (f" reads {read}" if read else ""))
            lines.extend(child.explain() for child in self.children if child.path == node.global_id)
        return "\n".join(lines)


ITERATIONS = 100_000
"""Default of the maximum number of iterations of a subcircuit in one tick."""


@entry_point
class Circuit(NotCopied, Scope):
    """A user-defined circuit of sources, operators, subcircuits and sinks, stepped tick by tick.

    A tick is atomic: if it fails, all state is unchanged.

    Parameters
    ----------
    backend
        The backend of the streams: ``"auto"`` (a GPU if there is one), ``"cpu"`` or ``"cuda"``.

    Examples
    --------
    >>> circuit = Circuit(backend="cpu")
    >>> edges = circuit.source("edge", {"src": "int64", "dst": "int64"})
    >>> circuit.sink("path", edges.incremental_join(edges, on={"dst": "src"}))
    >>> circuit.step({"edge": [(1, 2), (2, 3)]})["path"].rows()
    [((1, 2, 3), 1)]
    >>> circuit.step({"edge": [((1, 2), -1)]})["path"].rows()
    [((1, 2, 3), -1)]
    """

    depth = 0

    def __init__(self, *, backend: BackendName | Backend = "auto") -> None:
        super().__init__(
            Place(select_backend(backend, is_lasting=True), Dictionary("string"), Dictionary("binary")), ()
        )
        self.sources: dict[str, Source] = {}
        self.sinks: dict[str, Stream] = {}
        self._children: list[Subcircuit] = []
        self._tick = 0
        self._runs = False
        self._turns = StateLock("the circuit")

    def __repr__(self) -> str:
        return f"Circuit({len(self.nodes)} nodes, {len(self._children)} subcircuits, tick {self._tick})"

    # Nodes

    def source(self, name: str, schema: Mapping[str, str] | None = None) -> Stream:
        """Add a source: a stream of the rows that `step` gets under this name.

        Parameters
        ----------
        schema
            The columns' names and types; by default those of the first rows, where a column of nulls alone has none.
            Columns of tables are matched by name, and unknown names raise an error; rows without names are matched by
            position. Integers outside a declared type raise an error.
        """
        if name in self.sources:
            raise CircuitError.duplicate("source", name, "in the circuit", "Choose another name.")
        if schema is not None and not isinstance(schema, Mapping):
            raise UsageError.wrong_type("schema", schema, "a dict of types by column", "Write {'src': 'int64'}.")
        if schema is not None:
            schema = {column: declared_type(str(kind)) for column, kind in schema.items()}
        self.sources[name] = source = Source(name, schema)
        return Stream(self._node("source", source, (), name))

    def sink(self, name: str, stream: Stream) -> None:
        """Add a sink: `step` returns the value of this stream under this name."""
        if name in self.sinks:
            raise CircuitError.duplicate("sink", name, "in the circuit", "Choose another name.")
        self.sinks[name] = Stream(self._node("sink", Sink(), (stream,), name))

    def subcircuit(
        self, name: str = "", *, iterations: int = ITERATIONS, until: Callable[[Time], bool] | None = None
    ) -> Subcircuit:
        """Add a circuit that runs to its fixpoint within each tick of this circuit.

        Parameters
        ----------
        iterations
            Maximum number of iterations; more raise an error.
        until
            A function of the time of an iteration that returns whether it is the last of the tick, instead of the
            fixpoint.
        """
        child = Subcircuit(self, name, validate_positive("iterations", iterations, ITERATIONS), until)
        self._children.append(child)
        return child

    @property
    def children(self) -> list[Scope]:
        """The subcircuits."""
        return list(self._children)

    def refuse_change(self) -> None:
        """Raise if the clock runs."""
        if self._runs:
            raise CircuitError.wrong_state(
                "adding a node", "the circuit has run", "Stop the circuit first, which discards its state."
            )

    # Time

    @property
    def time(self) -> Time:
        """The present tick."""
        return Time(self._tick)

    def start(self) -> None:
        """Start the clock: all state is empty, and the tick is 0.

        The first `step` does it implicitly.
        """
        self._turns.run("starting the clock", self._start)

    def _start(self) -> None:
        if not self._runs:
            self.prepare()
            self._tick = 0
            self.clock_start(0)
            self._runs = True

    def stop(self) -> None:
        """Stop the clock. The next `step` starts from the empty state."""

        def stop() -> None:
            if self._runs:
                self._runs = False
                self.clock_stop(0)

        self._turns.run("stopping the clock", stop)

    def step(self, changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Run one tick: feed the sources and return the values of the sinks.

        Parameters
        ----------
        changes
            Per source a Z-set, a table (with its weights in a column ``weight``, if any) or rows; all other sources get
            no rows.

        Raises
        ------
        UnknownRelationError
            If a source does not exist.
        IterationLimitError
            If a subcircuit does not reach its fixpoint.
        """
        return self._turns.run("taking a tick", lambda: self._step(changes or {}))

    def _step(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        for name in changes:
            if name not in self.sources:
                raise UnknownRelationError(name, self.sources, "sources")
        self._start()
        states = [(operator, operator.state) for operator in self.operators()]
        cells = [(node, node.value) for node in self.all_nodes()]
        sizes = len(self.place.string), len(self.place.binary)
        try:
            for name, source in self.sources.items():
                source.data = changes.get(name)
            with within_memory(self.place.backend, "evaluating a tick"):
                self.evaluate()
            self._tick += 1
        except BaseException:
            for operator, state in states:
                operator.state = state
            for node, value in cells:
                node.value = value
            self.place.string.truncate(sizes[0])
            self.place.binary.truncate(sizes[1])
            raise
        finally:
            for source in self.sources.values():
                source.data = None
        return {name: stream.value for name, stream in self.sinks.items()}


@entry_point
class Subcircuit(Scope):
    """A nested circuit that iterates to its fixpoint within each tick.

    The fixpoint is reached when all operators are settled after an iteration, so that all later iterations would be
    equal. A subcircuit cannot contain subcircuits.

    Examples
    --------
    >>> circuit = Circuit(backend="cpu")
    >>> loop = circuit.subcircuit()
    >>> edge, again = loop.introduce(circuit.source("edge")), loop.feedback()
    >>> reach = (edge + again.incremental_join(edge, on={1: 0}).map([0, 2])).incremental_distinct()
    >>> again.connect(reach)
    >>> circuit.sink("reach", loop.eliminate(reach))
    >>> circuit.step({"edge": [(1, 2), (2, 1)]})["reach"].rows()
    [((1, 1), 1), ((1, 2), 1), ((2, 1), 1), ((2, 2), 1)]
    >>> circuit.step({"edge": [((2, 1), -1)]})["reach"].rows()
    [((1, 1), -1), ((2, 1), -1), ((2, 2), -1)]
    """

    depth = 1

    def __init__(self, parent: Circuit, name: str, iterations: int, until: Callable[[Time], bool] | None) -> None:
        self.parent, self.iterations, self.until = parent, iterations, until
        self._run = _Run(self)
        self.node = parent._node("child", self._run, (), name or "subcircuit")
        super().__init__(parent.place, self.node.global_id)
        self._iteration = 0

    def __repr__(self) -> str:
        return f"Subcircuit({self.node}, {len(self.nodes)} nodes)"

    @property
    def time(self) -> Time:
        """The present tick and iteration."""
        return Time(self.parent.time.tick, self._iteration)

    def refuse_change(self) -> None:
        """Raise if the clock runs."""
        self.parent.refuse_change()

    def subcircuit(self, *_: Any, **__: Any) -> Subcircuit:
        """Raise an error: circuits are nested once."""
        raise CircuitError(
            f"{self.node} is a subcircuit and cannot contain a subcircuit.\n"
            "  Put the inner loop into the parent circuit, or write both as one loop."
        )

    def introduce(self, stream: Stream, name: str = "") -> Stream:
        """``δ0``: import a stream of the parent circuit at iteration 0.

        Empty at all other iterations.
        """
        return self._import(Introduce(), stream, name or "δ0")

    def hold(self, stream: Stream, name: str = "") -> Stream:
        """Import a stream of the parent circuit, constant over all iterations."""
        return self._import(Hold(), stream, name or "hold")._typed(stream.keys, stream)  # pyright: ignore[reportPrivateUsage]

    def _import(self, operator: Operator, stream: Stream, name: str) -> Stream:
        if stream.scope is not self.parent:
            raise CircuitError(
                f"{stream} belongs to the wrong circuit: expected a stream of the parent circuit of {self.node}."
            )
        node = self._node("import", operator, (), name)
        node.inputs.append(stream.node)
        if stream.node not in self.node.inputs:
            self.node.inputs.append(stream.node)
        self.parent._order = ()
        return Stream(node, stream.keys)

    def eliminate(self, stream: Stream, name: str = "") -> Stream:
        """``∫``: export the sum of a stream over all iterations of a tick to the parent circuit."""
        return self.export(stream.trace(timed=False)).consolidate().named(name or "∫")

    def export(self, stream: Stream, name: str = "") -> Stream:
        """Export the value of a stream at the last iteration of a tick to the parent circuit."""
        if stream.scope is not self:
            raise CircuitError(f"{stream} belongs to the wrong circuit: expected a stream of {self.node}.")
        output = self.parent.add(_Output(stream), Stream(self.node), name=name or "output of a subcircuit")
        return output._typed(stream.keys, stream)  # pyright: ignore[reportPrivateUsage]

    def run(self) -> None:
        """Run all iterations of one tick."""
        self._iteration = 0
        for node in self._order:
            node.operator.clock_start(0)
        try:
            while True:
                self.evaluate()
                if self.until(self.time) if self.until is not None else self._is_settled():
                    return
                self._iteration += 1
                if self._iteration >= self.iterations:
                    raise IterationLimitError(f"subcircuit {self.node}", self.iterations)
        finally:
            for node in self._order:
                node.operator.clock_stop(0)

    def _is_settled(self) -> bool:
        return all(node.operator.settled for node in self._order)


class _Run(Operator):
    """The iterations of a subcircuit as one operator of the parent circuit."""

    def __init__(self, child: Subcircuit) -> None:
        self.child = child

    def evaluate(self, *_: Any) -> None:
        """Run the iterations of a tick."""
        self.child.run()

    @property
    def label(self) -> str:
        return "subcircuit"


class _Output(Operator):
    """The value of a stream of a subcircuit at its last iteration."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    def evaluate(self, _: Any) -> Any:
        """Return the value."""
        return self.stream.value
