"""What every test can ask for."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from gpu_wcoj.backend import Backend, select_backend
from gpu_wcoj.errors import BackendUnavailableError
from gpu_wcoj.join.settings import tune
from tests.helpers.kernel_kinds import KINDS, Kind, needed

ROOT = Path(__file__).parents[1]
SHARED_DATA = ROOT.parent / "shared" / "data"

# A JVM that lives for minutes on two cores gains nothing from its second compiler. Every Spark of the tests reads this.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# Tests run on the compiled kernels from the first tick on, so that counted work is theirs; see gpu_wcoj/backend.py.
os.environ.setdefault("GPU_WCOJ_COMPILE", "wait")

# What fails in a test is looked for in the package, too.
os.environ.setdefault("GPU_WCOJ_FULL_TRACEBACK", "1")

# A compiled kernel makes the first example slow, and a busy machine any of them: no deadline.
settings.register_profile("local", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("ci", settings.get_profile("local"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


def pytest_collection_finish() -> None:
    """Thousands of tests are there from now on: no later collection of garbage looks through them again."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    """A file of edges: two triangles that share one of them."""
    path = tmp_path / "graph.txt"
    path.write_text("1 2\n2 3\n1 3\n3 4\n2 4\n")
    return path


@pytest.fixture
def large_ticks() -> Iterator[None]:
    """No tick is a small one, and no loop runs row at a time: all run path by path, over batches."""
    with tune(max_tick_rows=-1, walk_loops=False):
        yield


@pytest.fixture(params=["cpu", "cuda"])
def backend(request: pytest.FixtureRequest) -> Backend:
    """Each backend in turn; one that this machine lacks is skipped, with what the engine says about it."""
    try:
        return select_backend(request.param)
    except BackendUnavailableError as error:
        pytest.skip(str(error).splitlines()[0])


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    """Each kind of kernels in turn; one that this machine lacks is skipped."""
    return needed(request.param)


@pytest.fixture
def shared_data() -> Path:
    """The folder with the real graphs and streams, which is no part of the checkout."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"the data sets are not there: {os.path.relpath(SHARED_DATA, ROOT)}")
    return SHARED_DATA
