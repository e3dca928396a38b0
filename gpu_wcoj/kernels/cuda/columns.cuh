// The columns of one table: the first eight are parameters of a kernel, further ones stand in an array of addresses.

const int N_DIRECT = 8;  // columns.py has the same number

struct Columns {
    const long long *direct[N_DIRECT];
    const long long *more;
    long long n_columns;
};

// Calls f(k, column k), from the first column to the last. Unrolled, so that the addresses stay in registers.
template <class F>
__device__ inline void for_each_column(const Columns &columns, F f) {
#pragma unroll
    for (int k = 0; k < N_DIRECT; k++)
        if (k < columns.n_columns) f((long long)k, columns.direct[k]);
    for (long long k = N_DIRECT; k < columns.n_columns; k++) f(k, (const long long *)columns.more[k - N_DIRECT]);
}

__device__ inline const long long *column_at(const Columns &columns, long long wanted) {
    if (wanted >= N_DIRECT) return (const long long *)columns.more[wanted - N_DIRECT];
    const long long *found = columns.direct[0];
#pragma unroll
    for (int k = 1; k < N_DIRECT; k++)
        if (k == wanted) found = columns.direct[k];
    return found;
}

// -1, 0 or 1 as row i is below, equal to or above row j.
__device__ inline int compare_rows(const Columns &columns, long long i, long long j) {
    int order = 0;
    for_each_column(columns, [&](long long, const long long *column) {
        if (order == 0) {
            long long x = column[i], y = column[j];
            order = x < y ? -1 : x > y ? 1 : 0;
        }
    });
    return order;
}

// Whether a run of equal rows starts at row i.
__device__ inline bool starts_run(const Columns &columns, long long i) {
    return i == 0 || compare_rows(columns, i - 1, i) != 0;
}
