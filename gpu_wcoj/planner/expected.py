"""What is said of tries before a join, and what levels and paths are expected to do; see `gpu_wcoj.planner.costs`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple


class Levels(NamedTuple):
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


class Expected(NamedTuple):
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


@dataclass(frozen=True)
class Foreseen:
    """What one changed row is expected to do on a path.

    Attributes
    ----------
    levels
        Of the seeds, and then of each step, if rows are listed.
    listing, counting
        The cost of listing the rows of the answer that it brings, and of counting them.
    """

    levels: tuple[Expected, ...]
    listing: float
    counting: float

    @property
    def cost(self) -> float:
        """Of both."""
        return math.sqrt(self.listing * self.counting)

    @property
    def proposed(self) -> float:
        """Values that are looked at, at all steps."""
        return sum(level.proposed for level in self.levels[1:])


TOO_DEAR = Foreseen((), math.inf, math.inf)
"""What is said of a path that costs more than is asked about."""
