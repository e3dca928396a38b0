"""The memory of ticks on a device: right, or undone with an error, where it is too small; only the state stays."""

from __future__ import annotations

import gc
import random
from typing import Any

import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import DeviceMemoryError
from gpu_wcoj.join import prefixes
from gpu_wcoj.zset.index import IndexedZSet
from tests.helpers.device_graphs import hub_edges
from tests.helpers.join_patterns import PATTERNS
from tests.helpers.long_tests import IS_LONG
from tests.shim import available, shim_backend
from tests.shim.device import ShimDevice

pytestmark = pytest.mark.skipif(available() is not None, reason=str(available()))

BAGS = pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
TRIANGLE = PATTERNS["triangle"]


class TestMemory:
    """A tick on a device that is too small is right, or undone with an error that says so."""

    EDGES = hub_edges(300)

    @pytest.mark.drawn("bag")
    @BAGS
    @pytest.mark.parametrize("way", ["step", "step_counts", "step_pieces"])
    def test_every_limit(self, way, bag):
        random.Random(1).shuffle(edges := list(self.EDGES))
        part = len(edges) // 2
        ticks = [[(edge, 1) for edge in edges[:part]], [(edge, 1) for edge in edges[part:]]]
        ticks[1] += [(edge, -1) for edge in edges[:20]]
        expected = self.ticks(gw.Program(TRIANGLE, bag=bag, backend="cpu"), ticks, way)
        outcomes = set()
        for limit in (3 << k >> 1 for k in range(13 + bag, 24, 1 if IS_LONG else 2)):
            backend = shim_backend(2, memory_limit=limit)
            program = gw.Program(TRIANGLE, bag=bag, backend=backend, route="device")
            found = self.ticks(program, ticks, way)
            outcomes.update("right" if one == right else type(one) for one, right in zip(found, expected, strict=True))
        assert outcomes == {"right", DeviceMemoryError}

    @BAGS
    def test_nothing_but_the_state_stays(self, bag):
        """Rows spread out for a join go when the tick ends, or when what was joined afresh has been read."""
        backend = shim_backend(3)
        program = gw.Program(TRIANGLE, bag=bag, backend=backend, route="device")
        assert isinstance(backend.device, ShimDevice)
        program.step_counts({"e": gw.ZSet.from_rows([((i, i * 7 % 5000), 1) for i in range(5000)])})
        program.count("h")
        gc.collect()
        batches = [one for one in gc.get_objects() if issubclass(type(one), IndexedZSet) and one.backend is backend]
        assert sum(map(len, batches)) == sum(sum(sizes) for sizes in program.state_rows.values())
        assert not any("matrix" in vars(batch) for batch in batches)
        grain = 1 << 12
        assert backend.device.counts.allocated <= sum(batch.nbytes for batch in batches) + grain * len(batches)

    def ticks(self, program: gw.Program, ticks: list[Any], way: str) -> list[object]:
        """What each tick gives; one that fails leaves the state, and is right once there is memory."""
        found: list[object] = []
        for rows in ticks:
            before = program.last_tick.tick
            try:
                found.append(self.taken(program, rows, way))
            except DeviceMemoryError as error:
                found.append(error)
                assert program.last_tick.tick == before
                assert isinstance(program.backend.device, ShimDevice)
                memory = program.backend.device.memory
                limit, memory.limit = memory.limit, 1 << 34
                again = gw.Program(TRIANGLE, bag=program.bag, backend="cpu")
                again.load({"e": program.relation("e")})
                assert self.taken(program, rows, way) == self.taken(again, rows, way)
                assert program.relation("h").rows() == again.relation("h").rows()
                memory.limit = limit
        return found

    def taken(self, program: gw.Program, rows: list[Any], way: str) -> object:
        changes = {"e": gw.ZSet.from_rows(rows)}
        if way == "step_pieces":
            pieces: list[Any] = []
            program.step_pieces(changes, lambda _, piece: pieces.append(piece.rows()))
            return sorted(row for piece in pieces for row in piece)
        return program.step_counts(changes) if way == "step_counts" else program.step(changes)["h"].rows()

    @pytest.mark.drawn("bag")
    @BAGS
    @pytest.mark.parametrize("way", ["step", "step_counts"])
    def test_pieces_are_halved(self, monkeypatch, way, bag):
        monkeypatch.setattr(prefixes, "GIVE_UP_ROWS", 16)
        edges = [(edge, 1) for edge in self.EDGES]
        expected = self.taken(gw.Program(PATTERNS["4-clique"], bag=bag, backend="cpu"), edges, way)
        large = shim_backend(1)
        assert isinstance(large.device, ShimDevice)
        with large.device.counted() as counts:
            self.taken(gw.Program(PATTERNS["4-clique"], bag=bag, backend=large, route="device"), edges, way)
        right = 0
        for share in (0.9, 0.7, 0.5, 0.3):
            backend = shim_backend(1, memory_limit=int(share * counts.peak))
            program = gw.Program(PATTERNS["4-clique"], bag=bag, backend=backend, route="device")
            try:
                assert self.taken(program, edges, way) == expected
                right += 1
            except DeviceMemoryError:
                assert len(program.relation("e")) == 0
        assert right

    @pytest.mark.parametrize("free", [0, 1 << 30, 1 << 34, 1 << 40])
    def test_pieces_follow_the_free_memory(self, monkeypatch, free):
        backend = shim_backend()
        monkeypatch.setattr(backend.device, "free_bytes", lambda: free)
        rows = prefixes.choose_piece_rows(backend)
        assert prefixes.MIN_PIECE_ROWS <= rows <= prefixes.MAX_PIECE_ROWS
        assert rows == prefixes.MIN_PIECE_ROWS or rows * prefixes.PIECE_ROW_BYTES * prefixes.MEMORY_DIVISOR <= free
