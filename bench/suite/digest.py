"""A hash of an answer's rows, the same in whatever order they come."""

from __future__ import annotations

import hashlib

import numpy as np

from bench.suite.workload import Rows


def digest(rows: Rows) -> str:
    """Of distinct rows, columns in the order of the pattern's variables.

    Examples
    --------
    >>> digest(np.array([[1, 2], [3, 4]])) == digest(np.array([[3, 4], [1, 2]]))
    True
    >>> digest(np.array([[1, 2], [3, 4]])) == digest(np.array([[1, 4], [3, 2]]))
    False
    """
    ordered = rows[np.lexsort(rows.T[::-1])] if rows.shape[1] else rows
    return hashlib.sha256(f"{rows.shape}".encode() + np.ascontiguousarray(ordered, np.int64).tobytes()).hexdigest()[:16]
