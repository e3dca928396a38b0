// Sorting and runs of rows; rows.py says how they go together.
#include "columns.cuh"
#include "passes.cuh"

const int FEW = 1024;     // columns.py has the same number
const int ASCENDING = 0;  // what a pass over neighbours finds: each row is above the one before,
const int REPEATING = 1;  // or equal to it,
const int UNSORTED = 2;   // or there is one below the one before it

// A block's largest value, in thread 0. `scratch` is shared, 32 long.
__device__ inline long long block_max(long long value, long long *scratch) {
    long long best = warp_max(value);
    if ((threadIdx.x & 31) == 0) scratch[threadIdx.x >> 5] = best;
    __syncthreads();
    if (threadIdx.x < 32) best = warp_max(scratch[threadIdx.x < blockDim.x >> 5 ? threadIdx.x : 0]);
    __syncthreads();
    return best;
}

// found[2 k] and found[2 k + 1]: the complement of the least value of column k, and the greatest one, so that both
// are maxima; last, how neighbouring rows stand. `found` holds the least number before.
extern "C" __global__ void find_ranges(const long long *c0, const long long *c1, const long long *c2,
                                       const long long *c3, const long long *c4, const long long *c5,
                                       const long long *c6, const long long *c7, const long long *more,
                                       long long n_columns, long long n, long long *found) {
    __shared__ long long scratch[32];
    const Columns columns = {{c0, c1, c2, c3, c4, c5, c6, c7}, more, n_columns};
    const long long least = -9223372036854775807ll - 1;
    long long begin = (long long)blockIdx.x * blockDim.x + threadIdx.x, stride = (long long)gridDim.x * blockDim.x;
    long long lowest[N_DIRECT], highest[N_DIRECT];
    long long state = ASCENDING;
#pragma unroll
    for (int k = 0; k < N_DIRECT; k++) lowest[k] = highest[k] = least;
    for (long long i = begin; i < n; i += stride) {
        int order = i == 0 ? -1 : 0;
#pragma unroll
        for (int k = 0; k < N_DIRECT; k++) {
            if (k < n_columns) {
                long long value = columns.direct[k][i];
                lowest[k] = max(lowest[k], ~value);
                highest[k] = max(highest[k], value);
                if (order == 0) {
                    long long before = columns.direct[k][i - 1];
                    order = before < value ? -1 : before > value ? 1 : 0;
                }
            }
        }
        for (long long k = N_DIRECT; k < n_columns && order == 0; k++) {
            const long long *column = column_at(columns, k);
            order = column[i - 1] < column[i] ? -1 : column[i - 1] > column[i] ? 1 : 0;
        }
        if (order >= 0 && state < UNSORTED) state = order == 0 ? REPEATING : UNSORTED;
    }
#pragma unroll
    for (int k = 0; k < N_DIRECT; k++) {
        if (k < n_columns) {
            long long low = block_max(lowest[k], scratch), high = block_max(highest[k], scratch);
            if (threadIdx.x == 0) {
                atomicMax(found + 2 * k, low);
                atomicMax(found + 2 * k + 1, high);
            }
        }
    }
    for (long long k = N_DIRECT; k < n_columns; k++) {
        const long long *column = column_at(columns, k);
        long long low = least, high = least;
        for (long long i = begin; i < n; i += stride) {
            low = max(low, ~column[i]);
            high = max(high, column[i]);
        }
        low = block_max(low, scratch);
        high = block_max(high, scratch);
        if (threadIdx.x == 0) {
            atomicMax(found + 2 * k, low);
            atomicMax(found + 2 * k + 1, high);
        }
    }
    state = block_max(state, scratch);
    if (threadIdx.x == 0) atomicMax(found + 2 * n_columns, state);
}

__device__ inline unsigned long long least_of(const long long *ranges, long long k) {
    return (unsigned long long)~ranges[2 * k];
}

