// Who reads and writes what, and whether anything orders it: races between the threads of a grid. Part of shim.cpp.
//
// The compiler calls __tsan_read4 and its kin before each access (-fsanitize=thread, without that sanitizer's library).
// Two accesses to one address, of which one writes and not both are atomic, are a race unless
//   - one thread made both,
//   - a barrier of the block lies between them,
//   - the two lanes of one warp met in __syncwarp in between (votes and shuffles order no memory), or
//   - they are of different blocks, the earlier block went on to a fence and an atomic operation, and the later one did
//     an atomic operation after that: how blocks tell the last one that they are done.
// A plain read beside an atomic operation is let pass: such words are read whole, and are read again by who must know.
// The last write and the last two reads of an address are remembered.
#pragma once

namespace races {

struct Access {
    long long block;  // -1 for none
    int thread;
    unsigned int epoch, clock;      // barriers passed by the block; the lane's own clock
    unsigned long long time;        // how many accesses came before, in the launch
    const char* file;  // where, or the machine's own address of it
    int line;
    const void* code;
    bool atomic;
};

struct Cell {
    uintptr_t address;
    unsigned long long launch;
    Access write, reads[2];
};

std::vector<Cell> cells(1 << 16);
size_t n_used;
unsigned long long launch, now;
unsigned int epoch;
unsigned int clocks[MAX_THREADS][32];      // what each lane knows of the clocks of its warp's lanes
bool fenced[MAX_THREADS];                  // since its last atomic operation
std::vector<unsigned long long> released;  // per block, when it last did an atomic operation behind a fence
unsigned long long acquired;               // when the block that runs last did an atomic operation
uintptr_t stacks_begin, stacks_end, shared_begin, shared_end;

void begin_launch(long long n_blocks, const void* stacks, size_t stack_bytes, const void* shared, size_t shared_bytes)
{
    launch++;
    n_used = 0;
    now = 1;
    released.assign(n_blocks, 0);
    stacks_begin = reinterpret_cast<uintptr_t>(stacks), stacks_end = stacks_begin + stack_bytes;
    shared_begin = reinterpret_cast<uintptr_t>(shared), shared_end = shared_begin + shared_bytes;
}

void begin_block(int n_threads)
{
    epoch = 0;
    acquired = 0;
    memset(clocks, 0, sizeof clocks[0] * n_threads);
    memset(fenced, 0, sizeof fenced);
    for (int t = 0; t < n_threads; t++) clocks[t][t % 32] = 1;
}

void pass_barrier() { epoch++; }

void meet(int base, unsigned int mask)
{
    unsigned int known[32] = {};
    for (unsigned int rest = mask; rest; rest &= rest - 1)
        for (int i = 0; i < 32; i++) {
            const unsigned int clock = clocks[base + __builtin_ctz(rest)][i];
            known[i] = clock > known[i] ? clock : known[i];
        }
    for (unsigned int rest = mask; rest; rest &= rest - 1) {
        const int lane = __builtin_ctz(rest);
        memcpy(clocks[base + lane], known, sizeof known);
        clocks[base + lane][lane]++;
    }
}

void fence() { fenced[current] = true; }

Cell* find(uintptr_t address)
{
    if (n_used * 2 > cells.size()) {
        std::vector<Cell> old(cells.size() * 4);
        old.swap(cells);
        n_used = 0;
        for (const Cell& cell : old)
            if (cell.launch == launch) *find(cell.address) = cell;
    }
    size_t slot = (address * 0x9E3779B97F4A7C15ull >> 20) & (cells.size() - 1);
    while (cells[slot].launch == launch && cells[slot].address != address) slot = (slot + 1) & (cells.size() - 1);
    Cell& cell = cells[slot];
    if (cell.launch != launch) {
        n_used++;
        cell.launch = launch;
        cell.address = address;
        cell.write.block = cell.reads[0].block = cell.reads[1].block = -1;
    }
    return &cell;
}

// Whether what another thread did comes before what the current one does.
bool ordered(const Access& other, bool shared)
{
    if (other.block != block_number) {
        return shared || (other.time < released[other.block] && released[other.block] < acquired);
    }
    if (other.thread == current || other.epoch != epoch) return true;
    if (other.thread / 32 == current / 32 && clocks[current][other.thread % 32] >= other.clock) return true;
    return false;
}

void access(const volatile void* pointer, bool writes, bool atomic, const char* file, int line, const void* code)
{
    const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
    if (failed || (address >= stacks_begin && address < stacks_end)) return;
    const bool shared = address >= shared_begin && address < shared_end;
    now++;
    Cell& cell = *find(address);
    const Access self = {block_number, current, epoch, clocks[current][current % 32], now, file, line, code, atomic};
    const Access* other = nullptr;
    const bool harmless = cell.write.atomic && (atomic || !writes);
    if (cell.write.block >= 0 && !harmless && !ordered(cell.write, shared)) other = &cell.write;
    if (writes)
        for (const Access& read : cell.reads)
            if (read.block >= 0 && !atomic && !ordered(read, shared)) other = &read;
    if (other != nullptr) {
        char here[200], there[200];
        tell_place(here, sizeof here, self.file, self.line, self.code);
        tell_place(there, sizeof there, other->file, other->line, other->code);
        fail(nullptr, 0, "a race on %s memory: %s at %s, and %s by block %lld, thread %d at %s", shared ? "shared" : "global",
             atomic ? "an atomic operation" : writes ? "a write" : "a read", here,
             other != &cell.write ? "a read" : other->atomic ? "an atomic operation" : "a write", other->block,
             other->thread, there);
        stop();
    }
    if (writes) {
        cell.write = self;
    } else if (cell.reads[0].block == block_number && cell.reads[0].thread == current) {
        cell.reads[0] = self;
    } else {
        cell.reads[1] = cell.reads[0];
        cell.reads[0] = self;
    }
}

void atomic(const volatile void* pointer, const char* file, int line)
{
    access(pointer, true, true, file, line, nullptr);
    acquired = ++now;
    if (fenced[current]) {
        released[block_number] = now;
        fenced[current] = false;
    }
}

}  // namespace races

}  // namespace
}  // namespace shim

