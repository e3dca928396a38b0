"""The JSON of a run, written anew after every figure, so that what was measured is there whatever happens next."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.engine.machine import write_json
from bench.gpu.place import Place

RESULTS = Path(__file__).parents[1] / "results"


@dataclass(frozen=True)
class Options:
    """What a run can be told.

    Attributes
    ----------
    scale
        Of every graph, in place of the part's own.
    edges
        Directed edges to draw, in place of the part's own.
    rows
        Rows of the largest array of the primitives.
    ticks
        Ticks of one size, at most; the part's own number if None.
    rivals
        Whether rivals run.
    seconds
        What a part may take; what has not begun by then is left out, and the report says so.
    """

    scale: int | None = None
    edges: int | None = None
    rows: int = 1 << 27
    ticks: int | None = None
    rivals: bool = True
    seconds: float = 450.0

    def graph(self, scale: int, per_vertex: int = 16) -> tuple[int, int]:
        """Scale and edges to draw, where the part's own scale is `scale`."""
        chosen = self.scale if self.scale is not None else scale
        return chosen, self.edges if self.edges is not None else per_vertex << chosen


@dataclass
class Report:
    """One part's figures.

    Attributes
    ----------
    path
        The file, or None for a report that is not kept.
    """

    part: str
    place: Place
    path: Path | None
    head: dict[str, Any] = field(default_factory=dict)
    figures: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[dict[str, str]] = field(default_factory=list)
    error: str | None = None
    began: float = field(default_factory=time.monotonic)

    def say(self, **facts: Any) -> None:
        """Facts about the part as a whole."""
        self.head.update(facts)
        self.write()

    def add(self, name: str, **values: Any) -> dict[str, Any]:
        """One figure, with whatever belongs to it."""
        figure = {"name": name, **values}
        self.figures.append(figure)
        self.write()
        shown = {key: value for key, value in values.items() if isinstance(value, (int, float, str, bool))}
        print(f"  {name}: {', '.join(f'{key} {_short(value)}' for key, value in shown.items())}", flush=True)
        return figure

    def leave_out(self, name: str, reason: str) -> None:
        """Say what was not measured, and why."""
        self.left_out.append({"name": name, "reason": reason})
        self.write()
        print(f"  {name}: not measured, {reason}", flush=True)

    def attempt(self, name: str, measure: Callable[..., object], *arguments: Any) -> bool:
        """Call `measure` if there is time left, and say whether that went well; an error ends this figure only."""
        if self.place.time_left <= 0:
            self.leave_out(name, "the part's time was over")
            return False
        try:
            measure(*arguments)
        except Exception as error:  # one figure less; the others are measured all the same
            self.leave_out(name, f"{type(error).__name__}: {error}")
            traceback.print_exc()
            self.error = self.error or f"{name}: {type(error).__name__}: {error}"
            self.place.release()
            self.write()
            return False
        return True

    def bound(self, n_candidates: int) -> dict[str, object]:
        """What the candidates of a tick take at least, at the rate of fused probes that this part measured."""
        rate = self.head.get("probes_per_s")
        if not rate or not n_candidates:
            return {}
        return {"bound": "the candidates at this run's rate of probes", "bound_seconds": n_candidates / rate}

    def document(self) -> dict[str, Any]:
        """What the JSON holds of this part."""
        return {
            "part": self.part,
            **self.head,
            "seconds": time.monotonic() - self.began,
            "error": self.error,
            "figures": self.figures,
            "left_out": self.left_out,
        }

    def write(self) -> None:
        """Write the file anew."""
        if self.path is not None:
            write_json(self.path, {"machine": self.place.described(), "parts": [self.document()]})


def against(
    figure: float, *, target: float | None = None, aim: float | None = None, most: bool = False
) -> dict[str, Any]:
    """A figure beside what it should be: at least `target`, or with `most` at most."""
    found: dict[str, Any] = {}
    for name, limit in (("target", target), ("aim", aim)):
        if limit is not None:
            found |= {name: limit, f"{name}_met": figure <= limit if most else figure >= limit}
    return found


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if type(value) is int else str(value)
