"""Base class of operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from gpu_wcoj.circuit.recursion.relation import iteration_ranges
from gpu_wcoj.data.column import Column
from gpu_wcoj.errors import CircuitError
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.query.stratify import components, cycle
from gpu_wcoj.streams.device_context import NOTHING, Place
from gpu_wcoj.zset.zset import ZSet, equal


class OperatorScope:
    """The circuit or subcircuit of an operator, as the operator sees it.

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

    @property
    def time(self) -> Time:
        """The present time."""
        raise NotImplementedError


class Operator:
    """A function from streams to a stream, called once per tick or iteration.

    Attributes
    ----------
    state
        All state between calls, as an immutable value: it is replaced, never modified, so that a failed tick can be
        undone by restoring the former value.
    scope
        The circuit or subcircuit of the operator.

    Examples
    --------
    >>> from gpu_wcoj.streams import Circuit
    >>> class Largest(Operator):
    ...     state = 0
    ...
    ...     def evaluate(self, rows):
    ...         self.state = max(self.state, len(rows))
    ...         return self.state
    >>> circuit = Circuit(backend="cpu")
    >>> circuit.sink("largest", circuit.add(Largest(), circuit.source("row")))
    >>> [circuit.step({"row": rows})["largest"] for rows in ([(1,), (2,)], [(3,)], [])]
    [2, 2, 2]
    """

    state: Any = None
    scope: OperatorScope

    def evaluate(self, *inputs: Any, **_: Any) -> Any:
        """Return the value of the output from the values of the inputs."""
        raise NotImplementedError

    def clock_start(self, scope: int) -> None:
        """Handle the start of a clock: 0 is that of the operator's circuit, 1 that of its parent.

        For an operator in a subcircuit, clock 1 starts before the first tick, and clock 0 at the beginning of every
        tick; for others clock 0 starts before the first tick.
        """

    def clock_stop(self, scope: int) -> None:
        """Handle the stop of a clock; see `clock_start`."""

    @property
    def settled(self) -> bool:
        """True if the last call left the state unchanged.

        Then equal inputs would give an equal output.

        A subcircuit is at its fixpoint once this is so for all of its operators.
        """
        return True

    @property
    def label(self) -> str:
        """A short description of the operator."""
        return type(self).__name__

    @property
    def place(self) -> Place:
        """The backend and dictionaries of its circuit."""
        return self.scope.place

    @property
    def time(self) -> Time:
        """The time of its circuit."""
        return self.scope.time


class Stateful(Operator):
    """An operator whose state begins anew with its clock.

    Attributes
    ----------
    state
        A value, and whether the last call left it unchanged.
    """

    state: tuple[Any, bool]

    def is_same(self, before: Any, after: Any) -> bool:
        """Return whether two values are equal.

        They are compared in subcircuits only, which end when all operators are settled.
        """
        are_rows = isinstance(before, ZSet) and isinstance(after, ZSet)
        return self.scope.depth > 0 and (before is after or (are_rows and equal(before, after)))

    def initial(self) -> Any:
        """Return the value of the state at the start of the clock; no rows by default."""
        return NOTHING

    def clock_start(self, scope: int) -> None:
        """Reset the state at the start of the operator's clock."""
        if scope == 0:
            self.state = self.initial(), True

    @property
    def settled(self) -> bool:
        """True if the last call left the state unchanged."""
        return self.state[1]


class Pending(Operator):
    """An operator with results or groups that wait for later iterations, by iteration."""

    state: Any = {}  # noqa: RUF012  # it is replaced, never modified

    def clock_start(self, scope: int) -> None:
        """Clear what is pending at the start of a tick."""
        if scope == 0:
            self.state = {}

    @property
    def settled(self) -> bool:
        """True if nothing is pending."""
        return not self.state


# Nodes of a circuit and their evaluation order.


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

    scope: OperatorScope
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
    reads = {node: node.inputs if node.kind != "import" else [] for node in nodes}
    groups = components(reads)
    for members in groups:
        if around := cycle(members[0], members, reads):
            raise CircuitError(
                "nodes read each other in a cycle: " + " <- ".join(map(str, around)) + ".\n"
                "  Let the cycle go through a feedback, which is read in the next iteration."
            )
    return tuple(node for (node,) in groups)


# Times of a circuit: tick and iteration, under the product order.


@dataclass(frozen=True, slots=True)
class Time:
    """(tick, iteration): one time is at most another if and only if both coordinates are.

    The order is partial: (0, 2) and (1, 1) are not comparable. Outside a subcircuit the iteration is 0.

    Examples
    --------
    >>> Time(0, 1) <= Time(1, 1), Time(0, 2) <= Time(1, 1), Time(0, 2) >= Time(1, 1)
    (True, False, False)
    >>> Time(0, 2).join(Time(1, 1)), Time(0, 2).meet(Time(1, 1))
    (Time(tick=1, iteration=2), Time(tick=0, iteration=1))
    """

    tick: int
    iteration: int = 0

    def __le__(self, other: Time) -> bool:
        return self.tick <= other.tick and self.iteration <= other.iteration

    def __lt__(self, other: Time) -> bool:
        return self <= other and self != other

    def __ge__(self, other: Time) -> bool:
        return other <= self

    def __gt__(self, other: Time) -> bool:
        return other < self

    def is_comparable(self, other: Time) -> bool:
        """Return whether one of the two times is at most the other."""
        return self <= other or other <= self

    def join(self, other: Time) -> Time:
        """Return the least upper bound of both times."""
        return Time(max(self.tick, other.tick), max(self.iteration, other.iteration))

    def meet(self, other: Time) -> Time:
        """Return the greatest lower bound of both times."""
        return Time(min(self.tick, other.tick), min(self.iteration, other.iteration))


Waiting = Mapping[int, ZSet]
"""Rows by the iteration at which they are due."""


def take_due(
    place: Place, waiting: Waiting, results: Sequence[tuple[int, ZSet]], now: int
) -> tuple[ZSet, dict[int, ZSet]]:
    """Return the rows that are due now and those left, of rows that wait and new results."""
    if not waiting and not results:
        return NOTHING, {}
    left = dict(waiting)
    for iteration, rows in results:
        if len(rows) or iteration == now:
            left[iteration] = place.plus(left.get(iteration, NOTHING), rows)
    return left.pop(now, NOTHING), left


def split_by_iteration(
    place: Place,
    names: Sequence[str],
    columns: Sequence[Column],
    weights: tuple[Int64Array, Int64Array],
    times: Int64Array,
    now: int,
) -> list[tuple[int, ZSet]]:
    """Split rows by iteration: the maximum of `now` and their time; weights are products."""
    xp = place.xp
    target = xp.maximum(times, now)
    order = place.backend.kernels.lexsort([target])
    made = []
    for iteration, begin, end in iteration_ranges(target[order], place.backend):
        rows = order[begin:end]
        parts = [column.gather(rows) for column in columns]
        made.append((iteration, place.exact(names, parts, weights[0][rows], weights[1][rows])))
    return made
