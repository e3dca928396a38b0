"""Graphs for tests on a device."""

from __future__ import annotations

import numpy as np


def hub_edges(n: int) -> list[tuple[int, int]]:
    """A skewed graph of about n edges: two hubs that know everybody, and a sparse rest."""
    chance = np.random.default_rng(n)
    nodes = max(8, n // 8)
    rest = chance.integers(0, nodes, (n, 2))
    hubs = [(hub, node) for hub in range(2) for node in range(2, nodes)]
    pairs = {(int(a), int(b)) for a, b in rest if a != b} | {(min(pair), max(pair)) for pair in hubs}
    return sorted(pairs)
