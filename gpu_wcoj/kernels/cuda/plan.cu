// What is found out of prefixes before their candidates are looked at.
//
//   widths          a thread per prefix: every atom's range, the smallest, how many candidates it has within the bounds
//   (running sums of these, by the array module)
//   choose_marks    a thread per prefix and markable atom: which groups' ranges are worth marking, and their lengths
//   (running sums of these)
//   clear_marks     a thread per word of the marks' tables
//   insert_marks    a thread per value marked
//
// Arithmetic. A prefix costs two loads a slot for the offsets of its range, and 8 bytes an atom's family twice. A range
// is marked where length <= 2 * candidates that will be tested against it, so the values marked are at most twice the
// sum of minima for each markable atom; a mark costs one coalesced load and one atomic operation, a test of it saves
// all but one of log2(length) steps.

#include "marks.cuh"
#include "scan.cuh"
#include "slots.cuh"
#include "units.cuh"

#define LONGEST_BITMAP 128
#define MARK_FACTOR 2

// The ranges of prefix i, the order of its atoms, its candidates; see `View` for the rows of `sums`, which hold plain
// numbers here. `counts` is set to 0 if given.
extern "C" __global__ void widths(
    const long long* table, long long n_atoms, long long n_slots, const long long* positions, long long stride,
    long long begin, long long n, const long long* lower, const long long* upper, long long* sums, long long groups,
    long long n_families, long long* orders, long long* clips, long long* counts
) {
    __shared__ long long copy[TABLE_WORDS];
    const long long* near = near_table(table, 4 * n_atoms + 8 * n_slots, copy);
    const Atom* atoms = (const Atom*)near;
    const Slot* slots = (const Slot*)(near + 4 * n_atoms);
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    long long n_rows = groups + 2 * n_families;
    if (i < n_rows) sums[i * (n + 1)] = 0;
    if (i >= n) return;
    long long p = begin + i;

    // Ranks by insertion: four bits an atom, ascending by width; with more than 16 atoms only the smallest is kept.
    long long ranked[16];
    long long order = 0, smallest = 0;
    for (int a = 0; a < (int)n_atoms; ++a) {
        long long width = 0;
        for (long long s = atoms[a].first; s < atoms[a].end; ++s) {
            long long low, high;
            range_of(slots[s], positions, stride, p, low, high);
            width += high - low;
        }
        bool is_smallest = a == 0 || width < smallest;
        if (is_smallest) smallest = width;
        if (n_atoms > 16) {
            if (is_smallest) order = a;
            continue;
        }
        int rank = a;
        while (rank > 0 && ranked[rank - 1] > width) {
            ranked[rank] = ranked[rank - 1];
            --rank;
        }
        ranked[rank] = width;
        Bits below = ((Bits)1 << (4 * rank)) - 1;
        order = (long long)(((Bits)order & below) | ((Bits)a << (4 * rank)) | (((Bits)order & ~below) << 4));
    }
    orders[i] = order;

    int chosen = atom_at(order, 0, (int)n_atoms);
    long long items = smallest;
    if (clips != nullptr) {
        long long least = lower[p], most = upper[p];
        items = 0;
        for (long long s = atoms[chosen].first; s < atoms[chosen].end; ++s) {
            long long low, high;
            range_of(slots[s], positions, stride, p, low, high);
            low = bound_in(slots[s], low, high, least, false);
            high = least <= most ? bound_in(slots[s], low, high, most, true) : low;
            long long j = 2 * (s - atoms[chosen].first);
            clips[j * n + i] = low;
            clips[(j + 1) * n + i] = high;
            items += high - low;
        }
        sums[n + 1 + i + 1] = smallest;
    }
    sums[i + 1] = items;
    if (counts != nullptr) counts[i] = 0;
    if (n_families == 0) return;
    for (int a = 0; a < (int)n_atoms; ++a) {
        if (atoms[a].family < 0) continue;
        bool begins = i == 0;
        for (long long s = atoms[a].first; s < atoms[a].end && !begins; ++s) {
            if (slots[s].row < 0) continue;
            const long long* row = positions + slots[s].row * stride;
            begins = row[p] != row[p - 1];
        }
        long long row = groups + 2 * atoms[a].family;
        sums[row * (n + 1) + i + 1] = a == chosen ? 0 : items;
        sums[(row + 1) * (n + 1) + i + 1] = begins;
    }
}

