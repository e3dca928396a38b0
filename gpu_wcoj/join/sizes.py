"""Estimates of the number of values of a step, by a sample of range widths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_wcoj.join.conditions import find_bounds
from gpu_wcoj.join.plan import Step
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
    min_widths = xp.full(len(rows), np.iinfo(np.int64).max, np.int64)
    offset, first = 0, dict[int, tuple[int, int]]()
    for atom, depth in sample.layout:
        first[atom] = offset, depth
        offset += len(join.batches[atom])
    for atom in step.atoms:
        offset, depth = first.get(atom, (0, 0))
        levels = [batch.levels[depth] for batch in join.batches[atom]]
        places = range(offset, offset + len(levels))
        widths = join.backend.kernels.widths(levels, places, sample.positions, lower, upper)
        min_widths = xp.minimum(min_widths, widths)
    return min_widths.sum() * (len(prefixes) / len(rows))
