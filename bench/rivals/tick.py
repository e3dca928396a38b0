"""What one contender did in each tick."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Tick:
    """One tick: edges that arrived, triangles that they closed, seconds from edges to counts.

    Attributes
    ----------
    cpu
        Seconds of these in which it computed; None where the system does not tell.
    """

    edges: int
    triangles: int
    seconds: float
    cpu: float | None = None


@dataclass(frozen=True)
class Run:
    """A contender's ticks.

    Attributes
    ----------
    stopped
        Why there are no more, or None.
    """

    contender: str
    nodes: int
    ticks: Sequence[Tick]
    stopped: str | None = None

    @property
    def seconds(self) -> float:
        """Of all ticks."""
        return sum(tick.seconds for tick in self.ticks)

    @property
    def cpu(self) -> float | None:
        """Of these, those in which it computed."""
        known = [tick.cpu for tick in self.ticks if tick.cpu is not None]
        return sum(known) if len(known) == len(self.ticks) else None

    @property
    def slowest(self) -> int:
        """The number of the slowest tick, from 0 on."""
        return max(range(len(self.ticks)), key=lambda i: self.ticks[i].seconds)

    def summary(self) -> dict[str, object]:
        """What is reported."""
        found: dict[str, object] = {"contender": self.contender, "nodes_per_tick": self.nodes, "ticks": len(self.ticks)}
        if self.ticks:
            slowest = self.ticks[self.slowest]
            found |= {
                "edges": sum(tick.edges for tick in self.ticks),
                "triangles": sum(tick.triangles for tick in self.ticks),
                "seconds": self.seconds,
                "cpu_seconds": self.cpu,
                "median_tick": statistics.median(tick.seconds for tick in self.ticks),
                "slowest_tick": {
                    "number": self.slowest,
                    "edges": slowest.edges,
                    "seconds": slowest.seconds,
                    "cpu_seconds": slowest.cpu,
                },
            }
        return found | ({"stopped": self.stopped} if self.stopped else {})


class CountError(RuntimeError):
    """Two contenders count differently."""


def check(runs: Sequence[Run]) -> None:
    """Every contender counts what the first one does, tick by tick, as far as it came.

    Raises
    ------
    CountError
        Where they differ.
    """
    first = runs[0]
    for run in runs[1:]:
        for number, (own, other) in enumerate(zip(run.ticks, first.ticks, strict=False)):
            if (own.edges, own.triangles) != (other.edges, other.triangles):
                raise CountError(
                    f"tick {number} of {run.nodes} nodes: {run.contender} found {own.triangles} triangles for "
                    f"{own.edges} edges, {first.contender} {other.triangles} for {other.edges}."
                )
