"""The kinds of kernels that this machine has."""

from __future__ import annotations

import pytest

from tests.helpers.kernel_kinds import ALL_KINDS, needed


@pytest.mark.parametrize("name", ALL_KINDS)
def test_this_machine_has(name):
    """A kind that is lacking is skipped with the reason; cases on a GPU that is lacking are not collected."""
    assert needed(name).backend().xp is not None
