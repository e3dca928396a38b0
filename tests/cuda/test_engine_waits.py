"""How often the engine waits for a device: by the tick and the piece, not by the row."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

import gpu_wcoj as gw
from tests.helpers.device_graphs import hub_edges
from tests.helpers.join_patterns import PATTERNS
from tests.shim import available, shim_backend
from tests.shim.device import ShimDevice

pytestmark = pytest.mark.skipif(available() is not None, reason=str(available()))

TRIANGLE = PATTERNS["triangle"]


class TestWaiting:
    """How often a tick waits for the device does not depend on the number of rows.

    What was counted, with 200 and 2,000 edges: 7 to 8 waits for the first tick of `step_counts`, 12 for a quarter of
    the edges more and 11 for a quarter of them fewer; of `step` 8 to 10, 15 to 16 and 14 to 15. The largest ticks
    sort in another way, which has to know the ranges of values: one wait more a sort.
    """

    MOST: ClassVar = {
        "step_counts": {"first": 8, "insert": 13, "delete": 13},
        "step": {"first": 11, "insert": 17, "delete": 17},
    }

    @pytest.mark.parametrize("size", [200, 2000])
    @pytest.mark.parametrize("way", ["step_counts", "step"])
    def test_ticks_of_triangles(self, way, size):
        device, program = counting_program(TRIANGLE)
        edges = hub_edges(size)
        random.Random(size).shuffle(edges)
        part = len(edges) // 4
        ticks = {"first": edges[:-part], "insert": edges[-part:], "delete": edges[:part]}
        for what, rows in ticks.items():
            with device.counted() as counts:
                getattr(program, way)({"e": gw.ZSet.from_rows([(row, -1 if what == "delete" else 1) for row in rows])})
            assert counts.reads <= self.MOST[way][what], (what, counts)

    @pytest.mark.parametrize("name", ["triangle", "4-clique", "star of 3"])
    def test_once_a_piece(self, name, monkeypatch):
        text, edges = PATTERNS[name], gw.ZSet.from_rows(hub_edges(60))
        waits, pieces = [], []
        for chunk_rows in (1 << 17, 16):
            device, program = counting_program(text, chunk_rows=chunk_rows)
            calls = counted_fills(program, monkeypatch)
            with device.counted() as counts:
                program.step({"e": edges})
            waits.append(counts.reads)
            pieces.append(calls.n)
        assert pieces[1] > pieces[0] + 4
        assert waits[1] - waits[0] <= pieces[1] - pieces[0] + len(edges) // 16  # a block of seeds is one wait, too

    def test_a_count_of_parts_that_are_multiplied(self, monkeypatch):
        device, program = counting_program(PATTERNS["bowtie"], chunk_rows=64)
        calls = counted_fills(program, monkeypatch)
        with device.counted() as counts:
            program.step_counts({"e": gw.ZSet.from_rows(hub_edges(60))})
        assert counts.reads <= 12 + 3 * calls.n


@dataclass
class Calls:
    n: int = 0


def counted_fills(program: gw.Program, monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Counts the calls of `fill_common`."""
    calls, kernels = Calls(), program.backend.kernels
    fill = kernels.fill_common

    def counted(*arguments: Any) -> Any:
        calls.n += 1
        return fill(*arguments)

    monkeypatch.setattr(kernels, "fill_common", counted)
    return calls


def counting_program(text: str, **options: Any) -> tuple[ShimDevice, gw.Program]:
    backend = shim_backend(1)
    assert isinstance(backend.device, ShimDevice)
    return backend.device, gw.Program(text, backend=backend, route="device", **options)
