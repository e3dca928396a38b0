"""Measured costs in the user's cache: a JSON file with an entry per machine and version."""

from __future__ import annotations

import json
import logging
import os
import platform
from importlib import import_module
from pathlib import Path
from typing import Any

from gpu_wcoj.backend import Backend
from gpu_wcoj.engine.replicas import CostModel

FORMAT = 2
"""Format version. Files with another version are rejected."""

_LOGGER = logging.getLogger("gpu_wcoj")


def store_path() -> Path:
    """Return the path ``gpu_wcoj/routing.json`` in the user's cache folder."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    folder = Path(cache) if os.path.isabs(cache) else Path.home() / ".cache"
    return folder / "gpu_wcoj" / "routing.json"


def machine_key(primary: Backend, twin: Backend) -> str:
    """Return the key of measured costs: version, backends, device, driver, CuPy, processor."""
    version = import_module("gpu_wcoj").__version__  # no import statement: the package's names stand above this module
    device = primary.kernels.name if primary.device is None else primary.device.description
    arrays = str(getattr(primary.xp, "__version__", ""))  # CuPy's: it comes with a version of CUDA's runtime
    return " | ".join([version, primary.name, device, arrays, twin.kernels.name, _processor()])


def stored_model(primary: Backend, twin: Backend) -> CostModel | None:
    """Return the costs measured on this machine; None, with a log line, if unreadable."""
    path = store_path()
    try:
        entries, key = _entries(path), machine_key(primary, twin)
        return CostModel.from_json(entries[key]) if key in entries else None
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        _LOGGER.warning("the measured costs in '%s' cannot be used (%s): measure them again.", path, error)
        return None


def store(primary: Backend, twin: Backend, model: CostModel) -> Path:
    """Store the costs; the file is replaced atomically."""
    path = store_path()
    try:
        entries = _entries(path)
    except (OSError, ValueError):
        entries = {}
    entries[machine_key(primary, twin)] = model.to_json()
    from gpu_wcoj.destination import replacing  # which a process that only reads them does without

    with replacing(path) as file:
        file.write(json.dumps({"format": FORMAT, "costs": entries}, indent=2, sort_keys=True).encode())
    return path


def _entries(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("costs"), dict):
        raise ValueError(f"it is not of format {FORMAT}")
    entries: dict[str, Any] = data["costs"]
    return entries


def _processor() -> str:
    """Return the processor's model, as far as the system tells."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
