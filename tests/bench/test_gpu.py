"""The benchmark for GPUs runs from end to end on small graphs, and what it compares with is right."""

from __future__ import annotations

import json
import time
from collections import Counter
from itertools import combinations

import numpy as np
import pytest

import gpu_wcoj as gw
from bench.engine.streams import CountError
from bench.gpu import __main__ as command
from bench.gpu import binary_join, graph, hub, recount, stream, streams17
from bench.gpu.binary_join import BinaryJoin
from bench.gpu.feed import load, program_of
from bench.gpu.patterns import PATTERNS, rules_of
from bench.gpu.place import Place, find
from bench.gpu.report import Options, Report, against
from gpu_wcoj.backend import cpu_backend, select_backend
from gpu_wcoj.errors import BackendUnavailableError
from gpu_wcoj.query.datalog import parse
from tests import shim

TINY = Options(scale=5, edges=120, rows=1 << 11, ticks=1, seconds=300.0)
FIRST = [310118113937408, 316702298612248, 616276267906240]
"""Keys of the first three edges at scale 20: a change of the generator is a change of every graph."""
by_name = pytest.mark.parametrize("name", PATTERNS)


@pytest.fixture(scope="module")
def on_shim():
    if reason := shim.available():
        pytest.skip(reason)
    return Place(shim.shim_backend())


def arrays(kind):
    """NumPy, or the strict stand-in for CuPy."""
    if kind == "numpy":
        return np
    if reason := shim.available():
        pytest.skip(reason)
    return shim.shim_backend().xp


def on_host(array):
    return array if isinstance(array, np.ndarray) else array.get()


def pairs(keys):
    return np.stack(graph.unpacked(keys), axis=1)


class TestGraph:
    def test_the_same_bits_everywhere(self):
        strict = arrays("strict")
        ours, theirs = (graph.split(xp, 9, 4_000, 300) for xp in (np, strict))
        assert ours.loaded.tolist() == on_host(theirs.loaded).tolist()
        assert ours.stream.tolist() == on_host(theirs.stream).tolist()
        assert ours.described() == theirs.described()

    def test_the_first_edges_stay_what_they_are(self):
        assert graph.draw(np, 20, 0, 3).tolist() == FIRST

    @pytest.mark.parametrize("piece", [1, 777, 1 << 20])
    def test_pieces_change_nothing(self, piece):
        assert graph.undirected(np, 8, 2_000, piece=piece).tolist() == graph.undirected(np, 8, 2_000).tolist()

    def test_edges_are_distinct_and_no_loops(self):
        keys = graph.undirected(np, 8, 5_000)
        low, high = graph.unpacked(keys)
        assert (low < high).all()
        assert (keys[1:] > keys[:-1]).all()
        assert high.max() < 1 << 8

    def test_a_split_is_the_graph_in_two(self):
        whole, parts = graph.undirected(np, 8, 5_000), graph.split(np, 8, 5_000, 100)
        assert len(parts.stream) == 100
        assert np.sort(np.concatenate([parts.loaded, parts.stream])).tolist() == whole.tolist()
        assert (parts.loaded[1:] > parts.loaded[:-1]).all()
        assert parts.stream.tolist() != sorted(parts.stream.tolist())

    @pytest.mark.parametrize("n_stream", [0, 10**6])
    def test_a_stream_that_does_not_fit(self, n_stream):
        with pytest.raises(ValueError, match="does not fit a graph of"):
            graph.split(np, 8, 5_000, n_stream)

    def test_quadrants_are_drawn_as_often_as_they_should_be(self):
        low = graph.A + graph.B
        keys = graph.draw(np, 1, 0, 100_000)
        smaller, larger = graph.unpacked(keys)
        assert np.mean(larger == 0) == pytest.approx(graph.A, abs=0.01)
        assert np.mean(smaller == 1) == pytest.approx(1 - low - graph.C, abs=0.01)

    def test_other_seeds_are_other_graphs(self):
        assert graph.draw(np, 10, 0, 50, seed=1).tolist() != graph.draw(np, 10, 0, 50, seed=2).tolist()


