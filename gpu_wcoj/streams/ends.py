"""Streams whose source is connected later: feedbacks and forward declarations."""

from __future__ import annotations

from gpu_wcoj.errors import CircuitError
from gpu_wcoj.streams.operators.feedback import Feedback, Forward
from gpu_wcoj.streams.stream import Stream


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
