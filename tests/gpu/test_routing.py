"""Wherever a tick runs, on the device or on the CPU's twin of the state, its changes are the same."""

from __future__ import annotations

import numpy as np
import pytest

import gpu_wcoj as gw
from bench.gpu.graph import split, unpacked
from bench.gpu.patterns import PATTERNS, rules_of


def rows_of(keys):
    return np.stack(unpacked(keys), axis=1)


@pytest.mark.parametrize("name", ["triangle", "path2"])
def test_routes_change_nothing(site, name):
    scale, edges, sizes = site.sized((12, 60_000, (1, 2_000, 7, 500, 30, 3_000, 1)), (4, 50, (1, 12, 3)))
    parts = split(np, scale, edges, sum(sizes))
    rules = rules_of(PATTERNS[name])
    expected = gw.Program(rules, backend="cpu")
    programs = {
        str(route): gw.Program(rules, backend=site.backend, route=route)
        for route in ("auto", "device", "cpu", site.sized(400, 8))
    }
    for one in (expected, *programs.values()):
        one.load({"edge": rows_of(parts.loaded)})
    begin = 0
    for size in sizes:
        tick = rows_of(parts.stream[begin : begin + size])
        begin += size
        for weight in (1, -1):
            given = gw.ZSet.from_numpy(tick, np.full(size, weight), ("src", "dst"))
            wanted = expected.step({"edge": given})[name]
            for route, one in programs.items():
                found = one.step({"edge": given})[name]
                assert found == wanted, route
    for route, one in programs.items():
        assert one.count(name) == expected.count(name), route
        assert one.relation("e") == expected.relation("e"), route
