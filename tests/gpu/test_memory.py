"""Limits of memory: what fits a limit in pieces is done, what does not fails with the state as it was."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import gpu_wcoj as gw
from bench.engine.queries import CLIQUE, TRIANGLE
from bench.gpu.feed import change, load
from bench.gpu.graph import split
from bench.gpu.patterns import PATH2, rules_of
from bench.gpu.place import Place


def star(n):
    """A centre with `n` edges in and `n` out: n * n paths through it, each edge from a smaller to a larger vertex."""
    into = np.stack([np.arange(n), np.full(n, n)], axis=1)
    return np.concatenate([into, into[:, ::-1] + [0, n + 1]]).astype(np.int64)


def program(backend, query, **options):
    return gw.Program(rules_of(query), backend=backend, route="device", **options)


def test_an_answer_that_does_not_fit_is_counted(site):
    n = site.sized(50_000, 200)
    with site.limited(site.sized(1 << 30, 400_000)) as backend:
        one = program(backend, PATH2)
        assert one.step_counts({"edge": star(n)})["path2"].net == n * n
        assert one.count("path2") == n * n


def test_an_answer_that_does_not_fit_fails_and_leaves_the_state(site):
    n = site.sized(50_000, 200)
    edges = star(n)
    with site.limited(site.sized(1 << 30, 400_000)) as backend:
        one = program(backend, PATH2)
        one.step_counts({"edge": edges[: n // 2]})
        before = one.count("path2"), one.last_tick, one.state_rows
        gc.collect()
        gc.disable()
        try:
            with pytest.raises(MemoryError, match="memory"):
                one.step({"edge": edges[n // 2 :]})
        finally:
            gc.enable()  # what the failed tick held is free without a collection
        assert (one.count("path2"), one.last_tick, one.state_rows) == before
        assert one.step_counts({"edge": edges[n // 2 :]})["path2"].net == n * n


def test_an_answer_that_does_not_fit_comes_in_pieces(site):
    n = site.sized(20_000, 400)
    rows = largest = 0

    def take(name, piece):
        nonlocal rows, largest
        assert name == "path2"
        rows += len(piece)
        largest = max(largest, len(piece))

    with site.limited(site.sized(2 << 30, 16_000_000)) as backend:
        one = program(backend, PATH2)
        counts = one.step_pieces({"edge": star(n)}, take)
    assert rows == counts["path2"].net == n * n
    assert largest < rows


@pytest.mark.parametrize("query", [TRIANGLE, CLIQUE], ids=lambda query: query.name)
def test_ticks_within_little_memory_count_alike(site, query):
    scale, edges = site.sized((17, 2_000_000), (6, 300))
    place = Place(site.backend)
    parts = split(site.backend.xp, scale, edges, edges // 20)
    plenty = program(site.backend, query)
    load(place, plenty, parts.loaded)
    expected = [plenty.step_counts({"edge": change(place, parts.stream, sign)})[query.name].net for sign in (1, -1)]
    assert expected[0] == -expected[1] > 0
    loaded, stream = (site.backend.to_host(keys) for keys in (parts.loaded, parts.stream))
    del plenty, parts
    site.backend.device.release()
    with site.limited(site.sized(700 << 20, 400_000)) as backend:
        scarce = program(backend, query)
        there = Place(backend)
        load(there, scarce, backend.asarray(loaded))
        for weight, net in zip((1, -1), expected, strict=True):
            change_there = change(there, backend.asarray(stream), weight)
            assert scarce.step_counts({"edge": change_there})[query.name].net == net


def test_a_limit_too_small_for_the_state_says_so(site):
    edges = star(site.sized(20_000_000, 4_000))
    with site.limited(site.sized(256 << 20, 100_000)) as backend:
        one = program(backend, PATH2)
        with pytest.raises(MemoryError, match="memory"):
            one.load({"edge": edges})
        assert one.count("path2") == 0
        assert one.step_counts({"edge": edges[:1]})["path2"].net == 0