__device__ inline int bits_of(const long long *ranges, long long k) {
    unsigned long long span = (unsigned long long)ranges[2 * k + 1] - least_of(ranges, k);
    return span ? 64 - __clzll((long long)span) : 0;
}

// One key a row from columns `first` to `end`: what each is above its least value, the last column in the lowest bits.
// Keys order as these columns do. They are of 32 bits if `narrow`, and of the rows in `order` if it is given.
extern "C" __global__ void pack(const long long *c0, const long long *c1, const long long *c2, const long long *c3,
                                const long long *c4, const long long *c5, const long long *c6, const long long *c7,
                                const long long *more, long long n_columns, long long n, const long long *ranges,
                                long long first, long long end, const long long *order, long long narrow, void *keys) {
    const Columns columns = {{c0, c1, c2, c3, c4, c5, c6, c7}, more, n_columns};
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x) {
        long long row = order ? order[i] : i;
        unsigned long long key = 0;
        for_each_column(columns, [&](long long k, const long long *column) {
            if (k >= first && k < end) {
                int bits = bits_of(ranges, k);
                key = bits < 64 ? key << bits : 0;
                key |= (unsigned long long)column[row] - least_of(ranges, k);
            }
        });
        if (narrow)
            ((unsigned int *)keys)[i] = (unsigned int)key;
        else
            ((unsigned long long *)keys)[i] = key;
    }
}

// The inverse of `pack` of all columns: out[k * m + i] is column k of the key at picks[i].
extern "C" __global__ void unpack(const long long *keys, const long long *picks, long long m, const long long *ranges,
                                  long long n_columns, long long *out) {
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < m; i += (long long)gridDim.x * blockDim.x) {
        unsigned long long key = (unsigned long long)keys[picks[i]];
        for (long long k = n_columns - 1; k >= 0; k--) {
            int bits = bits_of(ranges, k);
            unsigned long long above = bits < 64 ? key & ((1ull << bits) - 1) : key;
            out[k * m + i] = (long long)(above + least_of(ranges, k));
            key = bits < 64 ? key >> bits : 0;
        }
    }
}

// out[k * m + i] = column k of row picks[i].
extern "C" __global__ void gather(const long long *c0, const long long *c1, const long long *c2, const long long *c3,
                                  const long long *c4, const long long *c5, const long long *c6, const long long *c7,
                                  const long long *more, long long n_columns, const long long *picks, long long m,
                                  long long *out) {
    const Columns columns = {{c0, c1, c2, c3, c4, c5, c6, c7}, more, n_columns};
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < m; i += (long long)gridDim.x * blockDim.x) {
        long long row = picks[i];
        for_each_column(columns, [&](long long k, const long long *column) { out[k * m + i] = column[row]; });
    }
}

// The keys and the weights of the rows in `order`: out[i] and out[n + i].
extern "C" __global__ void gather_keys(const void *keys, long long narrow, const long long *weights,
                                       const long long *order, long long n, long long *out) {
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x) {
        long long row = order[i];
        out[i] = narrow ? (long long)((const unsigned int *)keys)[row] : ((const long long *)keys)[row];
        out[n + i] = weights[row];
    }
}

extern "C" __global__ void scan_sums(long long *sums, long long length, long long *totals) {
    __shared__ long long scratch[33];
    scan_row(sums + blockIdx.x * length, length, totals + blockIdx.x, scratch);
}

