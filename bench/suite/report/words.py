"""Numbers as text, the same everywhere in the report."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Three digits of seconds.

    Examples
    --------
    >>> [duration(one) for one in (0.0000123, 0.0123, 1.5, 123.4)]
    ['12.3 us', '12.3 ms', '1.5 s', '123 s']
    """
    for unit, name in ((1e-3, "us"), (1.0, "ms")):
        if seconds < unit:
            return f"{seconds / unit * 1e3:.3g} {name}"
    return f"{digits(seconds)} s"


def digits(value: float) -> str:
    """Three digits, and all before the point.

    Examples
    --------
    >>> [digits(one) for one in (0.12345, 1.0, 12.345, 1234.5, 1234567.0)]
    ['0.123', '1', '12.3', '1,234', '1,234,567']
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def cases(number: int) -> str:
    """So many cases.

    Examples
    --------
    >>> cases(1), cases(1200)
    ('1 case', '1,200 cases')
    """
    return f"{number:,} case{'' if number == 1 else 's'}"


def size(n_bytes: float) -> str:
    """Bytes in decimal units.

    Examples
    --------
    >>> [size(one) for one in (900, 12_345_678, 2.5e9)]
    ['0.9 kB', '12.3 MB', '2.5 GB']
    """
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if n_bytes >= unit:
            return f"{digits(n_bytes / unit)} {name}"
    return f"{digits(n_bytes / 1e3)} kB"
