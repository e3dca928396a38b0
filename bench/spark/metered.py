"""A thing that Spark does, with its time, its shuffle, and the memory of this machine's processes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Metered:
    """What was measured.

    Attributes
    ----------
    result
        What came out; None if it was stopped.
    seconds
        Wall time.
    shuffle_bytes
        Written by all stages of its jobs.
    peak_bytes
        The most that the JVM and this process together held at one time, what they had before included.
    """

    result: Any
    seconds: float
    shuffle_bytes: int
    peak_bytes: int


def metered(spark: SparkSession, do: Callable[[], Any], limit: float) -> Metered:
    """Run `do`; after `limit` seconds its jobs are cancelled."""
    context = spark.sparkContext
    before = _shuffled(context)
    peak, is_over = [0], threading.Event()

    def watch() -> None:
        while not is_over.wait(0.1):
            peak[0] = max(peak[0], resident())

    def stop() -> None:
        context.cancelAllJobs()

    watcher, timer = threading.Thread(target=watch, daemon=True), threading.Timer(limit, stop)
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
    return Metered(result, seconds, _shuffled(context) - before, peak[0])


def _shuffled(context: Any) -> int:
    """Bytes that all stages so far have written to shuffles, by the status store."""
    scala: Any = context._jsc.sc()
    scala.listenerBus().waitUntilEmpty()
    store = scala.statusStore()
    stages = store.stageList(None, False, False, getattr(store, "stageList$default$4")(), None)
    return sum(stages.apply(i).shuffleWriteBytes() for i in range(stages.size()))


def resident() -> int:
    """Resident memory of this process and of those below it."""
    parents: dict[int, int] = {}
    sizes: dict[int, int] = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        except OSError:
            continue
        number = int(status.parent.name)
        parents[number] = int(lines["PPid"])
        sizes[number] = int(lines.get("VmRSS", "0 kB").split()[0]) * 1024

    def is_ours(number: int) -> bool:
        while number > 1:
            if number == os.getpid():
                return True
            number = parents.get(number, 0)
        return False

    return sum(size for number, size in sizes.items() if is_ours(number))
