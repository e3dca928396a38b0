"""Streams out of a subcircuit: ∫."""

from __future__ import annotations

from gpu_wcoj.streams.operators.append import Append


class Eliminate(Append):
    """``∫(s) = s[0] + s[1] + ...`` over the iterations of one tick. Linear.

    It is a trace within the subcircuit, and a Z-set outside.
    """