// Per tile, how many rows the mask holds.
extern "C" __global__ void count_held(const unsigned char *mask, long long n, long long *sums) {
    __shared__ long long scratch[33];
    long long held = 0, total;
    for (int item = 0; item < ITEMS; item++) {
        long long i = tile_row(item);
        held += i < n && mask[i];
    }
    block_exclusive_sum(held, scratch, &total);
    if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

// The rows that the mask holds. `sums` are those of `count_held`, scanned; none where there is one tile, which then
// writes how many there are.
extern "C" __global__ void place_held(const unsigned char *mask, long long n, const long long *sums, long long *totals,
                                      long long *rows) {
    __shared__ int counts[33];
    bool holds[ITEMS];
    int number[ITEMS];
    for (int item = 0; item < ITEMS; item++) {
        long long i = tile_row(item);
        holds[item] = i < n && mask[i];
    }
    int n_held = number_in_tile(holds, number, counts);
    long long base = tile_base(sums, 0);
    if (!sums && threadIdx.x == 0) totals[0] = n_held;
    for (int item = 0; item < ITEMS; item++)
        if (holds[item]) rows[base + number[item]] = tile_row(item);
}

// Per tile, how many runs of equal rows start, and, with weights, their sum.
extern "C" __global__ void count_runs(const long long *c0, const long long *c1, const long long *c2,
                                      const long long *c3, const long long *c4, const long long *c5,
                                      const long long *c6, const long long *c7, const long long *more,
                                      long long n_columns, const long long *weights, long long n, long long *sums) {
    __shared__ long long scratch[33];
    const Columns columns = {{c0, c1, c2, c3, c4, c5, c6, c7}, more, n_columns};
    long long starts = 0;
    unsigned long long weight = 0;
    for (int item = 0; item < ITEMS; item++) {
        long long i = tile_row(item);
        if (i < n) {
            starts += starts_run(columns, i);
            if (weights) weight += (unsigned long long)weights[i];
        }
    }
    long long total;
    block_exclusive_sum(starts, scratch, &total);
    if (threadIdx.x == 0) sums[blockIdx.x] = total;
    if (weights) {
        block_exclusive_sum((long long)weight, scratch, &total);
        if (threadIdx.x == 0) sums[gridDim.x + blockIdx.x] = total;
    }
}

// Where runs start, and, with weights, the sum of the weights before each run and, behind the last run, of all.
// `sums` are those of `count_runs`, scanned; none where there is one tile, which then writes the number of runs.
extern "C" __global__ void place_runs(const long long *c0, const long long *c1, const long long *c2,
                                      const long long *c3, const long long *c4, const long long *c5,
                                      const long long *c6, const long long *c7, const long long *more,
                                      long long n_columns, const long long *weights, long long n,
                                      const long long *sums, long long *totals, long long *starts, long long *before) {
    __shared__ long long scratch[33];
    __shared__ int counts[33];
    const Columns columns = {{c0, c1, c2, c3, c4, c5, c6, c7}, more, n_columns};
    bool holds[ITEMS];
    int number[ITEMS];
    for (int item = 0; item < ITEMS; item++) {
        long long i = tile_row(item);
        holds[item] = i < n && starts_run(columns, i);
    }
    int n_starts = number_in_tile(holds, number, counts);
    long long base = tile_base(sums, 0);
    if (!sums && threadIdx.x == 0) totals[0] = n_starts;
    for (int item = 0; item < ITEMS; item++)
        if (holds[item]) starts[base + number[item]] = tile_row(item);
    if (!weights) return;
    unsigned long long sum = (unsigned long long)tile_base(sums, 1);
    for (int item = 0; item < ITEMS; item++) {
        long long i = tile_row(item), total;
        long long here = block_exclusive_sum(i < n ? weights[i] : 0, scratch, &total);
        if (holds[item]) before[base + number[item]] = (long long)(sum + (unsigned long long)here);
        sum += (unsigned long long)total;
    }
    if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) before[base + n_starts] = (long long)sum;
}

__device__ inline long long run_weight(const long long *before, long long run) {
    return (long long)((unsigned long long)before[run + 1] - (unsigned long long)before[run]);
}

