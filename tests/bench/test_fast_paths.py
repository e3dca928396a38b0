"""The benchmark of fast paths: a case for each, with the same answers on both sides."""

from __future__ import annotations

import pytest

from bench.fast_paths.__main__ import measure
from bench.fast_paths.cases import CASES
from gpu_wcoj.join.settings import FAST_PATHS
from tests.helpers.kernel_kinds import needed


def test_every_fast_path_has_a_case() -> None:
    assert set(FAST_PATHS) < set(CASES)
    assert all(CASES[name].off == {"off": {name}} for name in FAST_PATHS)


@pytest.mark.drawn("name", share=5)
@pytest.mark.parametrize("name", CASES)
def test_both_sides_answer_alike(name: str) -> None:
    needed("numba")
    seconds = measure(CASES[name], 1)
    assert {side: len(rounds) for side, rounds in seconds.items()} == {"with": 1, "without": 1}
