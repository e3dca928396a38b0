"""Programs whose plans change while they run, with random streams and unchanged twins."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from gpu_wcoj import Program
from gpu_wcoj.engine import state as replanning_module
from gpu_wcoj.kernels.protocol import PROPOSALS
from gpu_wcoj.planner import replan

RULE = "h(a, b, c, d) :- s(a, d), r(a, b, c), u(b), v(c)."
"""From a change of s, b should come before c where u has few rows, and c before b where v has."""

Tick = dict[str, Any]


def stream(n_ticks: int, swap_at: int, seed: int = 0, n: int = 12_000, changes: int = 100) -> Iterator[Tick]:
    """A tick that loads, then small ones; in one of them u gets many rows, and v loses all but one."""
    random_numbers = np.random.default_rng(seed)
    side = 100
    rows = np.stack([random_numbers.integers(0, top, n) for top in (40, side, side)], axis=1)
    yield {"r": np.unique(rows, axis=0), "u": [(0,)], "v": [(i,) for i in range(side)], "s": [(0, 0)]}
    kept: list[tuple[int, int]] = []
    for number in range(n_ticks):
        new = list({(int(a), int(d)) for a, d in random_numbers.integers(0, [40, 10**6], (changes, 2))})
        gone = kept[: len(kept) // 4]
        kept = kept[len(gone) :] + new
        tick: Tick = {"s": [(row, 1) for row in new] + [(row, -1) for row in gone]}
        if number == swap_at:
            tick["u"] = [(i,) for i in range(1, side)]
            tick["v"] = [((i,), -1) for i in range(1, side)]
        yield tick


def proposed(program: Program) -> int:
    """Values that the last tick looked at."""
    heads = program.last_tick.work.values()
    return sum(
        counted.item(PROPOSALS)
        for rules in heads
        for paths in rules.values()
        for steps in paths.values()
        for counted in steps.values()
    )


def was_replanned(program: Program) -> bool:
    return "\nplan: chosen anew before tick" in program.explain()


def run_both(replanned: Program, fixed: Program, ticks: Iterator[Tick]) -> tuple[list[int], list[int]]:
    """Feed both, and compare every answer; the values that the ticks proposed."""
    work: tuple[list[int], list[int]] = ([], [])
    for tick in ticks:
        found, expected = replanned.step(tick), fixed.step(tick)
        assert {name: one.rows() for name, one in found.items()} == {name: one.rows() for name, one in expected.items()}
        for one, program in zip(work, (replanned, fixed), strict=True):
            one.append(proposed(program))
    for name in fixed.heads:
        assert replanned.relation(name).rows() == fixed.relation(name).rows()
        assert replanned.count(name) == fixed.count(name)
    return work


def every_tick(monkeypatch: pytest.MonkeyPatch, cheaper: Callable[..., dict[replan.Place, float]]) -> None:
    """Every tick begins by taking the paths of another plan that these are."""

    def hurry(self: replan.Feedback, *_: Any, **__: Any) -> None:
        self.is_due = True
        self.done = defaultdict(float)

    monkeypatch.setattr(replanning_module, "_cheaper", cheaper)
    monkeypatch.setattr(replanning_module, "SORTING", 0.0)
    monkeypatch.setattr(replanning_module, "CLEARLY", 0.0)
    monkeypatch.setattr(replan.Feedback, "observe", hurry)
