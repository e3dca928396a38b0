"""The generated data: the same numbers as the standard graph's counts, and a stream that deletes what is there."""

from __future__ import annotations

import numpy as np
import pytest

import gpu_wcoj as gw
from gpu_wcoj import datasets
from gpu_wcoj.errors import UsageError


def _max_degree(edges: np.ndarray) -> int:
    return int(np.bincount(edges.ravel()).max())


@pytest.mark.long
def test_rmat_with_defaults_is_the_standard_graph():
    directed = datasets.rmat()
    assert directed.shape == (2_000_000, 2)
    assert directed.dtype == np.int64
    assert int(directed.max()) < 1 << 17
    assert bool((directed[:, 0] != directed[:, 1]).all())
    assert len(np.unique(directed[:, 0] << 17 | directed[:, 1])) == 2_000_000
    edges = datasets.undirected(directed)
    assert len(edges) == 1_918_144
    assert _max_degree(edges) == 16_074
    assert bool((edges[:, 0] < edges[:, 1]).all())


def test_transfers_are_tables_in_which_rings_are_found():
    accounts, transfers = datasets.transfers(3_000, accounts=2_000, seed=7)
    assert (len(accounts["id"]), len(transfers["src"])) == (2_000, 3_000)
    pairs = list(zip(transfers["src"].tolist(), transfers["dst"].tolist(), strict=True))
    assert len(set(pairs)) == 3_000
    assert set(map(min, pairs)) | set(map(max, pairs)) <= set(accounts["id"].tolist())
    times = transfers["time"].tolist()
    assert times == sorted(times)
    assert {times[0].year, times[-1].year} == {2026}
    again = datasets.transfers(3_000, accounts=2_000, seed=7)[1]
    assert all((again[name] == transfers[name]).all() for name in transfers)
    rings = gw.find(
        "(a)-[t1]->(b); (b)-[t2]->(c); (c)-[t3]->(a)", vertices=accounts, edges=transfers,
        where="t1.amount > 900 and t2.time > t1.time", semantics="nodes-distinct",
    )  # fmt: skip
    edges = {pair: i for i, pair in enumerate(pairs)}
    amounts = transfers["amount"].tolist()
    expected = sum(
        amounts[edges[a, b]] > 900 and times[edges[b, c]] > times[edges[a, b]]
        for a, b in pairs for c in range(2_000) if (b, c) in edges and (c, a) in edges and len({a, b, c}) == 3
    )  # fmt: skip
    assert len(rings) == expected > 0


def test_undirected_keeps_each_edge_once_in_a_fixed_random_order():
    directed = datasets.rmat(scale=8, edges=2000, seed=3)
    edges = datasets.undirected(directed)
    assert {tuple(edge) for edge in edges.tolist()} == {tuple(sorted(edge)) for edge in directed.tolist()}
    assert edges.tolist() == datasets.undirected(directed).tolist()
    assert edges.tolist() != sorted(edges.tolist())


def test_no_edges():
    assert datasets.undirected(datasets.rmat(scale=3, edges=0)).shape == (0, 2)


@pytest.mark.parametrize(
    ("scale", "edges", "match"),
    [(0, 1, "scale=0 is not allowed"), (32, 1, "scale=32 is not allowed"), (3, 15, "0 to 14")],
)
def test_rmat_refuses(scale: int, edges: int, match: str):
    with pytest.raises(UsageError, match=match):
        datasets.rmat(scale, edges)


@pytest.mark.parametrize("seed", [1, 2])
def test_payments_insert_the_absent_and_delete_the_present(seed: int):
    stream = datasets.payments(transfers=5000, accounts=1000, seed=seed, tick_rows=64)
    present: set[tuple[int, int]] = set()
    for src, dst, weight in zip(stream["src"].tolist(), stream["dst"].tolist(), stream["weight"].tolist(), strict=True):
        assert src != dst
        assert ((src, dst) in present) == (weight < 0)
        (present.add if weight > 0 else present.remove)((src, dst))
    n_rows = len(stream["src"])
    assert len(present) == 5000 - (n_rows - 5000)
    assert 0.2 < (n_rows - 5000) / 5000 < 0.3
    assert stream["tick"].tolist() == [row // 64 for row in range(n_rows)]
    assert all(column.dtype == np.int64 for column in stream.values())


def test_payments_hold_rings():
    stream = datasets.payments(transfers=5000, accounts=1000)
    pairs = set(zip(stream["src"].tolist(), stream["dst"].tolist(), strict=True))
    after: dict[int, list[int]] = {}
    for src, dst in pairs:
        after.setdefault(src, []).append(dst)
    assert sum((c, a) in pairs for a, b in pairs for c in after.get(b, ())) > 100


@pytest.mark.parametrize(
    ("transfers", "accounts", "tick_rows", "match"),
    [
        (6, 5, 1, "0 to 5 for 5 accounts"),
        (-1, 5, 1, "transfers=-1"),
        (5, -1, 1, "accounts=-1"),
        (10_001, 1000, 1, "0 to 10000 for"),
        (1, 5, 0, "tick_rows=0"),
    ],
)
def test_payments_refuse(transfers: int, accounts: int, tick_rows: int, match: str):
    with pytest.raises(UsageError, match=match):
        datasets.payments(transfers, accounts, tick_rows=tick_rows)


@pytest.mark.parametrize("make", [datasets.rmat, datasets.payments, datasets.transfers])
def test_negative_seeds_are_refused(make):
    with pytest.raises(UsageError, match="seed=-1 is not allowed: expected an integer from 0 on"):
        make(seed=-1)
