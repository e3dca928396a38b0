"""Ticks of the planner's golden programs over drawn rows, with the expected and the counted values of each rule."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import gpu_wcoj as gw
from gpu_wcoj.join.settings import tune
from tests.helpers.golden_plans import FOLDER, Case, read

Rows = npt.NDArray[np.int64]

KINDS = ("uniform", "skewed", "correlated", "hub")
"""How the values of columns are drawn; see `draw_rows`."""
N_ROWS, N_CHANGED, N_VALUES = 500, 48, 256
"""Rows of a relation, rows that a tick inserts, and values of a column; a tick deletes half as many rows."""


@dataclass(frozen=True)
class Estimate:
    """What one rule was expected to do in a tick, and what it did.

    Attributes
    ----------
    expected, counted
        Changed rows that delta paths began with, and values that they proposed.
    """

    file: str
    case: int
    kind: str
    head: str
    rule: int
    expected: float
    counted: float

    @property
    def factor(self) -> float:
        """Factor between the two, at least 1."""
        return max(self.expected, self.counted) / min(self.expected, self.counted)

    def to_json(self) -> dict[str, Any]:
        """Return the numbers, with the factor."""
        return {**asdict(self), "factor": round(self.factor, 3)}


def golden_cases() -> Iterator[tuple[str, int, Case]]:
    """Yield the golden programs that keep state, each once, with their files."""
    seen = set()
    for path in sorted(FOLDER.glob("*.txt")):
        for number, case in enumerate(read(path)):
            if (case.program, case.options) not in seen and "single_tick" not in case.arguments:
                seen.add((case.program, case.options))
                yield path.stem, number, case


def draw_rows(chance: np.random.Generator, kind: str, width: int, n: int) -> Rows:
    """Return distinct rows, in any order.

    Parameters
    ----------
    kind
        ``uniform``; ``skewed`` as the vertices of an R-MAT graph, each bit of a value is 1 with probability 0.24;
        ``correlated``, other columns are near a multiple of the first; ``hub``, a twentieth of all values are equal.
    """
    if kind == "skewed":
        bits = chance.random((n, width, N_VALUES.bit_length() - 1)) < 0.24
        rows = (bits << np.arange(bits.shape[2])).sum(axis=2)
    else:
        rows = chance.integers(0, N_VALUES, (n, width))
    if kind == "correlated":
        rows[:, 1:] = (7 * rows[:, :1] + rows[:, 1:] % 5) % N_VALUES
    elif kind == "hub":
        rows[chance.random((n, width)) < 0.05] = 3
    rows = np.unique(rows, axis=0)
    chance.shuffle(rows)
    return rows


def run_tick(case: Case, kind: str, seed: int = 1) -> Mapping[str, Any]:
    """Return the plan of a program, as JSON, with the counts of a tick after a load."""
    chance, options = np.random.default_rng(seed), case.arguments
    with tune(max_tick_rows=-1):
        program = gw.Program(
            case.program, backend="cpu", analyze=True, bag="bag" in options,
            **{name: options[name] for name in ("strategy", "order") if name in options},
        )  # fmt: skip
    load, change = {}, {}
    for name in program.inputs:
        rows = draw_rows(chance, kind, len(program.relation(name).names), N_ROWS + N_CHANGED)
        n_changed = min(N_CHANGED, len(rows) // 4)
        load[name] = rows[:-n_changed]
        change[name] = [(tuple(row), 1) for row in rows[-n_changed:].tolist()]
        change[name] += [(tuple(row), -1) for row in rows[: n_changed // 2].tolist()]
    program.step(load)
    program.step(change)
    plan: dict[str, Any] = json.loads(program.explain(analyze=True, format="json"))
    return plan


def compare(path: Mapping[str, Any]) -> tuple[float, float]:
    """Return the expected and the counted values of a delta path, changed rows included; 0 if it did not run.

    A tick that groups equal prefixes, or gives a path up, has other prefixes at the next level than were left: there
    the estimate is scaled to those that were.
    """
    n_changed = (path["seed_counts"] or {}).get("changes") or 0
    if not n_changed or path["seed_estimate"] is None:
        return 0.0, 0.0
    expected = counted = scale = float(n_changed)
    expected_rows, counted_rows = path["seed_estimate"]["rows"], None
    for level in path["levels"]:
        estimate, counts = level["estimate"], level["counts"]
        if estimate is None or counts is None:
            break
        if counted_rows not in (None, counts["prefixes"]):
            if expected_rows <= 0:
                break
            scale = counts["prefixes"] / expected_rows
        expected += scale * estimate["proposals"]
        counted += counts["proposals"]
        expected_rows, counted_rows = estimate["rows"], counts["rows"]
    return expected, counted


def estimates(in_full: bool = True) -> Iterator[Estimate]:
    """Yield the estimates of all rules of the golden programs whose paths have run.

    `in_full` is false to draw rows of one kind for each program, not of all.
    """
    for index, (file, number, case) in enumerate(golden_cases()):
        for kind in KINDS if in_full else (KINDS[index % len(KINDS)],):
            for head in run_tick(case, kind)["heads"]:
                for rule, planned in enumerate(head["rules"]):
                    expected, counted = map(sum, zip(*map(compare, planned["paths"]), strict=True))
                    if counted:
                        yield Estimate(file, number, kind, head["name"], rule, expected, counted)