// Per markable slot m and group g, lengths[m * n + g + 1]: the words of its marks, halved; 0 if it is not marked.
// group_begins[f * n + g] is where group g of family f begins.
extern "C" __global__ void choose_marks(
    const long long* table, long long n_atoms, const long long* positions, long long stride, long long begin,
    long long n, const long long* sums, long long groups, long long n_families, long long shortest,
    long long* lengths, long long* group_begins
) {
    const Atom* atoms = (const Atom*)table;
    const Slot* slots = (const Slot*)(table + 4 * n_atoms);
    long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (at == 0) lengths[0] = 0;
    if (at >= n_families * n) return;
    long long family = at / n, i = at - family * n;
    int a = 0;
    while (atoms[a].family != family) ++a;
    const Atom& atom = atoms[a];
    const long long* candidates = sums + (groups + 2 * family) * (n + 1);
    const long long* begins = candidates + n + 1;
    long long n_groups = begins[n] - begins[0];
    if (i >= n_groups)
        for (long long s = atom.first; s < atom.end; ++s)
            if (slots[s].mark >= 0) lengths[slots[s].mark * n + i + 1] = 0;
    if (begins[i + 1] == begins[i]) return;
    long long group = begins[i] - begins[0];
    long long end = upper_bound(begins, i + 1, n + 1, begins[i + 1]) - 1;
    long long width = 0;
    for (long long s = atom.first; s < atom.end; ++s) {
        long long low, high;
        range_of(slots[s], positions, stride, begin + i, low, high);
        width += high - low;
    }
    bool pays = end - i > 1 && width <= MARK_FACTOR * (candidates[end] - candidates[i]);
    for (long long s = atom.first; s < atom.end; ++s) {
        if (slots[s].mark < 0) continue;
        long long low, high;
        range_of(slots[s], positions, stride, begin + i, low, high);
        lengths[slots[s].mark * n + group + 1] = pays && high - low >= shortest ? high - low + 1 : 0;
    }
    group_begins[family * n + group] = i;
}

extern "C" __global__ void clear_marks(
    unsigned long long* arena, const long long* lengths, long long n_ranges, long long budget
) {
    long long n_words = 2 * min(lengths[n_ranges], budget);
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n_words;
         i += (long long)gridDim.x * blockDim.x)
        arena[i] = 0;
}

// Item 0 of a range writes the heading of its table, item j the value j - 1.
extern "C" __global__ void insert_marks(
    const long long* table, long long n_atoms, long long n_slots, const long long* positions, long long stride,
    long long begin, long long n, const long long* lengths, const long long* group_begins, long long n_marks,
    unsigned long long* arena, long long budget, long long fill, long long* work
) {
    __shared__ long long copy[TABLE_WORDS];
    __shared__ long long rows[2];
    __shared__ long long near_sums[NEAR_SUMS];
    __shared__ long long scratch[33];
    const long long* near = near_table(table, 4 * n_atoms + 8 * n_slots, copy);
    const Atom* atoms = (const Atom*)near;
    const Slot* slots = (const Slot*)(near + 4 * n_atoms);
    Unit unit = {rows, near_sums};
    int lane = threadIdx.x & 31;
    long long n_items = min(lengths[n_marks * n], budget);
    long long size = unit_size(n_items, gridDim.x);
    long long marked = 0;
    for (long long first = blockIdx.x * size; first < n_items; first += gridDim.x * size) {
        long long last = min(first + size, n_items);
        enter_unit(unit, lengths, n_marks * n, first, last);
        for (long long base = first; base < last; base += BLOCK) {
            long long item = base + threadIdx.x;
            long long word = -1;  // of the arena, and the bits to set there
            Bits bits = 0;
            long long k;
            long long range = item < last ? row_of_item(unit, lengths, item, k) : -1;
            if (range >= 0 && lengths[range + 1] <= budget) {
                long long m = range / n;
                long long s = 0;
                while (slots[s].mark != m) ++s;
                const Slot& slot = slots[s];
                long long a = 0;
                while (s >= atoms[a].end) ++a;
                long long low, high;
                range_of(slot, positions, stride, begin + group_begins[atoms[a].family * n + range - m * n], low, high);
                Bits* heading = arena + 2 * lengths[range];
                long long least = value_at(slot, low);
                Bits span = (Bits)value_at(slot, high - 1) - (Bits)least;
                bool places = (fill && slot.out_row >= 0) || (atoms[a].last && slot.weights != nullptr);
                bool hashed = places || span >= (Bits)LONGEST_BITMAP * (Bits)(high - low);
                if (k == 0) {
                    heading[0] = (Bits)least;
                    heading[1] = hashed ? (Bits)low | HASHED : span;
                } else {
                    long long value = value_at(slot, low + k - 1);
                    ++marked;
                    if (hashed) {
                        insert_hashed(heading + 2, (Bits)(2 * (high - low)), slot, value, (Bits)(k - 1));
                    } else {
                        Bits distance = (Bits)value - (Bits)least;
                        word = 2 * lengths[range] + 2 + (long long)(distance >> 6);
                        bits = (Bits)1 << (distance & 63);
                    }
                }
            }
            // Values ascend, so lanes with bits for one word stand together: the first of them sets all.
            for (int step = 1; step < 32; step <<= 1) {
                long long other = __shfl_down_sync(FULL_WARP, word, step);
                Bits more = __shfl_down_sync(FULL_WARP, bits, step);
                if (lane + step < 32 && other == word) bits |= more;
            }
            long long before = __shfl_up_sync(FULL_WARP, word, 1);
            if (word >= 0 && (lane == 0 || before != word)) atomicOr(arena + word, bits);
        }
        __syncthreads();
    }
    add_by_block(work + MARKS, marked, scratch);
}
