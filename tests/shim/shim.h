// What CUDA C++ brings without an include, for a host compiler. A kernel's threads are fibers; see shim.cpp.
#pragma once

#define SHIM_RUNTIME extern __attribute__((visibility("hidden")))

struct uint3 {
    unsigned int x, y, z;
};
typedef uint3 dim3;

// Those of the thread that runs; the scheduler sets them whenever it lets one go on.
SHIM_RUNTIME uint3 threadIdx, blockIdx, blockDim, gridDim;
constexpr int warpSize = 32;

#ifndef SHIM_NO_KEYWORDS
#define __global__
#define __device__
#define __host__
#define __constant__ static const
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
// `used`: the runtime fills the section before each block, so the compiler may not think it knows what is in it.
#define __shared__ static __attribute__((section("shared_memory"), used))
#endif

namespace shim {

enum Operation : int {
    SYNCTHREADS, SYNCTHREADS_COUNT, SYNCTHREADS_AND, SYNCTHREADS_OR,
    SYNCWARP, BALLOT, ANY, ALL, SHFL, SHFL_UP, SHFL_DOWN, SHFL_XOR, N_OPERATIONS
};

SHIM_RUNTIME unsigned long long barrier(Operation operation, unsigned long long value, const char* file, int line);
SHIM_RUNTIME unsigned long long warp(Operation operation, unsigned int mask, unsigned long long value, int parameter,
                                     int width, const char* file, int line);
// Called before an atomic operation, where another thread may come first.
SHIM_RUNTIME void atomic(const volatile void* address, unsigned int size, const char* file, int line);
SHIM_RUNTIME void fence(const char* file, int line);

template <class T> struct Same { typedef T type; };
template <class T> struct IsShuffled { static constexpr bool value = false; };
template <> struct IsShuffled<int> { static constexpr bool value = true; };
template <> struct IsShuffled<unsigned int> { static constexpr bool value = true; };
template <> struct IsShuffled<long long> { static constexpr bool value = true; };
template <> struct IsShuffled<unsigned long long> { static constexpr bool value = true; };

template <class T>
inline T shuffle(Operation operation, unsigned int mask, T value, int parameter, int width, const char* file, int line)
{
    static_assert(IsShuffled<T>::value, "shuffle int, unsigned int, long long or unsigned long long");
    return (T)warp(operation, mask, (unsigned long long)value, parameter, width, file, line);
}

}  // namespace shim

#define SHIM_PLACE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(SHIM_PLACE) { shim::barrier(shim::SYNCTHREADS, 0, file, line); }
inline int __syncthreads_count(int predicate, SHIM_PLACE)
{
    return (int)shim::barrier(shim::SYNCTHREADS_COUNT, predicate != 0, file, line);
}
inline int __syncthreads_and(int predicate, SHIM_PLACE)
{
    return (int)shim::barrier(shim::SYNCTHREADS_AND, predicate != 0, file, line);
}
inline int __syncthreads_or(int predicate, SHIM_PLACE)
{
    return (int)shim::barrier(shim::SYNCTHREADS_OR, predicate != 0, file, line);
}
inline void __syncwarp(unsigned int mask = 0xffffffffu, SHIM_PLACE)
{
    shim::warp(shim::SYNCWARP, mask, 0, 0, 32, file, line);
}
inline unsigned int __ballot_sync(unsigned int mask, int predicate, SHIM_PLACE)
{
    return (unsigned int)shim::warp(shim::BALLOT, mask, predicate != 0, 0, 32, file, line);
}
inline int __any_sync(unsigned int mask, int predicate, SHIM_PLACE)
{
    return (int)shim::warp(shim::ANY, mask, predicate != 0, 0, 32, file, line);
}
inline int __all_sync(unsigned int mask, int predicate, SHIM_PLACE)
{
    return (int)shim::warp(shim::ALL, mask, predicate != 0, 0, 32, file, line);
}
template <class T> inline T __shfl_sync(unsigned int mask, T value, int lane, int width = 32, SHIM_PLACE)
{
    return shim::shuffle(shim::SHFL, mask, value, lane, width, file, line);
}
template <class T> inline T __shfl_up_sync(unsigned int mask, T value, unsigned int delta, int width = 32, SHIM_PLACE)
{
    return shim::shuffle(shim::SHFL_UP, mask, value, (int)delta, width, file, line);
}
template <class T> inline T __shfl_down_sync(unsigned int mask, T value, unsigned int delta, int width = 32, SHIM_PLACE)
{
    return shim::shuffle(shim::SHFL_DOWN, mask, value, (int)delta, width, file, line);
}
template <class T> inline T __shfl_xor_sync(unsigned int mask, T value, int lanes, int width = 32, SHIM_PLACE)
{
    return shim::shuffle(shim::SHFL_XOR, mask, value, lanes, width, file, line);
}

