"""Kernels one by one, as shares of what a copy moves, beside what the array module has for the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from bench.gpu.binary_join import merged
from bench.gpu.graph import sorted_distinct, splitmix64
from bench.gpu.place import Place, Timing
from bench.gpu.report import Options, Report, against
from gpu_wcoj.kernels.protocol import Trie

KEY_BITS, LOW_BITS = 42, 20
MERGE_SHARE = 0.5
"""Of the copy's bandwidth, what a merge should reach."""


def run(place: Place, options: Options, report: Report) -> None:
    """Measure all of them."""
    report.say(rows=options.rows)
    copied: list[float] = []
    report.attempt("copy", copy, place, options.rows, copied, report)
    bandwidth = copied[0] if copied else None
    for name, measure in (
        ("sort", sort),
        ("merge", merge),
        ("expand", expand),
        ("scans", scans),
        ("locate", locate),
    ):
        report.attempt(name, measure, place, options.rows, report, bandwidth)
        place.release()


def mixed(place: Place, n: int, salt: int) -> Any:
    """Pseudo-random int64 of 0 to 2^62 - 1, which follow from their position."""
    numbers = place.xp.arange(n, dtype=np.int64).view(np.uint64) + np.uint64(salt << 40)
    return (splitmix64(numbers) >> np.uint64(2)).view(np.int64)


def keys_of(place: Place, n: int, salt: int) -> Any:
    """About `n` distinct sorted keys of 42 bits."""
    return sorted_distinct(place.xp, mixed(place, n, salt) >> (62 - KEY_BITS))


def columns_of(keys: Any) -> list[Any]:
    """Keys as two columns."""
    return [keys >> LOW_BITS, keys & ((1 << LOW_BITS) - 1)]


def trie_of(place: Place, keys: Any, weights: Any = None) -> Trie:
    """Sorted distinct keys as a trie of two levels."""
    values, offsets = place.backend.kernels.build_levels(columns_of(keys))
    return values, offsets, weights


def bytes_of(*tries: Any) -> int:
    """Bytes of all arrays of some tries."""
    return sum(
        array.nbytes
        for values, offsets, weights in tries
        for array in (*values, *offsets, weights)
        if array is not None
    )


def share_of(timing: Timing, n_bytes: int, bandwidth: float | None) -> dict[str, Any]:
    """GB/s, and the share of the copy's."""
    rate = n_bytes / timing.median / 1e9
    return {"gb_per_s": rate, "bytes": n_bytes, "share_of_copy": rate / bandwidth if bandwidth else None}


def copy(place: Place, n: int, copied: list[float], report: Report) -> None:
    """GB/s, bytes read and written, of a plain copy: what all others are held against."""
    source, target = place.xp.ones(n, np.int64), place.xp.empty(n, np.int64)

    def run_copy() -> None:
        target[:] = source

    timing = place.timed(run_copy, repetitions=11)
    rate = 2 * source.nbytes / timing.median / 1e9
    report.add("copy", rows=n, gb_per_s=rate, bytes=2 * source.nbytes, **timing.record())
    copied.append(rate)


