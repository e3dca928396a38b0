// Binary searches in ascending runs.

// First position in [low, high) whose value is not below `value`; `high` if there is none.
template <class T>
__device__ long long lower_bound(const T *values, long long low, long long high, long long value) {
    while (low < high) {
        long long middle = low + ((high - low) >> 1);
        if (values[middle] < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// First position in [low, high) whose value is above `value`; `high` if there is none.
template <class T>
__device__ long long upper_bound(const T *values, long long low, long long high, long long value) {
    while (low < high) {
        long long middle = low + ((high - low) >> 1);
        if (values[middle] <= value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// As `lower_bound`, in time logarithmic in the distance of the answer from `guess`, a position in [low, high].
template <class T>
__device__ long long lower_bound_near(const T *values, long long low, long long high, long long guess,
                                      long long value) {
    long long step = 1;
    if (guess < high && values[guess] < value) {
        low = guess + 1;
        while (low < high && step < high - low && values[low + step] < value) {
            low += step + 1;
            step <<= 1;
        }
        if (step < high - low) high = low + step;
    } else {
        high = guess;
        while (low < high && step < high - low && values[high - step] >= value) {
            high -= step;
            step <<= 1;
        }
        if (step < high - low) low = high - step;
    }
    return lower_bound(values, low, high, value);
}

// As `upper_bound`, by all 32 lanes of a warp together, 32 probes a round; the same answer in every lane.
template <class T>
__device__ long long warp_upper_bound(const T *values, long long low, long long high, long long value) {
    int lane = threadIdx.x & 31;
    while (high - low > 32) {
        // Probes at the ends of 32 parts, each of `part` or, the last, fewer values.
        long long part = (high - low + 31) >> 5;
        long long probe = low + (lane + 1) * part - 1;
        bool above = probe < high ? values[probe] > value : true;
        unsigned found = __ballot_sync(0xffffffffu, above);
        int first = found ? __ffs((int)found) - 1 : 32;
        long long begin = low + first * part;
        long long end = begin + part;
        low = begin < high ? begin : high;
        high = first < 32 && end < high ? end : high;
    }
    long long at = low + lane;
    bool above = at < high ? values[at] > value : true;
    unsigned found = __ballot_sync(0xffffffffu, above);
    long long answer = low + (found ? __ffs((int)found) - 1 : 32);
    return answer < high ? answer : high;
}
