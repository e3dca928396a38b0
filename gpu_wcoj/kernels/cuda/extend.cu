// Bind one more variable of many prefixes: the candidates of a plan (see plan.cu), cut by items.
//
//   count_*         a thread per candidate: all probes; sums by prefix
//   fill_*          a thread per candidate: all probes; survivors stay at their candidate's place, with a bit each
//   finish_fill     one block: running sums of the survivors of each unit; where the next window begins
//   copy_survivors  a thread per candidate: survivors to their final places, in the order of candidates
//
// Arithmetic. With C candidates (the sum of minima), a unit of at least 256 of them costs one search of its first and
// last prefix, 32 places a step, so C / 256 * log32(n) steps of a warp; each candidate then a search in shared memory,
// one coalesced load of its value, and per other slot the range (three loads, the same for all lanes of a prefix) and
// log2(length) steps, or one load where the range is marked.
// Where one prefix fills a warp, a range of at most 64 values is scanned by it: one or two coalesced loads for all
// lanes, then shuffles (scanned.cuh). Otherwise each lane searches by itself, as lanes of different prefixes have
// different ranges: loading these in turn would wait once a prefix.
// `count_*` adds the lanes of one prefix in registers and leaves one atomic addition a warp and prefix, one a warp and
// unit where the unit lies within one prefix; sums are modulo 2^64, so their order does not matter.
// A survivor is written twice, at its candidate's place and at its own, and probed once.
// A thread block per unit, blocks as many as fill the device, looping: no size has to be known on the host.

#include "probe.cuh"
#include "scan.cuh"
#include "slots.cuh"
#include "units.cuh"

__device__ inline void add(long long* number, long long more) {
    atomicAdd((unsigned long long*)number, (unsigned long long)more);
}

// Adds the weights of a warp's lanes to the counts of their prefixes; lanes of one prefix stand together.
template <bool SETS>
__device__ inline void add_by_prefix(long long* counts, int row, Bits weight) {
    int lane = threadIdx.x & 31;
    int before = __shfl_up_sync(FULL_WARP, row, 1);
    bool head = lane == 0 || before != row;
    if (SETS) {
        unsigned int survivors = __ballot_sync(FULL_WARP, weight != 0);
        unsigned int heads = __ballot_sync(FULL_WARP, head);
        unsigned int from = ~((1u << lane) - 1);
        unsigned int next = heads & from & ~(1u << lane);
        unsigned int own = next ? from & ((next & (0u - next)) - 1) : from;
        weight = (Bits)__popc(survivors & own);
    } else {
        for (int step = 1; step < 32; step <<= 1) {
            Bits more = __shfl_down_sync(FULL_WARP, weight, step);
            int other = __shfl_down_sync(FULL_WARP, row, step);
            if (lane + step < 32 && other == row) weight += more;
        }
    }
    if (head && weight != 0) atomicAdd((Bits*)counts + row, weight);
}

template <bool SETS>
__device__ inline void count_units(
    const View& view, const long long* orders, const long long* clips, const long long* excluded,
    long long n_excluded, const Unit& unit, long long* scratch, long long* counts, long long* work
) {
    long long n_items = view.sums[view.n];
    long long size = unit_size(n_items, gridDim.x);
    unsigned int probes = 0, survivors = 0;
    const Places nowhere = {nullptr, 0, 0};
    for (long long first = blockIdx.x * size; first < n_items; first += gridDim.x * size) {
        long long last = min(first + size, n_items);
        enter_unit(unit, view.sums, view.n, first, last);
        bool alone = unit.rows[0] == unit.rows[1];
        Bits total = 0;
        for (long long base = first; base < last; base += BLOCK) {
            long long item = base + threadIdx.x;
            bool inside = item < last;
            long long k, value;
            Bits weight;
            long long i = row_of_item(unit, view.sums, inside ? item : last - 1, k);
            if (examine<false, SETS>(view, orders, clips, excluded, n_excluded, inside, i, k, nowhere, value, weight,
                                     probes))
                ++survivors;
            else
                weight = 0;
            if (alone) total += weight;
            else add_by_prefix<SETS>(counts, (int)i, weight);
        }
        if (alone) {
            total = (Bits)warp_sum((long long)total);
            if ((threadIdx.x & 31) == 0 && total != 0) atomicAdd((Bits*)counts + unit.rows[0], total);
        }
        __syncthreads();
    }
    add_by_block(work + PROBES, probes, scratch);
    add_by_block(work + SURVIVORS, survivors, scratch);
}