inline void __threadfence(SHIM_PLACE) { shim::fence(file, line); }
inline void __threadfence_block(SHIM_PLACE) { shim::fence(file, line); }

// The plain access in it is not to be watched as one.
#define SHIM_UNWATCHED __attribute__((no_sanitize("thread")))
#define SHIM_ATOMIC(name, type, result)                                                 \
    SHIM_UNWATCHED inline type name(type* address, type value, SHIM_PLACE)                             \
    {                                                                                   \
        shim::atomic(address, sizeof(type), file, line);                                \
        const type old = *address;                                                      \
        *address = (type)(result);                                                      \
        return old;                                                                     \
    }
SHIM_ATOMIC(atomicAdd, int, (unsigned int)old + (unsigned int)value)
SHIM_ATOMIC(atomicAdd, unsigned int, old + value)
SHIM_ATOMIC(atomicAdd, unsigned long long, old + value)
SHIM_ATOMIC(atomicSub, unsigned int, old - value)
SHIM_ATOMIC(atomicMin, int, value < old ? value : old)
SHIM_ATOMIC(atomicMin, unsigned int, value < old ? value : old)
SHIM_ATOMIC(atomicMin, long long, value < old ? value : old)
SHIM_ATOMIC(atomicMin, unsigned long long, value < old ? value : old)
SHIM_ATOMIC(atomicMax, int, value > old ? value : old)
SHIM_ATOMIC(atomicMax, unsigned int, value > old ? value : old)
SHIM_ATOMIC(atomicMax, long long, value > old ? value : old)
SHIM_ATOMIC(atomicMax, unsigned long long, value > old ? value : old)
SHIM_ATOMIC(atomicOr, int, old | value)
SHIM_ATOMIC(atomicOr, unsigned int, old | value)
SHIM_ATOMIC(atomicOr, unsigned long long, old | value)
SHIM_ATOMIC(atomicAnd, int, old & value)
SHIM_ATOMIC(atomicAnd, unsigned int, old & value)
SHIM_ATOMIC(atomicAnd, unsigned long long, old & value)
SHIM_ATOMIC(atomicXor, int, old ^ value)
SHIM_ATOMIC(atomicXor, unsigned int, old ^ value)
SHIM_ATOMIC(atomicXor, unsigned long long, old ^ value)
SHIM_ATOMIC(atomicExch, int, value)
SHIM_ATOMIC(atomicExch, unsigned int, value)
SHIM_ATOMIC(atomicExch, unsigned long long, value)
#undef SHIM_ATOMIC

#define SHIM_COMPARE_AND_SWAP(type)                                                     \
    SHIM_UNWATCHED inline type atomicCAS(type* address, type expected, type value, SHIM_PLACE)         \
    {                                                                                   \
        shim::atomic(address, sizeof(type), file, line);                                \
        const type old = *address;                                                      \
        if (old == expected) *address = value;                                          \
        return old;                                                                     \
    }
SHIM_COMPARE_AND_SWAP(int)
SHIM_COMPARE_AND_SWAP(unsigned int)
SHIM_COMPARE_AND_SWAP(unsigned long long)
#undef SHIM_COMPARE_AND_SWAP

template <class T> inline T __ldg(const T* address) { return *address; }
inline int __popc(unsigned int x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned int)x); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y)
{
    return (unsigned long long)(((unsigned __int128)x * y) >> 64);
}
inline long long __mul64hi(long long x, long long y) { return (long long)(((__int128)x * y) >> 64); }
inline unsigned int __umulhi(unsigned int x, unsigned int y) { return (unsigned int)(((unsigned long long)x * y) >> 32); }

// Of one type each: a mix of signs or sizes does not compile here.
#define SHIM_LEAST_AND_MOST(type)                                        \
    inline type min(type x, type y) { return y < x ? y : x; }            \
    inline type max(type x, type y) { return x < y ? y : x; }
SHIM_LEAST_AND_MOST(int)
SHIM_LEAST_AND_MOST(unsigned int)
SHIM_LEAST_AND_MOST(long long)
SHIM_LEAST_AND_MOST(unsigned long long)
#undef SHIM_LEAST_AND_MOST
