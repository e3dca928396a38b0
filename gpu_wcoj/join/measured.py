"""A generic join that measures its steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpu_wcoj.backend import Backend
from gpu_wcoj.join.generic import GenericJoin
from gpu_wcoj.join.meter import Gauge, Meter, now
from gpu_wcoj.join.plan import Step
from gpu_wcoj.join.prefixes import Prefixes
from gpu_wcoj.kernels.protocol import Int64Array


@dataclass(eq=False)
class MeasuredJoin(GenericJoin):
    """A `GenericJoin` that adds measurements of its steps to its meter."""

    def extend(self, prefixes: Prefixes, step: Step) -> Iterator[tuple[Int64Array, Prefixes]]:
        """Bind one variable as `GenericJoin.extend`; time between two pieces is not counted."""
        gauge = self._gauge(step)
        gauge.prefixes += len(prefixes)
        pieces = super().extend(prefixes, step)
        while True:
            start = now(self.backend)
            extended = next(pieces, None)
            gauge.seconds += now(self.backend) - start
            if extended is None:
                return
            gauge.rows += len(extended[1])
            gauge.nbytes += bytes_of(extended[1])
            yield extended

    def _count_last(self, prefixes: Prefixes, step: Step) -> tuple[Int64Array, int | None] | None:
        start = now(self.backend)
        counts = super()._count_last(prefixes, step)
        if counts is not None:
            gauge = self._gauge(step)
            gauge.prefixes += len(prefixes)
            gauge.seconds += now(self.backend) - start
        return counts

    def _gauge(self, step: Step) -> Gauge:
        return Gauge() if self.meter is None else self.meter.gauge(step.name)


def time_pieces(pieces: Iterator[Prefixes], gauge: Gauge, n_prefixes: int, backend: Backend) -> Iterator[Prefixes]:
    """Yield pieces made from `n_prefixes` prefixes, timed without the time between two pieces."""
    gauge.prefixes += n_prefixes
    while True:
        start = now(backend)
        piece = next(pieces, None)
        gauge.seconds += now(backend) - start
        if piece is None:
            return
        gauge.rows += len(piece)
        gauge.nbytes += bytes_of(piece)
        yield piece


def with_meter(join: GenericJoin, meter: Meter) -> MeasuredJoin:
    """Return the join with its measurements added to `meter`."""
    return MeasuredJoin(**{**vars(join), "meter": meter})


def bytes_of(prefixes: Prefixes) -> int:
    """Return the bytes of a table of prefixes."""
    columns = [*prefixes.values.values(), prefixes.positions]
    columns += [] if prefixes.weights is None else [prefixes.weights]
    return sum(int(column.nbytes) for column in columns)
