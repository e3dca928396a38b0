"""What the processes of the engine's contenders start with: it, and the kernels that states of all sizes need."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from bench.suite.catalogue import Spec, made, tiny
from bench.suite.child import Session, Task
from bench.suite.registry import STRATEGIES

CASES = (
    Spec("triangle", "rmat", {"scale": 11, "edges": 16_000}, 1_000, "mixed", 2),
    Spec("barbell", "rmat", {"scale": 6, "edges": 250}, 10, "mixed", 2),
    Spec("path3", "uniform", {"scale": 8, "edges": 2_000}, 100, "mixed", 2),
    Spec("snowflake", "zipf", {"rows": 2_000}, 100, "mixed", 2),
    Spec("tpch-chain", "keys", {"orders": 4_000}, 1_000, "mixed", 2),
    Spec("second-hub", "hub", {"scale": 10}, 1, "insert", 1),
)

for spec in CASES:
    case = made(spec)
    with TemporaryDirectory(prefix="bench-rows-") as name:
        folder = Path(name)
        case.stream.write(folder / "rows")
        made(tiny(spec)).stream.write(folder / "tiny")
        for strategy in STRATEGIES:
            own = folder / strategy
            own.mkdir()
            session = Session(Task(strategy, case.workload, "count", 1, folder / "rows", folder / "tiny"), own)
            session.warm()
            session.load()
            session.forward()
            session.end()

gc.collect()
gc.freeze()

# What has been freed is given back: a contender that fills it would seem to take no memory.
pa.default_memory_pool().release_unused()
trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
if trim is not None:
    trim(0)
