"""What a result was measured on and with."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from gpu_wcoj.destination import force, replacing

LIBRARIES = ("numpy", "pyarrow", "numba", "llvmlite", "duckdb", "python-graphblas", "suitesparse-graphblas")
ROOT = Path(__file__).parents[2]


def describe(libraries: Sequence[str] = LIBRARIES, optional: Sequence[str] = ()) -> dict[str, object]:
    """Date, commit, processor, memory, load and versions; of optional libraries, those that are installed."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "processor": _first_value(Path("/proc/cpuinfo"), "model name") or platform.processor(),
        "cores": os.cpu_count(),
        "memory": _first_value(Path("/proc/meminfo"), "MemTotal"),
        "load_average": os.getloadavg()[0],
        "system": platform.platform(),
        "python": platform.python_version(),
        "libraries": {name: metadata.version(name) for name in libraries} | _installed(optional),
    }


def store(folder: Path, name: str, described: dict[str, object], **content: object) -> Path:
    """Write a record, with what `describe` returned before the measurement, and return its path."""
    document = {"machine": described | {"load_average_after": os.getloadavg()[0]}, **content}
    path = folder / f"{name}-{str(described['date'])[:10]}-{str(described['commit']).replace('+', '-')}.json"
    write_json(path, document)
    return path


def write_json(path: Path, document: Mapping[str, object]) -> None:
    """Write a document whole or not at all; NumPy's numbers are floats. A missing folder is made."""
    with replacing(path) as file:
        file.write((json.dumps(document, indent=1, ensure_ascii=False, default=float) + "\n").encode())
        file.flush()
        force(file.fileno())


def commit() -> str:
    """The commit that is checked out, with ``+changes`` where files differ from it; ``unknown`` outside git."""
    try:
        name = _git("rev-parse", "--short=12", "HEAD")
        return name + ("+changes" if _git("status", "--porcelain", "--", "*.py", "*.lark", "*.cu", "*.cuh") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _installed(libraries: Sequence[str]) -> dict[str, str]:
    found = {}
    for name in libraries:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _first_value(path: Path, key: str) -> str | None:
    if not path.exists():
        return None
    lines = (line.partition(":") for line in path.read_text().splitlines())
    return next((value.strip() for name, _, value in lines if name.strip() == key), None)
