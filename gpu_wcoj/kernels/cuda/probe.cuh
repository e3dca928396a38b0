// One candidate: proposed by one slot of the prefix's cheapest atom, then sought in the other slots.

#include "marks.cuh"
#include "scanned.cuh"
#include "slots.cuh"

// Where the candidates' positions go: element out_row * room + item; none when counting.
struct Places {
    long long* at;
    long long room;
    long long item;
};

// The group of prefix i in an atom that may be marked.
__device__ inline long long group_of(const View& view, const Atom& atom, long long i) {
    if (view.lengths == nullptr || atom.family < 0) return -1;
    const long long* begins = row_of_sums(view, view.groups + 2 * atom.family + 1);
    return begins[i + 1] - begins[0] - 1;
}

// Where a slot holds the value for prefix i, -1 if nowhere or not sought. `together`: all lanes of the warp are here, for
// one prefix.
__device__ inline long long probe_slot(
    const View& view, const Slot& slot, long long group, long long i, long long value, bool sought, bool together,
    unsigned int& probes
) {
    if (group >= 0 && slot.mark >= 0) {
        const long long* length = view.lengths + slot.mark * view.n + group;
        long long begin = length[0], end = length[1];
        if (begin < end && end <= view.budget) {
            probes += sought;
            return sought ? find_marked(view.arena + 2 * begin, (Bits)(2 * (end - begin - 1)), slot, value) : -1;
        }
    }
    long long begin, end;
    range_of(slot, view.positions, view.stride, view.begin + i, begin, end);
    if (begin >= end) return -1;
    probes += sought;
    if (together && end - begin <= SCANNED) {
        long long position = find_scanned(slot, begin, (int)(end - begin), value);
        return sought ? position : -1;
    }
    return sought ? find(slot, begin, end, value) : -1;
}

// Seeks the value in slots from .. to - 1 of an atom: whether one holds it; their weights are added to `weight`.
template <bool FILL>
__device__ inline bool probe_slots(
    const View& view, const Atom& atom, long long from, long long to, long long i, long long value, bool sought,
    bool together, Bits& weight, const Places& places, unsigned int& probes
) {
    long long group = group_of(view, atom, i);
    bool held = false;
    for (long long s = from; s < to; ++s) {
        const Slot& slot = view.slots[s];
        long long position = probe_slot(view, slot, group, i, value, sought, together, probes);
        if (FILL && sought && slot.out_row >= 0) places.at[slot.out_row * places.room + places.item] = position;
        if (position < 0) continue;
        held = true;
        if (atom.last) {
            weight += weight_at(slot, position);
        } else if (!FILL) {
            sought = false;
            if (!together) break;
        }
    }
    return held;
}

// Candidate k of prefix i: whether its slot proposes it, its value, and the proposing atom's weight.
//
// SETS: every atom has one slot, and no weights are stored at last levels; the weight is 1.
// `clips` holds what the bounds leave of the proposing atom's ranges, null without bounds.
template <bool FILL, bool SETS>
__device__ inline bool propose(
    const View& view, const Atom& own, const long long* clips, const long long* excluded, long long n_excluded,
    long long i, long long k, const Places& places, long long& value, Bits& weight, unsigned int& probes
) {
    long long s = own.first;
    long long position = 0;
    for (;; ++s) {
        long long begin, end;
        if (clips != nullptr) {
            begin = clips[2 * (s - own.first) * view.n + i];
            end = clips[(2 * (s - own.first) + 1) * view.n + i];
        } else {
            range_of(view.slots[s], view.positions, view.stride, view.begin + i, begin, end);
        }
        position = begin + k;
        if (SETS || position < end) break;
        k -= end - begin;
    }
    value = value_at(view.slots[s], position);
    weight = 1;
    for (long long e = 0; e < n_excluded; ++e)
        if (excluded[e * view.stride + view.begin + i] == value) return false;
    if (FILL && view.slots[s].out_row >= 0) places.at[view.slots[s].out_row * places.room + places.item] = position;
    if (SETS) return true;
    // Only the first slot that holds a value proposes it.
    Bits ignored = 0;
    if (s > own.first
        && probe_slots<FILL>(view, own, own.first, s, i, value, true, false, ignored, places, probes))
        return false;
    if (own.last) weight = weight_at(view.slots[s], position);
    if (s + 1 < own.end && (own.last || FILL)) {
        Bits more = 0;
        probe_slots<FILL>(view, own, s + 1, own.end, i, value, true, false, more, places, probes);
        if (own.last) weight += more;
    }
    return weight != 0;
}

// Whether candidate k of prefix i survives, its value, and the product of the atoms' weights. All lanes of a warp take
// part; one that is not `inside` names the prefix of the last that is, and never survives.
template <bool FILL, bool SETS>
__device__ inline bool examine(
    const View& view, const long long* orders, const long long* clips, const long long* excluded,
    long long n_excluded, bool inside, long long i, long long k, const Places& places, long long& value, Bits& weight,
    unsigned int& probes
) {
    bool together = __all_sync(FULL_WARP, i == __shfl_sync(FULL_WARP, i, 0));
    long long order = orders[i];
    value = 0;
    weight = 0;
    const Atom& own = view.atoms[atom_at(order, 0, view.n_atoms)];
    bool alive = inside && propose<FILL, SETS>(view, own, clips, excluded, n_excluded, i, k, places, value, weight,
                                               probes);
    for (int rank = 1; rank < view.n_atoms; ++rank) {
        if (together ? !__any_sync(FULL_WARP, alive) : !alive) return false;
        const Atom& other = view.atoms[atom_at(order, rank, view.n_atoms)];
        Bits factor = 0;
        bool held = probe_slots<FILL>(view, other, other.first, SETS ? other.first + 1 : other.end, i, value, alive,
                                      together, factor, places, probes);
        alive = alive && held;
        if (!SETS && other.last) {
            weight *= factor;
            alive = alive && factor != 0;
        }
    }
    return alive;
}
