"""What every test can ask for."""

from __future__ import annotations

import gc
import math
import os
import zlib
from collections import defaultdict
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, settings

from gpu_wcoj.backend import Backend, select_backend
from gpu_wcoj.errors import BackendUnavailableError
from gpu_wcoj.join.settings import tune
from tests.helpers.kernel_kinds import BACKENDS, KINDS, Kind, lacking, needed
from tests.helpers.long_tests import IS_LONG
from tests.shim import build

ROOT = Path(__file__).parents[1]
SHARED_DATA = ROOT.parent / "shared" / "data"

# A JVM that lives for minutes on two cores gains nothing from its second compiler. Every Spark of the tests reads this.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# Tests run on the compiled kernels from the first tick on, so that counted work is theirs; see gpu_wcoj/backend.py.
os.environ.setdefault("GPU_WCOJ_COMPILE", "wait")

# What fails in a test is looked for in the package, too.
os.environ.setdefault("GPU_WCOJ_FULL_TRACEBACK", "1")

# A compiled kernel makes the first example slow, and a busy machine any of them: no deadline.
# Ordinary runs draw other examples each time, and fewer.
settings.register_profile(
    "local",
    deadline=None,
    max_examples=100 if IS_LONG else 40,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.register_profile("ci", settings.get_profile("local"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


IS_QUICK = not IS_LONG and build.FLAVOUR_VARIABLE not in os.environ
"""Whether long tests, shares and half of the examples are left out. Runs of a flavour of the shim have the time."""

PARAMETERS = ("backend", "kind", "pair")
"""How parameters are called whose values are backends or kinds of kernels."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the cases on a GPU that is lacking, and, unless tests run at length, long ones and most to draw from.

    A test with the mark ``drawn("bag")`` runs at one value of parameter `bag` for each case of its other parameters.
    With ``drawn("graph", "variant", each=True)`` it runs so many cases that every graph and every variant is in one of
    them, instead of every graph with every variant. With ``drawn("name", share=4)`` it runs every fourth of them. Names
    of cases choose them, so that they are the same in every run. ``make test-long`` runs all, tests with the mark
    ``long`` too, and so does a run that names tests. What is left out is counted as deselected.
    """
    if os.environ.get("GPU_WCOJ_TESTS_ON"):  # tests.gpu chooses the cases itself
        return
    left_out = set(_on_a_lacking_gpu(items))
    if not IS_LONG and not names_tests(config):
        if IS_QUICK:
            left_out.update(item for item in items if item.get_closest_marker("long"))
        left_out.update(_not_drawn(item for item in items if item not in left_out))
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]
    if IS_QUICK:
        for function in {item.function for item in items if isinstance(item, pytest.Function)}:
            take_fewer_examples(function)


def take_fewer_examples(function: Callable[..., object]) -> None:
    """Let a test of hypothesis draw half as many examples as it says: other runs draw others."""
    given = getattr(function, "_hypothesis_internal_use_settings", None)
    if given is not None:
        function._hypothesis_internal_use_settings = settings(given, max_examples=(given.max_examples + 1) // 2)


def names_tests(config: pytest.Config) -> bool:
    """Return whether a run is told which tests to run, and not only which files."""
    return bool(config.option.keyword) or any("::" in name for name in config.args)


def _on_a_lacking_gpu(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    if lacking("cuda") is None:
        return
    for item in items:
        values = getattr(getattr(item, "callspec", None), "params", {})
        if item.get_closest_marker("gpu") or any(str(values.get(name)) == "cuda" for name in PARAMETERS):
            yield item


def _not_drawn(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    cases: defaultdict[Hashable, list[pytest.Function]] = defaultdict(list)
    for item in items:
        marks = list(item.iter_markers("drawn"))
        if marks and isinstance(item, pytest.Function):
            names = {name for mark in marks for name in mark.args}
            values = item.callspec.params
            assert names <= values.keys(), f"{item.nodeid} has no parameter of {sorted(names - values.keys())}"
            fixed = sorted((name, id(value)) for name, value in values.items() if name not in names)
            each = frozenset(names) if any(mark.kwargs.get("each") for mark in marks) else frozenset()
            share = max(mark.kwargs.get("share", 0) for mark in marks)
            cases[item.parent, item.originalname, each, share, tuple(fixed)].append(item)
    for (*_, each, share, _), alternatives in cases.items():
        alternatives.sort(key=lambda item: zlib.crc32(item.nodeid.encode()))
        if each:
            chosen = _one_of_each_value(alternatives, each)
        else:
            n_chosen = 1 if not share else math.ceil(len(alternatives) / share) if IS_QUICK else len(alternatives)
            chosen = alternatives[:n_chosen]
        yield from (item for item in alternatives if item not in chosen)


def _one_of_each_value(alternatives: list[pytest.Function], names: Iterable[str]) -> list[pytest.Function]:
    """Return cases that hold every value of every named parameter; the next one is always one that adds the most."""
    values = {item: {(name, id(item.callspec.params[name])) for name in names} for item in alternatives}
    missing = set().union(*values.values())
    chosen = []
    while missing:
        chosen.append(max(alternatives, key=lambda item: len(values[item] & missing)))
        missing -= values[chosen[-1]]
    return chosen


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say in a line each which cases are left out, and why."""
    reason = lacking("cuda")
    lines = [] if reason is None else [f"left out: cases on a GPU: {reason}"]
    if not IS_LONG and not names_tests(config):
        lines.append("left out: long cases and most of those to draw from; make test-long runs them, and -k NAME")
        lines.append("left out: most tests on Spark; make test-spark runs them")
    return lines


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for doctests only in files that hold prompts and no tests: looking takes seconds."""
    collectors = yield
    if file_path.name.startswith("test_") or (collectors and b">>> " not in file_path.read_bytes()):
        return [collector for collector in collectors if type(collector) is pytest.Module]
    return collectors


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Send one report of a test from a process of pytest-xdist where all went well, in place of five messages.

    They would take a millisecond of CPU time each test. Durations and JUnit's files are made of all reports.
    """
    options = item.config.option
    if "PYTEST_XDIST_WORKER" not in os.environ or options.durations is not None or options.xmlpath is not None:
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without garbage collection, which would take a quarter of the time and free nothing."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Name tests by their group of pytest-xdist, and look through them for garbage for the last time.

    pytest-xdist 3.8 writes the group into an attribute that pytest 9 no longer reads. Without this, tests of one group
    would run in any process, and each process would start a Spark of its own.
    """
    if session.config.getoption("loadgroup", False):
        for item in session.items:
            named = vars(item).get("_nodeid")
            if named is not None and named != item.nodeid:
                item._id = type(item._id).parse(named)  # type: ignore[attr-defined]
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


@pytest.fixture(params=BACKENDS)
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
