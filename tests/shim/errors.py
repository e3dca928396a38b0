"""What the stand-in raises."""

from __future__ import annotations


class ShimError(Exception):
    """A kernel, a launch or the use of an array that a GPU would not forgive."""


class ShimOutOfMemoryError(MemoryError):
    """An allocation over the memory limit."""
