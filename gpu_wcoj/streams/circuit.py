"""Circuits: sources, operators and sinks, stepped tick by tick, and subcircuits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpu_wcoj.backend import Backend, BackendName, select_backend
from gpu_wcoj.engine.options import validate_positive
from gpu_wcoj.errors import CircuitError, IterationLimitError, UnknownRelationError, entry_point
from gpu_wcoj.locks import NotCopied, StateLock
from gpu_wcoj.query.declared import declared_type
from gpu_wcoj.streams.device_context import Place
from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.streams.operators.consolidate import Consolidate
from gpu_wcoj.streams.operators.eliminate import Eliminate
from gpu_wcoj.streams.operators.generate import Source
from gpu_wcoj.streams.operators.introduce import Hold, Introduce
from gpu_wcoj.streams.operators.sink import Sink
from gpu_wcoj.streams.scope import Scope
from gpu_wcoj.streams.stream import Stream
from gpu_wcoj.streams.time import Time
from gpu_wcoj.zset.arrays import within_memory

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
        from gpu_wcoj.dictionary import Dictionary

        super().__init__(Place(select_backend(backend), Dictionary("string"), Dictionary("binary")), ())
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
            The columns' names and types; by default those of the first rows. Columns of tables are matched by name, and
            unknown names raise an error; rows without names are matched by position. Integers outside a declared type
            raise an error.
        """
        if name in self.sources:
            raise CircuitError.duplicate("source", name, "in the circuit", "Choose another name.")
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
        made = self._import(Hold(), stream, name or "hold")
        made.sorting, made.timed = stream.sorting, stream.timed
        return made

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
        integrated = self.add(Eliminate(), stream, name="∫")
        return self.parent.add(Consolidate(), self.export(integrated), name=name or "∫")

    def export(self, stream: Stream, name: str = "") -> Stream:
        """Export the value of a stream at the last iteration of a tick to the parent circuit."""
        if stream.scope is not self:
            raise CircuitError(f"{stream} belongs to the wrong circuit: expected a stream of {self.node}.")
        output = self.parent.add(_Output(stream), Stream(self.node), name=name or "output of a subcircuit")
        output.keys, output.sorting, output.timed = stream.keys, stream.sorting, stream.timed
        return output

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
