// The table of an extension's atoms and slots, and the sorted ranges that prefixes see in it.
//
// The table is 4 words per atom, then 8 words per slot (one batch of one atom), all int64; see `plan.prepare`.

// Rows of `work`; see gpu_wcoj.kernels.protocol.
#define SUM_OF_MINIMA 0
#define PROPOSALS 1
#define PROBES 2
#define MARKS 3
#define SURVIVORS 4

typedef unsigned long long Bits;

struct Atom {
    long long first;   // its slots are first .. end - 1
    long long end;
    long long last;    // 1 if the variable is its last one: weights count
    long long family;  // its number among the atoms that may be marked for groups of prefixes, -1 for the others
};

struct Slot {
    const void* values;
    long long value_bytes;
    const long long* parents;
    const long long* weights;  // null if all are 1
    long long n_values;
    long long row;      // of the positions matrix, -1 at the top level
    long long out_row;  // of the output positions matrix, -1 if the atom ends here
    long long mark;     // its number among the slots that may be marked, -1 for the others
};

// What a kernel knows of the prefixes begin .. begin + n - 1, and of the marks made for them; index i is prefix
// begin + i. Row r of `sums` is n + 1 running sums that begin at sums[r * (n + 1)]:
//   row 0                     items: the candidates of each prefix
//   row `minima`              the smallest counts, bounds left aside; row 0 again if there are no bounds
//   rows groups + 2 f, + 1    of family f: the candidates that other atoms propose, and 1 where a group begins
struct View {
    const Atom* atoms;
    const Slot* slots;
    int n_atoms;
    const long long* positions;
    long long stride;
    long long begin;
    long long n;
    const long long* sums;
    long long groups;
    const long long* lengths;  // running sums, per marked slot and group; null without marks
    const Bits* arena;
    long long budget;
};

__device__ inline const long long* row_of_sums(const View& view, long long row) {
    return view.sums + row * (view.n + 1);
}

__device__ inline long long value_at(const Slot& slot, long long i) {
    return slot.value_bytes == 4 ? (long long)((const int*)slot.values)[i] : ((const long long*)slot.values)[i];
}

__device__ inline Bits weight_at(const Slot& slot, long long i) {
    return slot.weights == nullptr ? 1 : (Bits)slot.weights[i];
}

// The order in which prefix i asks its atoms: the one that proposes, then by ascending range. Four bits an atom where
// there are at most 16; otherwise the number of the proposing one, and the others as they stand.
__device__ inline int atom_at(long long order, int rank, int n_atoms) {
    if (n_atoms <= 16) return (int)((order >> (4 * rank)) & 15);
    if (rank == 0) return (int)order;
    return rank - 1 < order ? rank - 1 : rank;
}

// What prefix p sees in a slot.
__device__ inline void range_of(
    const Slot& slot, const long long* positions, long long stride, long long p, long long& begin, long long& end
) {
    if (slot.row < 0) {
        begin = 0;
        end = slot.n_values;
        return;
    }
    long long parent = positions[slot.row * stride + p];
    begin = 0;
    end = 0;
    if (parent >= 0) {
        begin = slot.parents[parent];
        end = slot.parents[parent + 1];
    }
}

// First of begin .. end whose value is not below `wanted`, or above it if `inclusive`.
__device__ inline long long bound_in(
    const Slot& slot, long long begin, long long end, long long wanted, bool inclusive
) {
    while (begin < end) {
        long long middle = begin + ((end - begin) >> 1);
        long long value = value_at(slot, middle);
        if (value < wanted || (inclusive && value == wanted)) begin = middle + 1;
        else end = middle;
    }
    return begin;
}

// Where `wanted` stands in a run of n >= 1 values, -1 if nowhere. The number of steps depends on n alone, so lanes
// that search in one range stay together; their values ascend, so they share the first cache lines.
template <typename Value>
__device__ inline long long find_in_run(const Value* values, long long n, long long wanted) {
    const Value* at = values;
    while (n > 1) {
        long long half = n >> 1;
        if ((long long)at[half - 1] < wanted) at += half;
        n -= half;
    }
    return (long long)*at == wanted ? at - values : -1;
}

// Where `wanted` stands in the values begin .. end - 1 of a slot, at least one; -1 if nowhere.
__device__ inline long long find(const Slot& slot, long long begin, long long end, long long wanted) {
    if (slot.row < 0) {
        // Codes are often dense at the top level. Values are distinct, so at most wanted - first of them are below the
        // one wanted and at most last - wanted above it: what is left has no more places than there are gaps.
        long long first = value_at(slot, begin), last = value_at(slot, end - 1);
        if (wanted < first || wanted > last) return -1;
        Bits below = (Bits)wanted - (Bits)first, above = (Bits)last - (Bits)wanted;
        Bits most = (Bits)(end - begin) - 1;
        if (below < most) end = begin + (long long)below + 1;
        if (above < most) begin += (long long)(most - above);
    }
    long long at = slot.value_bytes == 4 ? find_in_run((const int*)slot.values + begin, end - begin, wanted)
                                         : find_in_run((const long long*)slot.values + begin, end - begin, wanted);
    return at < 0 ? -1 : begin + at;
}

// Copies the table to shared memory where it fits; returns where to read it.
#define TABLE_WORDS 448

__device__ inline const long long* near_table(const long long* table, long long n_words, long long* copy) {
    if (n_words > TABLE_WORDS) return table;
    for (long long i = threadIdx.x; i < n_words; i += blockDim.x) copy[i] = table[i];
    __syncthreads();
    return copy;
}
