"""Measurements: each folder is one, run by `make bench` or ``python -m bench.<folder>``."""

import os

# Measurements are of the compiled kernels from the first tick on, in the processes that they start, too.
os.environ.setdefault("GPU_WCOJ_COMPILE", "wait")
