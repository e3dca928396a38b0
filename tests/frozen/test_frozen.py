"""Answers, plans and counted work are those that are stored."""

from __future__ import annotations

import pytest

from tests.frozen.compare import differences


@pytest.mark.slow  # some 400 programs run
def test_nothing_differs_from_what_is_stored():
    pytest.importorskip("numba", reason="stored work is that of the compiled kernels")
    found = list(differences())
    assert not found, "\n".join([f"{len(found)} programs differ; see python -m tests.frozen", *found[:10]])
