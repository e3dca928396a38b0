"""Faults fit the files that they are planted in; whether tests find them is seen by ``make test-mutants``."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.mutants.__main__ import OUTCOME
from tests.mutants.fault import ENGINE, KERNELS, Fault, read_faults
from tests.shim import build

FAULTS = read_faults(ENGINE)
KERNEL_FAULTS = read_faults(KERNELS)


@pytest.mark.parametrize("fault", [*FAULTS, *KERNEL_FAULTS], ids=lambda fault: fault.name)
def test_planted_faults_still_fit_the_sources(fault):
    assert fault.planted()
    assert fault.test_files
    assert all(file.is_file() for file in fault.test_files)
    assert fault.flavour in ("", *build.FLAVOURS)


def test_names_are_distinct():
    assert max(Counter(fault.name for fault in (*FAULTS, *KERNEL_FAULTS)).values()) == 1


def test_a_fault_that_does_not_fit_is_an_error():
    fault = Fault("no-such-text", "Nothing.", "gpu_wcoj/backend.py", (("no such text", ""),), ())
    with pytest.raises(ValueError, match=r"Fault no-such-text does not fit .*: got 0 places with .*, expected 1\."):
        fault.planted()


def test_every_outcome_is_that_of_a_fault():
    """`make test-mutants` tries a fault that has none; at least 95 of 100 are found."""
    outcomes = json.loads(OUTCOME.read_text(encoding="utf-8"))
    assert outcomes.keys() <= {fault.name for fault in FAULTS}
    assert sum(outcome["is_found"] for outcome in outcomes.values()) >= 0.95 * len(FAULTS)