class TestBinaryJoin:
    @by_name
    @pytest.mark.parametrize("kind", ["numpy", "strict"])
    @pytest.mark.parametrize("rows", [False, True])
    def test_counts_what_the_engine_counts(self, name, kind, rows, monkeypatch):
        monkeypatch.setattr(binary_join, "PIECE_ROWS", 1_000)
        xp, query = arrays(kind), PATTERNS[name]
        parts = graph.split(np, 7, 500, 100)
        loaded, arriving = (xp.asarray(keys) for keys in (parts.loaded, parts.stream))
        program = gw.Program(rules_of(query), backend="cpu")
        program.load({"edge": pairs(parts.loaded)})
        join = BinaryJoin(xp, query, loaded)
        assert join.count() == program.count(name)
        net = program.step_counts({"edge": pairs(parts.stream)})[name].net
        assert net > 0
        assert join.step(arriving, 1, rows) == net
        assert join.count() == program.count(name)
        assert join.step(arriving, -1, rows) == -net

    def test_stops_with_its_state_as_it_was(self):
        parts = graph.split(np, 7, 500, 100)
        asked = []
        join = BinaryJoin(np, PATTERNS["triangle"], parts.loaded, stop=lambda: asked.append(0) or len(asked) > 3)
        with pytest.raises(binary_join.OutOfTimeError):
            join.step(parts.stream, 1)
        join.stop = lambda: False
        assert join.count() == BinaryJoin(np, PATTERNS["triangle"], parts.loaded).count()

    def test_sorted_arrays_merge_and_part(self):
        left, right = np.array([1, 3, 5, 9]), np.array([0, 4, 10])
        both = binary_join.merged(np, left, right)
        assert both.tolist() == binary_join.merged(np, right, left).tolist() == [0, 1, 3, 4, 5, 9, 10]
        assert binary_join.without(np, both, right).tolist() == left.tolist()


class TestPatterns:
    @by_name
    def test_rules_are_what_the_text_says(self, name):
        pytest.importorskip("lark")
        assert rules_of(PATTERNS[name]) == parse(PATTERNS[name].text)


class TestRecount:
    def keys(self):
        return graph.undirected(np, 8, 3_000)

    def known(self, keys):
        """Triangles by trying every pair of a vertex's neighbours."""
        edges = {tuple(pair) for pair in pairs(keys).tolist()}
        larger = Counter()
        beside = {}
        for low, high in edges:
            beside.setdefault(low, set()).add(high)
        for low, others in beside.items():
            larger[low] = sum(pair in edges for pair in combinations(sorted(others), 2))
        return sum(larger.values())

    @pytest.mark.parametrize("kind", ["numpy", "strict"])
    def test_by_search(self, kind, monkeypatch):
        monkeypatch.setattr(recount, "PIECE_ROWS", 500)
        xp, keys = arrays(kind), self.keys()
        oriented, starts = recount.by_degree(xp, xp.asarray(keys), 1 << 8)
        assert recount.by_search(xp, oriented, starts) == self.known(keys) > 0

    def test_by_kernel(self):
        if reason := shim.available():
            pytest.skip(reason)
        from tests.shim.device import ShimDevice

        device = ShimDevice(sources=lambda name: recount.SOURCE)
        xp, keys = device.xp, self.keys()
        oriented, starts = recount.by_degree(xp, xp.asarray(keys), 1 << 8)
        total = xp.zeros(1, np.uint64)
        device.launch("recount", "count_triangles", 3, 64, [oriented, starts, total, len(keys)])
        assert int(on_host(total)[0]) == self.known(keys)


