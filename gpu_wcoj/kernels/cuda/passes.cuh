// Passes over tiles of rows: a kernel sums each tile up, `scan_sums` puts the sums before each tile in their place,
// and a second kernel goes over the tiles again and knows where to write. Without a second pass where there is one tile.
#include "scan.cuh"

const int TILE_BLOCK = 256;
const int ITEMS = 4;                   // rows of a thread, TILE_BLOCK apart: neighbours read neighbours
const int TILE = TILE_BLOCK * ITEMS;   // columns.py has the same number
const int SCAN_ITEMS = 4;              // sums of a thread, next to each other

__device__ inline long long tile_row(int item) { return (long long)blockIdx.x * TILE + item * TILE_BLOCK + threadIdx.x; }

// The sum before the tile in row `row` of the scanned sums; 0 where there is one tile and no sums.
__device__ inline long long tile_base(const long long *sums, long long row) {
    return sums ? sums[row * gridDim.x + blockIdx.x] : 0;
}

// Numbers the rows of the tile that `holds` is true of, in the order of rows: number[item] is how many stand before.
// Returns how many there are. `scratch` is shared, 33 long.
__device__ inline int number_in_tile(const bool *holds, int *number, int *scratch) {
    int sum = 0;
#pragma unroll
    for (int item = 0; item < ITEMS; item++) {
        int total;
        number[item] = sum + block_count_before(holds[item], scratch, &total);
        sum += total;
    }
    return sum;
}

// Each block turns one row of `length` sums into the sums before them, modulo 2^64, and writes the sum of all.
__device__ inline void scan_row(long long *sums, long long length, long long *total, long long *scratch) {
    unsigned long long before = 0;
    for (long long begin = 0; begin < length; begin += (long long)blockDim.x * SCAN_ITEMS) {
        long long at = begin + (long long)threadIdx.x * SCAN_ITEMS;
        unsigned long long mine[SCAN_ITEMS], sum = 0;
#pragma unroll
        for (int item = 0; item < SCAN_ITEMS; item++) {
            mine[item] = at + item < length ? (unsigned long long)sums[at + item] : 0;
            sum += mine[item];
        }
        long long all;
        unsigned long long here = before + (unsigned long long)block_exclusive_sum((long long)sum, scratch, &all);
#pragma unroll
        for (int item = 0; item < SCAN_ITEMS; item++) {
            if (at + item < length) sums[at + item] = (long long)here;
            here += mine[item];
        }
        before += (unsigned long long)all;
    }
    if (threadIdx.x == 0) *total = (long long)before;
}
