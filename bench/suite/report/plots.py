"""The report's plots, as SVG that stands on its own: no fonts, links or names of elsewhere."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from bench.suite.record import Case
from bench.suite.report.facts import Facts, counted, cpu_per_tick, crossings, grown

Points = Mapping[str, Sequence[tuple[float, float]]]
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#000000")
"""Told apart by those who see fewer colours, too."""
MARKS = "os^vDPX<"
MOST = 30
"""Series of a plot; of more, the longest ones are drawn, and the plot's title says how many there are."""


def cyclicity(facts: Facts) -> str | None:
    """Speed-up by independent cycles of the query."""
    found: dict[str, list[tuple[float, float]]] = {}
    for pair, speedup in facts.measured():
        if pair.case.cyclicity is not None and pair.case.atoms:
            found.setdefault(pair.case.workload, []).append((pair.case.cyclicity, speedup))
    return _scatter(found, "independent cycles of the query", _SPEEDUP, x_log=False, line=1.0)


def skew(facts: Facts) -> str | None:
    """Speed-up by skew of the data."""
    found: dict[str, list[tuple[float, float]]] = {}
    for pair, speedup in facts.measured():
        if pair.case.skew is not None:
            found.setdefault(pair.case.workload, []).append((pair.case.skew, speedup))
    return _scatter(found, "skew: mean squared degree by squared mean degree", _SPEEDUP, line=1.0)


def change_size(facts: Facts) -> str | None:
    """Speed-up by change size."""
    return _along(facts, lambda case: case.change_rows, "changed rows", "changed rows of a tick")


def state_size(facts: Facts) -> str | None:
    """Speed-up by state size."""
    return _along(facts, lambda case: case.state_rows, "rows of the state", "rows of the state")


def crossover(facts: Facts) -> str | None:
    """Which strategy is faster, by skew and by the change's share of the state, and marks where that turns."""
    points = [
        (pair.case.skew, pair.share, speedup)
        for pair, speedup in facts.measured()
        if pair.is_cyclic and pair.case.skew is not None and pair.case.state_rows and pair.case.change_rows
    ]
    if len(points) < 2:
        return None
    figure, axes = _figure("skew", "changed rows by rows of the state")
    axes.set_xscale("log")
    axes.set_yscale("log")
    limit = max(1.0, *(abs(math.log2(speedup)) for _, _, speedup in points))
    drawn = axes.scatter(
        [one[0] for one in points], [one[1] for one in points], c=[math.log2(one[2]) for one in points],
        cmap="coolwarm_r", vmin=-limit, vmax=limit, s=70, edgecolors="black", linewidths=0.5,
    )  # fmt: skip
    figure.colorbar(drawn, label="log2 of the speed-up; below 0 binary joins are faster")
    turning = []
    by_skew: dict[float, dict[float, list[float]]] = {}
    for value, share, speedup in points:
        by_skew.setdefault(value, {}).setdefault(share, []).append(speedup)
    for value, shares in sorted(by_skew.items()):
        means = [(share, math.exp(sum(map(math.log, some)) / len(some))) for share, some in sorted(shares.items())]
        turning += [(value, at) for at in crossings(means)]
    if turning:
        marks = {"color": "black", "marker": "x", "linestyle": "none", "label": "as fast as each other"}
        axes.plot(*zip(*turning, strict=True), **marks)
        axes.legend()
    return _svg(figure, "crossover")


def bound(facts: Facts) -> str | None:
    """Counted work by the bound on the rows of a tick's joins."""
    found: dict[str, list[tuple[float, float]]] = {}
    for (_, name), record in facts.records.items():
        work = counted(record)
        if name in ("wcoj", "binary", "auto", "kept") and record.bound_rows and work:
            found.setdefault(name, []).append((record.bound_rows, work))
    return _scatter(
        found,
        "bound of Atserias, Grohe and Marx on a tick's rows",
        "proposals, probes and marks of a tick",
        diagonal=True,
    )


def time_by_state(facts: Facts) -> str | None:
    """Processor seconds of a tick by rows of the state, of both strategies and of joins that keep what is between."""
    found: dict[str, list[tuple[float, float]]] = {}
    for (_, name), record in facts.records.items():
        at = cpu_per_tick(record)
        if at and name in ("wcoj", "binary", "kept") and record.case.state_rows and _is_as_generated(record.case):
            found.setdefault(f"{_what(record.case)}: {name}", []).append((record.case.state_rows, at))
    several = {name: sorted(points) for name, points in found.items() if len({at for at, _ in points}) > 1}
    return _lines(several, "rows of the state", "processor seconds of a tick", line=None)


