"""Freed memory is kept, so that what is asked for again needs no new pages; what a user says of it counts."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from cpu_fallback.tries import SETTINGS

PAGES = """
import resource
import numpy as np
import gpu_wcoj as gw

program = gw.Program("h(x, z) :- e(x, y), e(y, z).", backend="cpu")
for _ in range(3):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [np.ones(1 << 17) for _ in range(80)]
    del blocks
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(faults)
"""
"""80 blocks of a megabyte, three times over: 20,480 pages."""


def faults(**settings: str) -> int:
    own = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    done = subprocess.run([sys.executable, "-c", PAGES], env=own | settings, capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the allocator is not glibc's")
def test_what_was_freed_is_there_again():
    assert faults() < 500
    assert faults(MALLOC_TRIM_THRESHOLD_="131072", MALLOC_MMAP_THRESHOLD_="131072") > 15_000
