"""Fused intersections: candidates of short ranges looked up in other ranges, and only their number kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.gpu.graph import splitmix64
from bench.gpu.place import Place
from bench.gpu.report import Options, Report, against
from gpu_wcoj.kernels.protocol import MARKS, N_WORK, PROBES, PROPOSALS, Level

IN_ORDER, AT_RANDOM = 20e9, 5e9
"""Probes a second to reach: into sorted or marked ranges, and into ranges all over memory."""


def run(place: Place, options: Options, report: Report) -> None:
    """Measure the three ways in which ranges meet."""
    n = options.rows
    report.say(rows=n)
    # (name, prefixes, candidates of each, ranges probed, their length, whether all probe one, shuffled, target)
    cases = [
        ("into sorted ranges", n >> 10, 256, n >> 10, 1024, False, False, IN_ORDER),
        ("into short sorted ranges", n >> 6, 16, n >> 6, 64, False, False, IN_ORDER),
        ("into one marked range", n >> 11, 512, 1, max(n >> 7, 1024), True, False, IN_ORDER),
        ("at random", n >> 3, 2, n >> 6, 64, False, True, AT_RANDOM),
    ]
    for name, *sizes in cases:
        report.attempt(f"probes {name}", probe, place, report, name, *sizes)
        place.release()


def bound(place: Place, n: int, report: Report) -> None:
    """Measure the rate of probes into sorted ranges that the part's ticks are held against."""
    probe(place, report, "into sorted ranges", n >> 10, 256, n >> 10, 1024, False, False, IN_ORDER)
    report.say(probes_per_s=report.figures[-1]["probes_per_s"])
    place.release()


def ranges(place: Place, n_ranges: int, length: int, step: int, salt: int) -> tuple[Any, Any]:
    """Values and offsets of `n_ranges` sorted ranges: one pseudo-random value out of every `step`."""
    n = n_ranges * length
    number = place.xp.arange(n, dtype=np.int64)
    shift = (splitmix64(number.view(np.uint64) + np.uint64(salt << 40)) % np.uint64(step)).view(np.int64)
    values = ((number % length) * step + shift).astype(np.int32)
    return values, place.xp.arange(n_ranges + 1, dtype=np.int64) * length


def probe(
    place: Place, report: Report, name: str, n_prefixes: int, n_candidates: int, n_probed: int, length: int,
    shared: bool, shuffled: bool, target: float,
) -> None:  # fmt: skip
    """One case: `n_prefixes` prefixes, each with its own candidates and a range to look them up in."""
    xp, kernels = place.xp, place.backend.kernels
    n_prefixes, n_probed = max(n_prefixes, 2), max(n_probed, 1)
    span = 4 * length  # what is probed holds one value in four; candidates are spread over the same span
    own = ranges(place, n_prefixes, n_candidates, span // n_candidates, 11)
    other = ranges(place, n_probed, length, 4, 12)
    levels = [
        Level(values, offsets, None, *kernels.describe(values, offsets, None)) for values, offsets in (own, other)
    ]
    prefixes = xp.arange(n_prefixes, dtype=np.int64)
    mixed = (splitmix64(prefixes.view(np.uint64) + np.uint64(13 << 40)) >> np.uint64(1)).view(np.int64)
    at = mixed % n_probed if shuffled else prefixes % n_probed
    positions = xp.stack([prefixes, at])
    extension = kernels.prepare(levels, [0, 1, 2], [True, True], [False, shared], [0, 1], [-1, -1])
    nothing, none_excluded = xp.empty(0, np.int64), xp.empty((0, n_prefixes), np.int64)
    work = xp.zeros(N_WORK, np.int64)

    def count() -> Any:
        return kernels.count_common(extension, positions, 0, n_prefixes, nothing, nothing, none_excluded, work)

    timing = place.timed(count)
    done = place.backend.to_host(work)
    n_calls = len(timing.seconds) + 2
    n_probes = n_prefixes * n_candidates

    def search() -> Any:
        """The same by one packed search: expand, look up, add up."""
        row = xp.repeat(prefixes, n_candidates)
        keys = (xp.repeat(xp.arange(n_probed, dtype=np.int64), length) << 32) | other[0].astype(np.int64)
        wanted = (xp.take(at, row) << 32) | own[0].astype(np.int64)
        place_in = xp.minimum(xp.searchsorted(keys, wanted), len(keys) - 1)
        hits = xp.cumsum((xp.take(keys, place_in) == wanted).astype(np.int64))
        ends = xp.take(hits, (prefixes + 1) * n_candidates - 1)
        return xp.concatenate([ends[:1], ends[1:] - ends[:-1]])

    rival = place.timed(search, repetitions=3, warm_up=1)
    assert bool((timing.result == rival.result).all()), f"probes {name}: other counts than the packed search"
    rate = n_probes / timing.median
    report.add(
        f"probes {name}",
        prefixes=n_prefixes,
        candidates=n_candidates,
        ranges=n_probed,
        range_length=length,
        probes=n_probes,
        probes_per_s=rate,
        **against(rate, target=target),
        **timing.record(),
        counted={
            label: int(done[i]) // n_calls
            for label, i in (("proposals", PROPOSALS), ("probes", PROBES), ("marks", MARKS))
        },
        found=int(timing.result.sum()),
        rival={"what": "expand, packed search, sums", "probes_per_s": n_probes / rival.median, **rival.record()},
        checks=["every count equals the packed search's"],
    )
