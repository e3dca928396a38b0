// What stands at rows and below them: their weights, and what the choice between orders and between paths goes by.
#include "descend.cuh"
#include "scan.cuh"

// sums[i]: the weights of row i of `columns` in all tries. `weights` has the address of each trie's, 0 where all are 1.
// As many lanes as `group` says, a power of two up to 32, share a row: each looks into its tries.
extern "C" __global__ void add_weights(const long long *table, long long n_tries, const long long *weights,
                                       const long long *columns, long long n, long long group, long long *sums) {
    const int lane = threadIdx.x & 31;
    const long long total = n * group;
    for (long long first = (long long)blockIdx.x * blockDim.x + threadIdx.x - lane; first < total;
         first += (long long)gridDim.x * blockDim.x) {
        long long i = (first + lane) / group, own = (first + lane) % group;
        unsigned long long sum = 0;
        for (long long t = own; t < n_tries && i < n; t += group) {
            long long node = descend(table, n_tries, t, columns, n, i);
            const unsigned long long *of_rows = (const unsigned long long *)weights[t];
            if (node >= 0) sum += of_rows ? of_rows[node] : 1;
        }
        for (int step = (int)group >> 1; step > 0; step >>= 1) sum += __shfl_xor_sync(FULL_WARP, sum, step);
        if (own == 0 && i < n) sums[i] = (long long)sum;
    }
}

// totals[t]: the children below all rows of `columns` in trie t, a block a trie. `offsets` delimit, per trie, the
// children of the level that `descend` ends in.
extern "C" __global__ void sum_children(const long long *table, long long n_tries, const long long *offsets,
                                        const long long *columns, long long n, long long *totals) {
    __shared__ long long scratch[33];
    const long long *bounds = (const long long *)offsets[blockIdx.x];
    long long sum = 0, total;
    for (long long i = threadIdx.x; i < n; i += blockDim.x) {
        long long node = descend(table, n_tries, blockIdx.x, columns, n, i);
        if (node >= 0) sum += bounds[node + 1] - bounds[node];
    }
    block_exclusive_sum(sum, scratch, &total);
    if (threadIdx.x == 0) totals[blockIdx.x] = total;
}

// How many values of an ascending run are from `least` to `most`.
template <class T>
__device__ long long width_within(const T *values, long long low, long long high, long long least, long long most) {
    low = lower_bound(values, low, high, least);
    return upper_bound(values, low, high, most) - low;
}

// widths[i]: the values of all levels below prefix i, of which those count that are from lower[i] to upper[i] if
// `bounded`. The table: per level the row of `positions`, n a row, that has the parents, then the levels' records.
extern "C" __global__ void widths(const long long *table, long long n_levels, const long long *positions, long long n,
                                  const long long *lower, const long long *upper, long long bounded,
                                  long long *widths) {
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x) {
        long long width = 0;
        for (long long k = 0; k < n_levels; k++) {
            const long long *record = table + n_levels + k * RECORD_FIELDS;
            const long long *parents = (const long long *)record[PARENTS];
            long long low = 0, high = record[N_VALUES];
            if (parents) {
                long long position = positions[table[k] * n + i];
                if (position < 0) continue;
                low = parents[position];
                high = parents[position + 1];
            }
            if (!bounded)
                width += high - low;
            else if (record[BYTES] == 4)
                width += width_within((const int *)record[VALUES], low, high, lower[i], upper[i]);
            else
                width += width_within((const long long *)record[VALUES], low, high, lower[i], upper[i]);
        }
        widths[i] = width;
    }
}

// chosen[i]: the first choice of those that leave prefix i the fewest values. The table: where the atoms of each choice
// begin (n_choices + 1), where the batches of each atom begin (n_atoms + 1), the address of each choice's positions,
// n a row, and per batch a row of these and the address of the offsets that delimit the children.
extern "C" __global__ void narrowest(const long long *table, long long n_choices, long long n_atoms, long long n,
                                     long long *chosen) {
    const long long *atoms = table, *batches = atoms + n_choices + 1, *places = batches + n_atoms + 1;
    const long long *ranges = places + n_choices;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x) {
        long long best = 0, fewest = 0;
        for (long long c = 0; c < n_choices; c++) {
            const long long *positions = (const long long *)places[c];
            long long least = 9223372036854775807ll;
            for (long long a = atoms[c]; a < atoms[c + 1]; a++) {
                long long width = 0;
                for (long long b = batches[a]; b < batches[a + 1]; b++) {
                    long long position = positions[ranges[2 * b] * n + i];
                    const long long *bounds = (const long long *)ranges[2 * b + 1];
                    if (position >= 0) width += bounds[position + 1] - bounds[position];
                }
                least = min(least, width);
            }
            if (c == 0 || least < fewest) {
                fewest = least;
                best = c;
            }
        }
        chosen[i] = best;
    }
}
