"""The engine on a device: it computes what it computes on the CPU, bit for bit, and waits rarely for the device."""

from __future__ import annotations

import gc
import random
from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.backend import Backend, cpu_backend
from gpu_wcoj.errors import DeviceMemoryError, UsageError, WeightOverflowError
from gpu_wcoj.join import memory
from gpu_wcoj.join.extender import ConditionExtender, Extender
from gpu_wcoj.join.path import Condition
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.trace.spine import MergePolicy
from gpu_wcoj.zset.index import IndexedZSet
from tests.join.patterns import PATTERNS
from tests.join.twin import VALUES, Script, arities, check_scripts, fed, random_script, random_text
from tests.long import IS_LONG
from tests.shim import available, shim_backend
from tests.shim.device import ShimDevice

pytestmark = pytest.mark.skipif(available() is not None, reason=str(available()))

"""`make test-long` runs more seeds, limits and sequences; those here are spread over all sizes of pieces."""
BAGS = pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
TRIANGLE = PATTERNS["triangle"]
SOME = (
    "triangle of three relations",
    "4-cycle once",
    "4-clique",
    "star of 3",
    "loop and edge",
    "1 to 4",
    "loomis-whitney",
    "all variables shared, swapped",
    "two components",
    "constants beside a join",
    "wildcards on both sides",
    "greater",
    "heads of heads",
)


def chunk_rows(seed: int) -> int | None:
    return (None, 3, 64, 7)[seed % 4]


