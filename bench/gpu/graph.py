"""R-MAT graphs drawn where they are used: every bit follows from the number of the edge, on any device.

The draws are counters sent through splitmix64, so NumPy and CuPy make the same graph, in pieces of any size. Each edge
keeps the quadrants of `gpu_wcoj.datasets.rmat`. Edges are undirected: each once, as (smaller, larger), packed into one
int64 key ``smaller << 32 | larger``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

A, B, C = 0.57, 0.19, 0.19
"""Probabilities of the quadrants (low, low), (low, high) and (high, low)."""
PIECE_EDGES = 1 << 24
"""Edges drawn at a time; it changes memory, never a bit."""
SEED = 1
_CUTS = tuple(round(p * 2**32) for p in (A, A + B, A + B + C))
_LOW = 0xFFFFFFFF


def splitmix64(x: Any) -> Any:
    """The finaliser of splitmix64, a bijection of uint64 that leaves no pattern of its input.

    References
    ----------
    G. Steele, D. Lea and C. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014,
    doi:10.1145/2660193.2660195.
    """
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def draw(xp: Any, scale: int, first: int, last: int, seed: int = SEED) -> Any:
    """Keys of the directed edges with the numbers `first` to `last`, self-loops among them as ``a << 32 | a``."""
    low = xp.zeros(last - first, np.int64)
    high = xp.zeros(last - first, np.int64)
    numbers = xp.arange(first, last, dtype=np.int64).view(np.uint64) + np.uint64(seed << 40)
    for level in range(scale):
        bits = splitmix64(numbers * np.uint64(64) + np.uint64(level))
        number = (bits >> np.uint64(32)).view(np.int64)
        low = (low << 1) | (number >= _CUTS[1]).astype(np.int64)
        across = ((number >= _CUTS[0]) & (number < _CUTS[1])) | (number >= _CUTS[2])
        high = (high << 1) | across.astype(np.int64)
    return (xp.minimum(low, high) << 32) | xp.maximum(low, high)


@dataclass(frozen=True, eq=False)
class Split:
    """A graph in two: what is loaded, and the edges that arrive after that, in the order in which they do.

    Attributes
    ----------
    scale, n_drawn, seed
        What it was drawn with.
    loaded, stream
        int64 keys on the device; `loaded` is sorted, `stream` is in a random order.
    """

    scale: int
    n_drawn: int
    seed: int
    loaded: Any
    stream: Any

    def described(self) -> dict[str, int]:
        """Sizes, for a report."""
        return {
            "scale": self.scale,
            "drawn_edges": self.n_drawn,
            "seed": self.seed,
            "undirected_edges": len(self.loaded) + len(self.stream),
            "loaded": len(self.loaded),
            "stream": len(self.stream),
        }


def undirected(xp: Any, scale: int, n_drawn: int, seed: int = SEED, piece: int = PIECE_EDGES) -> Any:
    """The distinct keys of `n_drawn` directed edges, sorted, self-loops left out."""
    keys = xp.empty(n_drawn, np.int64)
    for first in range(0, n_drawn, piece):
        last = min(first + piece, n_drawn)
        keys[first:last] = draw(xp, scale, first, last, seed)
    keys = sorted_distinct(xp, keys)
    low, high = unpacked(keys)
    return xp.take(keys, xp.flatnonzero(low != high))


def sorted_distinct(xp: Any, keys: Any) -> Any:
    """The keys in order, each once."""
    keys = xp.sort(keys)
    if len(keys) < 2:
        return keys
    first = xp.concatenate([xp.ones(1, np.bool_), keys[1:] != keys[:-1]])
    return xp.take(keys, xp.flatnonzero(first))


def split(xp: Any, scale: int, n_drawn: int, n_stream: int, seed: int = SEED) -> Split:
    """A graph whose stream is the `n_stream` edges with the smallest hashes, in the order of these."""
    keys = undirected(xp, scale, n_drawn, seed)
    if not 0 < n_stream < len(keys):
        raise ValueError(f"a stream of {n_stream:,} edges does not fit a graph of {len(keys):,}")
    order = xp.argsort(splitmix64(keys.view(np.uint64) ^ np.uint64(seed)))  # a bijection: no two are equal
    at = order[:n_stream]
    stays = xp.ones(len(keys), np.bool_)
    stays[at] = False
    return Split(scale, n_drawn, seed, xp.take(keys, xp.flatnonzero(stays)), xp.take(keys, at))


def unpacked(keys: Any) -> tuple[Any, Any]:
    """The smaller and the larger vertex of every key, int64."""
    return keys >> 32, keys & _LOW


def packed(smaller: Any, larger: Any) -> Any:
    """The keys of pairs."""
    return (smaller << 32) | larger
