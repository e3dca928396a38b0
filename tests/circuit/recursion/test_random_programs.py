"""Random programs equal recomputation by both judges after every tick of random scripts."""

from __future__ import annotations

import random

import pytest

import gpu_wcoj as gw
from gpu_wcoj.backend import cpu_backend
from tests.helpers.answers import named
from tests.helpers.join_comparison import Tick, fed, random_script, translated
from tests.helpers.kernel_kinds import KINDS, Kind, lacking
from tests.helpers.long_tests import IS_LONG
from tests.helpers.recursion_comparison import SIGNED, SMALL, Judges, agree, check_scripts, compared
from tests.reference.changes import ZSet
from tests.reference.functions import UndefinedError
from tests.reference.random_programs import chance_text

BLOCKS = 4
PROGRAMS = 160 if IS_LONG else 16
"""Of sets; half as many of bags, a quarter with nulls, or aggregates nested. `make test-long` runs more."""


@pytest.mark.drawn("block", share=2)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_sets(block, backend):
    for seed in range(block, PROGRAMS, BLOCKS):
        negative = seed % 3 > 0
        text = chance_text(random.Random(f"set {seed}"), negative)
        check_scripts(text, [seed, seed + 1], values=SIGNED if negative else SMALL, backend=backend.name)


@pytest.mark.drawn("block", share=2)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_bags(block, backend):
    """Rows come and go once, since of a negative weight not everything can be said."""
    for seed in range(block, PROGRAMS // 2, BLOCKS):
        text = chance_text(random.Random(f"bag {seed}"), negative=True)
        check_scripts(text, [seed], bag=True, positive=True, values=SIGNED, backend=backend.name)


@pytest.mark.drawn("block", share=2)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_nulls(block, backend):
    for seed in range(block, PROGRAMS // 4, BLOCKS):
        negative = seed % 3 > 0
        text = chance_text(random.Random(f"null {seed}"), negative)
        values = (SIGNED if negative else SMALL) | {1: None}
        check_scripts(text, [seed], bag=seed % 2 == 0, positive=seed % 2 == 0, values=values, backend=backend.name)


@pytest.mark.drawn("block", share=2)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_aggregates_within_aggregates(block, backend):
    for seed in range(block, PROGRAMS // 4, BLOCKS):
        bag = seed % 2 == 0
        text = chance_text(random.Random(f"nested {seed}"), negative=True, nested=True)
        check_scripts(text, [seed], bag=bag, positive=bag, values=SIGNED, clingo=False, backend=backend.name)


@pytest.mark.drawn("block", share=2)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_whatever_a_program_is_asked_between(block, backend, tmp_path):
    """Counts, pieces, compaction and checkpoints between ticks do not change later answers."""
    for seed in range(block, PROGRAMS // 2, BLOCKS):
        chance = random.Random(f"between {seed}")
        text = chance_text(chance, negative=True)
        judges = Judges(text, clingo=False)
        arities = judges.program.arities
        keep = chance.sample(judges.program.heads, min(2, len(judges.program.heads)))
        outputs = chance.sample(judges.program.heads, min(2, len(judges.program.heads)))
        program = gw.Program(text, backend=backend.name, keep=keep, outputs=outputs, inputs=named(text))
        inputs = {name: arities[name] for name in judges.program.inputs}
        script = translated(random_script(chance, inputs) + random_script(chance, inputs), SIGNED)
        for tick_index, tick in enumerate(script):
            way = chance.choice(("step", "step", "step_counts", "step_pieces", "load"))
            if way == "load":
                program.load({name: fed(change, arities[name]) for name, change in tick.items()})
                judges.step(tick)
            else:
                compared(program, judges, tick, way, f"seed {seed}, tick {tick_index}, {text}")
            what = chance.random()
            if what < 0.2:
                program.compact()
            elif what < 0.4:
                program.checkpoint(tmp_path / str(seed))
                program = gw.Program.restore(tmp_path / str(seed), backend=backend.name)
            elif what < 0.7:
                agree(program, judges, f"seed {seed}, tick {tick_index}, {text}")


@pytest.mark.drawn("kind")
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("numba", "cuda")])
def test_other_kernels(kind):
    reason = lacking(kind)
    if reason:
        pytest.skip(reason)
    for seed in range(16 if IS_LONG else 2):
        text = chance_text(random.Random(f"{kind} {seed}"), negative=False)
        backend = Kind(kind).backend(seed)
        check_scripts(text, [seed], bag=seed % 4 == 0, positive=seed % 4 == 0, clingo=False, backend=backend)


def test_ticks_on_either_side_of_a_state_that_is_kept_twice():
    reason = lacking("shim")
    if reason:
        pytest.skip(reason)
    for seed in range(16 if IS_LONG else 3):
        text = chance_text(random.Random(f"route {seed}"), negative=False)
        sides = {"backend": Kind("shim").backend(seed), "twin": cpu_backend(True), "route": (2, 5, 9)[seed % 3]}
        check_scripts(text, [seed], clingo=False, **sides)


def test_what_is_calculated_in_vain(backend, monkeypatch):
    """A tick is refused if and only if the state after it has an undefined value."""
    refused = []
    step = Judges.step

    def noted(self: Judges, tick: Tick) -> dict[str, ZSet]:
        try:
            return step(self, tick)
        except UndefinedError:
            refused.append(tick)
            raise

    monkeypatch.setattr(Judges, "step", noted)
    for seed in range(100) if IS_LONG else range(8, 12):
        text = chance_text(random.Random(f"lack {seed}"), lacking=True)
        check_scripts(text, [seed], clingo=False, values=SIGNED, backend=backend.name)
    assert len(refused) > (10 if IS_LONG else 1)