// Per prefix the sum of the survivors' weights, added to `counts`; the row `minima` of the sums ends with their sum.
extern "C" __global__ void count_weights(
    const long long* table, long long n_atoms, long long n_slots, const long long* positions, long long stride,
    long long begin, long long n, const long long* sums, long long minima, long long groups, const long long* lengths,
    const unsigned long long* arena, long long budget, const long long* orders, const long long* clips,
    const long long* excluded, long long n_excluded, long long* counts, long long* work
) {
    __shared__ long long copy[TABLE_WORDS];
    __shared__ long long rows[2];
    __shared__ long long near_sums[NEAR_SUMS];
    __shared__ long long scratch[33];
    const long long* near = near_table(table, 4 * n_atoms + 8 * n_slots, copy);
    View view = {(const Atom*)near, (const Slot*)(near + 4 * n_atoms), (int)n_atoms, positions, stride, begin, n,
                 sums, groups, lengths, arena, budget};
    Unit unit = {rows, near_sums};
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        add(work + SUM_OF_MINIMA, sums[minima * (n + 1) + n] - sums[minima * (n + 1)]);
        add(work + PROPOSALS, sums[n]);
    }
    count_units<false>(view, orders, clips, excluded, n_excluded, unit, scratch, counts, work);
}

// The same for sets with one batch an atom.
extern "C" __global__ void count_sets(
    const long long* table, long long n_atoms, long long n_slots, const long long* positions, long long stride,
    long long begin, long long n, const long long* sums, long long minima, long long groups, const long long* lengths,
    const unsigned long long* arena, long long budget, const long long* orders, const long long* clips,
    const long long* excluded, long long n_excluded, long long* counts, long long* work
) {
    __shared__ long long copy[TABLE_WORDS];
    __shared__ long long rows[2];
    __shared__ long long near_sums[NEAR_SUMS];
    __shared__ long long scratch[33];
    const long long* near = near_table(table, 4 * n_atoms + 8 * n_slots, copy);
    View view = {(const Atom*)near, (const Slot*)(near + 4 * n_atoms), (int)n_atoms, positions, stride, begin, n,
                 sums, groups, lengths, arena, budget};
    Unit unit = {rows, near_sums};
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        add(work + SUM_OF_MINIMA, sums[minima * (n + 1) + n] - sums[minima * (n + 1)]);
        add(work + PROPOSALS, sums[n]);
    }
    count_units<true>(view, orders, clips, excluded, n_excluded, unit, scratch, counts, work);
}

// A window of candidates, item_begin .. at most item_begin + room - 1: for each, at its place in the window, its prefix
// and, if it survives, value, weight (unless null) and positions; a bit whether it does; per unit how many do.
template <bool SETS>
__device__ inline void fill_units(
    const View& view, const long long* orders, const long long* clips, const long long* excluded,
    long long n_excluded, const Unit& unit, long long* scratch, long long item_begin, long long room,
    long long n_parts, int* owners, long long* values, long long* weights, long long* places, unsigned int* kept,
    long long* unit_counts, long long* work
) {
    long long n_items = min(view.sums[view.n] - item_begin, room);
    long long size = unit_size(n_items, n_parts);
    unsigned int probes = 0;
    int lane = threadIdx.x & 31;
    for (long long number = blockIdx.x; number * size < n_items; number += gridDim.x) {
        long long first = number * size;
        long long last = min(first + size, n_items);
        enter_unit(unit, view.sums, view.n, item_begin + first, item_begin + last);
        long long survivors = 0;
        for (long long base = first; base < last; base += BLOCK) {
            long long item = base + threadIdx.x;
            bool inside = item < last;
            long long k, value;
            Bits weight;
            long long i = row_of_item(unit, view.sums, item_begin + (inside ? item : last - 1), k);
            Places own = {places, room, item};
            bool survives = examine<true, SETS>(view, orders, clips, excluded, n_excluded, inside, i, k, own, value,
                                                weight, probes);
            if (survives) {
                owners[item] = (int)i;
                values[item] = value;
                if (weights != nullptr) weights[item] = (long long)weight;
            }
            unsigned int survivors_of_warp = __ballot_sync(FULL_WARP, survives);
            if (lane == 0 && item < last) kept[item >> 5] = survivors_of_warp;
            survivors += survives;
        }
        long long total;
        block_exclusive_sum(survivors, scratch, &total);
        if (threadIdx.x == 0) unit_counts[number] = total;
    }
    add_by_block(work + PROBES, probes, scratch);
}

extern "C" __global__ void fill_weights(
    const long long* table, long long n_atoms, long long n_slots, const long long* positions, long long stride,
    long long begin, long long n, const long long* sums, long long groups, const long long* lengths,
    const unsigned long long* arena, long long budget, const long long* orders, const long long* clips,
    const long long* excluded, long long n_excluded, long long item_begin, long long room, long long n_parts,
    int* owners, long long* values, long long* weights, long long* places, unsigned int* kept,
    long long* unit_counts, long long* work
) {
    __shared__ long long copy[TABLE_WORDS];
    __shared__ long long rows[2];
    __shared__ long long near_sums[NEAR_SUMS];
    __shared__ long long scratch[33];
    const long long* near = near_table(table, 4 * n_atoms + 8 * n_slots, copy);
    View view = {(const Atom*)near, (const Slot*)(near + 4 * n_atoms), (int)n_atoms, positions, stride, begin, n,
                 sums, groups, lengths, arena, budget};
    Unit unit = {rows, near_sums};
    fill_units<false>(view, orders, clips, excluded, n_excluded, unit, scratch, item_begin, room, n_parts, owners,
                      values, weights, places, kept, unit_counts, work);
}

