"""Answers, plans and counted work are those that are stored."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.frozen.compare import random_differences, text_differences

N_PARTS = 12


def check(differences: Iterator[str]) -> None:
    pytest.importorskip("numba", reason="stored work is that of the compiled kernels")
    found = list(differences)
    assert not found, "\n".join([f"{len(found)} programs differ; see python -m tests.frozen", *found[:10]])


def test_nothing_differs_from_the_texts_that_are_stored():
    check(text_differences())


@pytest.mark.drawn("part", share=12)
@pytest.mark.parametrize("part", range(N_PARTS))
def test_random_programs_do_not_differ_from_what_is_stored(part):
    check(random_differences(part, N_PARTS))
