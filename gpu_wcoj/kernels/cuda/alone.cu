// One atom by itself: nothing is sought elsewhere, so its ranges are the answer.
//
//   count_alone  a thread per prefix: the weights of its ranges, added up without looking at a value
//   next_piece   one block: which ranges the next piece takes, where the one after it begins
//   copy_ranges  a thread per value of the piece
//
// Arithmetic. A count costs two loads a slot for the offsets of a range, and two of the running sums where there are
// weights; bounds two searches, and each value excluded one. A row of a piece costs one coalesced load and the writing
// of its columns: no scratch, no second pass.

#include "slots.cuh"
#include "units.cuh"

// The weights of the values begin .. end - 1 of a slot. `sums` are the running sums of all weights, null where there
// are so few that they are added up here.
__device__ inline Bits weight_of_range(
    const Slot& slot, const long long* sums, long long begin, long long end, long long& looked_at
) {
    if (begin >= end) return 0;
    if (slot.weights == nullptr) return (Bits)(end - begin);
    if (sums != nullptr) return (Bits)sums[end - 1] - (begin > 0 ? (Bits)sums[begin - 1] : 0);
    Bits total = 0;
    for (long long at = begin; at < end; ++at) total += (Bits)slot.weights[at];
    looked_at += end - begin;
    return total;
}

// Whether one of the first e excluded values of prefix p is the same as the next.
__device__ inline bool is_repeated(const long long* excluded, long long stride, long long e, long long p) {
    for (long long before = 0; before < e; ++before)
        if (excluded[before * stride + p] == excluded[e * stride + p]) return true;
    return false;
}

// Per prefix the sum of the weights of what the only atom holds. Sums over batches are sums over slots: a value that
// stands in several, or whose weights cancel, needs no second look. An atom that goes on has one slot.
// `sums` has the address of each slot's running sums of weights, 0 without; null if there are none.
extern "C" __global__ void count_alone(
    const long long* table, long long n_slots, const long long* positions, long long stride, long long begin,
    long long n, const long long* lower, const long long* upper, const long long* excluded, long long n_excluded,
    const long long* sums, long long* counts, long long* work
) {
    __shared__ long long copy[TABLE_WORDS];
    __shared__ long long scratch[33];
    const long long* near = near_table(table, 4 + 8 * n_slots, copy);
    const Slot* slots = (const Slot*)(near + 4);
    long long widths = 0, looked_at = 0, probes = 0, survivors = 0;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += (long long)gridDim.x * blockDim.x) {
        long long p = begin + i;
        Bits total = 0;
        long long allowed = 0;
        for (long long s = 0; s < n_slots; ++s) {
            long long low, high;
            range_of(slots[s], positions, stride, p, low, high);
            widths += high - low;
            if (lower != nullptr) {
                low = bound_in(slots[s], low, high, lower[p], false);
                high = lower[p] <= upper[p] ? bound_in(slots[s], low, high, upper[p], true) : low;
            }
            if (low >= high) continue;
            allowed += high - low;
            total += weight_of_range(slots[s], sums == nullptr ? nullptr : (const long long*)sums[s], low, high,
                                     looked_at);
            for (long long e = 0; e < n_excluded; ++e) {
                if (is_repeated(excluded, stride, e, p)) continue;
                long long position = find(slots[s], low, high, excluded[e * stride + p]);
                ++probes;
                if (position < 0) continue;
                total -= weight_at(slots[s], position);
                --allowed;
            }
        }
        counts[i] = (long long)total;
        survivors += allowed;
    }
    // A value that is excluded has been looked at.
    add_by_block(work + SUM_OF_MINIMA, widths, scratch);
    add_by_block(work + PROPOSALS, looked_at + probes, scratch);
    add_by_block(work + PROBES, probes, scratch);
    add_by_block(work + SURVIVORS, survivors, scratch);
}

// One block. A piece takes the candidates item_begin .. and at most `capacity` of them. `summary` is (their number,
// prefix that the next piece begins in, candidates of it that are done, the prefixes that begin in this piece as the
// first of them and the one behind the last).
extern "C" __global__ void next_piece(
    const long long* sums, long long n, long long item_begin, long long capacity, long long* summary
) {
    __shared__ long long found[3];
    long long total = sums[n];
    long long n_items = min(total - item_begin, capacity);
    long long item_end = item_begin + n_items;
    int warp = threadIdx.x >> 5;
    if (warp < 3) {
        long long row = warp_upper_bound(sums, 0, n, warp == 0 ? item_end : (warp == 1 ? item_begin : item_end) - 1);
        if ((threadIdx.x & 31) == 0) found[warp] = row;
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    bool more = item_end < total;
    summary[0] = n_items;
    summary[1] = more ? found[0] - 1 : n;
    summary[2] = more ? item_end - sums[found[0] - 1] : 0;
    // A prefix counts in the piece that its first candidate is in, also if the bounds leave it none.
    summary[3] = found[1];
    summary[4] = more ? found[2] : n;
}

// The m candidates from item_begin on: all survive, since the only atom has one slot and nothing is excluded.
extern "C" __global__ void copy_ranges(
    const long long* table, const long long* given, long long stride, long long begin, long long n,
    const long long* sums, long long minima, const long long* clips, long long item_begin, long long m,
    long long first_begun, long long end_begun, const long long* prefix_weights, long long* parent, long long* value,
    long long* weight, long long* positions, long long* work
) {
    __shared__ long long copy[TABLE_WORDS];
    __shared__ long long rows[2];
    __shared__ long long near_sums[NEAR_SUMS];
    const Slot& slot = *(const Slot*)(near_table(table, 12, copy) + 4);
    Unit unit = {rows, near_sums};
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        const long long* smallest = sums + minima * (n + 1);
        atomicAdd((Bits*)work + SUM_OF_MINIMA, (Bits)(smallest[end_begun] - smallest[first_begun]));
        atomicAdd((Bits*)work + PROPOSALS, (Bits)m);
        atomicAdd((Bits*)work + SURVIVORS, (Bits)m);
    }
    long long size = unit_size(m, gridDim.x);
    for (long long first = blockIdx.x * size; first < m; first += gridDim.x * size) {
        long long last = min(first + size, m);
        enter_unit(unit, sums, n, item_begin + first, item_begin + last);
        for (long long row = first + threadIdx.x; row < last; row += BLOCK) {
            long long k;
            long long i = row_of_item(unit, sums, item_begin + row, k);
            long long low, high;
            if (clips != nullptr) low = clips[i];
            else range_of(slot, given, stride, begin + i, low, high);
            long long position = low + k;
            parent[row] = begin + i;
            value[row] = value_at(slot, position);
            if (weight != nullptr) {
                Bits own = weight_at(slot, position);
                weight[row] = (long long)(prefix_weights == nullptr ? own : own * (Bits)prefix_weights[begin + i]);
            }
            if (slot.out_row >= 0) positions[slot.out_row * m + row] = position;
        }
        __syncthreads();
    }
}
