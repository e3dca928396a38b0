// A grid on one core: every thread of a block is a fiber, blocks run one after another.
//
// A thread runs until it waits (at a barrier or for its warp) or ends; one that never waits leaves its stack to the
// next. What CUDA leaves undefined is an error here: lanes named in a mask that never come, barriers that not all
// reach, other places reached than the others wait at. Shared memory is filled with a pattern before each block. Which
// block, warp and lane comes next follows the seed: 0 ascending, 1 descending, others pseudo-random, and then threads
// also change at atomics and fences.
#define SHIM_NO_KEYWORDS
#include "shim.h"

#include <csetjmp>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>
#ifdef SHIM_RACES
#include <vector>
#endif

#if defined(__x86_64__) && !defined(SHIM_UCONTEXT)
#define SHIM_OWN_SWITCH
#endif
#include <ucontext.h>
#ifdef __SANITIZE_ADDRESS__
extern "C" void __asan_unpoison_memory_region(const volatile void*, size_t);
#endif

uint3 threadIdx, blockIdx, blockDim, gridDim;

extern "C" {
__attribute__((weak, visibility("hidden"))) extern char __start_shared_memory[];
__attribute__((weak, visibility("hidden"))) extern char __stop_shared_memory[];
}

namespace shim {
namespace {

typedef void (*Body)(const long long*);

constexpr int MAX_THREADS = 1024;
#ifdef __SANITIZE_ADDRESS__
constexpr size_t STACK = 512 << 10;
#else
constexpr size_t STACK = 128 << 10;
#endif
constexpr size_t PAGE = 64 << 10;
constexpr int ATOMICS_WITHOUT_A_CHANGE = 4096;
constexpr long long MOST_IDLE_ATOMICS = 20'000'000;

const char* const NAMES[N_OPERATIONS] = {
    "__syncthreads", "__syncthreads_count", "__syncthreads_and", "__syncthreads_or", "__syncwarp", "__ballot_sync",
    "__any_sync", "__all_sync", "__shfl_sync", "__shfl_up_sync", "__shfl_down_sync", "__shfl_xor_sync"};

enum State : unsigned char { NEW, READY, AT_BARRIER, IN_WARP, ENDED };

#ifdef SHIM_OWN_SWITCH
struct Context {
    void* stack_pointer;
};
#else
struct Context {
    ucontext_t context;
};
#endif

struct Thread {
    Context context;
    State state;
    Operation operation;
    unsigned int mask;
    int parameter, width, line, stack;
    const char* file;
    unsigned long long value;
};

Thread threads[MAX_THREADS];
unsigned int ready[MAX_THREADS / 32];      // per warp, lanes that can go on
unsigned int postponed[MAX_THREADS / 32];  // and those that can, but in the next round only
char* stacks;
int free_stacks[MAX_THREADS];
int n_free_stacks, n_threads, current, n_waiting, n_ended;
Context scheduler;
Body body;
const long long* arguments;
const char* kernel;
long long block_number;
unsigned long long seed, state_of_chance;
bool by_chance;
int atomics;
long long idle_atomics;  // since a thread began, ended, or got past a barrier or an operation of its warp
char* message;
int message_size;
bool failed;
sigjmp_buf escape;

unsigned long long chance()
{
    state_of_chance ^= state_of_chance << 13;
    state_of_chance ^= state_of_chance >> 7;
    state_of_chance ^= state_of_chance << 17;
    return state_of_chance * 0x9E3779B97F4A7C15ull >> 32;
}

#ifdef SHIM_OWN_SWITCH
extern "C" void shim_switch(Context* from, Context* to) __attribute__((visibility("hidden")));
asm(R"(
    .text
    .p2align 4
    .hidden shim_switch
    .globl shim_switch
    .type shim_switch, @function
shim_switch:
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
    .size shim_switch, .-shim_switch
)");

void prepare(Context* context, char* top, void (*entry)())
{
    // As if `entry` had been called from the top of an aligned stack: a return address above its frame, and below
    // it what shim_switch takes back.
    void** slot = reinterpret_cast<void**>(top);
    *--slot = nullptr;
    *--slot = reinterpret_cast<void*>(entry);
    for (int i = 0; i < 6; i++) *--slot = nullptr;
    context->stack_pointer = slot;
}
#else
void shim_switch(Context* from, Context* to) { swapcontext(&from->context, &to->context); }

void prepare(Context* context, char* top, void (*entry)())
{
    getcontext(&context->context);
    context->context.uc_stack.ss_sp = top - STACK / 2;
    context->context.uc_stack.ss_size = STACK / 2;
    context->context.uc_link = nullptr;
    makecontext(&context->context, entry, 0);
}
#endif

void leave() { shim_switch(&threads[current].context, &scheduler); }

__attribute__((format(printf, 3, 4))) void fail(const char* file, int line, const char* format, ...)
{
    int used = snprintf(message, message_size, "%s, block %lld, thread %d", kernel, block_number, current);
    if (file != nullptr && used < message_size) used += snprintf(message + used, message_size - used, ", %s:%d", file, line);
    if (used < message_size) used += snprintf(message + used, message_size - used, ": ");
    va_list list;
    va_start(list, format);
    if (used < message_size) vsnprintf(message + used, message_size - used, format, list);
    va_end(list);
    failed = true;
}

[[noreturn]] void stop()
{
    leave();
    abort();
}

// "file:line", or a place in the library that the caller can look up there.
void tell_place(char* out, size_t size, const char* file, int line, const void* code)
{
    Dl_info library;
    if (file != nullptr)
        snprintf(out, size, "%s:%d", file, line);
    else if (code != nullptr && dladdr(code, &library) && library.dli_fbase != nullptr)
        snprintf(out, size, "<+%#zx>", static_cast<size_t>(static_cast<const char*>(code) -
                                                            static_cast<const char*>(library.dli_fbase)));
    else
        snprintf(out, size, "%p", code);
}

#ifdef SHIM_RACES
#include "races.h"
#define SHIM_WATCH(call) races::call
#else
#define SHIM_WATCH(call) static_cast<void>(0)
#endif

bool same_place(const Thread& x, const Thread& y)
{
    return x.operation == y.operation && x.line == y.line && (x.file == y.file || strcmp(x.file, y.file) == 0);
}

void run_thread()
{
    body(arguments);
    Thread& self = threads[current];
    self.state = ENDED;
    n_ended++;
    idle_atomics = 0;
    ready[current / 32] &= ~(1u << current % 32);
    free_stacks[n_free_stacks++] = self.stack;
    leave();
    abort();
}

void resume(int thread)
{
    Thread& next = threads[thread];
    if (next.state == NEW) {
        next.stack = free_stacks[--n_free_stacks];
        // Stack tops at different places of a page, or they would all want the same lines of the cache.
        char* top = stacks + next.stack * (STACK + PAGE) + PAGE + STACK - (next.stack % 64) * 192;
        prepare(&next.context, reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(top) & ~uintptr_t{63}), run_thread);
        next.state = READY;
        idle_atomics = 0;
    }
    current = thread;
    threadIdx = {(unsigned int)thread, 0, 0};
    atomics = 0;
    shim_switch(&scheduler, &next.context);
}

// All threads that have not ended wait at the barrier: they go on, if it is the same one.
void pass_barrier()
{
    int first = -1;
    unsigned long long sum = 0, all = 1;
    for (int t = 0; t < n_threads; t++) {
        if (threads[t].state != AT_BARRIER) continue;
        if (first < 0) first = t;
        if (!same_place(threads[first], threads[t])) {
            current = t;
            fail(threads[t].file, threads[t].line, "%s while thread %d waits in %s at %s:%d", NAMES[threads[t].operation],
                 first, NAMES[threads[first].operation], threads[first].file, threads[first].line);
            return;
        }
        sum += threads[t].value;
        all &= threads[t].value;
    }
    for (int t = 0; t < n_threads; t++) {
        if (threads[t].state != AT_BARRIER) continue;
        const Operation operation = threads[t].operation;
        threads[t].value = operation == SYNCTHREADS_AND ? all : operation == SYNCTHREADS_OR ? (sum != 0) : sum;
        threads[t].state = READY;
        ready[t / 32] |= 1u << t % 32;
    }
    n_waiting = 0;
    idle_atomics = 0;
    SHIM_WATCH(pass_barrier());
}

// The lane that a shuffle reads, as PTX defines it.
int source_lane(const Thread& thread, int lane)
{
    const int segment = lane & ~(thread.width - 1);
    const int last = segment | (thread.width - 1);
    int source = lane;
    switch (thread.operation) {
        case SHFL: return segment | (thread.parameter & (thread.width - 1));
        case SHFL_UP: source = lane - (thread.parameter & 31); return source >= segment ? source : lane;
        case SHFL_DOWN: source = lane + (thread.parameter & 31); return source <= last ? source : lane;
        default: source = lane ^ (thread.parameter & 31); return source <= last ? source : lane;
    }
}

// All lanes of the mask have come: give each its result.
bool complete(int base, unsigned int mask)
{
    const Operation operation = threads[current].operation;
    unsigned int votes = 0;
    unsigned long long values[32];
    for (unsigned int rest = mask; rest; rest &= rest - 1) {
        const int lane = __builtin_ctz(rest);
        values[lane] = threads[base + lane].value;
        votes |= (unsigned int)(values[lane] != 0) << lane;
    }
    for (unsigned int rest = mask; rest; rest &= rest - 1) {
        const int lane = __builtin_ctz(rest);
        Thread& thread = threads[base + lane];
        switch (operation) {
            case SYNCWARP: break;
            case BALLOT: thread.value = votes; break;
            case ANY: thread.value = votes != 0; break;
            case ALL: thread.value = votes == mask; break;
            default: {
                const int source = source_lane(thread, lane);
                if (!(mask >> source & 1)) {
                    current = base + lane;
                    fail(thread.file, thread.line, "%s reads lane %d, which mask 0x%08x does not name", NAMES[operation],
                         source, mask);
                    return false;
                }
                thread.value = values[source];
            }
        }
    }
    for (unsigned int rest = mask; rest; rest &= rest - 1) threads[base + __builtin_ctz(rest)].state = READY;
    ready[base / 32] |= mask;
    idle_atomics = 0;
    if (operation == SYNCWARP) SHIM_WATCH(meet(base, mask));
    return true;
}

// Nothing can go on, and some threads have not ended: say who waits for whom.
void explain_deadlock()
{
    int counts[5] = {};
    int waiting = -1;
    for (int t = 0; t < n_threads; t++) {
        counts[threads[t].state]++;
        if (waiting < 0 && threads[t].state == IN_WARP) waiting = t;
    }
    current = waiting;
    const Thread& thread = threads[waiting];
    for (unsigned int rest = thread.mask; rest; rest &= rest - 1) {
        const int other = waiting / 32 * 32 + __builtin_ctz(rest);
        const Thread& missing = threads[other];
        if (missing.state == ENDED) {
            fail(thread.file, thread.line, "%s with mask 0x%08x waits for lane %d, which has ended", NAMES[thread.operation],
                 thread.mask, other % 32);
            return;
        }
        if (missing.state == IN_WARP && same_place(thread, missing) && missing.mask == thread.mask) continue;
        fail(thread.file, thread.line,
             "%s with mask 0x%08x waits for lane %d for ever: that one waits in %s%s at %s:%d (%d threads at a barrier, %d "
             "in warps, %d ended)",
             NAMES[thread.operation], thread.mask, other % 32, NAMES[missing.operation],
             missing.state == IN_WARP && missing.mask != thread.mask ? " with another mask" : "", missing.file, missing.line,
             counts[AT_BARRIER], counts[IN_WARP], counts[ENDED]);
        return;
    }
    fail(thread.file, thread.line, "%s can never be completed", NAMES[thread.operation]);
}

int pick(unsigned int lanes)
{
    if (by_chance) {
        const int turn = chance() & 31;
        const unsigned int turned = turn ? lanes >> turn | lanes << (32 - turn) : lanes;
        return (__builtin_ctz(turned) + turn) & 31;
    }
    return seed == 1 ? 31 - __builtin_clz(lanes) : __builtin_ctz(lanes);
}

void run_block(Body entry)
{
    body = entry;
    const int n_warps = n_threads / 32;
    for (int t = 0; t < n_threads; t++) threads[t].state = NEW;
    for (int w = 0; w < n_warps; w++) ready[w] = 0xffffffffu, postponed[w] = 0;
    n_waiting = n_ended = 0;
    SHIM_WATCH(begin_block(n_threads));
    while (!failed && n_ended < n_threads) {
        bool any = false;
        const int begin = by_chance ? chance() % n_warps : 0;
        for (int i = 0; i < n_warps && !failed; i++) {
            const int w = seed == 1 ? n_warps - 1 - i : begin + i < n_warps ? begin + i : begin + i - n_warps;
            ready[w] |= postponed[w];
            postponed[w] = 0;
            while (ready[w] && !failed) {
                any = true;
                resume(w * 32 + pick(ready[w]));
                // Another warp may come in between.
                if (by_chance && chance() % 64 == 0) break;
            }
        }
        if (any || failed || n_ended == n_threads) continue;
        if (n_waiting > 0 && n_waiting + n_ended == n_threads)
            pass_barrier();
        else
            explain_deadlock();
    }
}

void fill_shared_memory()
{
    const size_t size = __stop_shared_memory - __start_shared_memory;
    if (__start_shared_memory == nullptr || size == 0) return;
    const unsigned long long pattern =
        by_chance ? chance() * 0x9E3779B97F4A7C15ull : seed == 1 ? ~0ull : 0xA5A5A5A5A5A5A5A5ull;
    memcpy(__start_shared_memory, &pattern, size < 8 ? size : 8);
    for (size_t done = 8; done < size; done *= 2)
        memcpy(__start_shared_memory + done, __start_shared_memory, done < size - done ? done : size - done);
}

void on_signal(int number, siginfo_t* information, [[maybe_unused]] void* context)
{
    const void* code = nullptr;
#if defined(__x86_64__) && defined(REG_RIP)
    // One further, as return addresses are.
    code = reinterpret_cast<const char*>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]) + 1;
