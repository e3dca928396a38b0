"""A thing that Spark does, with its time, its shuffle, and the memory of this machine's processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psutil
from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Metered:
    """What was measured.

    Attributes
    ----------
    result
        What came out; None if it was stopped.
    seconds, processor_seconds
        Wall time, and the processor time of all processes, which other work on the machine changes less.
    shuffle_bytes
        Written by all stages of its jobs.
    peak_bytes
        The most that the JVM and this process together held at one time, what they had before included.
    """

    result: Any
    seconds: float
    processor_seconds: float
    shuffle_bytes: int
    peak_bytes: int


def metered(spark: SparkSession, do: Callable[[], Any], limit: float) -> Metered:
    """Run `do`; after `limit` seconds its jobs are cancelled."""
    context = spark.sparkContext
    before = _shuffled(context)
    peak, is_over = 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while True:  # what takes less time is looked at once
            peak = max(peak, resident())
            if is_over.wait(0.1):
                return

    def stop() -> None:
        context.cancelAllJobs()

    watcher, timer = threading.Thread(target=watch, daemon=True), threading.Timer(limit, stop)
    used = processor_seconds()
    watcher.start()
    timer.start()
    start = time.perf_counter()
    result = None
    try:
        result = do()
    except Exception as error:
        if time.perf_counter() - start < limit:
            raise
        print(f"stopped after {limit:.0f} s: {type(error).__name__}")
    finally:
        seconds = time.perf_counter() - start
        timer.cancel()
        is_over.set()
        watcher.join()
    return Metered(result, seconds, processor_seconds() - used, _shuffled(context) - before, peak)


def _shuffled(context: Any) -> int:
    """Bytes that all stages so far have written to shuffles, by the status store."""
    scala: Any = context._jsc.sc()
    scala.listenerBus().waitUntilEmpty()
    store = scala.statusStore()
    stages = store.stageList(None, False, False, getattr(store, "stageList$default$4")(), None)
    return sum(stages.apply(i).shuffleWriteBytes() for i in range(stages.size()))


def resident() -> int:
    """Resident memory of this process and of those below it."""
    return sum(used[0] for used in _used())


def processor_seconds() -> float:
    """Processor time that this process and those below it have taken so far."""
    return sum(used[1] for used in _used())


def _used() -> Iterator[tuple[int, float]]:
    own = psutil.Process()
    for one in (own, *own.children(recursive=True)):
        with suppress(psutil.NoSuchProcess), one.oneshot():
            times = one.cpu_times()
            yield one.memory_info().rss, times.user + times.system
