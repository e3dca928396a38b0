"""What the processes of contenders start with: the engine, and the kernels that states of all sizes need."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from tempfile import TemporaryDirectory

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # which no contender computes with, and whose threads are not forked

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
