"""The executor of PTX computes what a GPU would, and says what a GPU would not forgive."""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest

from tests.ptx import library
from tests.ptx.library import PtxLibrary, Range, load_ptx, ptx_of
from tests.ptx.translate import PtxError, translate
from tests.shim.errors import ShimError

pytestmark = pytest.mark.skipif(library.available() is not None, reason=str(library.available()))

TOYS = """
#define FULL 0xffffffffu
extern "C" __global__ void past_the_end(long long* out, long long n) { out[n] = 1; }
extern "C" __global__ void before_the_start(long long* out, long long n) { out[threadIdx.x] = out[-n]; }
extern "C" __global__ void misaligned(long long* out, long long n) { *(long long*)((char*)out + n) = 1; }
extern "C" __global__ void copy(long long* out, long long n) { out[threadIdx.x] = out[n + threadIdx.x] + 1; }
extern "C" __global__ void unwritten_shared(long long* out, long long n) {
    __shared__ long long x[64];
    if ((long long)threadIdx.x < n) x[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = x[63 - threadIdx.x];
}
extern "C" __global__ void beyond_shared(long long* out, long long n) {
    __shared__ long long x[64];
    x[threadIdx.x + n] = 1;
    __syncthreads();
    out[threadIdx.x] = x[63 - threadIdx.x];
}
extern "C" __global__ void lanes_that_ended(long long* out, long long n) {
    if ((long long)threadIdx.x >= n) return;
    out[threadIdx.x] = __shfl_sync(FULL, (int)threadIdx.x, 3);
}
extern "C" __global__ void lanes_elsewhere(long long* out, long long n) {
    int value = (long long)threadIdx.x < n ? __shfl_xor_sync(FULL, (int)threadIdx.x, 1) + 1
                                           : __shfl_up_sync(FULL, (int)threadIdx.x, 2) * 3;
    out[threadIdx.x] = value;
}
extern "C" __global__ void a_lane_not_named(long long* out, long long n) {
    if (threadIdx.x < 16) out[threadIdx.x] = __shfl_sync(0xffff, (int)threadIdx.x, (int)n);
}
extern "C" __global__ void barriers_apart(long long* out, long long n) {
    __shared__ long long x[64];
    x[threadIdx.x] = threadIdx.x;
    if ((long long)threadIdx.x < n) {
        __syncthreads();
        out[threadIdx.x] = x[63 - threadIdx.x];
    } else {
        x[threadIdx.x] += 7;
        __syncthreads();
        out[threadIdx.x] = x[threadIdx.x ^ 3] * 3;
    }
}
extern "C" __global__ void some_wait(long long* out, long long n) {
    if (__any_sync(1u << (threadIdx.x & 31), (long long)threadIdx.x < n)) __syncwarp();
    out[threadIdx.x] = 1;
}
extern "C" __global__ void lost_updates(long long* out, long long n) {
    for (long long i = 0; i < n; i++) ((volatile long long*)out)[0] += 1;
}
extern "C" __global__ void kept_updates(long long* out, long long n) {
    for (long long i = 0; i < n; i++) atomicAdd((unsigned long long*)out, 1ull);
}
extern "C" __global__ void divided(long long* out, long long n) { out[threadIdx.x] = 7 / (n - (long long)threadIdx.x); }
extern "C" __global__ void sums(long long* out, long long n) {
    __shared__ int warps[2];
    int lane = threadIdx.x & 31, sum = threadIdx.x + 1, all = 0;
    for (int step = 1; step < 32; step <<= 1) {
        int before = __shfl_up_sync(FULL, sum, step);
        if (lane >= step) sum += before;
    }
    for (int step = 16; step > 0; step >>= 1) all += __shfl_xor_sync(FULL, all + 1, step);
    if (lane == 31) warps[threadIdx.x >> 5] = sum;
    __syncthreads();
    if (threadIdx.x >= 32) sum += warps[0];
    unsigned odd = __ballot_sync(FULL, sum & 1);
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum + 1000ll * __popc(odd) + 100000ll * __all_sync(FULL, sum > 0)
        + 1000000ll * __shfl_down_sync(FULL, lane, 3) + n * blockIdx.x + 0 * all;
}
extern "C" __global__ void numbers(long long* out, long long n) {
    const long long* x = out + 32 * n;
    long long a = x[threadIdx.x], b = x[(threadIdx.x * 5 + 1) & 31];
    unsigned long long u = (unsigned long long)a, v = (unsigned long long)b;
    out[threadIdx.x] = (long long)__umul64hi(u, v);
    out[32 + threadIdx.x] = a >> (b & 63);
    out[64 + threadIdx.x] = (long long)(u << (v & 63));
    out[96 + threadIdx.x] = b == 0 || b == -1 ? 0 : a / b;
    out[128 + threadIdx.x] = b == 0 ? 0 : (long long)(u % v);
    out[160 + threadIdx.x] = __clzll(a) * 100 + __popcll(u) * 10000 + __ffs((int)a);
    out[192 + threadIdx.x] = (long long)((double)u / 3.0);
    out[224 + threadIdx.x] = (int)a + (long long)(unsigned int)b;
    out[256 + threadIdx.x] = min(a, b) ^ max((int)a, (int)b);
    out[288 + threadIdx.x] = (short)a * (long long)(unsigned char)b;
}
"""
SIZE = 64


