"""Streams whose source is named later: feedbacks, and streams that are defined later."""

from __future__ import annotations

from gpu_wcoj.errors import CircuitError
from gpu_wcoj.streams.operators.feedback import Feedback, Forward
from gpu_wcoj.streams.stream import Stream


class FeedbackStream(Stream):
    """What a feedback gives."""

    def connect(self, stream: Stream) -> None:
        """Let the feedback give, the next time, what this stream holds."""
        _connect(self, stream, Feedback)


class ForwardStream(Stream):
    """A stream that is defined later."""

    def connect(self, stream: Stream) -> None:
        """Define it: it holds what this stream holds."""
        _connect(self, stream, Forward)
        self.node.inputs.append(stream.node)


def _connect(end: Stream, stream: Stream, kind: type[Feedback | Forward]) -> None:
    operator = end.node.operator
    assert isinstance(operator, kind)
    if stream.scope is not end.scope:
        raise CircuitError(f"{stream} is of another circuit, or of another level of this one, than {end}.")
    if operator.source is not None:
        raise CircuitError(f"{end} is connected already, with node {operator.source}.")
    operator.source = stream.node
