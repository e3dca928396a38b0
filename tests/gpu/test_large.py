"""Sizes that a device holds in time: counts against known ones, against the CPU, and against other code."""

from __future__ import annotations

import numpy as np
import pytest

import gpu_wcoj as gw
from bench.engine.graph import STANDARD, generate
from bench.engine.queries import CLIQUE, TRIANGLE
from bench.gpu.feed import change, load
from bench.gpu.graph import packed, split, unpacked
from bench.gpu.patterns import PATTERNS, rules_of
from bench.gpu.place import Place
from bench.gpu.recount import by_degree, by_search, triangles

CPU = "cpu"


def program(backend, query, **options):
    return gw.Program(rules_of(query), backend=backend, route="device", **options)


def on_cpu(query):
    return gw.Program(rules_of(query), backend=CPU)


def rows_of(keys):
    return np.stack(unpacked(keys), axis=1)


@pytest.mark.parametrize("name", ["triangle", "clique4", "diamond", "cycle4"])
def test_whole_answers_are_the_known_ones(site, name):
    query = PATTERNS[name]
    graph = generate(*site.sized(STANDARD, (5, 100, 1)))
    known = query.known[0]
    if not graph.is_standard:
        cpu = on_cpu(query)
        cpu.load({"edge": graph.edges})
        known = cpu.count(name)
    one = program(site.backend, query)
    one.load({"edge": graph.edges})
    assert one.count(name) == known > 0
    assert program(site.backend, query).step_counts({"edge": graph.edges})[name].net == known


@pytest.mark.parametrize("query", [TRIANGLE, CLIQUE], ids=lambda query: query.name)
def test_known_answers_of_the_stream(site, query):
    graph = generate(*site.sized(STANDARD, (5, 100, 1)))
    one, cpu = program(site.backend, query), on_cpu(query)
    one.load({"edge": graph.loaded})
    cpu.load({"edge": graph.loaded})
    begin = total = 0
    for end in sorted({1_000, 100_000, len(graph.stream)} & {*query.known, len(graph.stream)}):
        tick = graph.stream[begin:end]
        net = one.step_counts({"edge": tick})[query.name].net
        assert net == cpu.step_counts({"edge": tick})[query.name].net
        total += net
        begin = end
        if graph.is_standard and end in query.known:
            assert total == query.known[end]


@pytest.mark.drawn("name", share=3)
@pytest.mark.parametrize("name", PATTERNS)
def test_every_tick_is_the_cpus_bit_for_bit(site, name):
    query = PATTERNS[name]
    scale, edges, n_rows = site.sized((12, 60_000, 300), (5, 120, 15))
    parts = split(np, scale, edges, 3 * n_rows)
    one, cpu = program(site.backend, query), on_cpu(query)
    for each in (one, cpu):
        each.load({"edge": rows_of(parts.loaded)})
    ticks = [rows_of(parts.stream[i * n_rows : (i + 1) * n_rows]) for i in range(3)]
    ones = np.ones(n_rows, np.int64)
    for edges, weight in [(ticks[0], 1), (ticks[1], 1), (ticks[0], -1), (ticks[2], 1), (ticks[1], -1), (ticks[2], -1)]:
        given = gw.ZSet.from_numpy(edges, weight * ones, ("src", "dst"))
        ours, theirs = (each.step({"edge": given})[name] for each in (one, cpu))
        assert [column.codes.tolist() for column in ours.columns] == [
            column.codes.tolist() for column in theirs.columns
        ]
        assert ours.weights.tolist() == theirs.weights.tolist()
    assert one.count(name) == cpu.count(name)


def test_a_large_graph_is_counted_anew(site):
    scale, drawn, sizes = site.sized((20, 16 << 20, (1, 1_000, 100_000, 1_000_000)), (6, 300, (1, 10, 40)))
    xp, place = site.backend.xp, Place(site.backend)
    parts = split(xp, scale, drawn, sum(sizes))
    one = program(site.backend, TRIANGLE)
    load(place, one, parts.loaded)
    there = parts.loaded
    known = triangles(place, there, 1 << scale)
    assert one.count("triangle") == known
    begin = 0
    for size in sizes:
        tick = parts.stream[begin : begin + size]
        begin += size
        net = one.step_counts({"edge": change(place, tick)})["triangle"].net
        there = xp.sort(xp.concatenate([there, tick]))
        after = triangles(place, there, 1 << scale)
        assert net == after - known
        known = after
    fresh = program(site.backend, TRIANGLE)
    load(place, fresh, there)
    assert fresh.count("triangle") == one.count("triangle") == known
    net = one.step_counts({"edge": change(place, parts.stream, -1)})["triangle"].net
    assert known + net == triangles(place, parts.loaded, 1 << scale)


def test_both_ways_to_recount_agree(site):
    scale, drawn = site.sized((16, 1 << 20), (6, 300))
    xp, place = site.backend.xp, Place(site.backend)
    keys = split(xp, scale, drawn, 10).loaded
    assert by_search(xp, *by_degree(xp, keys, 1 << scale)) == triangles(place, keys, 1 << scale) > 0


def test_graphs_have_the_same_bits_on_the_device(site):
    scale, drawn = site.sized((18, 3 << 20), (9, 4_000))
    ours, theirs = split(site.backend.xp, scale, drawn, 999), split(np, scale, drawn, 999)
    for mine, other in ((ours.loaded, theirs.loaded), (ours.stream, theirs.stream)):
        assert (site.backend.to_host(mine) == other).all()


def test_a_hub_with_millions_of_edges(site):
    n = site.sized(4_000_000, 500)
    place, xp = Place(site.backend), site.backend.xp
    one = program(site.backend, TRIANGLE)
    load(place, one, packed(xp.zeros(n, np.int64), xp.arange(1, n + 1, dtype=np.int64)))
    second = packed(xp.ones(n - 1, np.int64), xp.arange(2, n + 1, dtype=np.int64))
    assert one.step_counts({"edge": change(place, second)})["triangle"].net == n - 1
    leaves = xp.arange(2, n, 2, dtype=np.int64)
    assert one.step_counts({"edge": change(place, packed(leaves, leaves + 1))})["triangle"].net == 2 * len(leaves)
    assert one.step_counts({"edge": change(place, second, -1)})["triangle"].net == -(n - 1) - len(leaves)