@functools.cache
def toys() -> PtxLibrary:
    return load_ptx("toys", ptx_of("toys", TOYS, "sm_75"))


def launch(kernel: str, n: int, *, schedule: int = 0, blocks: int = 1, size: int = SIZE, written: int | None = None):
    """Run a toy on an array of zeros, of which perhaps only the first `written` count as written."""
    out = np.zeros(size, np.int64)
    shadow = np.zeros(out.nbytes, np.uint8)
    shadow[: out.nbytes if written is None else 8 * written] = 1
    ranges = [Range(out.ctypes.data, out.ctypes.data + out.nbytes, shadow.ctypes.data)]
    toys().run_blocks(kernel, [out.ctypes.data, n], blocks, SIZE, (0, blocks), ranges, schedule)
    return out


@pytest.mark.drawn("schedule")
@pytest.mark.parametrize("schedule", [0, 1, 2, 3])
@pytest.mark.parametrize(("kernel", "n", "message"), [
    ("past_the_end", SIZE, r"past_the_end: block 0, thread \d+, PTX line \d+: store of 8 bytes at .*, outside of any"),
    ("before_the_start", 1, "load of 8 bytes at address .*, outside of any array"),
    ("misaligned", 4, "store of 8 bytes at address .*, which is not aligned"),
    ("unwritten_shared", 40, r"load of shared memory that nothing has written, at place \d+"),
    ("beyond_shared", 1, "store of 8 bytes at place 512 of 512 bytes of shared memory"),
    ("lanes_that_ended", 20, r"shfl\.idx with mask 0xffffffff (names|waits for) lane \d+, which has ended"),
    ("lanes_elsewhere", 9, r"shfl\.\w+ with mask 0xffffffff waits for lane \d+, which waits elsewhere"),
    ("a_lane_not_named", 20, "reads lane 20, which mask 0x0000ffff does not name"),
    ("barriers_apart", 32, r"bar\.sync while thread \d+ waits in the one of line \d+"),
    ("some_wait", 40, r"bar\.warp with mask 0xffffffff (names|waits for) lane \d+, which has ended"),
    ("divided", 11, "thread 11, PTX line .*: division by zero"),
])  # fmt: skip
def test_what_a_gpu_would_not_forgive(kernel, n, message, schedule):
    with pytest.raises(ShimError, match=message):
        launch(kernel, n, schedule=schedule)


@pytest.mark.parametrize(("kernel", "n"), [
    ("past_the_end", SIZE - 1), ("before_the_start", 0), ("misaligned", 8), ("unwritten_shared", 64),
    ("beyond_shared", 0), ("lanes_that_ended", 64), ("lanes_elsewhere", 32), ("a_lane_not_named", 15),
    ("barriers_apart", 64), ("some_wait", 64), ("divided", -1),
])  # fmt: skip
def test_the_same_kernels_used_well(kernel, n):
    for schedule in range(4):
        launch(kernel, n, schedule=schedule)


def test_global_memory_that_nothing_has_written():
    assert launch("copy", SIZE, size=2 * SIZE).tolist() == [1] * SIZE + [0] * SIZE
    with pytest.raises(ShimError, match=r"thread 40, .*global memory that nothing has written, byte 832 of an array"):
        launch("copy", SIZE, size=2 * SIZE, written=SIZE + 40)


def test_threads_are_interrupted_at_memory_accesses():
    """By chance, so that an update that is not atomic is lost; in order, they run until they wait."""
    assert launch("lost_updates", 5).tolist()[0] == launch("lost_updates", 5, schedule=1).tolist()[0] == 5 * SIZE
    assert min(int(launch("lost_updates", 5, schedule=seed)[0]) for seed in range(2, 5)) < 5 * SIZE
    for seed in range(5):
        assert launch("kept_updates", 5, schedule=seed)[0] == 5 * SIZE


