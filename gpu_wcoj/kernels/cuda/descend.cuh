// Descents in tries, level by level.
#include "search.cuh"

// Fields of a level's record, as `describe` makes it; tries.py has the same order.
enum { VALUES, BYTES, PARENTS, WEIGHTS, N_VALUES, N_PARENTS, RECORD_FIELDS };

// Position of a value in [low, high), -1 if it is not there.
template <class T>
__device__ long long find_in_run(const T *values, long long low, long long high, long long value) {
    long long at = lower_bound(values, low, high, value);
    return at < high && values[at] == value ? at : -1;
}

// The same among all n values of a top level: the search starts where the value would stand if all were evenly spread.
template <class T>
__device__ long long find_in_all(const T *values, long long n, long long value) {
    if (n == 0) return -1;
    long long least = values[0], most = values[n - 1];
    if (value < least || value > most) return -1;
    double part = (double)((unsigned long long)value - (unsigned long long)least) /
                  (double)((unsigned long long)most - (unsigned long long)least);
    long long guess = least == most ? 0 : (long long)(part * (double)(n - 1));
    long long at = lower_bound_near(values, 0, n, min(max(guess, 0ll), n - 1), value);
    return at < n && values[at] == value ? at : -1;
}

// Where row i of `columns`, n a column, stands in trie t, -1 if nowhere. The table's first n_tries + 1 numbers say at
// which level of the table each trie starts; a level is a record and the row of `columns` that holds the values sought
// there.
__device__ inline long long descend(const long long *table, long long n_tries, long long t, const long long *columns,
                                    long long n, long long i) {
    const long long *levels = table + n_tries + 1;
    long long node = 0;
    for (long long entry = table[t]; entry < table[t + 1] && node >= 0; entry++) {
        const long long *record = levels + entry * (RECORD_FIELDS + 1);
        const void *values = (const void *)record[VALUES];
        long long value = columns[record[RECORD_FIELDS] * n + i];
        if (entry == table[t]) {
            node = record[BYTES] == 8 ? find_in_all((const long long *)values, record[N_VALUES], value)
                                      : find_in_all((const int *)values, record[N_VALUES], value);
            continue;
        }
        const long long *offsets = (const long long *)record[PARENTS];
        long long low = offsets[node], high = offsets[node + 1];
        node = record[BYTES] == 8 ? find_in_run((const long long *)values, low, high, value)
                                  : find_in_run((const int *)values, low, high, value);
    }
    return node;
}