class TestParts:
    @pytest.mark.long
    @pytest.mark.parametrize("part", command.PARTS)
    def test_on_the_shim(self, part, on_shim, tmp_path, monkeypatch):
        """On so small a graph, all ticks of more than one edge are alike: one row of the table is enough for them."""
        alike = {(row.query.name, row.how, row.tick_rows == 1): row for row in reversed(streams17.ROWS)}
        monkeypatch.setattr(streams17, "ROWS", tuple(alike.values()))
        assert len(alike) == 8
        path = tmp_path / "part.json"
        assert command.run_part(part, on_shim, TINY, path) == 0
        document = json.loads(path.read_text())
        assert set(document["machine"]) >= {"date", "commit", "device", "libraries", "python"}
        (written,) = document["parts"]
        assert written["error"] is None
        assert written["left_out"] == []
        assert len(written["figures"]) >= 2
        assert all(figure.get("seconds", 1) for figure in written["figures"])

    def test_a_wrong_count_ends_its_figure_only(self, monkeypatch):
        place = Place(cpu_backend())
        monkeypatch.setattr(hub, "matching", lambda xp, n, n_rows: graph.packed(xp.zeros(1, int), xp.full(1, n + 5)))
        report = Report("hub", place, None)
        place.deadline = time.monotonic() + 100
        hub.run(place, Options(scale=4, rows=1 << 11, rivals=False), report)
        assert "CountError: leaves, ticks of 1: 0 triangles; there are 1" in report.error
        assert report.figures[-1]["name"] == "a second hub"

    @pytest.mark.long
    def test_what_is_late_is_left_out(self):
        place = Place(cpu_backend())
        place.deadline = time.monotonic() - 1
        report = Report("primitives", place, None)
        command.PARTS["primitives"](place, TINY, report)
        assert report.figures == []
        assert {one["reason"] for one in report.left_out} == {"the part's time was over"}

    def test_another_count_in_a_later_round_is_refused(self):
        counts = iter([3, -3, 4, -4])
        with pytest.raises(CountError, match=r"inserted \(4,\), then deleted \(4,\), before that \(3,\)"):
            stream.run_ticks(lambda keys, sign: (0.1, next(counts)), [None], rounds=2, warm_up=0, limit=9, name="x")

    def test_rivals_that_count_otherwise_are_refused(self):
        ours, theirs = (stream.Ticks((count,), (0.1,), (0.1,)) for count in (1, 2))
        with pytest.raises(CountError, match=r"a rival counts \(2,\)"):
            stream.compared(ours, theirs, "a rival", [])

    def test_targets(self):
        assert against(3.0, target=2.0, aim=4.0) == {"target": 2.0, "target_met": True, "aim": 4.0, "aim_met": False}
        assert against(3.0, target=2.0, most=True) == {"target": 2.0, "target_met": False}


class TestCommand:
    def test_one_document_of_all_parts_whatever_happens_to_one(self, tmp_path, monkeypatch):
        def process(part, piece, passed_on, limit):
            if part == "probes":
                return "exit status -11"
            place = find("cpu")
            return "exit status 1" if command.run_part(part, place, TINY, piece) else None

        monkeypatch.setattr(command, "_in_a_process", process)
        monkeypatch.setenv("OUT", str(tmp_path))
        assert command.main(["--part", "probes", "--part", "hub", "--scale", "5"]) == 1
        (path,) = tmp_path.glob("gpu-*-probes-hub.json")
        document = json.loads(path.read_text())
        assert [part["part"] for part in document["parts"]] == ["probes", "hub"]
        assert document["parts"][0]["error"] == "exit status -11"
        assert document["parts"][1]["error"] is None
        assert document["options"]["scale"] == 5

    @pytest.mark.long
    def test_a_part_in_its_own_process(self, tmp_path, monkeypatch, capfd):
        monkeypatch.setenv("OUT", str(tmp_path))
        try:
            select_backend("cuda")
        except BackendUnavailableError:
            expected = 1
        else:
            expected = 0
        assert command.main(["--part=hub", "--scale", "6", "--rows", "2048"]) == expected
        (path,) = tmp_path.glob("gpu-*-hub.json")
        (part,) = json.loads(path.read_text())["parts"]
        assert (part["error"] is None) == (expected == 0)

    def test_loaded_programs_report_their_ticks(self):
        place = find("cpu")
        program = program_of(place, PATTERNS["triangle"])
        parts = graph.split(np, 7, 500, 50)
        load(place, program, parts.loaded)
        ticks = stream.run_engine(place, program, PATTERNS["triangle"], [parts.stream], rounds=2)
        assert len(ticks.insert_seconds) == len(ticks.delete_seconds) == 2
        assert ticks.n_candidates > 0
        assert ticks.record(50)["changes_per_s"] > 0
