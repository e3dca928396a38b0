"""Programs under drawn options equal recomputation from scratch, answers and changes, after every tick.

One driver for all that must not change an answer: sets and bags, nulls, texts, deletes, ways to take a tick, pieces,
threads, strategies, hints, plans, fast paths, walks, checkpoints in between, and kinds of kernels.
"""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.generated.cases import SHAPES, WRITERS, Case, draw, without_ticks
from tests.helpers.comparison import Script, smallest
from tests.helpers.kernel_kinds import KINDS, needed
from tests.helpers.long_tests import IS_LONG
from tests.mutants.plugin import VARIABLE

N_BLOCKS = 8
SHRINKS = VARIABLE not in os.environ
"""Whether a case that fails is made smaller: not where only the failure of planted faults is asked for."""
PHASES = [phase for phase in Phase if phase is not Phase.explain and (SHRINKS or phase is not Phase.shrink)]
FAST = [name for name, writer in WRITERS.items() if not writer.is_slow]
SLOW = [name for name, writer in WRITERS.items() if writer.is_slow]
OTHER_KINDS = [kind for kind in KINDS if kind != "numba"]


def drawn(n_examples: int) -> settings:
    """Let hypothesis draw so many examples, ten times as many in long runs; ordinary ones take half of what is set."""
    n = 10 * n_examples if IS_LONG else 2 * n_examples
    return settings(max_examples=n, phases=PHASES, suppress_health_check=list(HealthCheck), report_multiple_bugs=False)


def run(case: Case) -> int:
    """Run a case in a folder of its own; what fails shows the case. Return how many ticks are refused."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            return case.run(Path(folder))
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error}\n{case}") from error


def run_shrunk(case: Case) -> int:
    """Run a case; what fails shows the smallest script with which it does."""
    try:
        return run(case)
    except AssertionError as error:
        if not SHRINKS:
            raise
        kind = type(error.__cause__)

        def fails(script: Script) -> bool:
            try:
                run(without_ticks(case, script))
            except AssertionError as other:
                return type(other.__cause__) is kind
            return False

        run(without_ticks(case, smallest(case.script, fails)))
        raise


@pytest.mark.parametrize("block", range(N_BLOCKS))
def test_shapes(block: int) -> None:
    for name in list(SHAPES)[block::N_BLOCKS]:
        for seed in range(20 if IS_LONG else 1):
            run_shrunk(draw(random.Random(f"{name} {seed}"), name))


@pytest.mark.parametrize("name", FAST)
@drawn(12)
@given(chance=st.randoms(use_true_random=False))
def test_rules_that_chance_writes(name: str, chance: random.Random) -> None:
    run(draw(chance, name))


@pytest.mark.parametrize("name", SLOW)
@drawn(6)
@given(seed=st.integers(0, 1 << 32))
def test_strata_that_chance_writes(name: str, seed: int) -> None:
    """Hypothesis draws their seeds alone: it would take longer to draw them than it takes to run them."""
    run_shrunk(draw(random.Random(seed), name))


@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_other_kernels(kind: str) -> None:
    needed(kind)
    names = random.Random(kind).sample([*WRITERS, *SHAPES], len(WRITERS) + len(SHAPES) if IS_LONG else 16)
    for name in names:
        run_shrunk(draw(random.Random(f"{name} {kind}"), name, kind))


def test_undefined_values_are_refused() -> None:
    """Cases hold ticks of which a value has none, so that drivers and judges are seen to agree on them."""
    assert sum(run(draw(random.Random(f"refused {seed}"), "rules in core form")) for seed in range(12)) > 0
