"""Common base of circuits and subcircuits: nodes and one round of evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gpu_wcoj.errors import CircuitError, entry_point
from gpu_wcoj.streams.ends import FeedbackStream, ForwardStream
from gpu_wcoj.streams.node import Kind, Node, in_order
from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.streams.operators.feedback import Feedback, Forward
from gpu_wcoj.streams.operators.generate import Generate
from gpu_wcoj.streams.stream import Stream

if TYPE_CHECKING:
    from gpu_wcoj.query.rules import Rule
    from gpu_wcoj.streams.device_context import Place
    from gpu_wcoj.streams.time import Time


@entry_point
class Scope:
    """Nodes that are evaluated together.

    Attributes
    ----------
    place
        The backend and dictionaries.
    depth
        0 for a circuit, 1 for a subcircuit.
    path
        The local ids from the outermost circuit to this scope.
    nodes
        All nodes in insertion order.
    """

    depth: int

    def __init__(self, place: Place, path: tuple[int, ...]) -> None:
        self.place, self.path = place, path
        self.nodes: list[Node] = []
        self.shared: dict[object, Stream] = {}
        self._order: tuple[Node, ...] = ()

    @property
    def time(self) -> Time:
        """The present time."""
        raise NotImplementedError

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
        from gpu_wcoj.streams.operators.multiway import Multiway

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
