// Tries from sorted rows, their rows again, and descents in them; tries.py says how they go together.
#include "columns.cuh"
#include "descend.cuh"
#include "passes.cuh"
#include "search.cuh"

const long long ALIGNMENT = 8;  // arrays of 64 bytes each: where one starts in the trie's memory; tries.py has it too

// The first column in which row i differs from the row before it: row i starts a node at that level and below.
__device__ inline long long first_difference(const Columns &columns, long long i) {
    if (i == 0) return 0;
    long long first = columns.n_columns;
    for_each_column(columns, [&](long long k, const long long *column) {
        if (first == columns.n_columns && column[i - 1] != column[i]) first = k;
    });
    return first;
}

// What one tile holds: counts[d * stride] nodes of level d, for each level but the last, then, for each column k,
// counts[(depth - 1 + k) * stride] is 1 if one of its values needs more than 32 bits.
__device__ inline void count_tile(const Columns &columns, long long n, long long *counts, long long stride,
                                  long long *scratch) {
    long long depth = columns.n_columns;
    long long first[ITEMS];
    for (int item = 0; item < ITEMS; item++) {
        long long i = tile_row(item);
        first[item] = i < n ? first_difference(columns, i) : depth;
    }
    for (long long level = 0; level < depth; level++) {
        const long long *column = column_at(columns, level);
        long long mine = 0, total;
        for (int item = 0; item < ITEMS; item++) {
            long long i = tile_row(item);
            if (i >= n) continue;
            long long value = column[i];
            // Nodes below, wide values above: a tile has fewer than 2^32 of either.
            mine += first[item] <= level ? 1 : 0;
            mine += value < -2147483648ll || value > 2147483647ll ? 1ll << 32 : 0;
        }
        block_exclusive_sum(mine, scratch, &total);
        if (threadIdx.x == 0) {
            if (level < depth - 1) counts[level * stride] = total & 0xffffffffll;
            counts[(depth - 1 + level) * stride] = total >> 32 ? 1 : 0;
        }
    }
}

extern "C" __global__ void count_nodes(const long long *c0, const long long *c1, const long long *c2,
                                       const long long *c3, const long long *c4, const long long *c5,
                                       const long long *c6, const long long *c7, const long long *more,
                                       long long n_columns, long long n, long long *sums) {
    __shared__ long long scratch[33];
    const Columns columns = {{c0, c1, c2, c3, c4, c5, c6, c7}, more, n_columns};
    count_tile(columns, n, sums + blockIdx.x, gridDim.x, scratch);
}

// Words of 8 bytes that an array of so many bytes takes.
__device__ inline long long words_of(long long bytes) {
    return (bytes + 8 * ALIGNMENT - 1) / (8 * ALIGNMENT) * ALIGNMENT;
}

// Writes the levels into one stretch of memory: values and offsets of the first level, of the second, ..., the values
// of the last. `sums` are those of `count_nodes`, scanned; none where there is one tile, which then finds the totals.
extern "C" __global__ void place_nodes(const long long *c0, const long long *c1, const long long *c2,
                                       const long long *c3, const long long *c4, const long long *c5,
                                       const long long *c6, const long long *c7, const long long *more,
                                       long long n_columns, long long n, const long long *sums, long long *totals,
                                       long long *memory) {
    __shared__ long long scratch[33];
    __shared__ int counts[33];
    const Columns columns = {{c0, c1, c2, c3, c4, c5, c6, c7}, more, n_columns};
    long long depth = n_columns;
    if (!sums) {
        count_tile(columns, n, totals, 1, scratch);
        __syncthreads();
    }
    long long first[ITEMS], node[ITEMS], below[ITEMS] = {};
    bool holds[ITEMS];
    int number[ITEMS];
    for (int item = 0; item < ITEMS; item++) {
        long long i = tile_row(item);
        first[item] = i < n ? first_difference(columns, i) : depth;
    }
    for (long long level = 0; level < depth; level++) {
        bool leaf = level == depth - 1;
        // The nodes of this level: found for the first level, known from the level above for the others.
        for (long long sought = level == 0 ? 0 : level + 1; sought <= level + 1; sought++) {
            for (int item = 0; item < ITEMS; item++) node[item] = below[item];
            if (sought >= depth - 1) {
                for (int item = 0; item < ITEMS; item++) below[item] = tile_row(item);
                continue;
            }
            for (int item = 0; item < ITEMS; item++) holds[item] = first[item] <= sought;
            number_in_tile(holds, number, counts);
            long long base = tile_base(sums, sought);
            for (int item = 0; item < ITEMS; item++) below[item] = base + number[item];
        }
        const long long *column = column_at(columns, level);
        bool wide = totals[depth - 1 + level] != 0;
        long long n_nodes = leaf ? n : totals[level];
        long long *offsets = memory + words_of(n_nodes * (wide ? 8 : 4));
        for (int item = 0; item < ITEMS; item++) {
            long long i = tile_row(item);
            if (i < n && (leaf || first[item] <= level)) {
                if (wide)
                    memory[node[item]] = column[i];
                else
                    ((int *)memory)[node[item]] = (int)column[i];
                if (!leaf) offsets[node[item]] = below[item];
            }
            if (i == n - 1 && !leaf) offsets[n_nodes] = level == depth - 2 ? n : totals[level + 1];
        }
        if (!leaf) memory = offsets + words_of((n_nodes + 1) * 8);
    }
}

// out[level * n + i] is the value of row i of the trie at each level. `table` holds per level the address of the
// values, their bytes, the address of the offsets that delimit children by their parent and the number of parents.
extern "C" __global__ void expand_rows(const long long *table, long long depth, long long n, long long *out) {
    __shared__ long long edges[2];
    long long begin = (long long)blockIdx.x * TILE;
    long long node[ITEMS];
    if (threadIdx.x == 0) {
        edges[0] = begin;
        edges[1] = (begin + TILE < n ? begin + TILE : n) - 1;
    }
    for (int item = 0; item < ITEMS; item++) node[item] = tile_row(item);
    for (long long level = depth - 1; level >= 0; level--) {
        const long long *fields = table + 4 * level;
        for (int item = 0; item < ITEMS; item++) {
            long long i = tile_row(item);
            if (i < n)
                out[level * n + i] = fields[1] == 8 ? ((const long long *)fields[0])[node[item]]
                                                    : ((const int *)fields[0])[node[item]];
        }
        if (level == 0) break;
        // Two warps find the parents of the tile's first and last node among all; the others lie between these.
        const long long *offsets = (const long long *)fields[2];
        __syncthreads();
        int warp = threadIdx.x >> 5;
        if (warp < 2) {
            long long parent = warp_upper_bound(offsets, 0, fields[3] + 1, edges[warp]) - 1;
            __syncwarp();  // all have read the edge
            if ((threadIdx.x & 31) == 0) edges[warp] = parent;
        }
        __syncthreads();
        for (int item = 0; item < ITEMS; item++)
            if (tile_row(item) < n) node[item] = upper_bound(offsets, edges[0] + 1, edges[1] + 1, node[item]) - 1;
    }
}

// positions[t * n + i]: where row i stands in trie t; see `descend` for the table.
extern "C" __global__ void locate_rows(const long long *table, long long n_tries, const long long *columns, long long n,
                                       long long *positions) {
    long long total = n_tries * n;
    for (long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x; at < total;
         at += (long long)gridDim.x * blockDim.x) {
        long long t = at / n, i = at - t * n;
        positions[at] = descend(table, n_tries, t, columns, n, i);
    }
}