// Per tile of runs, how many have a weight that is not 0. There are n_runs[0] runs.
extern "C" __global__ void count_kept(const long long *before, const long long *n_runs, long long *sums) {
    __shared__ long long scratch[33];
    long long kept = 0, total;
    for (int item = 0; item < ITEMS; item++) {
        long long run = tile_row(item);
        kept += run < n_runs[0] && run_weight(before, run) != 0;
    }
    block_exclusive_sum(kept, scratch, &total);
    if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

// The first row and the weight of each run whose weight is not 0; `sums` are those of `count_kept`, scanned.
extern "C" __global__ void place_kept(const long long *before, const long long *starts, const long long *n_runs,
                                      const long long *sums, long long *picks, long long *weights) {
    __shared__ int counts[33];
    bool holds[ITEMS];
    int number[ITEMS];
    for (int item = 0; item < ITEMS; item++) {
        long long run = tile_row(item);
        holds[item] = run < n_runs[0] && run_weight(before, run) != 0;
    }
    number_in_tile(holds, number, counts);
    long long base = tile_base(sums, 0);
    for (int item = 0; item < ITEMS; item++) {
        if (holds[item]) {
            picks[base + number[item]] = starts[tile_row(item)];
            weights[base + number[item]] = run_weight(before, tile_row(item));
        }
    }
}

// One block sorts up to FEW rows, as many threads as the next power of two. With `order` it writes the stable order
// and nothing else. Otherwise out[0] is the number of distinct rows, with weights of those whose sum is not 0;
// out[1 + k n ...] is their column k, and behind the columns come the sums.
extern "C" __global__ void sort_few(const long long *c0, const long long *c1, const long long *c2,
                                    const long long *c3, const long long *c4, const long long *c5,
                                    const long long *c6, const long long *c7, const long long *more,
                                    long long n_columns, long long n, const long long *weights, long long *order,
                                    long long *out) {
    __shared__ long long heads[FEW], before[FEW + 1], scratch[33];
    __shared__ int rows[FEW], starts[FEW + 1], counts[33];
    const Columns columns = {{c0, c1, c2, c3, c4, c5, c6, c7}, more, n_columns};
    int thread = threadIdx.x, size = blockDim.x;
    if (thread < n) heads[thread] = c0[thread];
    rows[thread] = thread;
    __syncthreads();
    // A bitonic network. Places from n on are above all rows; equal rows stand as they came.
    for (int run = 2; run <= size; run <<= 1) {
        for (int step = run >> 1; step > 0; step >>= 1) {
            int other = thread ^ step;
            if (other > thread) {
                int x = rows[thread], y = rows[other];
                bool above = x > y;
                if (x < n && y < n) {
                    int sign = heads[x] < heads[y] ? -1 : heads[x] > heads[y] ? 1 : 0;
                    if (sign == 0 && n_columns > 1) sign = compare_rows(columns, x, y);
                    if (sign != 0) above = sign > 0;
                }
                if (above == ((thread & run) == 0)) {
                    rows[thread] = y;
                    rows[other] = x;
                }
            }
            // The next step looks inside one warp only if it and this one do.
            if (step >= 32 || (step == 1 && run >= 32))
                __syncthreads();
            else
                __syncwarp();
        }
    }
    int row = rows[thread];
    if (order) {
        if (thread < n) order[thread] = row;
        return;
    }
    int n_runs, n_kept;
    bool starts_here = thread < n && (thread == 0 || compare_rows(columns, rows[thread - 1], row) != 0);
    int run = block_count_before(starts_here, counts, &n_runs);
    long long total;
    long long sum = block_exclusive_sum(thread < n && weights ? weights[row] : 0, scratch, &total);
    if (starts_here) {
        starts[run] = row;
        before[run] = sum;
    }
    if (thread == 0) before[n_runs] = total;
    __syncthreads();
    long long weight = thread < n_runs && weights ? run_weight(before, thread) : 0;
    bool kept = thread < n_runs && (!weights || weight != 0);
    int at = block_count_before(kept, counts, &n_kept);
    if (thread == 0) out[0] = n_kept;
    if (kept) {
        long long from = starts[thread];
        long long *target = out + 1 + at;
        for_each_column(columns, [&](long long k, const long long *column) { target[k * n] = column[from]; });
        if (weights) target[n_columns * n] = weight;
    }
}
