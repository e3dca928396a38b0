"""The memory budget of file readers, and the error of exceeding it."""

from __future__ import annotations

import os
from pathlib import Path

from gpu_wcoj.errors import MemoryBudgetError
from gpu_wcoj.units import format_bytes, parse_bytes

VARIABLE = "GPU_WCOJ_MEMORY_BUDGET"
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_budget(amount: str | None = None) -> int:
    """Return the maximum bytes of rows in memory while reading.

    It is `amount`, else the environment's, else half of the memory.

    The memory is that of the machine, or of the control group where that is less.
    """
    text = amount or os.environ.get(VARIABLE)
    if text:
        return parse_bytes(text)
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in _CGROUP_LIMITS:
        try:
            total = min(total, int(Path(path).read_text()))
        except (OSError, ValueError):
            continue
    return total // 2


def over_budget(what: str, need: int, budget: int) -> MemoryBudgetError:
    """Return the error for data that needs more than the budget."""
    return MemoryBudgetError(
        f"{what} takes {format_bytes(need)} of memory or more; the budget is {format_bytes(budget)}.\n"
        f"  If the data is meant to be this large, raise it with --memory or {VARIABLE}; "
        "or feed it in ticks with --changes."
    )
