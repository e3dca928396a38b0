"""Amounts of memory, as people write and read them."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from gpu_wcoj.errors import UsageError

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_AMOUNT = re.compile(r"(\d{1,15})\s*([kmgt]i?)?b?", re.IGNORECASE)
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_USUAL_MEMORY = 16 << 30
"""Bytes of memory that are assumed where the system does not tell."""
_SHARE = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)\s*%|(0?\.\d{1,6})|(1\.0{0,6})")


def parse_bytes(text: str, option: str = "memory") -> int:
    """Return the number of bytes in a text such as ``"2GB"``, ``"512MiB"`` or ``"1000000"``.

    Parameters
    ----------
    option
        Its name in errors.

    Examples
    --------
    >>> parse_bytes("2GB"), parse_bytes("512 MiB")
    (2000000000, 536870912)
    """
    match = _AMOUNT.fullmatch(text.strip())
    if match is None or int(match[1]) == 0:
        remedy = "Give a whole number of bytes, or of KB, MB, GB, MiB or GiB, as in 8GB."
        raise UsageError.invalid_value(option, text, "an amount of memory", remedy)
    return int(match[1]) * _UNITS[(match[2] or "").lower()]


def format_bytes(count: int) -> str:
    """Format a number of bytes for people.

    Examples
    --------
    >>> format_bytes(999), format_bytes(1_500_000), format_bytes(24_000_000_000)
    ('999 B', '1.5 MB', '24.0 GB')
    """
    amount = float(min(count, 10**30))  # beyond all memory, and a float still
    for unit in ("B", "KB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


def part_of(total: int, amount: float | str, option: str, whose: str = "GPU") -> int:
    """Return the bytes of an amount (2000000, ``"2GB"``) or share (0.5, ``"50%"``) of `total`.

    Raises
    ------
    UsageError
        If it is neither, or more than there is.

    Examples
    --------
    >>> part_of(10**9, 0.25, "gpu_memory"), part_of(10**9, "64KiB", "gpu_memory")
    (250000000, 65536)
    """
    meant: int | float | None = amount if isinstance(amount, (int, float)) else None
    if isinstance(amount, str):
        if match := _SHARE.fullmatch(amount.strip()):
            meant = float(match[1]) / 100 if match[1] else float(match[2] or match[3])
        else:
            try:
                meant = parse_bytes(amount)
            except UsageError:
                meant = None
    if isinstance(meant, float):
        meant = int(total * meant) if 0 < meant <= 1 else None
    if meant is None or isinstance(meant, bool) or meant < 1:
        raise UsageError.invalid_value(
            option,
            amount,
            "an amount of memory",
            f"Give bytes (8000000000, '8GB', '8GiB') or a share of the {whose}'s memory (0.5, '50%').",
        )
    if meant > total:
        raise UsageError.with_parts(
            f"{option}={amount!r:.40} is {format_bytes(meant)}, more than the {whose} has",
            subject=option,
            got=amount,
            expected=f"at most {format_bytes(total)}",
        )
    return meant


def machine_memory() -> int:
    """Return the bytes of memory of the machine, or of a limit of this process if that is less."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        total = _USUAL_MEMORY
    return min([total, *(limit for limit, _ in control_groups()), *_resource_limits()])


def available_memory() -> int:
    """Return the bytes of free memory; those of the machine if the system does not tell."""
    try:
        free = re.search(r"MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text())
    except OSError:
        free = None
    total = machine_memory()
    if free is not None:
        total = min(total, int(free[1]) * 1024)
    for limit, used_file in control_groups():
        with suppress(OSError, ValueError):
            used, stored = int(used_file.read_text()), (used_file.parent / "memory.stat").read_text()
            cached = re.search(r"^(?:total_)?inactive_file (\d+)", stored, re.MULTILINE)
            total = min(total, max(0, limit - used + int(cached[1] if cached else 0)))  # cached files make room
    return total


def control_groups(
    table: Path = Path("/proc/self/cgroup"), folder_of_groups: Path = Path("/sys/fs/cgroup")
) -> list[tuple[int, Path]]:
    """Return the limit of each control group of this process, and its file of the bytes in use."""
    limits: list[tuple[int, Path]] = []
    try:
        lines = table.read_text().splitlines()
    except OSError:
        return limits
    for line in lines:
        _, _, group = line.partition(":")
        controllers, _, path = group.partition(":")
        if controllers == "":
            root, limit_name, used_name = folder_of_groups, "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            root, limit_name, used_name = folder_of_groups / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        folder = root / path.lstrip("/")
        for place in (folder, *folder.parents[: len(folder.parts) - len(root.parts)]):
            with suppress(OSError, ValueError):  # a container may not see its groups; "max" is no limit
                limits.append((int((place / limit_name).read_text()), place / used_name))
    return limits


def _resource_limits() -> list[int]:
    """Return the limits of this process on its address space and its data."""
    try:
        import resource
    except ImportError:
        return []
    limits = (resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA))
    return [limit for limit in limits if limit != resource.RLIM_INFINITY]


def resident_memory() -> int:
    """Return the bytes of this process without mapped files, 0 if the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:
            _, resident, shared, *_ = map(int, file.read().split())
            return (resident - shared) * _PAGE_BYTES
    except (OSError, ValueError, IndexError):
        return 0
