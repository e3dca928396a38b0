// The scheduler of grids whose kernels were PTX. Blocks run one after another; a block's threads take turns.
//
// `.sync` operations complete only when all lanes of their mask stand at the same instruction with the same mask, a
// barrier when all threads that have not ended stand at the same one. Seeds choose the order: 0 ascending, 1 descending,
// others by chance, with threads interrupted at memory accesses.
#include "runtime.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>

namespace ptx {

u32 thread, block_size, block, n_blocks;
bool by_chance;
alignas(256) u8 shared_bytes[MAX_SHARED], shared_written[MAX_SHARED];
u64 shared_size;
Range cached[N_CACHED];

namespace {

constexpr int MAX_THREADS = 1024;
constexpr size_t STACK = 128 << 10, PAGE = 4 << 10;

enum State : u8 { NEW, READY, AT_BARRIER, IN_WARP, ENDED };

const char* const NAMES[] = {"shfl.up", "shfl.down", "shfl.bfly", "shfl.idx", "vote.ballot", "vote.any", "vote.all",
                             "bar.warp"};

struct Thread {
    void* stack_pointer;
    State state;
    Operation operation;
    int site, line;
    u32 mask, value, lane, bounds;
    bool held;
};

Thread threads[MAX_THREADS];
u32 ready[MAX_THREADS / 32];
int n_waiting, n_ended;
char* stacks;
void* scheduler;
void (*body)(const u64*);
const u64* arguments;
const char* kernel;
bool (*find)(u64 address, Range* range);
const Range* ranges;
u64 n_ranges;
u64 seed, state_of_chance;
char* message;
int message_size;
bool failed;

u64 chance()
{
    state_of_chance ^= state_of_chance << 13;
    state_of_chance ^= state_of_chance >> 7;
    state_of_chance ^= state_of_chance << 17;
    return state_of_chance * 0x9E3779B97F4A7C15ull >> 32;
}

extern "C" void ptx_switch(void** from, void** to) __attribute__((visibility("hidden")));
#if defined(__x86_64__)
asm(R"(
    .text
    .p2align 4
    .hidden ptx_switch
    .globl ptx_switch
    .type ptx_switch, @function
ptx_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq (%rsi), %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");
#else
#error "the executor switches stacks on x86-64 only"
#endif

void leave() { ptx_switch(&threads[thread].stack_pointer, &scheduler); }

void run_thread()
{
    body(arguments);
    threads[thread].state = ENDED;
    ready[thread / 32] &= ~(1u << thread % 32);
    n_ended++;
    leave();
    abort();
}

void report(u32 of, int line, const char* format, va_list values)
{
    if (failed) return;
    failed = true;
    const int n = snprintf(message, message_size, "%s: block %u, thread %u, PTX line %d: ", kernel, block, of, line);
    vsnprintf(message + n, message_size - n, format, values);
}

// As `fail`, from the scheduler.
__attribute__((format(printf, 3, 4))) void complain(u32 of, int line, const char* format, ...)
{
    va_list values;
    va_start(values, format);
    report(of, line, format, values);
    va_end(values);
}

void resume(u32 next)
{
    Thread& self = threads[next];
    if (self.state == NEW) {
        self.state = READY;
        // Tops at different places of a page, or all would want the same lines of the cache.
        char* top = stacks + (next + 1) * (STACK + PAGE) - 64 - next % 31 * 128;
        void** at = reinterpret_cast<void**>(reinterpret_cast<u64>(top) & ~u64{63});
        *--at = nullptr;
        *--at = reinterpret_cast<void*>(run_thread);
        for (int saved = 0; saved < 6; saved++) *--at = nullptr;
        self.stack_pointer = at;
    }
    thread = next;
    ptx_switch(&scheduler, &self.stack_pointer);
}

void pass_barrier()
{
    int first = -1;
    for (u32 t = 0; t < block_size; t++) {
        Thread& self = threads[t];
        if (self.state != AT_BARRIER) continue;
        if (first < 0) first = t;
        if (self.site != threads[first].site) {
            complain(t, self.line, "bar.sync while thread %d waits in the one of line %d", first, threads[first].line);
            return;
        }
        self.state = READY;
        ready[t / 32] |= 1u << t % 32;
    }
    n_waiting = 0;
}

// The lane that lane `own` reads, and whether it is in bounds; `bounds` holds a mask of segments and a clamp.
u32 source_of(const Thread& self, u32 own, bool* in_bounds)
{
    const u32 segments = self.bounds >> 8 & 31, clamp = self.bounds & 31, lane = self.lane & 31;
    const u32 last = (own & segments) | (clamp & ~segments & 31), first = own & segments;
    s32 source = own;
    switch (self.operation) {
        case SHUFFLE_UP: source = (s32)own - (s32)lane; *in_bounds = source >= (s32)last; break;
        case SHUFFLE_DOWN: source = own + lane; *in_bounds = source <= (s32)last; break;
        case SHUFFLE_XOR: source = own ^ lane; *in_bounds = source <= (s32)last; break;
        default: source = first | (lane & ~segments & 31); *in_bounds = source <= (s32)last;
    }
    return *in_bounds ? (u32)source : own;
}

// All lanes of the mask have come: give each its result.
bool complete(u32 base, u32 mask)
{
    u32 votes = 0, values[32];
    for (u32 rest = mask; rest; rest &= rest - 1) {
        const u32 lane = __builtin_ctz(rest);
        values[lane] = threads[base + lane].value;
        votes |= u32(values[lane] != 0) << lane;
    }
    for (u32 rest = mask; rest; rest &= rest - 1) {
        const u32 lane = __builtin_ctz(rest);
        Thread& self = threads[base + lane];
        switch (self.operation) {
            case SYNCWARP: break;
            case BALLOT: self.value = votes; break;
            case ANY: self.value = votes != 0; break;
            case ALL: self.value = votes == mask; break;
            default: {
                const u32 source = source_of(self, lane, &self.held);
                if (!(mask >> source & 1)) {
                    complain(base + lane, self.line, "%s reads lane %u, which mask %#010x does not name",
                             NAMES[self.operation], source, mask);
                    return false;
                }
                self.value = values[source];
            }
        }
        self.state = READY;
    }
    ready[base / 32] |= mask;
    return true;
}

bool find_in_table(u64 address, Range* range)
{
    for (u64 i = 0; i < n_ranges; i++) {
        if (address < ranges[i].begin || address >= ranges[i].end) continue;
        *range = ranges[i];
        return true;
    }
    return false;
}

void explain_deadlock()
{
    u32 waiting = 0;
    while (waiting < block_size && threads[waiting].state != IN_WARP) waiting++;
    if (waiting == block_size) {
        complain(0, 0, "no thread can go on");
        return;
    }
    const Thread& self = threads[waiting];
    for (u32 rest = self.mask; rest; rest &= rest - 1) {
        const u32 lane = __builtin_ctz(rest);
        const Thread& other = threads[waiting / 32 * 32 + lane];
        if (other.state == IN_WARP && other.site == self.site && other.mask == self.mask) continue;
        complain(waiting, self.line, "%s with mask %#010x waits for lane %u, which %s (line %d)", NAMES[self.operation],
                 self.mask, lane, other.state == ENDED ? "has ended" : "waits elsewhere or with another mask", other.line);
        return;
    }
    complain(waiting, self.line, "%s can never be completed", NAMES[self.operation]);
}

u32 pick(u32 lanes)
{
    if (!by_chance) return seed == 1 ? 31 - __builtin_clz(lanes) : __builtin_ctz(lanes);
    const u32 turn = chance() & 31;
    const u32 turned = turn ? lanes >> turn | lanes << (32 - turn) : lanes;
    return (__builtin_ctz(turned) + turn) & 31;
}

void run_block()
{
    const u32 n_warps = block_size / 32;
    for (u32 t = 0; t < block_size; t++) threads[t].state = NEW, threads[t].line = 0;
    for (u32 w = 0; w < n_warps; w++) ready[w] = ~0u;
    n_waiting = n_ended = 0;
    memset(shared_written, 0, shared_size);
    memset(shared_bytes, by_chance ? int(chance() & 255) : seed == 1 ? 0xff : 0xa5, shared_size);
    while (!failed && n_ended < (int)block_size) {
        bool any = false;
        const u32 begin = by_chance ? chance() % n_warps : 0;
        for (u32 i = 0; i < n_warps && !failed; i++) {
            const u32 w = seed == 1 ? n_warps - 1 - i : (begin + i) % n_warps;
            while (ready[w] && !failed) {
                any = true;
                resume(w * 32 + pick(ready[w]));
                if (by_chance && chance() % 16 == 0) break;  // another warp comes in between
            }
        }
        if (any || failed || n_ended == (int)block_size) continue;
        if (n_waiting > 0 && n_waiting + n_ended == (int)block_size) pass_barrier();
        else explain_deadlock();
    }
}

}  // namespace

void interrupt()
{
    if ((chance() & 31) == 0) leave();
}

void fail(int line, const char* format, ...)
{
    va_list values;
    va_start(values, format);
    report(thread, line, format, values);
    va_end(values);
    leave();
    abort();
}

bool is_local(u64 address)
{
    return address - (u64)stacks < MAX_THREADS * (STACK + PAGE);
}

const Range& range_of(u64 address, u64 size, int line, const char* access)
{
    Range range;
    if (!find(address, &range) || address + size > range.end)
        fail(line, "%s of %d bytes at address %#llx, outside of any array", access, (int)size, (unsigned long long)address);
    return cached[address >> 12 & (N_CACHED - 1)] = range;
}

void barrier(int site, int line)
{
    Thread& self = threads[thread];
    self.state = AT_BARRIER;
    self.site = site;
    self.line = line;
    ready[thread / 32] &= ~(1u << thread % 32);
    n_waiting++;
    leave();
}

u32 warp(int site, Operation operation, u32 mask, u32 value, u32 lane, u32 bounds, bool* held, int line)
{
    const u32 own = thread % 32, base = thread - own;
    Thread& self = threads[thread];
    if (!(mask >> own & 1)) fail(line, "%s with mask %#010x, which does not name lane %u itself", NAMES[operation], mask, own);
    self.operation = operation;
    self.site = site, self.line = line;
    self.mask = mask, self.value = value, self.lane = lane, self.bounds = bounds;
    self.state = IN_WARP;
    ready[base / 32] &= ~(1u << own);
    bool all = true;
    for (u32 rest = mask; rest; rest &= rest - 1) {
        const Thread& other = threads[base + __builtin_ctz(rest)];
        if (other.state == ENDED)
            fail(line, "%s with mask %#010x names lane %d, which has ended", NAMES[operation], mask, __builtin_ctz(rest));
        if (other.state != IN_WARP || other.mask != mask || other.site != site) {
            all = false;
            break;
        }
    }
    if (all && !complete(base, mask)) {
        leave();
        abort();
    }
    // The last to come goes on at once, or waits its turn with the others.
    if (!all || (by_chance && chance() % 2)) leave();
    if (held != nullptr) *held = self.held;
    return self.value;
}

}  // namespace ptx

#define PTX_EXPORT extern "C" __attribute__((visibility("default")))

// Kernels that are launched without a finder may touch these ranges.
PTX_EXPORT void ptx_set_ranges(const ptx::Range* given, u64 n) { ptx::ranges = given, ptx::n_ranges = n; }

// Run the blocks begin .. end - 1 of a grid of `grid` blocks. 0, or 1 with a message. `finder` says which array holds an
// address.
PTX_EXPORT int ptx_launch(void (*entry)(const u64*), const u64* given, const char* name, u64 grid, u64 begin, u64 end,
                          int threads_of_block, u64 shared, u64 schedule, bool (*finder)(u64, ptx::Range*), char* text,
                          int text_size)
{
    using namespace ptx;
    if (stacks == nullptr) {
        const size_t size = MAX_THREADS * (STACK + PAGE);
        void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) {
            snprintf(text, text_size, "no memory for the stacks of the threads");
            return 1;
        }
        stacks = static_cast<char*>(memory);
        for (int i = 0; i < MAX_THREADS; i++) mprotect(stacks + i * (STACK + PAGE), PAGE, PROT_NONE);
    }
    body = entry, arguments = given, kernel = name, find = finder ? finder : find_in_table;
    message = text, message_size = text_size, failed = false;
    n_blocks = (u32)grid, block_size = (u32)threads_of_block, shared_size = shared;
    seed = schedule, by_chance = schedule > 1;
    state_of_chance = (schedule + 1) * 0xD1B54A32D192ED03ull | 1;
    for (int i = 0; i < 4; i++) chance();
    memset(cached, 0, sizeof cached);
    const u64 n = end - begin, turn = by_chance && n ? chance() % n : 0;
    for (u64 i = 0; i < n && !failed; i++) {
        block = u32(begin + (seed == 1 ? n - 1 - i : (turn + i) % n));
        run_block();
    }
    return failed;
}
