"""What is said of tries before a join, and what a level is expected to do; see `gpu_wcoj.planner.costs`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Levels:
    """One atom: its trie in the order in which a path binds its variables.

    Attributes
    ----------
    variables
        Of its levels.
    distinct
        Per level, how many prefixes end there; the last is the number of rows.
    met
        Per level but the last, children of a prefix that was met through rows; empty if not known.
    """

    variables: tuple[str, ...]
    distinct: tuple[float, ...]
    met: tuple[float, ...] = ()

    def degree(self, depth: int) -> float:
        """Values of level `depth` below one prefix."""
        if depth == 0:
            return self.distinct[0]
        if self.met:
            return self.met[depth - 1]
        return self.distinct[depth] / max(self.distinct[depth - 1], 1.0)


@dataclass(frozen=True)
class Expected:
    """One level.

    Attributes
    ----------
    variable
        What it binds; empty for the seeds.
    proposed
        Values that the smallest atom has, over all prefixes.
    rows
        Prefixes that are left.
    """

    variable: str
    proposed: float
    rows: float