#define SHIM_HOOK extern "C" __attribute__((visibility("hidden")))
#define SHIM_WATCHED(name, writes, whole)                                                                        \
    SHIM_HOOK void name(void* address)                                                                           \
    {                                                                                                            \
        shim::races::access(address, writes, whole, nullptr, 0, __builtin_return_address(0));                    \
    }
#define SHIM_WATCHED_SIZE(size)                              \
    SHIM_WATCHED(__tsan_read##size, false, false)            \
    SHIM_WATCHED(__tsan_write##size, true, false)            \
    SHIM_WATCHED(__tsan_unaligned_read##size, false, false)  \
    SHIM_WATCHED(__tsan_unaligned_write##size, true, false)  \
    SHIM_WATCHED(__tsan_volatile_read##size, false, true)    \
    SHIM_WATCHED(__tsan_volatile_write##size, true, true)
SHIM_WATCHED_SIZE(1)
SHIM_WATCHED_SIZE(2)
SHIM_WATCHED_SIZE(4)
SHIM_WATCHED_SIZE(8)
SHIM_WATCHED_SIZE(16)
SHIM_HOOK void __tsan_func_entry(void*) {}
SHIM_HOOK void __tsan_func_exit(void) {}
SHIM_HOOK void __tsan_init(void) {}
SHIM_HOOK void __tsan_read_range(void* address, unsigned long size)
{
    for (unsigned long i = 0; i < size; i += 8)
        shim::races::access(static_cast<char*>(address) + i, false, false, nullptr, 0, __builtin_return_address(0));
}
SHIM_HOOK void __tsan_write_range(void* address, unsigned long size)
{
    for (unsigned long i = 0; i < size; i += 8)
        shim::races::access(static_cast<char*>(address) + i, true, false, nullptr, 0, __builtin_return_address(0));
}

namespace shim {
namespace {
