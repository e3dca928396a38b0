"""Streams out of a subcircuit: ∫."""

from __future__ import annotations

from gpu_wcoj.streams.operators.integrate import Integrate


class Eliminate(Integrate):
    """``∫(s) = s[0] + s[1] + ...`` over the iterations of one tick, which end when nothing more comes. Linear."""
