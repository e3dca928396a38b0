"""Years, months and days of dates, in the proleptic Gregorian calendar."""

from __future__ import annotations

from typing import Any

from gpu_wcoj.kernels.protocol import Int64Array

_DAYS_OF_ERA = 146_097
"""Days in 400 years."""


def calendar_of(op: str, codes: Int64Array, per_day: int, xp: Any) -> Int64Array:
    """Return the ``year``, ``month`` or ``day`` of points in time.

    Internally years begin in March, so that a leap day is the last day. Year 0 precedes year 1, and year -1 precedes 0.

    Parameters
    ----------
    codes
        Units since the beginning of 1970.
    per_day
        Units a day.

    Examples
    --------
    >>> import numpy as np
    >>> days = np.array([9204, -719469])
    >>> [calendar_of(op, days, 1, np).tolist() for op in ("year", "month", "day")]
    [[1995, 0], [3, 2], [15, 29]]
    """
    days = (codes if per_day == 1 else codes // per_day) + 719_468
    era = days // _DAYS_OF_ERA
    of_era = days - era * _DAYS_OF_ERA
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    if op == "day":
        day: Int64Array = of_year - (153 * month + 2) // 5 + 1
        return day
    calendar_month = xp.where(month < 10, month + 3, month - 9)
    part: Int64Array = calendar_month if op == "month" else year + era * 400 + (calendar_month <= 2)
    return part
