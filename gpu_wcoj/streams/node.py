"""Nodes of a circuit and their evaluation order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from gpu_wcoj.errors import CircuitError
from gpu_wcoj.streams.device_context import NOTHING
from gpu_wcoj.streams.operator import Operator

if TYPE_CHECKING:
    from gpu_wcoj.streams.scope import Scope

Kind = Literal["source", "operator", "feedback", "import", "child", "sink"]


@dataclass(eq=False)
class Node:
    """A node: an operator, its inputs, and the cell with its current value.

    Attributes
    ----------
    local_id
        Its number in its circuit.
    inputs
        The nodes whose values it reads; for an import, the node of the parent circuit.
    value
        The present value of its stream.
    """

    scope: Scope
    local_id: int
    kind: Kind
    operator: Operator
    inputs: list[Node]
    name: str = ""
    value: Any = field(default_factory=lambda: NOTHING, repr=False)

    @property
    def global_id(self) -> tuple[int, ...]:
        """The local ids on the path from the outermost circuit to this node."""
        return (*self.scope.path, self.local_id)

    def __str__(self) -> str:
        path = ".".join(map(str, self.global_id))
        return f"{path} {self.name or self.operator.label}"

    def evaluate(self) -> None:
        """Compute a new value of the cell."""
        try:
            self.value = self.operator.evaluate(*[node.value for node in self.inputs])
        except Exception as error:
            if not getattr(error, "__notes__", None):
                error.add_note(f"  In node {self} of the circuit, at {self.scope.time}.")
            raise


def in_order(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Sort the nodes of a circuit topologically; inputs of feedbacks do not count.

    Raises
    ------
    CircuitError
        If nodes read each other in a cycle without a feedback; it is named.
    """
    done: dict[Node, None] = {}
    for start in nodes:
        path: list[Node] = []
        ahead = [iter([start])]
        while ahead:
            node = next(ahead[-1], None)
            if node is None:
                ahead.pop()
                if path:
                    done[path.pop()] = None
            elif node in path:
                cycle = [*path[path.index(node) :], node]
                raise CircuitError(
                    "nodes read each other in a cycle: " + " <- ".join(map(str, cycle)) + ".\n"
                    "  Let the cycle go through a feedback, which is read in the next iteration."
                )
            elif node not in done:
                path.append(node)
                ahead.append(iter(node.inputs if node.kind != "import" else ()))
    return tuple(done)
