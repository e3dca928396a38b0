// What C++ made of PTX runs on: the state of one grid, checked accesses, and the operations that synchronise threads.
//
// A thread is a fiber. It runs until it ends or waits in a barrier or with lanes of its warp; with a schedule by chance
// it may also be interrupted before any access to memory. `site` numbers a synchronising instruction of a kernel, `line`
// is the instruction's line in the PTX.
#pragma once
#include <cstdint>
#include <cstring>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
typedef double f64;

#define PTX_RUNTIME extern __attribute__((visibility("hidden")))

namespace ptx {

enum Operation : int { SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_XOR, SHUFFLE_INDEX, BALLOT, ANY, ALL, SYNCWARP };

// Bytes of global memory that kernels may touch. `written` has a byte for each of them that is 1 once it has been
// written; it is null where all count as written.
struct Range {
    u64 begin, end;
    u8* written;
};

constexpr u64 MAX_SHARED = 48 << 10;
constexpr int N_CACHED = 64;

PTX_RUNTIME u32 thread, block_size, block, n_blocks;
PTX_RUNTIME bool by_chance;
PTX_RUNTIME u8 shared_bytes[], shared_written[];
PTX_RUNTIME u64 shared_size;
PTX_RUNTIME Range cached[N_CACHED];

PTX_RUNTIME void interrupt();
PTX_RUNTIME void barrier(int site, int line);
PTX_RUNTIME u32 warp(int site, Operation operation, u32 mask, u32 value, u32 lane, u32 bounds, bool* held, int line);
PTX_RUNTIME bool is_local(u64 address);
PTX_RUNTIME const Range& range_of(u64 address, u64 size, int line, const char* access);
[[noreturn]] PTX_RUNTIME void fail(int line, const char* format, ...) __attribute__((format(printf, 2, 3)));

#define PTX_ACCESS template <class V> static __attribute__((noinline))

template <class V>
static inline V ones()
{
    V pattern;
    memset(&pattern, 1, sizeof pattern);
    return pattern;
}

template <class V>
static inline V value_at(const void* place)
{
    V value;
    memcpy(&value, place, sizeof value);
    return value;
}

static inline const Range& range_at(u64 address, u64 size, int line, const char* access)
{
    if (address % size) fail(line, "%s of %d bytes at address %#llx, which is not aligned", access, (int)size, (unsigned long long)address);
    const Range& range = cached[address >> 12 & (N_CACHED - 1)];
    return range.begin <= address && address + size <= range.end ? range : range_of(address, size, line, access);
}

PTX_ACCESS V load_global(u64 address, int line)
{
    if (by_chance) interrupt();
    const Range& range = range_at(address, sizeof(V), line, "load");
    if (range.written != nullptr && value_at<V>(range.written + (address - range.begin)) != ones<V>())
        fail(line, "load of global memory that nothing has written, byte %llu of an array of %llu",
             (unsigned long long)(address - range.begin), (unsigned long long)(range.end - range.begin));
    return value_at<V>((const void*)address);
}

PTX_ACCESS void store_global(u64 address, V value, int line)
{
    if (by_chance) interrupt();
    const Range& range = range_at(address, sizeof(V), line, "store");
    if (range.written != nullptr) memset(range.written + (address - range.begin), 1, sizeof(V));
    memcpy((void*)address, &value, sizeof(V));
}

static inline void check_shared(u64 address, u64 size, int line, const char* access)
{
    if (address % size || address + size > shared_size)
        fail(line, "%s of %d bytes at place %llu of %llu bytes of shared memory", access, (int)size,
             (unsigned long long)address, (unsigned long long)shared_size);
}

PTX_ACCESS V load_shared(u64 address, int line)
{
    if (by_chance) interrupt();
    check_shared(address, sizeof(V), line, "load");
    if (value_at<V>(shared_written + address) != ones<V>())
        fail(line, "load of shared memory that nothing has written, at place %llu", (unsigned long long)address);
    return value_at<V>(shared_bytes + address);
}

PTX_ACCESS void store_shared(u64 address, V value, int line)
{
    if (by_chance) interrupt();
    check_shared(address, sizeof(V), line, "store");
    memset(shared_written + address, 1, sizeof(V));
    memcpy(shared_bytes + address, &value, sizeof(V));
}

PTX_ACCESS V load_local(u64 address, int line)
{
    if (!is_local(address)) fail(line, "load of local memory at address %#llx", (unsigned long long)address);
    return value_at<V>((const void*)address);
}

PTX_ACCESS void store_local(u64 address, V value, int line)
{
    if (!is_local(address)) fail(line, "store to local memory at address %#llx", (unsigned long long)address);
    memcpy((void*)address, &value, sizeof(V));
}

// A generic address is one of shared memory where it lies in its window, here the place that shared memory has.
static inline bool is_shared(u64 address)
{
    return address - (u64)shared_bytes < MAX_SHARED;
}

PTX_ACCESS V load_generic(u64 address, int line)
{
    if (is_shared(address)) return load_shared<V>(address - (u64)shared_bytes, line);
    return is_local(address) ? load_local<V>(address, line) : load_global<V>(address, line);
}

PTX_ACCESS void store_generic(u64 address, V value, int line)
{
    if (is_shared(address)) store_shared<V>(address - (u64)shared_bytes, value, line);
    else if (is_local(address)) store_local<V>(address, value, line);
    else store_global<V>(address, value, line);
}

// Nothing comes between the two halves of an atomic operation, only before it.
template <class V, class F>
static inline V atomic_global(u64 address, F change, int line)
{
    const V old = load_global<V>(address, line);
    const bool was_by_chance = by_chance;
    by_chance = false;
    store_global<V>(address, change(old), line);
    by_chance = was_by_chance;
    return old;
}

template <class V, class F>
static inline V atomic_shared(u64 address, F change, int line)
{
    const V old = load_shared<V>(address, line);
    const bool was_by_chance = by_chance;
    by_chance = false;
    store_shared<V>(address, change(old), line);
    by_chance = was_by_chance;
    return old;
}

template <class V>
static inline V shift_left(V value, u32 count) { return count >= sizeof(V) * 8 ? V(0) : V(value << count); }

// Of a signed type: copies of the sign come in.
template <class V>
static inline V shift_right(V value, u32 count)
{
    if (count >= sizeof(V) * 8) return value < 0 ? V(-1) : V(0);
    return V(value >> count);
}

// PTX leaves a division by zero, and the one that overflows, undefined.
template <class V>
static inline void check_division(V x, V y, int line)
{
    if (y == 0) fail(line, "division by zero");
    if (V(-1) < 0 && y == V(-1) && x == V(V(1) << (sizeof(V) * 8 - 1))) fail(line, "division that overflows");
}

template <class V>
static inline V divide(V x, V y, int line) { check_division(x, y, line); return V(x / y); }

template <class V>
static inline V remainder(V x, V y, int line) { check_division(x, y, line); return V(x % y); }

// Bits of `a` put into `b`, `length` of them from `position` on.
template <class V>
static inline V insert_bits(V a, V b, u32 position, u32 length)
{
    const u32 n = sizeof(V) * 8;
    position &= 255, length &= 255;
    if (position >= n || length == 0) return b;
    const V mask = shift_left<V>(length >= n ? V(~V(0)) : V((V(1) << length) - 1), position);
    return V((shift_left<V>(a, position) & mask) | (b & ~mask));
}

template <class V>
static inline u32 leading_zeros(V value)
{
    u32 count = 0;
    for (V bit = V(1) << (sizeof(V) * 8 - 1); bit != 0 && (value & bit) == 0; bit >>= 1) count++;
    return count;
}

static inline u32 reversed(u32 value)
{
    u32 result = 0;
    for (int i = 0; i < 32; i++) result |= (value >> i & 1) << (31 - i);
    return result;
}

static inline u32 funnel_left(u32 low, u32 high, u32 count)
{
    count &= 31;
    return count == 0 ? high : high << count | low >> (32 - count);
}

static inline f64 float_of(u64 bits) { return value_at<f64>(&bits); }

// Toward zero; values outside become the nearest one, and what is not a number 0.
static inline s64 truncated(f64 value)
{
    if (value != value) return 0;
    if (value <= -9223372036854775808.0) return INT64_MIN;
    return value >= 9223372036854775808.0 ? INT64_MAX : (s64)value;
}

}  // namespace ptx