#endif
    char place[200];
    tell_place(place, sizeof place, nullptr, 0, code);
    if (number == SIGFPE)
        fail(nullptr, 0, "division by zero at %s", place);
    else
        fail(nullptr, 0, "access to memory that is not there, address %p, at %s", information->si_addr, place);
    siglongjmp(escape, 1);
}

void run_grid(Body entry, long long n_blocks)
{
    // Blocks in a pseudo-random order: steps of a length that has no divisor in common with their number.
    unsigned long long step = 1, place = 0;
    if (by_chance) {
        const unsigned long long n = n_blocks;
        place = chance() % n;
        for (step = chance() % n | 1;; step += 2) {
            unsigned long long x = step, y = n;
            while (y) {
                const unsigned long long rest = x % y;
                x = y;
                y = rest;
            }
            if (x == 1) break;
        }
        step %= n;
    }
    for (long long i = 0; i < n_blocks && !failed; i++) {
        block_number = by_chance ? (long long)place : seed == 1 ? n_blocks - 1 - i : i;
        place += step;
        if (place >= (unsigned long long)n_blocks) place -= n_blocks;
        blockIdx = {(unsigned int)block_number, 0, 0};
        fill_shared_memory();
        run_block(entry);
    }
}

}  // namespace

unsigned long long barrier(Operation operation, unsigned long long value, const char* file, int line)
{
    Thread& self = threads[current];
    self.state = AT_BARRIER;
    self.operation = operation;
    self.value = value;
    self.file = file;
    self.line = line;
    ready[current / 32] &= ~(1u << current % 32);
    n_waiting++;
    leave();
    return self.value;
}

