// Work cut by items: a unit is a few hundred consecutive candidates, whatever prefixes they belong to.

#include "scan.cuh"
#include "search.cuh"

#define BLOCK 256
#define NEAR_SUMS 1024

// Candidates of one unit: a multiple of BLOCK, small where there would be too few units for all blocks.
__device__ inline long long unit_size(long long n_items, long long n_blocks) {
    long long size = (n_items / n_blocks + BLOCK - 1) / BLOCK * BLOCK;
    return size < BLOCK ? BLOCK : size > 4 * BLOCK ? 4 * BLOCK : size;
}

// The rows of running sums that the items begin .. end - 1 fall in: first .. last, found by the block's first two
// warps; and `near`, the sums of these rows, if they are few. All are shared by the block.
struct Unit {
    long long* rows;  // first, last
    long long* near;  // room for NEAR_SUMS
};

__device__ inline void enter_unit(const Unit& unit, const long long* sums, long long n, long long begin, long long end) {
    int warp = threadIdx.x >> 5;
    if (warp < 2) {
        long long row = warp_upper_bound(sums, 0, n, warp == 0 ? begin : end - 1) - 1;
        if ((threadIdx.x & 31) == 0) unit.rows[warp] = row;
    }
    __syncthreads();
    long long first = unit.rows[0], n_rows = unit.rows[1] - first + 1;
    if (n_rows <= NEAR_SUMS)
        for (long long i = threadIdx.x; i < n_rows; i += BLOCK) unit.near[i] = sums[first + i];
    __syncthreads();
}

// The row of one item of the unit, and its number within that row.
__device__ inline long long row_of_item(const Unit& unit, const long long* sums, long long item, long long& k) {
    long long first = unit.rows[0], last = unit.rows[1];
    if (last - first < NEAR_SUMS) {
        long long at = first == last ? 0 : upper_bound(unit.near, 0, last - first + 1, item) - 1;
        k = item - unit.near[at];
        return first + at;
    }
    long long row = upper_bound(sums, first, last + 1, item) - 1;
    k = item - sums[row];
    return row;
}

// Adds every thread's count to one number in global memory; `scratch` is shared, 33 long.
__device__ inline void add_by_block(long long* total, long long count, long long* scratch) {
    long long sum;
    block_exclusive_sum(count, scratch, &sum);
    if (threadIdx.x == 0 && sum != 0) atomicAdd((unsigned long long*)total, (unsigned long long)sum);
}
