"""How much memory reading may take: a limit in bytes, found or given, and the error where it is passed."""

from __future__ import annotations

import os
import re
from pathlib import Path

from gpu_wcoj.errors import MemoryBudgetError, UsageError

VARIABLE = "GPU_WCOJ_MEMORY_BUDGET"
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_AMOUNT = re.compile(r"(\d{1,15})\s*([kmgt]i?)?b?", re.IGNORECASE)
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def parse_bytes(text: str) -> int:
    """The number of bytes that a text such as ``"2GB"``, ``"512MiB"`` or ``"1000000"`` stands for.

    Examples
    --------
    >>> parse_bytes("2GB"), parse_bytes("512 MiB")
    (2000000000, 536870912)
    """
    match = _AMOUNT.fullmatch(text.strip())
    if match is None or int(match[1]) == 0:
        raise UsageError(f"'{text}' is not an amount of memory.\n  Give bytes, or a number with KB, MB, GB, MiB, GiB.")
    return int(match[1]) * _UNITS[(match[2] or "").lower()]


def memory_budget(given: str | None = None) -> int:
    """How many bytes of rows may be held while reading: `given`, else the environment, else half of the memory.

    The memory is that of the machine, or of the control group where that is less.
    """
    text = given or os.environ.get(VARIABLE)
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
    """The error for something that needs more than the budget."""
    return MemoryBudgetError(
        f"{what} takes {shown_bytes(need)} of memory or more; the budget is {shown_bytes(budget)}.\n"
        f"  If the data is meant to be this large, raise it with --memory or {VARIABLE}; "
        "or feed it in ticks with --changes."
    )


def shown_bytes(count: int) -> str:
    """A number of bytes as a person reads it.

    Examples
    --------
    >>> shown_bytes(999), shown_bytes(1_500_000), shown_bytes(24_000_000_000)
    ('999 B', '1.5 MB', '24.0 GB')
    """
    amount = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"
