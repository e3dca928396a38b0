"""The shim runs correct kernels on every schedule, and catches what a GPU would answer with nonsense."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from tests.shim import available
from tests.shim.device import ShimDevice
from tests.shim.errors import ShimError, ShimOutOfMemoryError
from tests.shim.plugin import ROOT, environment

pytestmark = pytest.mark.skipif(available() is not None, reason=str(available()))

SEEDS = range(8)
ALL = "0xffffffffu"

HEAD = """
__device__ __forceinline__ long long item() { return (long long)blockIdx.x * blockDim.x + threadIdx.x; }
"""

BLOCK_SUMS = """
extern "C" __global__ void block_sums(const long long* __restrict__ x, unsigned long long* sum, long long n)
{
    __shared__ long long warp_sums[32];
    const long long i = item();
    long long mine = i < n ? x[i] : 0;
    for (int distance = 16; distance; distance /= 2) mine += __shfl_down_sync(0xffffffffu, mine, distance);
    if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = mine;
    BARRIER
    if (threadIdx.x < 32) {
        mine = threadIdx.x < blockDim.x / 32 ? warp_sums[threadIdx.x] : 0;
        for (int distance = 16; distance; distance /= 2) mine += __shfl_xor_sync(0xffffffffu, mine, distance);
        if (threadIdx.x == 0) atomicAdd(sum, (unsigned long long)mine);
    }
}
"""


def device(text: str, seed: int = 0, memory_limit: int | None = None) -> ShimDevice:
    return ShimDevice(seed, memory_limit, sources=lambda _: HEAD + text)


def kernel(body: str, parameters: str = "long long* out, long long n") -> str:
    return f'extern "C" __global__ void tried({parameters})\n{{\n#line 1 "tried.cu"\n{body}\n}}\n'


def run(body: str, seed: int = 0, block: int = 64, n_blocks: int = 1, n: int = 0, size: int = 256) -> np.ndarray:
    """What a kernel makes of `size` zeros."""
    on = device(kernel(body), seed)
    out = on.xp.zeros(size, np.int64)
    on.launch("tried", "tried", n_blocks, block, [out, n])
    return out.get()


def block_sum(text: str, seed: int, n: int = 5000, block: int = 256) -> int:
    on = device(text, seed)
    x, total = on.asarray(np.arange(n)), on.xp.zeros(1, np.uint64)
    on.launch("sums", "block_sums", -(-n // block), block, [x, total, n])
    return int(total[0])


class TestCorrectKernels:
    @pytest.mark.parametrize("seed", SEEDS)
    @pytest.mark.parametrize("block", [32, 256, 1024])
    def test_a_block_reduction(self, seed, block):
        assert block_sum(BLOCK_SUMS.replace("BARRIER", "__syncthreads();"), seed, block=block) == sum(range(5000))

    @pytest.mark.parametrize("seed", SEEDS)
    def test_warp_operations(self, seed):
        lanes = list(range(32))
        width = 8
        for body, expected in {
            "out[threadIdx.x] = __ballot_sync(0xffffffffu, threadIdx.x % 3 == 0);": [0x49249249] * 32,
            "out[threadIdx.x] = __any_sync(0xffffffffu, threadIdx.x == 9) + 2 * __all_sync(0xffffffffu, 1);": [3] * 32,
            "out[threadIdx.x] = __shfl_sync(0xffffffffu, (int)threadIdx.x, 5, 8);": [i // 8 * 8 + 5 for i in lanes],
            "out[threadIdx.x] = __shfl_up_sync(0xffffffffu, (int)threadIdx.x, 3, 8);": [
                i - 3 if i % width >= 3 else i for i in lanes
            ],
            "out[threadIdx.x] = __shfl_down_sync(0xffffffffu, -(long long)threadIdx.x, 3);": [
                -(i + 3) if i < 29 else -i for i in lanes
            ],
            "out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, threadIdx.x, 7);": [i ^ 7 for i in lanes],
            "if (threadIdx.x < 5) out[threadIdx.x] = __ballot_sync(0x1fu, threadIdx.x > 2);": [24] * 5 + [0] * 27,
        }.items():
            assert run(body, seed, block=32, size=32).tolist() == expected

    def test_intrinsics(self):
        found = run("""
            out[0] = __popc(0xf0f0u); out[1] = __popcll(~0ull); out[2] = __ffs(0); out[3] = __ffs(8);
            out[4] = __clz(1); out[5] = __clz(0); out[6] = __clzll(0); out[7] = __clzll(-1);
            out[8] = (long long)__umul64hi(~0ull, ~0ull); out[9] = __mul64hi(-1, 2); out[10] = min(-3, 2);
            out[11] = max(3ull, 1ull); out[12] = __ldg(out + 1); out[13] = gridDim.x * blockDim.x; out[14] = warpSize;
        """, block=32, size=15)  # fmt: skip
        assert found.tolist() == [8, 64, 0, 4, 31, 32, 64, 0, -2, -1, -3, 3, 64, 32, 32]

    @pytest.mark.parametrize("seed", SEEDS)
    def test_atomics(self, seed):
        found = run(
            """
            atomicAdd((unsigned long long*)out, 1ull);
            atomicMin(out + 1, -(long long)threadIdx.x);
            atomicMax(out + 2, (long long)threadIdx.x);
            atomicOr((unsigned long long*)out + 3, 1ull << threadIdx.x % 64);
            if (atomicCAS((unsigned long long*)out + 4, 0ull, threadIdx.x + 1ull) == 0) out[5] = 7;
            for (long long seen = out[6];;) {
                long long found = (long long)atomicCAS((unsigned long long*)out + 6, (unsigned long long)seen,
                                                       (unsigned long long)(seen + 2));
                if (found == seen) break;
                seen = found;
            }
            """,
            seed, block=64, n_blocks=3,
        )  # fmt: skip
        assert found[[0, 1, 2, 3, 5, 6]].tolist() == [192, -63, 63, -1, 7, 384]

    @pytest.mark.parametrize("seed", SEEDS)
    def test_threads_that_end_early_are_not_waited_for(self, seed):
        assert run("if (threadIdx.x >= 40) return; __syncthreads(); out[threadIdx.x] = 1;", seed)[:64].sum() == 40

    @pytest.mark.parametrize("seed", SEEDS)
    def test_votes_of_a_block(self, seed):
        found = run("""
            out[threadIdx.x] = __syncthreads_count(threadIdx.x % 2) + 100 * __syncthreads_or(threadIdx.x == 3)
                + 1000 * __syncthreads_and(threadIdx.x > 0);
        """, seed, block=96, size=96)  # fmt: skip
        assert found.tolist() == [148] * 96

    def test_the_order_of_blocks_and_lanes_follows_the_seed(self):
        """What depends on the order shows: the last one to write stays."""
        last = {seed: int(run("out[0] = item();", seed, n_blocks=5)[0]) for seed in SEEDS}
        assert last[0] == 319
        assert last[1] == 0
        assert len(set(last.values())) > 4


MISTAKES = {
    "a barrier that half of a warp reaches, a vote the other": (
        "if (threadIdx.x % 2) __syncthreads(); else __ballot_sync(0xffffffffu, 1);",
        r"tried\.cu:1: __ballot_sync .* for ever: .* waits in __syncthreads",
    ),
    "two barriers": (
        "if (threadIdx.x % 2)\n__syncthreads();\nelse\n__syncthreads();",
        r"__syncthreads while thread .* at tried\.cu:[24]",
    ),
    "a lane that is named but has ended": (
        "if (threadIdx.x == 3) return; out[0] = __any_sync(0xffffffffu, 1);",
        "lane 3, which has ended",
    ),
    "a lane that is named but elsewhere": (
        "if (threadIdx.x != 3) out[0] = __any_sync(0xffffffffu, 1);\nelse out[0] = __any_sync(0xffffffffu, 0);",
        "waits for lane",
    ),
    "a lane that names not itself": ("__syncwarp(0x0000ffffu);", "does not name lane"),
    "lanes that disagree on the mask": (
        "__syncwarp(threadIdx.x % 2 ? 0xaaaaaaaau : 0xffffffffu); __syncthreads();",
        "waits for lane 1 for ever",
    ),
    "a shuffle from a lane that is not named": (
        "if (threadIdx.x < 4) out[0] = __shfl_sync(0xfu, 1, 7);",
        "reads lane 7, which mask 0x0000000f does not name",
    ),
    "a shuffle down from a lane that is not named": (
        "if (threadIdx.x < 4) out[0] = __shfl_down_sync(0xfu, 1, 1);",
        "reads lane 4",
    ),
    "a width": ("out[0] = __shfl_sync(0xffffffffu, 1, 0, 12);", "width 12"),
    "a division by zero": ("out[0] = 7 / n;", "division by zero"),
    "a wild address": ("out[1ll << 50] = 1;", "memory that is not there"),
    "a lock that is never opened": (
        "while (atomicCAS((unsigned long long*)out, 0ull, 1ull) != 7) {}",
        "for ever",
    ),
}
"""What a kernel does wrong: its body, and what is said of it."""


class TestMistakesInKernels:
    @pytest.mark.parametrize("seed", [0, 1, 5])
    @pytest.mark.parametrize("mistake", MISTAKES)
    def test_is_refused(self, mistake, seed):
        body, message = MISTAKES[mistake]
        with pytest.raises(ShimError, match=message) as caught:
            run(body, seed)
        assert str(caught.value).startswith("tried, block 0, thread ")

    def test_the_device_works_on_after_an_error(self):
        on = device(kernel("if (n == 1 && threadIdx.x % 2) __syncthreads(); else __syncwarp(); out[threadIdx.x] = 5;"))
        out = on.xp.zeros(64, np.int64)
        for _ in range(3):
            with pytest.raises(ShimError):
                on.launch("tried", "tried", 1, 64, [out, 1])
            out[:] = 0
            on.launch("tried", "tried", 1, 64, [out, 0])
            assert (out == 5).all()

    def test_a_missing_barrier(self):
        """Some schedule gives another sum."""
        wrong = BLOCK_SUMS.replace("BARRIER", "")
        assert any(block_sum(wrong, seed) != sum(range(5000)) for seed in SEEDS)

    def test_a_missing_syncwarp(self):
        body = "__shared__ int x[64]; x[threadIdx.x] = threadIdx.x; SYNC out[threadIdx.x] = x[threadIdx.x ^ 1];"
        expected = [i ^ 1 for i in range(64)]
        assert all(run(body.replace("SYNC", "__syncwarp();"), seed, size=64).tolist() == expected for seed in SEEDS)
        assert any(run(body.replace("SYNC", ""), seed, size=64).tolist() != expected for seed in SEEDS)

    def test_shared_memory_that_was_not_set(self):
        body = "__shared__ long long x[4]; if (n) x[1] = 3; out[0] = x[1];"
        assert {int(run(body, seed, n=1)[0]) for seed in SEEDS} == {3}
        found = {int(run(body, seed)[0]) for seed in SEEDS}
        assert len(found) > 4
        assert 0 not in found

    def test_shared_memory_is_not_kept_from_one_block_to_the_next(self):
        body = "__shared__ int x; if (blockIdx.x == 0) x = 9; __syncthreads(); if (blockIdx.x == 1) out[0] = x;"
        assert all(run(body, seed, n_blocks=2)[0] != 9 for seed in SEEDS)

    def test_memory_that_was_not_set(self):
        found = {int(device("", seed).xp.empty(4, np.int64)[2]) for seed in SEEDS}
        assert len(found) == len(SEEDS)

    @pytest.mark.parametrize("place", ["n", "-1", "n + 20", "-30"])
    def test_a_write_out_of_bounds(self, place):
        on = device(kernel(f"if (threadIdx.x == 0) out[{place}] = 1;"))
        out, _other = on.xp.zeros(100, np.int64), on.xp.zeros(100, np.int64)
        with pytest.raises(ShimError, match=r"tried wrote outside of an array of 800 bytes"):
            on.launch("tried", "tried", 1, 32, [out, 100])
        on.launch("tried", "tried", 0, 32, [out, 100])

    @pytest.mark.parametrize("text", [
        kernel("out[0] = min(1, 2u);"), kernel("int unused; out[0] = 1;"), kernel("out[0] = y;"),
        kernel("out[0] = n;", "long long* out, int n"), kernel("out[0] = n;", "long* out, long long n"),
        '__global__ void tried(long long* out, long long n) { out[0] = n; }',
    ])  # fmt: skip
    def test_what_does_not_compile(self, text):
        with pytest.raises(ShimError):
            device(text).launch("tried", "tried", 1, 32, [None, 0])


PAIR = kernel(
    "if (item() < n) out[item()] = x[item()];", "const int* __restrict__ x, long long* __restrict__ out, long long n"
)


class TestMistakesInLaunches:
    @pytest.fixture
    def on(self):
        return device(PAIR)

    @pytest.fixture
    def arguments(self, on):
        return [on.asarray(np.arange(64, dtype=np.int32)), on.xp.zeros(64, np.int64), 64]

    def test_a_correct_one(self, on, arguments):
        on.launch("pair", "tried", 2, 32, arguments)
        assert arguments[1].tolist() == list(range(64))
        on.launch("pair", "tried", 2, 32, [arguments[0][8:], arguments[1][16:], np.int64(20)])
        assert arguments[1].tolist() == [*range(16), *range(8, 28), *range(36, 64)]

    @pytest.mark.parametrize(("place", "given", "message"), [
        (0, lambda on: on.xp.zeros(64, np.int64), "x is given an array of int64"),
        (0, lambda on: np.zeros(64, np.int32), "x is given ndarray"),
        (0, lambda on: 5, "x is given int"),
        (0, lambda on: on.xp.zeros(128, np.int32)[::2], "not contiguous"),
        (0, lambda on: ShimDevice().xp.zeros(64, np.int32), "another device"),
        (2, lambda on: 1.0, "n is given float"),
        (2, lambda on: True, "n is given bool"),
        (2, lambda on: None, "n is given NoneType"),
        (2, lambda on: on.xp.zeros(1, np.int64), "n is given Array"),
        (2, lambda on: 2**63, "does not fit"),
    ])  # fmt: skip
    def test_a_wrong_argument(self, on, arguments, place, given, message):
        arguments[place] = given(on)
        with pytest.raises(ShimError, match=message):
            on.launch("pair", "tried", 2, 32, arguments)

    def test_a_wrong_number_of_arguments(self, on, arguments):
        for wrong in (arguments[:2], [*arguments, 1]):
            with pytest.raises(ShimError, match=f"{len(wrong)} arguments for 3 parameters"):
                on.launch("pair", "tried", 2, 32, wrong)

    def test_a_wrong_grid(self, on, arguments):
        for n_blocks, block in ((-1, 32), (2**31, 32), (1, 33), (1, 0), (1, 1056), (1.0, 32)):
            with pytest.raises(ShimError):
                on.launch("pair", "tried", n_blocks, block, arguments)
        with pytest.raises(ShimError, match="no kernel other; it has tried"):
            on.launch("pair", "other", 1, 32, arguments)

    def test_more_threads_than_the_bounds_allow(self):
        on = device('extern "C" __global__ void __launch_bounds__(128) f(long long n) { if (n) __syncthreads(); }')
        on.launch("bounds", "f", 1, 128, [1])
        with pytest.raises(ShimError, match="256 threads"):
            on.launch("bounds", "f", 1, 256, [1])

    def test_overlapping_arrays_that_are_said_not_to_be(self, on, arguments):
        arguments[0] = arguments[1].view(np.int32)[:64]
        with pytest.raises(ShimError, match="overlap"):
            on.launch("pair", "tried", 2, 32, arguments)


class TestCounts:
    def test_launches_and_transfers(self):
        on = device(PAIR)
        x, out = on.asarray(np.arange(64, dtype=np.int32)), on.xp.zeros(64, np.int64)
        with on.counted() as counts:
            on.launch("pair", "tried", 0, 32, [x, out, 64])
            on.launch("pair", "tried", 2, 32, [x, out, 64])
            on.to_host(out)
            on.asarray(np.arange(4))
        assert (counts.launches, dict(counts.kernels)) == (1, {"tried": 1})
        assert (counts.reads, counts.bytes_read, counts.uploads, counts.bytes_uploaded) == (1, 512, 1, 32)
        assert on.counts.uploads == 2
        on.to_host(out)
        assert counts.reads == 1

    def test_memory(self):
        on = device("", memory_limit=4096)
        array = on.xp.empty(256, np.int64)
        assert on.free_bytes() == 2048
        with pytest.raises(ShimOutOfMemoryError) as caught:
            on.xp.empty(257, np.int64)
        assert isinstance(caught.value, on.out_of_memory)
        part = array[3:]
        del array
        assert on.counts.allocated == 2048
        del part
        assert on.counts.allocated == 0
        assert on.counts.peak == 2048


def test_an_array_without_elements_has_no_address():
    """As CuPy's: kernels get the null pointer for it, and so do tables of addresses."""
    body = "if (threadIdx.x == 0) out[0] = (x == nullptr) + 2 * (y == nullptr);"
    on = device(kernel(body, "const long long* x, const long long* y, long long* out"))
    full = on.xp.zeros(4, np.int64)
    for x, y, expected in ((on.xp.zeros(0, np.int64), full, 1), (full, full[4:], 2), (full[3:], None, 2)):
        out = on.xp.zeros(1, np.int64)
        on.launch("tried", "tried", 1, 32, [x, y, out])
        assert out.tolist() == [expected]
    assert full[2:2].data.ptr == on.xp.empty((0, 3), np.int64).data.ptr == 0