@BAGS
@pytest.mark.parametrize("block", range(4))
def test_triangles(block, bag):
    for seed in range(block, 32, 4 if IS_LONG else 10):
        backend = shim_backend(seed // 4)
        check_scripts(TRIANGLE, [seed], bag=bag, backend=backend, route="device", chunk_rows=chunk_rows(seed))


@BAGS
@pytest.mark.parametrize("name", SOME)
def test_patterns(name, bag):
    for seed in range(3) if IS_LONG else (0 + bag, 1 + bag):
        backend = shim_backend(seed)
        check_scripts(PATTERNS[name], [seed], bag=bag, backend=backend, route="device", chunk_rows=chunk_rows(seed + 1))


@BAGS
@pytest.mark.parametrize("block", range(3))
def test_programs_that_chance_writes(block, bag):
    for seed in range(block, 30 if IS_LONG else 15, 3):
        text = random_text(random.Random(f"device {seed}"))
        keep = parse(text).heads[: seed % 3]
        options = {"backend": shim_backend(seed), "route": "device", "chunk_rows": chunk_rows(seed)}
        check_scripts(text, [seed], bag=bag, values={0: None} if seed % 5 == 0 else None, keep=keep, **options)


@BAGS
@pytest.mark.parametrize("name", ["triangle", "greater", "wildcards on both sides"])
def test_nulls_turn_up(name, bag):
    check_scripts(
        PATTERNS[name], range(3 if IS_LONG else 2), bag=bag, values={0: None}, backend=shim_backend(5), route="device"
    )


@BAGS
@pytest.mark.parametrize("name", ["triangle", "4-cycle once", "greater"])
def test_text_is_compared_by_rank(name, bag):
    texts = dict(zip(VALUES, ("b", "", "größe", "a\x00", None, "B"), strict=True))
    check_scripts(
        PATTERNS[name], range(2), bag=bag, values=texts, kind=pa.string(), backend=shim_backend(6), route="device",
        chunk_rows=5,
    )  # fmt: skip


def run(text: str, script: Script, *, bag: bool, backend: Backend, **options: Any) -> list[object]:
    """All that can be seen of a run."""
    program = gw.Program(text, bag=bag, backend=backend, route="device", **options)
    inputs = arities(text)
    seen: list[object] = []
    for number, tick in enumerate(script):
        changes = {name: fed(change, inputs[name]) for name, change in tick.items()}
        if number % 3 == 0:
            seen.append(program.step_counts(changes))
        elif number % 3 == 1:
            total: Counter[tuple[str, tuple[Any, ...]]] = Counter()  # where pieces are cut is not promised

            def add(name: str, piece: gw.ZSet, to: Counter[tuple[str, tuple[Any, ...]]] = total) -> None:
                for row, weight in piece.rows():
                    to[name, row] += weight

            seen.append(program.step_pieces(changes, add))
            seen.append(sorted(item for item in total.items() if item[1]))
        else:
            seen.append({name: zset.rows() for name, zset in program.step(changes).items()})
        seen.append({name: program.relation(name).rows() for name in program.heads})
        seen.append([program.count(name) for name in program.outputs])
        seen.append((program.state_rows, program.last_tick.ignored, program.last_tick.merged_rows))
    return seen


@BAGS
@pytest.mark.parametrize("name", ["triangle", "heads of heads", "star of 3", "1 to 4"])
def test_every_bit_is_that_of_the_cpu(name, bag):
    script = random_script(random.Random(f"bits {name}"), arities(PATTERNS[name]))
    policy = MergePolicy(ratio=0.01)
    expected = run(PATTERNS[name], script, bag=bag, backend=cpu_backend(), chunk_rows=64, merge_policy=policy)
    for seed in range(5 if IS_LONG else 3):
        found = run(PATTERNS[name], script, bag=bag, backend=shim_backend(seed), chunk_rows=64, merge_policy=policy)
        assert found == expected


def hub_edges(n: int) -> list[tuple[int, int]]:
    """A skewed graph of about n edges: two hubs that know everybody, and a sparse rest."""
    chance = np.random.default_rng(n)
    nodes = max(8, n // 8)
    rest = chance.integers(0, nodes, (n, 2))
    hubs = [(hub, node) for hub in range(2) for node in range(2, nodes)]
    pairs = {(int(a), int(b)) for a, b in rest if a != b} | {(min(pair), max(pair)) for pair in hubs}
    return sorted(pairs)


@BAGS
@pytest.mark.parametrize("name", ["triangle", "4-clique", "star of 3"])
def test_skewed_graphs_are_those_of_the_cpu(name, bag):
    edges = hub_edges(150)
    random.Random(1).shuffle(edges)
    script: Script = [
        {"e": ("rows", [(edge, 1) for edge in edges[:100]])},
        {"e": ("rows", [(edge, 1) for edge in edges[100:]] + [(edge, -1) for edge in edges[:40]])},
        {"e": ("rows", [(edge, -1) for edge in edges[40:]])},
    ]
    expected = run(PATTERNS[name], script, bag=bag, backend=cpu_backend())
    assert run(PATTERNS[name], script, bag=bag, backend=shim_backend(3)) == expected


class TestWeights:
    """Products that leave int64 are computed with Python integers, on the host."""

    @pytest.mark.parametrize("way", ["step", "step_counts"])
    @pytest.mark.parametrize("large", [2**20, 2**31, 2**40, 2**62])
    def test_large_weights(self, large, way):
        text = "h(a) :- e(a, b), f(b, c), e(c, d)."
        found = []
        for backend in (cpu_backend(), shim_backend(2)):
            program = gw.Program(text, bag=True, backend=backend, route="device")
            ticks: list[object] = []
            for sign in (1, -1, 1):
                rows = [((a, a % 2), sign * large) for a in range(3)] + [((1, 1), 1 - large), ((1, 0), sign)]
                try:
                    changes = getattr(program, way)({"e": gw.ZSet.from_rows(rows), "f": gw.ZSet.from_rows(rows[:2])})
                    ticks.append({k: v if way == "step_counts" else v.rows() for k, v in changes.items()})
                except WeightOverflowError as error:
                    ticks.append(str(error))
                ticks.append([program.relation(name).rows() for name in ("e", "f")])
            found.append(ticks)
        assert found[0] == found[1]

    def test_counts_beyond_int64_in_one_product(self):
        text = "h(a) :- e(a, b), e(a, c), e(a, d)."
        rows = [((0, value), 2**22) for value in range(3)]
        found = []
        for backend in (cpu_backend(), shim_backend(4)):
            program = gw.Program(text, bag=True, backend=backend, route="device")
            with pytest.raises(WeightOverflowError) as raised:
                program.step({"e": gw.ZSet.from_rows(rows)})
            found.append(str(raised.value))
            assert len(program.relation("e")) == 0
        assert found[0] == found[1]


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


class TestMemory:
    """A tick on a device that is too small is right, or undone with an error that says so."""

    EDGES = hub_edges(300)

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

    @BAGS
    @pytest.mark.parametrize("way", ["step", "step_counts"])
    def test_pieces_are_halved(self, monkeypatch, way, bag):
        monkeypatch.setattr(memory, "GIVE_UP_ROWS", 16)
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
        rows = memory.rows_of_a_piece(backend)
        assert memory.FEWEST_ROWS <= rows <= memory.MOST_ROWS
        assert rows == memory.FEWEST_ROWS or rows * memory.PIECE_ROW_BYTES * memory.SHARE <= free


def fetched(found: Any) -> Any:
    """Arrays of a device, in lists and tuples of any depth, as lists."""
    if isinstance(found, list | tuple):
        return [fetched(one) for one in found]
    return found.get().tolist() if hasattr(found, "get") else found.tolist()


class TestIndex:
    """What is asked of a batch, and of extenders over batches, beside the joins."""

    @pytest.fixture
    def batches(self):
        """Per place, two batches whose weights cancel in part."""
        chance = np.random.default_rng(4)
        rows, weights = chance.integers(0, 5, (2, 3, 40)), chance.integers(-2, 3, (2, 40))
        return [
            [
                IndexedZSet.from_columns([place.asarray(column) for column in own], place.asarray(signs), place)
                for own, signs in zip(rows, weights, strict=True)
            ]
            for place in (cpu_backend(), shim_backend(2))
        ]

    @pytest.mark.parametrize("depth", [1, 2, 3])
    def test_prefixes(self, batches, depth):
        asked = np.random.default_rng(1).integers(0, 6, (depth, 30))
        found = []
        for batch, _ in batches:
            prefixes = [batch.backend.asarray(column) for column in asked]
            found.append(fetched([batch.locate(prefixes), batch.get_by_prefix(prefixes), batch.as_zset_view(depth)]))
        assert found[0] == found[1]

    def test_sums(self, batches):
        found = []
        for batch, other in batches:
            merged = batch.merge(other)
            children = (np.array([1, 1, 4]), np.array([7, 8, 7]), np.array([2, -3, 5]))
            extended = merged.extend_leaves(*map(batch.backend.asarray, children))
            arrays = [merged.matrix, merged.weight_column(), merged.negative_before, merged.leaf_offsets]
            found.append([fetched([*arrays, extended.matrix, extended.weight_column()])])
            found[-1].append([merged.n_negative, merged.largest_weight, batch.n_negative, batch.largest_weight])
        assert found[0] == found[1]

    @pytest.mark.parametrize("variable", ["x", "y", "z"])
    def test_extenders(self, batches, variable):
        chance = np.random.default_rng(2)
        bound, values = chance.integers(0, 6, (3, 30)), chance.integers(0, 6, 30)
        found = []
        for own in batches:
            place = own[0].backend
            extender = Extender(("x", "y", "z"), tuple(own), place)
            known = {name: place.asarray(column) for name, column in zip("xyz", bound, strict=True)}
            known[variable] = place.asarray(values)
            compared = ConditionExtender(Condition(variable, "<", "x" if variable != "x" else 3), xp=place.xp)
            verbs = [extender.count(variable, known, 30), extender.propose(variable, known, 30)]
            verbs += [extender.intersect(variable, known), compared.intersect(variable, known)]
            found.append(fetched([*verbs, compared.count(variable, known, 30)]))
        assert found[0] == found[1]


def test_batches_of_two_places_do_not_merge():
    rows = [np.array([1, 2])]
    there = shim_backend()
    one, other = IndexedZSet.from_columns(rows), IndexedZSet.from_columns([there.asarray(rows[0])], None, there)
    for left, right in ((one, other), (other, one)):
        with pytest.raises(UsageError, match=r"merged with one of .*\n.*one backend"):
            left.merge(right)
