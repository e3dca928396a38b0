// Memory that plays a device's: garbage at first, guarded at both ends, garbage again when given back.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>

namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr size_t GUARD = 0;  // the sanitizer has its own
#else
constexpr size_t GUARD = 256;
#endif
constexpr size_t ALIGNMENT = 256;
constexpr unsigned char GUARD_BYTE = 0xC3;
constexpr size_t MOST_SPOILT = 64 << 10;  // bytes of an array given back

std::map<uintptr_t, size_t> live;  // address and size of what is allocated

#ifdef SHIM_WRITTEN
std::map<uintptr_t, unsigned char*> written;  // per array, a byte for each of its bytes: 1 once it is written
std::map<uintptr_t, size_t> shared;           // memory of others that kernels may touch
#endif

#ifndef __SANITIZE_ADDRESS__
// Large blocks are kept for the next allocation of about their size: new pages cost more than all else here.
constexpr size_t LARGE = 32 << 10;
constexpr size_t MOST_KEPT = 256 << 20;
std::multimap<size_t, void*> kept;
size_t bytes_kept;
std::map<void*, size_t> capacities;  // of large blocks

void* take(size_t size)
{
    void* memory = nullptr;
    if (size < LARGE) return posix_memalign(&memory, ALIGNMENT, size) ? nullptr : memory;
    size_t capacity = LARGE;
    while (capacity < size) capacity += capacity / 2;
    const auto found = kept.find(capacity);
    if (found != kept.end()) {
        memory = found->second;
        kept.erase(found);
        bytes_kept -= capacity;
    } else if (posix_memalign(&memory, ALIGNMENT, capacity)) {
        return nullptr;
    }
    capacities[memory] = capacity;
    return memory;
}

void give(void* memory)
{
    const auto found = capacities.find(memory);
    if (found == capacities.end() || bytes_kept + found->second > MOST_KEPT) {
        free(memory);
    } else {
        kept.emplace(found->second, memory);
        bytes_kept += found->second;
    }
    if (found != capacities.end()) capacities.erase(found);
}
#else
void* take(size_t size)
{
    void* memory = nullptr;
    return posix_memalign(&memory, ALIGNMENT, size) ? nullptr : memory;
}

void give(void* memory) { free(memory); }
#endif

void fill(unsigned char* at, size_t size, unsigned long long seed)
{
    constexpr size_t STEP = 4096;
    const size_t first = size < STEP ? size : STEP;
    unsigned long long state = seed * 0x9E3779B97F4A7C15ull + 0x1234567ull;
    for (size_t i = 0; i < first; i += 8) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        memcpy(at + i, &state, first - i < 8 ? first - i : 8);
    }
    for (size_t i = STEP; i < size; i += STEP) memcpy(at + i, at, size - i < STEP ? size - i : STEP);
}

// How far from the array the nearest guard byte is that was written over: negative before its first byte, else after
// its last; 0 if none was.
long long damage(uintptr_t address, size_t size)
{
    const unsigned char* first = reinterpret_cast<const unsigned char*>(address);
    for (size_t i = 1; i <= GUARD; i++)
        if (first[-static_cast<ptrdiff_t>(i)] != GUARD_BYTE) return -static_cast<long long>(i);
    for (size_t i = 0; i < GUARD; i++)
        if (first[size + i] != GUARD_BYTE) return static_cast<long long>(i) + 1;
    return 0;
}

}  // namespace

extern "C" {

void* shim_allocate(size_t size, unsigned long long seed)
{
    void* memory = take(size + 2 * GUARD);
    if (memory == nullptr) return nullptr;
    unsigned char* first = static_cast<unsigned char*>(memory) + GUARD;
    memset(first - GUARD, GUARD_BYTE, GUARD);
    memset(first + size, GUARD_BYTE, GUARD);
    fill(first, size, seed);
    live[reinterpret_cast<uintptr_t>(first)] = size;
#ifdef SHIM_WRITTEN
    written[reinterpret_cast<uintptr_t>(first)] = static_cast<unsigned char*>(calloc(size, 1));
#endif
    return first;
}

#ifdef SHIM_WRITTEN
// What `tests/ptx/runtime.h` calls a range.
struct Range {
    uint64_t begin, end;
    unsigned char* written;
};

// The array that holds an address.
bool shim_find(uint64_t address, Range* range)
{
    auto found = live.upper_bound(address);
    if (found != live.begin() && address < std::prev(found)->first + std::prev(found)->second) {
        --found;
        *range = {found->first, found->first + found->second, written[found->first]};
        return true;
    }
    found = shared.upper_bound(address);
    if (found == shared.begin() || address >= std::prev(found)->first + std::prev(found)->second) return false;
    --found;
    *range = {found->first, found->first + found->second, nullptr};
    return true;
}

// Where the map of what is written has the byte at an address; null outside of all arrays.
void* shim_written(void* address)
{
    Range range;
    if (!shim_find(reinterpret_cast<uintptr_t>(address), &range) || range.written == nullptr) return nullptr;
    return range.written + (reinterpret_cast<uintptr_t>(address) - range.begin);
}

// Memory of another library, all written, that kernels may touch from now on.
void shim_share(void* address, size_t size) { shared[reinterpret_cast<uintptr_t>(address)] = size; }
#endif

// What `damage` says of it.
long long shim_free(void* address)
{
    const auto found = live.find(reinterpret_cast<uintptr_t>(address));
    if (found == live.end()) return 0;
    const long long distance = damage(found->first, found->second);
    unsigned char* first = static_cast<unsigned char*>(address);
    memset(first, 0xDD, found->second < MOST_SPOILT ? found->second : MOST_SPOILT);
#ifdef SHIM_WRITTEN
    free(written[found->first]);
    written.erase(found->first);
#endif
    live.erase(found);
    give(first - GUARD);
    return distance;
}

// Look at all guards: 0, or which array was run over (by address and size) and how far from it. Each is told once.
long long shim_check(uintptr_t* address, size_t* size)
{
    for (const auto& [at, bytes] : live) {
        const long long distance = damage(at, bytes);
        if (distance == 0) continue;
        *address = at;
        *size = bytes;
        unsigned char* first = reinterpret_cast<unsigned char*>(at);
        memset(first - GUARD, GUARD_BYTE, GUARD);
        memset(first + bytes, GUARD_BYTE, GUARD);
        return distance;
    }
    return 0;
}
}