// The same for sets with one batch an atom: no weights.
extern "C" __global__ void fill_sets(
    const long long* table, long long n_atoms, long long n_slots, const long long* positions, long long stride,
    long long begin, long long n, const long long* sums, long long groups, const long long* lengths,
    const unsigned long long* arena, long long budget, const long long* orders, const long long* clips,
    const long long* excluded, long long n_excluded, long long item_begin, long long room, long long n_parts,
    int* owners, long long* values, long long* places, unsigned int* kept, long long* unit_counts, long long* work
) {
    __shared__ long long copy[TABLE_WORDS];
    __shared__ long long rows[2];
    __shared__ long long near_sums[NEAR_SUMS];
    __shared__ long long scratch[33];
    const long long* near = near_table(table, 4 * n_atoms + 8 * n_slots, copy);
    View view = {(const Atom*)near, (const Slot*)(near + 4 * n_atoms), (int)n_atoms, positions, stride, begin, n,
                 sums, groups, lengths, arena, budget};
    Unit unit = {rows, near_sums};
    fill_units<true>(view, orders, clips, excluded, n_excluded, unit, scratch, item_begin, room, n_parts, owners,
                     values, nullptr, places, kept, unit_counts, work);
}

// One block. `unit_counts` becomes running sums from 0; `summary` is (survivors, candidates of all prefixes, prefix
// that the next window begins in, candidates of it that are done).
extern "C" __global__ void finish_fill(
    const long long* sums, long long n, long long minima, long long item_begin, long long room, long long n_parts,
    long long* unit_counts, long long* summary, long long* work
) {
    __shared__ long long scratch[33];
    __shared__ long long found[3];
    long long total = sums[n];
    long long n_items = min(total - item_begin, room);
    long long item_end = item_begin + n_items;
    long long size = unit_size(n_items, n_parts);
    long long n_units = (n_items + size - 1) / size;
    // A prefix counts in the window that its first candidate is in, also if the bounds leave it none.
    int warp = threadIdx.x >> 5;
    if (warp < 3) {
        long long row = warp_upper_bound(sums, 0, n, warp == 0 ? item_end : (warp == 1 ? item_begin : item_end) - 1);
        if ((threadIdx.x & 31) == 0) found[warp] = row;
    }
    long long before = 0;
    for (long long base = 0; base < n_units; base += blockDim.x) {
        long long at = base + threadIdx.x;
        long long sum;
        long long own = block_exclusive_sum(at < n_units ? unit_counts[at] : 0, scratch, &sum);
        if (at < n_units) unit_counts[at] = before + own;
        before += sum;
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    unit_counts[n_units] = before;
    summary[0] = before;
    summary[1] = total;
    summary[2] = item_end < total ? found[0] - 1 : n;
    summary[3] = item_end < total ? item_end - sums[summary[2]] : 0;
    const long long* smallest = sums + minima * (n + 1);
    add(work + SUM_OF_MINIMA, smallest[item_end < total ? found[2] : n] - smallest[found[1]]);
    add(work + PROPOSALS, n_items);
}

// Survivors skip .. skip + m - 1 of a window.
extern "C" __global__ void copy_survivors(
    const long long* sums, long long n, long long begin, long long item_begin, long long room, long long n_parts,
    const int* owners, const long long* values, const long long* weights, const long long* places,
    const unsigned int* kept, const long long* unit_sums, const long long* prefix_weights, long long n_out_rows,
    long long skip, long long m, long long* parent, long long* value, long long* weight, long long* positions,
    long long* work
) {
    __shared__ long long before_word[4 * BLOCK / 32];
    long long n_items = min(sums[n] - item_begin, room);
    long long size = unit_size(n_items, n_parts);
    if (blockIdx.x == 0 && threadIdx.x == 0) add(work + SURVIVORS, m);
    for (long long number = blockIdx.x; number * size < n_items; number += gridDim.x) {
        if (unit_sums[number + 1] <= skip || unit_sums[number] >= skip + m) continue;
        long long first = number * size;
        long long last = min(first + size, n_items);
        if (threadIdx.x < 32) {
            long long word = (first >> 5) + threadIdx.x;
            long long own = (long long)threadIdx.x * 32 < last - first ? __popc(kept[word]) : 0;
            before_word[threadIdx.x] = warp_inclusive_sum(own) - own + unit_sums[number] - skip;
        }
        __syncthreads();
        for (long long item = first + threadIdx.x; item < last; item += BLOCK) {
            unsigned int bits = kept[item >> 5];
            unsigned int bit = 1u << (item & 31);
            if ((bits & bit) == 0) continue;
            long long row = before_word[(item - first) >> 5] + __popc(bits & (bit - 1));
            if (row < 0 || row >= m) continue;
            long long p = begin + owners[item];
            parent[row] = p;
            value[row] = values[item];
            if (weight != nullptr) {
                Bits own = weights == nullptr ? 1 : (Bits)weights[item];
                weight[row] = (long long)(prefix_weights == nullptr ? own : own * (Bits)prefix_weights[p]);
            }
            for (long long r = 0; r < n_out_rows; ++r) positions[r * m + row] = places[r * room + item];
        }
        __syncthreads();
    }
}
