// 64-bit hashes of codes and rows.

// The finaliser of SplitMix64: a bijection in which every bit of the input moves half the bits of the output.
__device__ inline unsigned long long mix(unsigned long long z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

// A row's hash after one more column: start with 0.
__device__ inline unsigned long long hash_on(unsigned long long hash, long long code) {
    return mix((hash ^ (unsigned long long)code) + 0x9E3779B97F4A7C15ull);
}
