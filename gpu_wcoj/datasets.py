"""Reproducible generated data: a skewed graph, a stream of payments, tables of transfers."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gpu_wcoj.errors import UsageError, entry_point

Int64Array = npt.NDArray[np.int64]
Columns = dict[str, npt.NDArray[Any]]

_ROUND_EDGES: Final = 1 << 20
"""Edges drawn per round. A part of the definition: another value makes another graph."""


@entry_point
def rmat(
    scale: int = 17, edges: int = 2_000_000, seed: int = 1, *, a: float = 0.57, b: float = 0.19, c: float = 0.19
) -> Int64Array:
    """Return distinct directed edges of a recursive-matrix graph without self-loops.

    The edges are in the order in which they were drawn.

    Every edge picks one of four quadrants `scale` times, with probabilities `a` (low, low), `b` (low, high),
    `c` (high, low) and the rest (high, high).

    Parameters
    ----------
    scale
        There are ``2**scale`` vertices, 0 to ``2**scale - 1``.
    edges
        How many edges.
    seed
        Of the random numbers.
    a, b, c
        Probabilities of three quadrants.

    Returns
    -------
    int64, shape (edges, 2)
        Source and target of every edge.

    Raises
    ------
    UsageError
        If the scale is not 1 to 31, there are too few vertices for so many edges, or a quadrant has no probability.

    References
    ----------
    D. Chakrabarti, Y. Zhan and C. Faloutsos, "R-MAT: A recursive model for graph mining", SDM 2004,
    doi:10.1137/1.9781611972740.43.

    Examples
    --------
    >>> rmat(scale=4, edges=5, seed=1).tolist()
    [[1, 0], [8, 4], [4, 3], [0, 4], [12, 0]]
    """
    _check_seed(seed)
    if not 1 <= scale <= 31:
        raise UsageError.invalid_value("scale", scale, "1 to 31", "The graph has 2**scale vertices.")
    vertices = 1 << scale
    if not 0 <= edges <= vertices * (vertices - 1) // 4:
        raise UsageError.invalid_value(
            "edges",
            edges,
            f"0 to {vertices * (vertices - 1) // 4} for {vertices} vertices",
            "Raise the scale for more edges.",
        )
    if not all(0 < part < 1 for part in (a, b, c, 1 - a - b - c)):
        raise UsageError.invalid_value("(a, b, c)", (a, b, c), "three numbers above 0 whose sum is below 1")
    keys = np.empty(0, np.int64)
    rounds = 0
    while len(keys) < edges:
        # Few edges need the start of a round only. If it has too few, a longer one is drawn in its place.
        for size in (4 * edges, _ROUND_EDGES):
            drawn = _draw_keys(seed, scale, rounds, min(size, _ROUND_EDGES), (a, a + b, a + b + c))
            longer = np.concatenate([keys, drawn])
            longer = longer[np.sort(np.unique(longer, return_index=True)[1])]
            if len(longer) >= edges or size >= _ROUND_EDGES:
                break
        keys, rounds = longer, rounds + 1
    keys = keys[:edges]
    return np.stack([keys // vertices, keys % vertices], axis=1)


def _check_seed(seed: int) -> None:
    if seed < 0:
        raise UsageError.invalid_value("seed", seed, "an integer from 0 on")


def _draw_keys(seed: int, scale: int, rounds: int, size: int, bounds: tuple[float, float, float]) -> Int64Array:
    """First `size` edges of a round, without self-loops, as source * 2**scale + target."""
    bits = np.random.PCG64(seed).advance(rounds * scale * _ROUND_EDGES)
    random = np.random.Generator(bits)
    source = np.zeros(size, np.int64)
    target = np.zeros(size, np.int64)
    low_high, high_low, high_high = bounds
    for _ in range(scale):
        draw = random.random(size)
        bits.advance(_ROUND_EDGES - size)
        source = 2 * source + (draw >= high_low)
        target = 2 * target + (((draw >= low_high) & (draw < high_low)) | (draw >= high_high))
    keys: Int64Array = ((source << scale) + target)[source != target]
    return keys


@entry_point
def undirected(directed: Int64Array) -> Int64Array:
    """Return each edge once, as (smaller, larger), in a reproducible random order.

    Parameters
    ----------
    directed
        int64, shape (n, 2), without self-loops.

    Examples
    --------
    >>> undirected(np.array([[2, 1], [1, 2], [0, 2]])).tolist()
    [[0, 2], [1, 2]]
    """
    if not len(directed):
        return directed
    vertices = int(directed.max()) + 1
    keys = np.unique(directed.min(axis=1) * vertices + directed.max(axis=1))
    keys = np.random.default_rng(1).permutation(keys)
    return np.stack([keys // vertices, keys % vertices], axis=1)


@entry_point
def payments(
    transfers: int = 200_000, accounts: int = 20_000, seed: int = 1, *, tick_rows: int = 1000
) -> dict[str, Int64Array]:
    """Return a stream of payments between accounts; a quarter of them is reversed later.

    Every pair of accounts is inserted once.

    Six payments of ten stay within a group of some forty accounts, where rings arise; the others go to accounts of
    very unequal popularity. A reversal deletes the payment, within the time of about a tenth of the stream.

    Parameters
    ----------
    transfers
        How many distinct payments are made.
    accounts
        How many accounts there are, 0 to ``accounts - 1``.
    seed
        Of the random numbers.
    tick_rows
        How many changes make a tick.

    Returns
    -------
    dict
        Columns ``src``, ``dst``, ``weight`` (1 for a payment, -1 for its reversal) and ``tick`` (ascending from 0),
        each int64 of shape (n,), with n between `transfers` and twice that.

    Raises
    ------
    UsageError
        If there are too few accounts for so many payments, or `tick_rows` is less than 1.

    Examples
    --------
    >>> stream = payments(transfers=1000, accounts=500, tick_rows=100)
    >>> len(stream["src"]), int(stream["weight"].sum()), int(stream["tick"][-1])
    (1240, 760, 12)
    """
    _check_seed(seed)
    if accounts < 1:
        raise UsageError.invalid_value("accounts", accounts, "an integer from 1 on")
    max_transfers = min(10 * accounts, accounts * (accounts - 1) // 4)
    if not 0 <= transfers <= max_transfers:
        raise UsageError.invalid_value("transfers", transfers, f"0 to {max_transfers} for {accounts} accounts")
    if tick_rows < 1:
        raise UsageError.invalid_value("tick_rows", tick_rows, "an integer from 1 on")
    random = np.random.default_rng(seed)
    keys = np.empty(0, np.int64)
    while len(keys) < transfers:
        drawn = _draw_payments(random, 2 * transfers, accounts)
        keys = np.concatenate([keys, drawn])
        keys = keys[np.sort(np.unique(keys, return_index=True)[1])]
    keys = keys[:transfers]
    made = np.arange(transfers, dtype=np.float64)
    reversed_mask = random.random(transfers) < 0.25
    undone = (made + 0.5 + random.exponential(transfers / 40, transfers))[reversed_mask]
    order = np.argsort(np.concatenate([made, undone]), kind="stable")
    rows = np.concatenate([keys, keys[reversed_mask]])[order]
    weights = np.concatenate([np.ones(transfers, np.int64), np.full(len(undone), -1)])[order]
    return {
        "src": rows // max(1, accounts),
        "dst": rows % max(1, accounts),
        "weight": weights,
        "tick": np.arange(len(rows)) // tick_rows,
    }


@entry_point
def transfers(transfers: int = 200_000, accounts: int | None = None, seed: int = 1) -> tuple[Columns, Columns]:
    """Return the columns of accounts and of dated transfers, for `gw.find` and SQL.

    Sources, targets and their groups are those of `payments`; none is reversed.

    Parameters
    ----------
    transfers
        How many transfers are made, each between another pair of accounts.
    accounts
        How many accounts there are; by default a tenth of the transfers, and at least 1,000.
    seed
        Of the random numbers.

    Returns
    -------
    tuple of dict
        Columns of accounts, ``id`` (int64) and ``country`` (string); and of transfers, ``src`` and ``dst`` (int64),
        ``amount`` (int64, 1 to 1,000) and ``time`` (timestamps of the year 2026, ascending).

    Raises
    ------
    UsageError
        If there are too few accounts for so many transfers.

    Examples
    --------
    >>> accounts, made = transfers(1000, accounts=500)
    >>> list(accounts), list(made), len(made["src"])
    (['id', 'country'], ['src', 'dst', 'amount', 'time'], 1000)
    """
    accounts = max(1_000, transfers // 10) if accounts is None else accounts
    stream = payments(transfers, accounts, seed, tick_rows=1)
    made = stream["weight"] > 0
    random = np.random.default_rng([seed, 1])
    first = np.datetime64("2026-01-01", "s")
    times = first + np.sort(random.integers(0, 365 * 24 * 3600, transfers)).astype("timedelta64[s]")
    countries = np.array(["CH", "DE", "FR", "NO", "US"])
    return (
        {"id": np.arange(accounts), "country": countries[random.integers(0, 5, accounts)]},
        {
            "src": stream["src"][made],
            "dst": stream["dst"][made],
            "amount": random.integers(1, 1001, transfers),
            "time": times.astype("datetime64[us]"),
        },
    )


def _draw_payments(random: np.random.Generator, count: int, accounts: int) -> Int64Array:
    """Draw `count` payments as ``source * accounts + target``, without payments to oneself."""
    source = random.integers(0, accounts, count)
    popular = (accounts * random.random(count) ** 4).astype(np.int64)
    near = (source // 40) * 40 + random.integers(0, 40, count)
    target = np.where(random.random(count) < 0.6, np.minimum(near, accounts - 1), popular)
    apart = source != target
    keys: Int64Array = source[apart] * accounts + target[apart]
    return keys