class TestWritten:
    """The map of bytes that were written, which the executor of PTX goes by."""

    SCRIPT = """
import ctypes
import numpy as np
from tests.shim.device import ShimDevice
xp = ShimDevice().xp
def shown(array):
    memory = array._memory
    held = np.asarray(array._host)
    address = memory.library.shim_written(held.__array_interface__["data"][0])
    return [sum((ctypes.c_ubyte * held.itemsize).from_address(address + i * held.itemsize)) for i in range(held.size)]
a = xp.empty(6, np.int64)
print(shown(a)); a[1] = 3; a[3:5] = 4; print(shown(a))
b = xp.empty((2, 3), np.int32); b[:, 1] = 5; print(shown(b.reshape(-1)))
print(shown(xp.zeros(2, np.int64)), shown(xp.asarray(np.arange(2))), shown(a[1:3]))
c = xp.empty(3, np.int64); c[xp.asarray(np.array([2, 0]))] = 1; print(shown(c)); xp.cumsum(c, out=c); print(shown(c))
"""

    def test_what_the_host_writes_is_noted(self):
        done = subprocess.run(
            [sys.executable, "-c", self.SCRIPT], capture_output=True, text=True, check=False, cwd=ROOT,
            env=environment("ptx"),
        )  # fmt: skip
        assert done.stdout.splitlines() == [
            "[0, 0, 0, 0, 0, 0]", "[0, 8, 0, 8, 8, 0]", "[0, 4, 0, 0, 4, 0]", "[8, 8] [8, 8] [8, 0]", "[8, 0, 8]",
            "[8, 8, 8]",
        ], done.stderr  # fmt: skip
