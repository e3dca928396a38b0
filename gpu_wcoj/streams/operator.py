"""Base class of operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpu_wcoj.streams.device_context import Place
    from gpu_wcoj.streams.scope import Scope
    from gpu_wcoj.streams.time import Time


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
    scope: Scope

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
