"""The delta queries of the Rust crate differential-dogs3: a small program beside this file, which cargo builds."""

from __future__ import annotations

import json
import resource
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Literal

from bench.rivals.tick import Run, Tick

SOURCE = Path(__file__).parent / "dogs3"
TARGET = Path(__file__).parents[2] / ".run" / "dogs3"
"""Where cargo builds; git ignores it."""
BUILD_SECONDS = 900
NO_MEMORY = "memory allocation of"
"""What a Rust program says before it aborts, where it gets no memory."""

Query = Literal["wcoj", "delta"]


class NotBuiltError(RuntimeError):
    """The program is not there; the message says why."""


def built() -> Path | None:
    """The program, if it is there and no older than what it is made of."""
    program = TARGET / "release" / "dogs3"
    if not program.exists():
        return None
    sources = [SOURCE / "Cargo.toml", *(SOURCE / "src").glob("*.rs")]
    return program if program.stat().st_mtime >= max(one.stat().st_mtime for one in sources) else None


def build() -> Path:
    """The program, built if need be.

    Raises
    ------
    NotBuiltError
        If there is no cargo, or it does not succeed, say because there is no network.
    """
    cargo = shutil.which("cargo")
    if cargo is None:
        raise NotBuiltError("cargo is not installed, so the crate differential-dogs3 cannot be built")
    command = [cargo, "build", "--release", "--quiet", "--target-dir", str(TARGET)]
    try:
        done = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, check=False, timeout=BUILD_SECONDS)
    except subprocess.TimeoutExpired:
        raise NotBuiltError(f"cargo has not built differential-dogs3 in {BUILD_SECONDS} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise NotBuiltError(f"cargo does not build differential-dogs3: {lines[-1].strip()}")
    return TARGET / "release" / "dogs3"


def run(
    program: Path, edges: Path, query: Query, nodes: int, limit: int | None, seconds: float, n_bytes: int | None = None
) -> Run:
    """Let it count; it is ended after so many seconds, loading included.

    Parameters
    ----------
    edges
        The file of edges.
    nodes, limit
        Nodes in a tick, and how many ticks, all if None.
    n_bytes
        Of address space that it may have, where the system can hold it to that; None for all that there is.
    """
    command = [str(program), str(edges), query, str(nodes), *([] if limit is None else [str(limit)])]
    ticks: list[Tick] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        if n_bytes is not None and sys.platform == "linux":
            resource.prlimit(process.pid, resource.RLIMIT_AS, (n_bytes, n_bytes))
        ended = threading.Event()
        computed = at_end = None

        def end() -> None:
            nonlocal at_end
            at_end = _computed(process.pid)
            ended.set()
            process.kill()

        timer = threading.Timer(seconds, end)
        timer.start()
        try:
            for line in process.stdout:
                if line.endswith("}\n"):
                    found = json.loads(line)
                    ticks.append(Tick(found["edges"], found["triangles"], found["seconds"], found["cpu"]))
                    computed = _computed(process.pid)
            message = process.stderr.read().strip()
        finally:
            timer.cancel()
    if process.returncode == -signal.SIGABRT and NO_MEMORY in message and n_bytes is not None:
        stopped = f"ended in tick {len(ticks)}, which takes more than {n_bytes / 1e9:.3g} GB of memory"
        return Run(f"dogs3 {query}", nodes, ticks, stopped)
    if process.returncode and not ended.is_set():
        raise RuntimeError(f"dogs3 ended with {process.returncode}: {message}")
    if not ended.is_set():
        return Run(f"dogs3 {query}", nodes, ticks)
    unfinished = None if at_end is None or computed is None else at_end - computed
    return Run(f"dogs3 {query}", nodes, ticks, f"ended after {seconds:g} s", unfinished)


def _computed(pid: int) -> float | None:
    """Seconds that a process's first thread has computed for, where Linux tells them; it has no other."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except (OSError, ValueError, IndexError):
        return None
