"""Memory of the kernels of the host: what they allocate, they ask for before they begin."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gpu_wcoj.budget import MEASURED_FROM, reserve

Size = tuple[int, int]
"""Numbers of rows and of columns."""


def _columns_size(columns: Sequence[Any], *_: Any) -> Size:
    return (len(columns[0]), len(columns)) if columns else (0, 0)


def _parts_size(parts: Sequence[Any], *_: Any) -> Size:
    return (sum(len(values[-1]) for values, _ in parts), len(parts[0][0])) if parts else (0, 0)


def _trie_size(values: Sequence[Any], *_: Any) -> Size:
    return (len(values[-1]), len(values)) if values else (0, 0)


def _merge_size(left: Any, right: Any, *_: Any) -> Size:
    return len(left[0][-1]) + len(right[0][-1]), len(left[0])


class Need(NamedTuple):
    """Memory that a kernel allocates, its result included.

    Attributes
    ----------
    what
        A name of the work, for messages.
    size
        Returns the size from the arguments of the kernel.
    per_row
        Bytes a row.
    compiled, plain
        Bytes a row and column of the compiled kernel and of the NumPy one.
    """

    what: str
    size: Callable[..., Size]
    per_row: int
    compiled: int
    plain: int


NEEDS = {
    "consolidate": Need("sorting", _columns_size, 40, 16, 16),
    "distinct_rows": Need("sorting", _columns_size, 8, 16, 16),
    "lexsort": Need("sorting", _columns_size, 8, 8, 8),
    "index_rows": Need("indexing", _columns_size, 0, 24, 28),
    "build_levels": Need("indexing", _columns_size, 0, 16, 16),
    "rearrange": Need("indexing", _parts_size, 0, 24, 45),
    "expand_columns": Need("reading", _trie_size, 0, 14, 18),
    "merge_tries": Need("merging", _merge_size, 0, 24, 85),
    "begin_merge": Need("merging", _merge_size, 0, 16, 16),
}
"""Needs by kernel: peak growth of a process per row, of random rows of two and three columns, 2 million on numba and
1 million on NumPy; where wide rows need more than others, between the two."""


def within_limits(kernels: Any) -> Any:
    """Return kernels of the host that ask for room before they allocate much memory.

    Raises
    ------
    MemoryBudgetError
        By the kernels, if the process may not have so much.
    """
    kind = type(kernels)
    methods = {
        name: staticmethod(_reserving(getattr(kernels, name), need, kernels.name == "numba"))
        for name, need in NEEDS.items()
        if getattr(kernels, name) is not None
    }
    return type(kind.__name__, (kind,), methods)()


def _reserving(kernel: Callable[..., Any], need: Need, is_compiled: bool) -> Callable[..., Any]:
    what, size, per_row = need.what, need.size, need.per_row
    per_value = need.compiled if is_compiled else need.plain

    @functools.wraps(kernel, updated=())
    def reserving(*arguments: Any) -> Any:
        n_rows, n_columns = size(*arguments)
        n_bytes = n_rows * (per_row + per_value * n_columns)
        if n_bytes >= MEASURED_FROM:
            reserve(n_bytes, what, n_rows)
        return kernel(*arguments)

    return reserving
