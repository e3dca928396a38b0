"""Deletions in cycles: rows without other support are deleted, and no other rows."""

from __future__ import annotations

import pytest

import gpu_wcoj as gw
from tests.helpers.recursive_programs import ALL, CLOSURES

RING = [(0, 1), (1, 2), (2, 3), (3, 0)]
PAIRS = {(a, b) for a in range(4) for b in range(4)}
CLOSED = [name for name in CLOSURES if name.startswith("closure, ")]


def edges(*rows: tuple[int, ...], weight: int = 1) -> dict[str, gw.ZSet]:
    return {"e": gw.ZSet.from_dict(dict.fromkeys(rows, weight))}


@pytest.mark.parametrize("name", CLOSED)
def test_an_edge_of_a_ring(name, backend):
    program = gw.Program(ALL[name], backend=backend.name)
    assert program.step(edges(*RING))["p"].to_dict() == dict.fromkeys(PAIRS, 1)
    left = {(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)}
    for _ in range(3):
        assert program.step(edges((3, 0), weight=-1))["p"].to_dict() == dict.fromkeys(PAIRS - left, -1)
        assert program.step(edges((3, 0)))["p"].to_dict() == dict.fromkeys(PAIRS - left, 1)


@pytest.mark.parametrize("name", CLOSED)
def test_an_edge_that_is_not_needed(name, backend):
    program = gw.Program(ALL[name], backend=backend.name)
    program.step(edges(*RING, (0, 2)))
    assert len(program.step(edges((0, 2), weight=-1))["p"]) == 0
    assert len(program.step(edges((0, 2)))["p"]) == 0
    assert len(program.step(edges((0, 1), weight=-1))["p"]) == 4  # nothing leads to 1 any more
    assert program.relation("p").to_dict() == dict.fromkeys({(a, b) for a in range(4) for b in (0, 2, 3)}, 1)


def test_a_ring_that_is_cut_off_goes_with_what_led_to_it(backend):
    """Its rows derive each other, but not from anything that is there."""
    text = ALL["reach from here"]
    program = gw.Program(text, backend=backend.name)
    start = {"s": gw.ZSet.from_rows([(9,)])}
    program.step(edges(*RING, (9, 0)) | start)
    assert program.step(edges((9, 0), weight=-1))["r"].to_dict() == dict.fromkeys([(0,), (1,), (2,), (3,)], -1)
    assert program.relation("r").to_dict() == {(9,): 1}
    assert program.step(edges((9, 2)))["r"].to_dict() == dict.fromkeys([(0,), (1,), (2,), (3,)], 1)


def test_two_ways_of_different_length(backend):
    """A row keeps standing when its shortest derivation goes, and goes with its last."""
    program = gw.Program(ALL["closure, one step on"], backend=backend.name)
    program.step(edges((0, 1), (1, 2), (2, 3), (3, 4), (0, 4)))
    assert program.step(edges((0, 4), weight=-1))["p"].to_dict() == {}
    assert program.step(edges((2, 3), weight=-1))["p"].to_dict() == dict.fromkeys(
        {(0, 3), (0, 4), (1, 3), (1, 4), (2, 3), (2, 4)}, -1
    )
    assert program.step(edges((0, 4)))["p"].to_dict() == {(0, 4): 1}


def test_an_edge_moves_within_a_tick(backend):
    program = gw.Program(ALL["closure, both"], backend=backend.name)
    program.step(edges(*RING))
    change = {"e": gw.ZSet.from_dict({(3, 0): -1, (3, 1): 1})}
    assert program.step(change)["p"].to_dict() == dict.fromkeys({(0, 0), (1, 0), (2, 0), (3, 0)}, -1)
    back = {"e": gw.ZSet.from_dict({(3, 0): 1, (3, 1): -1})}
    assert program.step(back)["p"].to_dict() == dict.fromkeys({(0, 0), (1, 0), (2, 0), (3, 0)}, 1)


@pytest.mark.parametrize("n_steps", [1, 2, 3, 31, 64, 150])
def test_a_long_path_is_cut_and_mended(n_steps, backend):
    program = gw.Program(ALL["closure, both"], backend=backend.name)
    path = [(i, i + 1) for i in range(n_steps)]
    program.step(edges(*path))
    assert program.count("p") == n_steps * (n_steps + 1) // 2
    for place in {0, n_steps // 2, n_steps - 1}:
        crossing = (place + 1) * (n_steps - place)
        assert len(program.step(edges((place, place + 1), weight=-1))["p"]) == crossing
        assert len(program.step(edges((place, place + 1)))["p"]) == crossing


def test_the_next_shortest_path_takes_over(backend):
    program = gw.Program(ALL["shortest paths"], backend=backend.name)
    start = {"s": gw.ZSet.from_rows([(0,)])}
    roads = {"t": gw.ZSet.from_rows([(0, 1, 1), (1, 2, 1), (2, 1, 0), (0, 2, 5), (2, 3, 1)])}
    program.step(start | roads)
    assert program.relation("d").to_dict() == dict.fromkeys([(0, 0), (1, 1), (2, 2), (3, 3)], 1)
    cut = program.step({"t": gw.ZSet.from_dict({(0, 1, 1): -1})})["d"].to_dict()
    assert cut == {(1, 1): -1, (1, 5): 1, (2, 2): -1, (2, 5): 1, (3, 3): -1, (3, 6): 1}
    mended = program.step({"t": gw.ZSet.from_dict({(0, 1, 1): 1})})["d"].to_dict()
    assert mended == {row: -weight for row, weight in cut.items()}


def test_labels_do_not_keep_each_other_alive(backend):
    """Splitting a component leaves no vertex with the label of the other part."""
    program = gw.Program(ALL["components by least label"], backend=backend.name)
    program.step(edges((1, 5), (5, 6), (6, 7), (7, 5)))
    assert program.relation("c").to_dict() == dict.fromkeys([(1, 1), (5, 1), (6, 1), (7, 1)], 1)
    program.step(edges((1, 5), weight=-1))
    assert program.relation("c").to_dict() == dict.fromkeys([(5, 5), (6, 5), (7, 5)], 1)
