"""What an operator of a circuit is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpu_wcoj.streams.place import Place
    from gpu_wcoj.streams.scope import Scope
    from gpu_wcoj.streams.time import Time


class Operator:
    """A function from streams to a stream: once a tick, or once an iteration, from the values at hand to one value.

    Attributes
    ----------
    state
        All that is kept from one call to the next, as an immutable value: it is replaced, never changed, so that a
        tick that fails can be undone by putting the former value back.
    scope
        The circuit, or subcircuit, that it was added to.

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
    scope: Scope

    def evaluate(self, *inputs: Any, **_: Any) -> Any:
        """The value of the output, from those of the inputs; an operator takes as many as it has."""
        raise NotImplementedError

    def clock_start(self, scope: int) -> None:
        """A clock starts: 0 is that of the operator's own circuit, 1 that of the circuit around it.

        For an operator in a subcircuit, clock 1 starts before the first tick, and clock 0 at the beginning of every
        tick; for others clock 0 starts before the first tick.
        """

    def clock_stop(self, scope: int) -> None:
        """A clock stops; see `clock_start`."""

    @property
    def settled(self) -> bool:
        """Whether the last call left the state as it was, so that equal inputs would give an equal output again.

        A subcircuit is at its fixpoint once this is so for all of its operators.
        """
        return True

    @property
    def label(self) -> str:
        """What it does, in a few words."""
        return type(self).__name__

    @property
    def place(self) -> Place:
        """Where its circuit computes."""
        return self.scope.place

    @property
    def time(self) -> Time:
        """The time of its circuit."""
        return self.scope.time