@pytest.mark.drawn("schedule")
@pytest.mark.parametrize("schedule", range(5))
def test_sums_by_warps_and_blocks(schedule):
    found = launch("sums", 7, schedule=schedule, blocks=3, size=3 * SIZE).reshape(3, 2, 32)
    sums = np.cumsum(np.arange(1, SIZE + 1)).reshape(2, 32)
    lane = np.arange(32)
    odd = (sums & 1).sum(axis=1, keepdims=True)
    expected = sums + 1000 * odd + 100_000 + 1_000_000 * np.where(lane + 3 < 32, lane + 3, lane)
    assert (found == [expected + 7 * block for block in range(3)]).all()


def wrapped(value: int, bits: int = 64) -> int:
    """A value as a signed integer of so many bits."""
    return (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def test_numbers():
    """What C++ says of them, for values at the edges of 16, 32 and 64 bits."""
    edges = {sign * 2**bits + by for sign in (1, -1) for bits in (0, 15, 31, 32, 62) for by in (-1, 0, 1)}
    values = [*sorted(edges), 2**63 - 1, -(2**63), 6 * 10**18, 12345678901, 77, -77][:32]
    values += [3] * (32 - len(values))
    out = np.array([0] * 320 + values, np.int64)
    ranges = [Range(out.ctypes.data, out.ctypes.data + out.nbytes, 0)]
    toys().run_blocks("numbers", [out.ctypes.data, 10], 1, 32, (0, 1), ranges)
    found = out[:320].reshape(10, 32).T.tolist()
    for t, a in enumerate(values):
        b = values[(t * 5 + 1) % 32]
        u, v = a % 2**64, b % 2**64
        low, other = wrapped(a, 32), wrapped(b, 32)
        quotient = 0 if b in (0, -1) else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        lowest = (low & -low).bit_length()
        third = float(u) / 3.0
        assert found[t] == [
            wrapped(u * v >> 64), a >> (b % 64), wrapped(u << (v % 64)), quotient, 0 if b == 0 else wrapped(u % v),
            (64 - u.bit_length()) * 100 + u.bit_count() * 10_000 + lowest, int(third),
            low + b % 2**32, min(a, b) ^ max(low, other), wrapped(wrapped(a, 16) * (b % 256)),
        ]  # fmt: skip


BODY = """.version 9.0
.target sm_75
.address_size 64
.visible .entry f(
	.param .u64 f_param_0
)
{
	.reg .b64 %rd<3>;
	ld.param.u64 	%rd1, [f_param_0];
	INSTRUCTION
	ret;
}
"""


@pytest.mark.parametrize(("instruction", "message"), [
    ("sqrt.rn.f64 %rd1, %rd2;", "PTX line 10: the instruction 'sqrt.rn.f64' is not known"),
    ("add.sat.s64 %rd1, %rd1, %rd2;", "PTX line 10: the instruction 'add.sat.s64' is not known"),
    ("add.s64 %rd1, %rd2;", "PTX line 10: add.s64 with operands that are not understood: '%rd1, %rd2'"),
    ("add.s64 %rd1, %rd2, %other;", "PTX line 10: the operand %other as u64"),
    ("mov.u64 %rd1, table;", "PTX line 10: the name 'table' stands for nothing"),
    (".reg .b128 %q<3>;", "PTX line 10: a declaration of registers that is not understood"),
    ("ld.global.u64 %rd1, %rd2;", "PTX line 10: an address that is not understood: '%rd2'"),
    ("bar.sync 1;", "PTX line 10: bar.sync with operands that are not understood: '1'"),
    ("@%p1 bra L;", "PTX line 10: the operand %p1 as pred"),
])  # fmt: skip
def test_what_is_not_understood_is_an_error_that_names_the_line(instruction, message):
    translate(BODY.replace("INSTRUCTION", "add.s64 %rd1, %rd1, -1;"))
    with pytest.raises(PtxError, match=f"^{re.escape(message)}"):
        translate(BODY.replace("INSTRUCTION", instruction))


def test_a_module_that_is_not_understood():
    with pytest.raises(PtxError, match=r"PTX line 4: cannot read '\.extern"):
        translate(BODY.replace(".visible", ".extern .func g;\n.visible").replace("INSTRUCTION", ""))
    with pytest.raises(PtxError, match="PTX line 4: the parameters of f"):
        translate(BODY.replace(".param .u64", ".param .u32").replace("INSTRUCTION", ""))