unsigned long long warp(Operation operation, unsigned int mask, unsigned long long value, int parameter, int width,
                        const char* file, int line)
{
    const int lane = current % 32, base = current - lane;
    Thread& self = threads[current];
    if (!(mask >> lane & 1)) {
        fail(file, line, "%s with mask 0x%08x, which does not name lane %d itself", NAMES[operation], mask, lane);
        stop();
    }
    if (width < 1 || width > 32 || (width & (width - 1))) {
        fail(file, line, "%s of width %d", NAMES[operation], width);
        stop();
    }
    self.operation = operation;
    self.mask = mask;
    self.value = value;
    self.parameter = parameter;
    self.width = width;
    self.file = file;
    self.line = line;
    self.state = IN_WARP;
    ready[base / 32] &= ~(1u << lane);
    bool all = true;
    for (unsigned int rest = mask & ~(1u << lane); rest; rest &= rest - 1) {
        const Thread& other = threads[base + __builtin_ctz(rest)];
        if (other.state == ENDED) {
            fail(file, line, "%s with mask 0x%08x names lane %d, which has ended", NAMES[operation], mask,
                 __builtin_ctz(rest));
            stop();
        }
        if (other.state != IN_WARP || other.mask != mask || !same_place(self, other)) {
            all = false;
            break;
        }
    }
    if (all && !complete(base, mask)) stop();
    // The last to come goes on at once, or waits its turn with the others.
    if (!all || (by_chance && chance() % 2)) leave();
    return self.value;
}

