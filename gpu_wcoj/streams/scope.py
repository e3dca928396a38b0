"""What a circuit and a subcircuit share: nodes, and one round of their evaluation."""

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
    from gpu_wcoj.streams.place import Place
    from gpu_wcoj.streams.time import Time


@entry_point
class Scope:
    """Nodes that are evaluated together.

    Attributes
    ----------
    place
        Where it computes.
    depth
        0 for a circuit, 1 for a subcircuit.
    path
        The local ids that lead here from the outermost circuit.
    nodes
        All nodes, in the order in which they were added.
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
        """A node with this operator, reading these streams; its output.

        Raises
        ------
        CircuitError
            If a stream is of another circuit, the operator has a node already, or the circuit has run.
        """
        return Stream(self._node("operator", operator, inputs, name))

    def _node(self, kind: Kind, operator: Operator, inputs: tuple[Stream, ...], name: str = "") -> Node:
        self.refuse_change()
        for stream in inputs:
            if stream.scope is not self:
                raise CircuitError(
                    f"{stream} is of another circuit, or of another level of this one.\n"
                    "  A subcircuit takes streams in by introduce and hold, and gives them out by eliminate and export."
                )
        if "scope" in vars(operator):
            raise CircuitError(f"the operator '{operator.label}' has a node already.\n  Make another one.")
        operator.scope = self
        node = Node(self, len(self.nodes), kind, operator, [stream.node for stream in inputs], name)
        self.nodes.append(node)
        self._order = ()
        return node

    def generate(self, function: Callable[[Time], Any], name: str = "") -> Stream:
        """A source whose value is a function of the time: a Z-set, or rows.

        What it will give next is not known, so a subcircuit with one needs to be told by `until` when it ends.
        """
        return Stream(self._node("source", Generate(function), (), name))

    def feedback(self, name: str = "") -> FeedbackStream:
        """A stream that gives, at every time, what it was given the time before; 0 at first.

        Connect it with `FeedbackStream.connect`. It is the only way to make a loop.
        """
        return FeedbackStream(self._node("feedback", Feedback(), (), name or "feedback"))

    def forward(self, name: str = "") -> ForwardStream:
        """A stream that is defined later, by `ForwardStream.connect`."""
        return ForwardStream(self._node("operator", Forward(), (), name or "forward"))

    def multiway(
        self, rule: str | Rule, relations: Mapping[str, Stream], *, incremental: bool = True, name: str = ""
    ) -> Stream:
        """The worst-case optimal join of any number of streams.

        Parameters
        ----------
        rule
            One rule of positive atoms and comparisons, as text or terms. Weights multiply, and add where the head
            leaves variables out.
        relations
            The stream of each relation of the body. One relation may stand in several atoms.
        incremental
            Whether the streams are changes, and so is the result, also under nested time. Otherwise each time is
            joined by itself.

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
        """Bring the nodes into order.

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
        """All operators, in the order of evaluation, those of subcircuits too."""
        for node in self._order or self.nodes:
            yield node.operator
        for child in self.children:
            yield from child.operators()

    def all_nodes(self) -> Iterator[Node]:
        """All nodes, those of subcircuits too."""
        yield from self.nodes
        for child in self.children:
            yield from child.all_nodes()

    def evaluate(self) -> None:
        """One round: every cell gets its value, and then every feedback what it will give the next time."""
        for node in self._order:
            node.evaluate()
        for node in self._order:
            if isinstance(node.operator, Feedback):
                assert node.operator.source is not None
                node.operator.latch(node.operator.source.value)

    def clock_start(self, scope: int) -> None:
        """Tell all operators that a clock starts: 0 is this circuit's own."""
        for node in self._order:
            node.operator.clock_start(scope)
        for child in self.children:
            child.clock_start(scope + 1)

    def clock_stop(self, scope: int) -> None:
        """Tell all operators that a clock stops."""
        for child in self.children:
            child.clock_stop(scope + 1)
        for node in self._order:
            node.operator.clock_stop(scope)

    def explain(self) -> str:
        """The nodes in the order of evaluation, each with its id, its kind and what it reads."""
        self.prepare()
        lines = []
        for node in self._order:
            read = ", ".join(".".join(map(str, source.global_id)) for source in node.inputs)
            lines.append("  " * self.depth + f"{node} ({node.kind})" + (f" reads {read}" if read else ""))
            lines.extend(child.explain() for child in self.children if child.path == node.global_id)
        return "\n".join(lines)
