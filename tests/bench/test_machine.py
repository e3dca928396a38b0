"""Records of benchmarks: written whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from bench.engine import machine
from gpu_wcoj.errors import OutputFileError

resource = pytest.importorskip("resource")


def test_a_record_has_what_was_measured(tmp_path: Path):
    path = machine.store(tmp_path / "records", "joins", machine.describe(("numpy",)), seconds=np.float32(0.5))
    document = json.loads(path.read_text())
    assert document["seconds"] == 0.5
    assert set(document["machine"]) >= {"date", "commit", "load_average", "load_average_after"}


def test_a_full_disk_leaves_the_record_before(tmp_path: Path):
    path = tmp_path / "record.json"
    machine.write_json(path, {"run": 1})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(OutputFileError, match=r"record\.json' cannot be written: File too large"):
            machine.write_json(path, {"run": list(range(10_000))})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert json.loads(path.read_text()) == {"run": 1}
    assert list(tmp_path.iterdir()) == [path]