def sort(place: Place, n: int, report: Report, bandwidth: float | None) -> None:
    """The order of rows of two columns, and rows consolidated; beside one sort of packed keys."""
    xp, kernels = place.xp, place.backend.kernels
    n = max(n // 2, 1)
    keys = mixed(place, n, 2) >> (62 - KEY_BITS)
    columns = columns_of(keys)
    timing = place.timed(lambda: kernels.lexsort(columns), repetitions=5)
    ordered = xp.take(keys, timing.result)
    assert bool((ordered[1:] >= ordered[:-1]).all()), "lexsort: not in order"
    rival = place.timed(lambda: xp.argsort(keys), repetitions=5)
    report.add(
        "sort: lexsort of two columns",
        rows=n,
        rows_per_s=n / timing.median,
        **share_of(timing, 3 * 8 * n, bandwidth),
        **timing.record(),
        rival={"what": "argsort of packed keys", **rival.record()},
        checks=["the rows are in order"],
    )
    del timing, ordered, rival
    plain = place.timed(lambda: xp.sort(keys), repetitions=5)
    report.add("sort: the array module's, packed keys", rows=n, rows_per_s=n / plain.median, **plain.record())
    total = int(xp.ones(n, np.int64).sum())
    weights = xp.ones(n, np.int64)
    timing = place.timed(lambda: kernels.consolidate(columns, weights), repetitions=5)
    assert int(timing.result[1].sum()) == total, "consolidate: weights were lost"
    report.add(
        "sort: consolidate two columns",
        rows=n,
        rows_per_s=n / timing.median,
        **share_of(timing, 2 * 3 * 8 * n, bandwidth),
        **timing.record(),
        rival={"what": "sort of packed keys, without weights", **plain.record()},
        checks=["the weights add up"],
    )


def merge(place: Place, n: int, report: Report, bandwidth: float | None) -> None:
    """Tries merged: a large and a small one, and two of a size."""
    for name, small in (("1/1024", n // 1024), ("1/16", n // 16), ("equal", n // 2)):
        for weighted in (False, True):
            _merge(place, n - small, small, name, weighted, report, bandwidth)
            place.release()


def _merge(
    place: Place, n: int, small: int, name: str, weighted: bool, report: Report, bandwidth: float | None
) -> None:
    xp, kernels = place.xp, place.backend.kernels
    keys = keys_of(place, n + max(small, 1), 3)
    goes_right = (splitmix64(keys.view(np.uint64)) % np.uint64(n + small)).view(np.int64) < small
    parts = [xp.take(keys, xp.flatnonzero(goes_right == right)) for right in (False, True)]
    tries = [trie_of(place, part, xp.full(len(part), 3, np.int64) if weighted else None) for part in parts]
    timing = place.timed(lambda: kernels.merge_tries(*tries))
    result = timing.result
    expected = trie_of(place, keys)
    arrays = [(*values, *offsets) for values, offsets, _ in (result, expected)]
    same = [bool((one == other).all()) for one, other in zip(*arrays, strict=True)]
    assert all(same), "merge: another trie than of all rows"
    n_bytes = bytes_of(*tries, result)
    del expected, result
    rank = place.timed(lambda: merged(xp, *parts))
    assert bool((rank.result == keys).all())
    again = place.timed(lambda: xp.sort(xp.concatenate(parts)), repetitions=3)
    figures = share_of(timing, n_bytes, bandwidth)
    share = figures["share_of_copy"]
    report.add(
        f"merge: {name}{', weighted' if weighted else ''}",
        rows=len(keys),
        small_rows=len(parts[1]),
        rows_per_s=len(keys) / timing.median,
        **figures,
        **timing.record(),
        **({} if share is None else against(share, target=MERGE_SHARE)),
        rivals=[
            {"what": "packed keys merged by rank, array module", **rank.record()},
            {"what": "packed keys concatenated and sorted, array module", **again.record()},
        ],
        checks=["equals the trie of all rows"],
    )


def expand(place: Place, n: int, report: Report, bandwidth: float | None) -> None:
    """A trie back to rows, beside `repeat`."""
    xp, kernels = place.xp, place.backend.kernels
    keys = keys_of(place, n, 4)
    values, offsets, _ = trie_of(place, keys)
    timing = place.timed(lambda: kernels.expand_columns(values, offsets))
    first, second = timing.result
    assert bool(((first << LOW_BITS) | second == keys).all()), "expand: other rows than went in"
    n_bytes = bytes_of((values, offsets, None)) + first.nbytes + second.nbytes
    rival = place.timed(lambda: xp.repeat(values[0].astype(np.int64), xp.diff(offsets[0])))
    report.add(
        "expand: rows of a trie",
        rows=len(keys),
        rows_per_s=len(keys) / timing.median,
        **share_of(timing, n_bytes, bandwidth),
        **timing.record(),
        rival={"what": "repeat by counts, first column only", **rival.record()},
        checks=["equals the rows that went in"],
    )
    columns = columns_of(keys)
    timing = place.timed(lambda: kernels.build_levels(columns))
    report.add(
        "expand: the trie of sorted rows",
        rows=len(keys),
        rows_per_s=len(keys) / timing.median,
        **share_of(timing, n_bytes, bandwidth),
        **timing.record(),
    )


def scans(place: Place, n: int, report: Report, bandwidth: float | None) -> None:
    """Run starts, sums of runs, exclusive sums, hashes."""
    xp, kernels = place.xp, place.backend.kernels
    keys = keys_of(place, n // 2, 5)
    columns = columns_of(keys)
    n = len(keys)
    starts = kernels.run_starts(columns[:1])
    ones = xp.ones(n, np.int64)
    changes = 1 + int((columns[0][1:] != columns[0][:-1]).sum())
    cases: list[tuple[str, Callable[[], Any], Callable[[], Any], int, Callable[[Any], bool]]] = [
        (
            "run starts",
            lambda: kernels.run_starts(columns[:1]),
            lambda: xp.flatnonzero(columns[0][1:] != columns[0][:-1]),
            8 * n + 8 * changes,
            lambda found: len(found) == changes,
        ),
        (
            "exclusive sums",
            lambda: kernels.exclusive_sum(ones),
            lambda: xp.cumsum(ones),
            16 * n,
            lambda found: int(found[-1]) == n,
        ),
        (
            "sums of runs",
            lambda: kernels.segment_sums(ones, starts),
            lambda: xp.cumsum(ones),
            8 * n + 16 * changes,
            lambda found: int(found.sum()) == n,
        ),
        (
            "hashes of two columns",
            lambda: kernels.hash_rows(columns),
            lambda: splitmix64(columns[0].view(np.uint64)),
            24 * n,
            lambda found: len(found) == n,
        ),
    ]
    for name, ours, theirs, n_bytes, is_right in cases:
        timing, rival = place.timed(ours), place.timed(theirs)
        assert is_right(timing.result), name
        report.add(
            f"scan: {name}",
            rows=n,
            rows_per_s=n / timing.median,
            **share_of(timing, n_bytes, bandwidth),
            **timing.record(),
            rival={"what": "the array module's nearest", **rival.record()},
        )


def locate(place: Place, n: int, report: Report, _bandwidth: float | None) -> None:
    """Rows looked up in a trie, needles sorted and in a random order, half of them there; beside one packed search."""
    xp, kernels = place.xp, place.backend.kernels
    keys = keys_of(place, n, 6)
    values, offsets, _ = trie_of(place, keys)
    described = [kernels.describe(values[0], None, None), kernels.describe(values[1], offsets[0], None)]
    records = [[record for record, _ in described]]
    n_needles = max(n // 8, 2)
    picked = mixed(place, n_needles, 7) % len(keys)
    needles = xp.take(keys, picked)
    needles = xp.where(picked % 2 == 0, needles, mixed(place, n_needles, 8) >> (62 - KEY_BITS))
    for order, wanted in (("random", needles), ("sorted", xp.sort(needles))):
        columns = xp.stack(columns_of(wanted))
        timing = place.timed(partial(kernels.locate, records, [[0, 1]], columns))
        rival = place.timed(partial(xp.searchsorted, keys, wanted))
        place_in = xp.minimum(rival.result, len(keys) - 1)
        expected = xp.where(xp.take(keys, place_in) == wanted, place_in, -1)
        assert bool((timing.result[0] == expected).all()), "locate: another position than the packed search"
        report.add(
            f"search: locate, {order} needles",
            rows=len(keys),
            needles=n_needles,
            needles_per_s=n_needles / timing.median,
            **timing.record(),
            rival={"what": "searchsorted of packed keys", "needles_per_s": n_needles / rival.median, **rival.record()},
            checks=["equals searchsorted of packed keys"],
        )
