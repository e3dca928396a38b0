"""What a tick costs on either side, as a line in the number of changed rows, and where the two lines cross."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

ALWAYS = 1 << 62
"""More rows than any tick has."""


@dataclass(frozen=True)
class SideCosts:
    """Expected seconds on one side: ``fixed + per_row * rows``.

    Attributes
    ----------
    fixed, per_row
        Of a tick.
    take_in_fixed, take_in_per_row
        Of taking in a backlog.
    """

    fixed: float
    per_row: float
    take_in_fixed: float
    take_in_per_row: float

    def tick(self, n_rows: float) -> float:
        """Of a tick."""
        return self.fixed + self.per_row * n_rows

    def take_in(self, n_rows: float) -> float:
        """Of taking in a backlog."""
        return self.take_in_fixed + self.take_in_per_row * n_rows


@dataclass(frozen=True)
class CostModel:
    """The costs of both sides. A tick costs what it takes where it runs, and what the other side pays to take it in.

    The fixed part of taking in is shared by many ticks and counts only where a backlog stands before a tick.

    Attributes
    ----------
    device, cpu
        The primary side and its twin.
    build_per_row
        Seconds that a row of the state costs when a twin is built.
    is_measured
        Whether the costs were measured on this machine.
    """

    device: SideCosts
    cpu: SideCosts
    build_per_row: float
    is_measured: bool = True

    def saving(self, n_rows: float) -> float:
        """Seconds that a tick of that many rows saves if it runs on the twin and both sides are ready; perhaps below 0.

        Examples
        --------
        >>> ASSUMED.saving(0) > 0 > ASSUMED.saving(10**6)
        True
        """
        there = self.device.tick(n_rows) + self.cpu.take_in_per_row * n_rows
        here = self.cpu.tick(n_rows) + self.device.take_in_per_row * n_rows
        return there - here

    @property
    def threshold(self) -> int:
        """Ticks of fewer rows cost less on the twin.

        Examples
        --------
        >>> ASSUMED.threshold
        30000
        """
        at_none, slope = self.saving(0), self.saving(0) - self.saving(1)
        if at_none <= 0:
            return 0
        return ALWAYS if slope <= 0 else min(ALWAYS, math.ceil(round(at_none / slope, 6)))

    def to_json(self) -> dict[str, Any]:
        """For a file."""
        return {"device": asdict(self.device), "cpu": asdict(self.cpu), "build_per_row": self.build_per_row}

    @classmethod
    def from_json(cls, data: Any) -> CostModel:
        """What `to_json` gave.

        Raises
        ------
        ValueError
            If it is anything else.
        """
        device, cpu, build_per_row = _fields(data, ("device", "cpu", "build_per_row"))
        return cls(_side(device), _side(cpu), _seconds(build_per_row))


def _side(data: Any) -> SideCosts:
    return SideCosts(*map(_seconds, _fields(data, [field.name for field in fields(SideCosts)])))


def _fields(data: Any, names: Sequence[str]) -> list[Any]:
    if not isinstance(data, Mapping) or set(data) != set(names):
        raise ValueError(f"costs are {', '.join(names)}")
    return [data[name] for name in names]


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise ValueError(f"{value!r} is no number of seconds")
    return float(value)


ASSUMED = CostModel(
    device=SideCosts(3.3e-3, 0.0, 2e-3, 0.0),
    cpu=SideCosts(0.3e-3, 0.5e-6, 0.2e-3, 0.4e-6),
    build_per_row=0.4e-6,
    is_measured=False,
)
"""Until they are measured: costs that cross at 30 000 rows, as published ones of single operators do."""