def memory(facts: Facts) -> str | None:
    """What processes grew by, by rows of the state."""
    found: dict[str, list[tuple[float, float]]] = {}
    for (_, name), record in facts.records.items():
        value = grown(record)
        if value and value > 0 and record.case.state_rows and _is_as_generated(record.case):
            found.setdefault(name, []).append((record.case.state_rows, value / 1e6))
    return _scatter(found, "rows of the state", "MB by which the process grew at most")


PLOTS: Mapping[str, Callable[[Facts], str | None]] = MappingProxyType(
    {
        "cyclicity": cyclicity, "skew": skew, "change-size": change_size, "state-size": state_size,
        "crossover": crossover, "bound": bound, "time-by-state": time_by_state, "memory": memory,
    }
)  # fmt: skip
"""By name, what draws each: None where the records do not hold enough for it."""

_SPEEDUP = "binary by worst-case optimal, times as long"


def _is_as_generated(case: Case) -> bool:
    return case.vertex_order == "generated"


def _what(case: Case) -> str:
    return f"{case.workload}, {case.data}, {case.change_rows:,} {case.kind}"


def _scatter(
    found: Points, x: str, y: str, *, x_log: bool = True, line: float | None = None, diagonal: bool = False
) -> str | None:
    if not any(found.values()):
        return None
    figure, axes = _figure(x, y)
    axes.set_yscale("log")
    if x_log:
        axes.set_xscale("log")
    for (name, points), style in zip(_most(found), _styles(), strict=False):
        axes.plot(*zip(*points, strict=True), linestyle="none", label=name, **style)
    if line is not None:
        axes.axhline(line, color="black", linewidth=0.8)
    if diagonal:
        values = [value for points in found.values() for point in points for value in point]
        axes.plot([min(values), max(values)], [min(values), max(values)], color="black", linewidth=0.8)
    return _finished(figure, axes, x + y, len(found))


def _along(facts: Facts, value: Callable[[Case], float | None], axis: str, x: str) -> str | None:
    """Speed-ups along an axis, and what they are at least where binary joins came to no end."""
    return _lines(facts.series(value, axis), x, _SPEEDUP, endless=facts.endless(value, axis))


def _lines(
    found: Points, x: str, y: str, line: float | None = 1.0, endless: Points = MappingProxyType({})
) -> str | None:
    """Lines through points, and arrows upwards from what `endless` has of them."""
    if not found:
        return None
    figure, axes = _figure(x, y)
    axes.set_xscale("log")
    axes.set_yscale("log")
    for (name, points), style in zip(_most(found), _styles(), strict=False):
        axes.plot(*zip(*points, strict=True), label=name, **style)
        for at, least in endless.get(name, ()):
            axes.plot([at, at], [least, 1.6 * least], color=style["color"], linestyle=":")
            axes.plot([at], [1.6 * least], color=style["color"], marker="^", linestyle="none", gid=f"endless at {at:g}")
        for turn in () if line is None else crossings(points):
            axes.plot([turn], [1.0], marker="x", color="black", linestyle="none")
    if line is not None:
        axes.axhline(line, color="black", linewidth=0.8)
    return _finished(figure, axes, x + y, len(found))


def _most(found: Points) -> list[tuple[str, Sequence[tuple[float, float]]]]:
    longest = sorted(found.items(), key=lambda one: -len(one[1]))[:MOST]
    return sorted(longest)


def _styles() -> list[dict[str, Any]]:
    return [
        {"color": COLOURS[i % len(COLOURS)], "marker": MARKS[(i + i // len(COLOURS)) % len(MARKS)], "markersize": 5}
        for i in range(MOST)
    ]


def _figure(x: str, y: str) -> tuple[Figure, Any]:
    figure = Figure(figsize=(9, 4.8), layout="constrained")
    axes = figure.subplots()
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(visible=True, which="major", alpha=0.3)
    return figure, axes


def _finished(figure: Figure, axes: Any, salt: str, number: int) -> str:
    if number > MOST:
        axes.set_title(f"{MOST} of {number} series")
    axes.legend(fontsize=6.5, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return _svg(figure, salt)


def _svg(figure: Figure, salt: str) -> str:
    """The same text for the same figure; names of elsewhere are left out."""
    text = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": salt, "svg.fonttype": "none"}):
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    found = text.getvalue()
    found = found[found.index("<svg") :]
    found = re.sub(r"<metadata>.*?</metadata>", "", found, flags=re.DOTALL)
    return re.sub(r' xmlns(:\w+)?="[^"]*"', "", found).replace("xlink:href", "href").strip()


def standalone(svg: str) -> str:
    """As a file of its own."""
    return svg.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1) + "\n"
