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

std::map<uintptr_t, size_t> live;  // address and size of what is allocated

void fill(unsigned char* at, size_t size, unsigned long long seed)
{
    unsigned long long state = seed * 0x9E3779B97F4A7C15ull + 0x1234567ull;
    for (size_t i = 0; i < size; i += 8) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        memcpy(at + i, &state, size - i < 8 ? size - i : 8);
    }
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
    void* memory = nullptr;
    if (posix_memalign(&memory, ALIGNMENT, size + 2 * GUARD)) return nullptr;
    unsigned char* first = static_cast<unsigned char*>(memory) + GUARD;
    memset(first - GUARD, GUARD_BYTE, GUARD);
    memset(first + size, GUARD_BYTE, GUARD);
    fill(first, size, seed);
    live[reinterpret_cast<uintptr_t>(first)] = size;
    return first;
}

// What `damage` says of it.
long long shim_free(void* address)
{
    const auto found = live.find(reinterpret_cast<uintptr_t>(address));
    if (found == live.end()) return 0;
    const long long distance = damage(found->first, found->second);
    unsigned char* first = static_cast<unsigned char*>(address);
    memset(first, 0xDD, found->second);
    live.erase(found);
    free(first - GUARD);
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
