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
    proposals
        Values that its joins tried; None where it does not count them.
    """

    edges: int
    triangles: int
    seconds: float
    cpu: float | None = None
    proposals: int | None = None


@dataclass(frozen=True)
class Run:
    """A contender's ticks.

    Attributes
    ----------
    stopped
        Why there are no more, or None.
    unfinished
        Seconds that it had computed for the next tick when it was stopped; None where that is not known.
    """

    contender: str
    nodes: int
    ticks: Sequence[Tick]
    stopped: str | None = None
    unfinished: float | None = None

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

    @property
    def largest(self) -> int:
        """The number of the tick with the most edges, from 0 on."""
        return max(range(len(self.ticks)), key=lambda i: self.ticks[i].edges)

    def beside(self, other: Run) -> dict[str, object]:
        """How many times as long as `other` this one took for the ticks that both have done, and for the largest.

        In seconds in which they computed where both tell them, else in seconds that passed.

        Examples
        --------
        >>> one, two = Run("one", 1, [Tick(3, 1, 0.5), Tick(9, 1, 0.1)]), Run("two", 1, [Tick(3, 1, 1.5)])
        >>> two.beside(one)
        {'contender': 'two', 'beside': 'one', 'nodes_per_tick': 1, 'ticks': 1, 'times': 3.0, 'times_largest': 3.0}
        """
        pairs = list(zip(self.ticks, other.ticks, strict=False))
        found: dict[str, object] = {"contender": self.contender, "beside": other.contender}
        found |= {"nodes_per_tick": self.nodes, "ticks": len(pairs)}
        if pairs:
            largest = max(pairs, key=lambda pair: pair[0].edges)
            found |= {"times": _times(pairs), "times_largest": _times([largest])}
        if self.unfinished is not None and len(self.ticks) < len(other.ticks):
            next_one = other.ticks[len(self.ticks)]
            done = next_one.seconds if next_one.cpu is None else next_one.cpu
            found["unfinished_tick"] = {
                "number": len(self.ticks), "edges": next_one.edges, "cpu_seconds_at_least": self.unfinished,
                "times_at_least": self.unfinished / max(done, 1e-9),
            }  # fmt: skip
        return found

    def summary(self) -> dict[str, object]:
        """What is reported."""
        found: dict[str, object] = {"contender": self.contender, "nodes_per_tick": self.nodes, "ticks": len(self.ticks)}
        if self.ticks:
            slowest, largest = self.ticks[self.slowest], self.ticks[self.largest]
            found |= {
                "edges": sum(tick.edges for tick in self.ticks),
                "triangles": sum(tick.triangles for tick in self.ticks),
                "seconds": self.seconds,
                "cpu_seconds": self.cpu,
                "median_tick": statistics.median(tick.seconds for tick in self.ticks),
                "slowest_tick": _shown(self.slowest, slowest),
                "largest_tick": _shown(self.largest, largest),
            }
        return found | ({"stopped": self.stopped} if self.stopped else {})


def _shown(number: int, tick: Tick) -> dict[str, object]:
    found: dict[str, object] = {"number": number, "edges": tick.edges}
    found |= {"seconds": tick.seconds, "cpu_seconds": tick.cpu}
    return found | ({} if tick.proposals is None else {"proposals": tick.proposals})


def _times(pairs: Sequence[tuple[Tick, Tick]]) -> float:
    own = [(one.cpu, other.cpu) for one, other in pairs if one.cpu is not None and other.cpu is not None]
    if len(own) < len(pairs):
        own = [(one.seconds, other.seconds) for one, other in pairs]
    return sum(one for one, _ in own) / max(sum(other for _, other in own), 1e-9)


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
