"""Estimates of the number of values of a step, by a sample of range widths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_wcoj.join.conditions import find_bounds
from gpu_wcoj.join.path import Step
from gpu_wcoj.join.prefixes import Prefixes

if TYPE_CHECKING:
    from gpu_wcoj.join.generic import GenericJoin

N_SAMPLED = 1024
"""Prefixes in the sample, evenly spaced."""


def estimate_values(join: GenericJoin, prefixes: Prefixes, step: Step) -> Any:
    """Estimate the number of values of a step over all prefixes, by narrowest atoms; an array."""
    xp = join.backend.xp
    rows = xp.arange(0, len(prefixes), max(1, len(prefixes) // N_SAMPLED))
    sample = prefixes.gather(rows, xp)
    lower, upper, _ = find_bounds(step, sample.values, len(rows), join.backend)
    least = xp.full(len(rows), np.iinfo(np.int64).max, np.int64)
    at, first = 0, dict[int, tuple[int, int]]()
    for atom, depth in sample.layout:
        first[atom] = at, depth
        at += len(join.batches[atom])
    for atom in step.atoms:
        at, depth = first.get(atom, (0, 0))
        levels = [batch.levels[depth] for batch in join.batches[atom]]
        places = range(at, at + len(levels))
        found = join.backend.kernels.widths(levels, places, sample.positions, lower, upper)
        least = xp.minimum(least, found)
    return least.sum() * (len(prefixes) / len(rows))