void atomic(const volatile void* address, unsigned int size, const char* file, int line)
{
    if (reinterpret_cast<uintptr_t>(address) % size) {
        fail(file, line, "an atomic operation on %u bytes at address %p", size, const_cast<const void*>(address));
        stop();
    }
    SHIM_WATCH(atomic(address, file, line));
    if (++idle_atomics > MOST_IDLE_ATOMICS) {
        fail(file, line, "atomic operations go on for ever");
        stop();
    }
    if (++atomics > ATOMICS_WITHOUT_A_CHANGE) {
        ready[current / 32] &= ~(1u << current % 32);
        postponed[current / 32] |= 1u << current % 32;
        leave();
    } else if (by_chance && chance() % 8 == 0) {
        leave();
    }
}

void fence(const char*, int)
{
    SHIM_WATCH(fence());
    if (by_chance && chance() % 2) leave();
}

}  // namespace shim

#define SHIM_EXPORT extern "C" __attribute__((visibility("default")))

// Stacks with a page that cannot be touched below each; one set is enough for all libraries of a process.
SHIM_EXPORT char* shim_make_stacks()
{
    using namespace shim;
    const size_t size = MAX_THREADS * (STACK + PAGE);
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    for (int i = 0; i < MAX_THREADS; i++) mprotect(static_cast<char*>(memory) + i * (STACK + PAGE), PAGE, PROT_NONE);
    return static_cast<char*>(memory);
}

