"""Ticks that walk always, never or sometimes give the same answers, over golden, random and recursive programs."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

import gpu_wcoj as gw
from gpu_wcoj.join.settings import Tuning, get_tuning, tune
from tests.frozen.cases import golden_cases
from tests.frozen.records import record
from tests.generated.cases import WALKS
from tests.helpers.answers import named
from tests.helpers.comparison import arities, fed, random_script
from tests.helpers.kernel_kinds import needed
from tests.helpers.long_tests import IS_LONG
from tests.reference.random_programs import random_text


@pytest.fixture(autouse=True)
def _compiled() -> None:
    needed("numba")


def test_programs_keep_the_tuning_with_which_they_are_made() -> None:
    text = "t(a, c) :- e(a, b), e(b, c)."
    with tune(max_tick_rows=-1) as outer, tune(max_memtable_rows=7) as inner:
        assert (inner.max_tick_rows, inner.max_memtable_rows, outer.max_memtable_rows) == (-1, 7, 8192)
        program = gw.Program(text, backend="cpu")
    assert get_tuning() == Tuning()
    for made, reason in ((program, "walks of ticks are turned off"), (gw.Program(text, backend="cpu"), "")):
        made.load({"e": [(1, 2)]})
        made.step({"e": [(2, 3)]})
        assert made.last_tick.path_by_path == reason
    with pytest.raises(TypeError), tune(unknown=1):
        pass


def test_golden_programs() -> None:
    """Each way in turn; all of them at length."""
    others = [way for way in WALKS if way not in ("never", "as usual")]
    for number, case in enumerate(golden_cases()):
        records = {}
        for way in ["never", *(others if IS_LONG else [others[number % len(others)]])]:
            tuning = WALKS[way]
            with tune(**tuning):
                sections = record(case, is_random=True)
            records[way] = {
                name: text for name, text in sections.items() if name.startswith(("tick", "answers", "error"))
            }
        expected = records.pop("never")
        for way, found in records.items():
            assert found == expected, f"{case.name}: {way}"


def run(text: str, seed: int, bag: bool, tuning: Mapping[str, Any]) -> tuple[list[Any], int]:
    """Return the answers of a program over a random script, and its number of walked ticks."""
    inputs, chance = arities(text), random.Random(f"{text} {seed}")
    with tune(**tuning):
        program = gw.Program(text, bag=bag, backend="cpu", inputs=named(text))
    found: list[Any] = []
    n_walked = 0
    program.load({name: [tuple(chance.choices(range(4), k=width)) for _ in range(9)] for name, width in inputs.items()})
    for tick in (tick for _ in range(2) for tick in random_script(chance, inputs)):
        changes = {name: fed(("rows", change[1]), inputs[name]) for name, change in tick.items()}
        if chance.random() < 0.3:
            found.append(program.step_counts(changes))
        else:
            found.append({name: zset.to_dict() for name, zset in program.step(changes).items()})
        n_walked += program.last_tick.plan is not None and not program.last_tick.path_by_path
    return [*found, {name: program.relation(name).to_dict() for name in program.heads}], n_walked


@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
def test_random_programs(bag: bool) -> None:
    walked: Counter[str] = Counter()
    for seed in range(30 if IS_LONG else 4):
        text = random_text(random.Random(seed))
        expected, _ = run(text, seed, bag, WALKS["never"])
        for way, tuning in WALKS.items():
            found, n_walked = run(text, seed, bag, tuning)
            assert found == expected, f"{text} with seed {seed}: {way}"
            walked[way] += n_walked
    assert walked["never"] == 0
    assert 0 < walked["of two rows"] < walked["always"]
    assert 0 < walked["of little work"] < walked["always"]


def test_unknown_fast_paths_are_refused() -> None:
    with pytest.raises(gw.errors.UsageError, match="unknown fast path 'symetry'.*Did you mean 'symmetry'"):
        Tuning(off=frozenset({"symetry"}))
