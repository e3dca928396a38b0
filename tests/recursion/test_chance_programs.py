"""Programs that chance writes equal recomputation by both judges after every tick of random scripts."""

from __future__ import annotations

import random

import pytest

from tests.recursion.twin import SIGNED, SMALL, check_scripts
from tests.reference.chance import chance_text

BLOCKS = 8
PROGRAMS = 160


@pytest.mark.parametrize("block", range(BLOCKS))
def test_sets(block, backend):
    for seed in range(block, PROGRAMS, BLOCKS):
        negative = seed % 3 > 0
        text = chance_text(random.Random(f"set {seed}"), negative)
        check_scripts(text, [seed, seed + 1], values=SIGNED if negative else SMALL, backend=backend.name)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_bags(block, backend):
    """Rows come and go once, since of a negative weight not everything can be said."""
    for seed in range(block, PROGRAMS // 2, BLOCKS):
        text = chance_text(random.Random(f"bag {seed}"), negative=True)
        check_scripts(text, [seed], bag=True, positive=True, values=SIGNED, backend=backend.name)