// Run a kernel. 0, or 1 with a message.
SHIM_EXPORT int shim_launch(char* given_stacks, void (*entry)(const long long*), const long long* given, const char* name,
                            long long n_blocks, int block, unsigned long long schedule, char* text, int text_size)
{
    using namespace shim;
    stacks = given_stacks;
    kernel = name;
    arguments = given;
    message = text;
    message_size = text_size;
    failed = false;
    seed = schedule;
    by_chance = schedule > 1;
    state_of_chance = (schedule + 1) * 0xD1B54A32D192ED03ull | 1;
    for (int i = 0; i < 4; i++) chance();
    n_threads = block;
    idle_atomics = 0;
    current = 0;
    block_number = 0;
    blockDim = {(unsigned int)block, 1, 1};
    gridDim = {(unsigned int)n_blocks, 1, 1};
    n_free_stacks = MAX_THREADS;
    for (int i = 0; i < MAX_THREADS; i++) free_stacks[i] = MAX_THREADS - 1 - i;

    SHIM_WATCH(begin_launch(n_blocks, stacks, MAX_THREADS * (STACK + PAGE), __start_shared_memory,
                            __stop_shared_memory - __start_shared_memory));

    static char signal_stack[64 << 10];
    const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE};
    struct sigaction ours = {}, theirs[3];
    ours.sa_sigaction = on_signal;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    stack_t alternative = {}, before;
    alternative.ss_sp = signal_stack;
    alternative.ss_size = sizeof signal_stack;
    sigaltstack(&alternative, &before);
#ifdef __SANITIZE_ADDRESS__
    constexpr int FIRST = 2;  // the sanitizer explains the others better
#else
    constexpr int FIRST = 0;
#endif
    for (int i = FIRST; i < 3; i++) sigaction(numbers[i], &ours, &theirs[i]);
    if (sigsetjmp(escape, 1) == 0) run_grid(entry, n_blocks);
    for (int i = FIRST; i < 3; i++) sigaction(numbers[i], &theirs[i], nullptr);
    sigaltstack(&before, nullptr);
#ifdef __SANITIZE_ADDRESS__
    if (failed) __asan_unpoison_memory_region(stacks, MAX_THREADS * (STACK + PAGE));
#endif
    return failed;
}
