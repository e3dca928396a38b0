"""What a tick moves and what it says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.planner.types import Types
from gpu_wcoj.routing.sides import Sides

Work = dict[str, dict[int, dict[int, dict[str, Int64Array]]]]
"""Per head, rule, delta path and variable, what the kernels counted; see `gpu_wcoj.kernels.protocol`."""


@dataclass(frozen=True)
class TickReport:
    """What the last tick did.

    Attributes
    ----------
    tick
        Its number, from 0; -1 before the first.
    seconds
        How long it took, reading of the changes included.
    ignored
        Per input relation, the given rows that changed nothing.
    work
        Per head, rule, delta path and variable, what the kernels counted.
    merged_rows
        Rows that merging batches read.
    backend
        Where it ran; empty before the first tick, and after one without changes.
    backlog_rows
        Where the state is kept twice: per backend, the changed rows that it has still to take in.
    """

    tick: int = -1
    seconds: float = 0.0
    ignored: Mapping[str, int] = field(default_factory=dict)
    work: Work = field(default_factory=dict, compare=False)
    merged_rows: int = 0
    backend: str = ""
    backlog_rows: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class State:
    """All that a tick moves, immutable: a tick has happened once this is replaced, by one assignment.

    Attributes
    ----------
    types
        What is known of the columns' types.
    names
        What columns are called, per relation.
    report
        Of the last tick.
    sides
        The rows; None before the first.
    """

    types: Types
    names: Mapping[str, tuple[str, ...]]
    report: TickReport = TickReport()
    sides: Sides | None = None
