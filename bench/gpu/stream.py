"""One pattern on one stream: the engine on the device, beside the engine on the CPU and binary joins on the device."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gpu_wcoj as gw
from bench.engine.queries import Query
from bench.engine.streams import CountError
from bench.gpu.binary_join import BinaryJoin, OutOfTimeError
from bench.gpu.feed import candidates, load, program_of, tick
from bench.gpu.place import Place


@dataclass(frozen=True)
class Ticks:
    """Ticks that were run: seconds and answers' growth, insertions first, then the same edges deleted in reverse.

    Attributes
    ----------
    stopped
        Why there are no more, or None.
    """

    inserted: tuple[int, ...]
    insert_seconds: tuple[float, ...]
    delete_seconds: tuple[float, ...]
    n_candidates: int = 0
    stopped: str | None = None

    def record(self, tick_rows: int) -> dict[str, Any]:
        """Seconds a tick and changes a second, with their spread."""
        every = self.insert_seconds + self.delete_seconds
        if not every:
            return {"seconds": None, "stopped": self.stopped}
        median = statistics.median(every)
        return {
            "seconds": median,
            "insert_seconds": statistics.median(self.insert_seconds),
            "delete_seconds": statistics.median(self.delete_seconds) if self.delete_seconds else None,
            "fastest": min(every),
            "slowest": max(every),
            "ticks": len(every),
            "changes_per_s": tick_rows / median,
            "stopped": self.stopped,
        }


def run_ticks(
    step: Callable[[Any, int], tuple[float, int]],
    ticks: Sequence[Any],
    *,
    rounds: int,
    warm_up: int,
    limit: float,
    name: str,
) -> Ticks:
    """Insert all ticks in order and delete them in reverse, `rounds` times after `warm_up` rounds that do not count.

    Raises
    ------
    CountError
        If a deletion takes away another number of rows than its insertion added, in any round.
    """
    start = time.monotonic()
    inserted: tuple[int, ...] = ()
    insert_seconds: list[float] = []
    delete_seconds: list[float] = []
    for number in range(warm_up + rounds):
        added = [step(keys, 1) for keys in ticks]
        taken = [step(keys, -1) for keys in reversed(ticks)]
        counts, negated = tuple(count for _, count in added), tuple(-count for _, count in reversed(taken))
        if counts != negated or counts != (inserted or counts):
            raise CountError(f"{name}: inserted {counts}, then deleted {negated}, before that {inserted}")
        inserted = counts
        if number >= warm_up:
            insert_seconds += [seconds for seconds, _ in added]
            delete_seconds += [seconds for seconds, _ in taken]
        if insert_seconds and time.monotonic() - start > limit:
            break
    return Ticks(inserted, tuple(insert_seconds), tuple(delete_seconds))


def run_engine(
    place: Place,
    program: gw.Program,
    query: Query,
    ticks: Sequence[Any],
    *,
    rows: bool = False,
    rounds: int = 3,
    warm_up: int = 1,
    limit: float = 30.0,
) -> Ticks:
    """The engine's ticks on a program that has been loaded."""
    found = 0

    def step(keys: Any, weight: int) -> tuple[float, int]:
        nonlocal found
        timed = tick(place, program, query, keys, weight, rows)
        if not found:
            found = candidates(program)
        return timed

    name = f"{query.name} on {place.backend.name}"
    ran = run_ticks(step, ticks, rounds=rounds, warm_up=warm_up, limit=limit, name=name)
    return Ticks(ran.inserted, ran.insert_seconds, ran.delete_seconds, found)


def run_binary(
    place: Place,
    query: Query,
    loaded: Any,
    ticks: Sequence[Any],
    *,
    rows: bool = False,
    rounds: int = 3,
    warm_up: int = 1,
    limit: float = 30.0,
) -> Ticks:
    """The same ticks by binary joins on the same device; stopped at the limit, with the state as it was."""
    until = time.monotonic() + 2 * limit
    join = BinaryJoin(place.xp, query, loaded, stop=lambda: time.monotonic() > until)

    def step(keys: Any, weight: int) -> tuple[float, int]:
        return place.wall(lambda: join.step(keys, weight, rows))

    try:
        return run_ticks(step, ticks, rounds=rounds, warm_up=warm_up, limit=limit, name=f"{query.name} by binary joins")
    except OutOfTimeError:
        return Ticks((), (), (), stopped=f"no tick was done within {2 * limit:g} s")
    except MemoryError:
        return Ticks((), (), (), stopped="out of memory")


def run_cpu(
    cpu: Place,
    query: Query,
    loaded: Any,
    ticks: Sequence[Any],
    *,
    rows: bool = False,
    rounds: int = 1,
    warm_up: int = 1,
    limit: float = 30.0,
) -> tuple[float, Ticks]:
    """Seconds to load, and the same ticks, by the engine on all processors of the CPU."""
    program = program_of(cpu, query)
    seconds = load(cpu, program, loaded)
    return seconds, run_engine(cpu, program, query, ticks, rows=rows, rounds=rounds, warm_up=warm_up, limit=limit)


def compared(found: Ticks, other: Ticks, what: str, checks: list[str]) -> None:
    """Add that both count alike, where the other has counted.

    Raises
    ------
    CountError
        If they do not.
    """
    n = len(other.inserted)
    if not n:
        return
    if found.inserted[:n] != other.inserted:
        raise CountError(f"{what} counts {other.inserted}, the engine on the device {found.inserted}")
    checks.append(f"equals {what}: {sum(other.inserted):,} rows")
