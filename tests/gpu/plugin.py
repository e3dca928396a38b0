"""Runs the tests on a device: loaded by ``python -m tests.gpu``, never by a plain run of pytest.

GPU_WCOJ_TESTS_ON names the backend, ``cuda`` or ``shim``; without it nothing is replaced. Cases of other backends are
left out, a program that names no backend gets this one, and where lark is missing the reader of `tests.gpu.rules`
stands in for it.
GPU_WCOJ_TESTS_ROUTE is the route of programs that name none; ``device``, so that no small tick slips away to the CPU.
GPU_WCOJ_TESTS_EXAMPLES is how many examples a test of hypothesis gets at most, and GPU_WCOJ_TESTS_POOL=none lets every
array be an allocation of its own: so the tests run under a sanitizer.
GPU_WCOJ_TESTS_LOG names a file that gets one line of JSON for every test as it ends, so that a run that is stopped has
told what it did.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from gpu_wcoj.backend import Backend
    from gpu_wcoj.engine.options import ProgramOptions

ON = os.environ.get("GPU_WCOJ_TESTS_ON", "")
ROUTE = os.environ.get("GPU_WCOJ_TESTS_ROUTE", "device")
EXAMPLES = int(os.environ.get("GPU_WCOJ_TESTS_EXAMPLES", "0"))
LOG = os.environ.get("GPU_WCOJ_TESTS_LOG")
BACKENDS = frozenset({"cpu", "numba", "numpy", "compiled", "plain", "shim", "cuda"})
"""What a parameter of a test can be to name a backend."""
ROOT = Path(__file__).parents[2]
LIBRARIES = frozenset({"clingo", "cyclopts", "duckdb", "graphblas", "lark", "pandas", "polars", "pyspark", "sqlglot"})
"""What some tests compare with, and a machine with a GPU may lack."""
PARAMETERS = ("backend", "kernels", "kind", "pair")
"""How the parameters are called whose values name backends."""


def pytest_configure(config: pytest.Config) -> None:
    """Let libraries warn of each other, and of what Python will leave out one day."""
    for kind in ("DeprecationWarning", "PendingDeprecationWarning", "FutureWarning"):
        config.addinivalue_line("filterwarnings", f"default::{kind}")
    for library in ("cupy", "cupyx", "torch", "numba"):
        config.addinivalue_line("filterwarnings", rf"default:::{library}(\..*)?")


def _stand_in_for_lark() -> None:
    from gpu_wcoj.query import datalog
    from tests.gpu import rules

    original = datalog.parse
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "gpu_wcoj" and getattr(module, "parse", None) is original:
            module.parse = rules.parse  # type: ignore[attr-defined]  # a name of that module


def _send_programs_to(kind: str) -> None:
    """Let ``auto`` be the device, and with the shim ``cuda`` too; a program without a route gets ours."""
    import gpu_wcoj.program
    from gpu_wcoj import backend
    from gpu_wcoj.engine import replicas

    select_backend, router_of = backend.select_backend, replicas.router_of

    @functools.cache
    def shim() -> Backend:
        from tests.shim import shim_backend

        return shim_backend()

    def select(name: Any = "auto", *arguments: Any, **options: Any) -> Backend:
        if kind == "shim" and name in ("auto", "cuda"):
            return shim()
        return select_backend("cuda" if name == "auto" else name, *arguments, **options)

    def routed(lowering: Any, primary: Backend, options: ProgramOptions) -> Any:
        return router_of(lowering, primary, replace(options, route=ROUTE) if options.route == "auto" else options)

    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "gpu_wcoj":
            for attribute, old, new in (("select_backend", select_backend, select), ("router_of", router_of, routed)):
                if getattr(module, attribute, None) is old:
                    setattr(module, attribute, new)
    assert gpu_wcoj.program.router_of is routed


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out a file that needs a library which is not there, and say so."""
    if collection_path.suffix != ".py" or not collection_path.is_file():
        return None
    lacking = sorted(name for name in needed_by(collection_path) & LIBRARIES if importlib.util.find_spec(name) is None)
    if not lacking:
        return None
    name = collection_path.relative_to(config.rootpath).as_posix()
    _write(
        {"test": name, "outcome": "skipped", "when": "collect", "seconds": 0.0, "message": f"{lacking[0]} is missing"}
    )
    return True


def needed_by(path: Path) -> set[str]:
    """The libraries that importing a file loads, also through files of the checkout that it imports."""
    libraries: set[str] = set()
    seen, to_read = {path}, [path]
    while to_read:
        others, files = _parts(to_read.pop())
        libraries |= others
        to_read += files - seen
        seen |= files
    return libraries


@functools.cache
def _parts(path: Path) -> tuple[frozenset[str], frozenset[Path]]:
    """The libraries that a file imports itself, and the files of the checkout."""
    modules = {tuple(name.split(".")) for name in imported(path)}
    own = {name for name in modules if (ROOT / name[0]).is_dir()}
    places = {ROOT.joinpath(*name[:depth]) for name in own for depth in range(1, len(name) + 1)}
    files = {file for place in places for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()}
    return frozenset(name[0] for name in modules - own), frozenset(files)


@functools.cache
def imported(path: Path) -> frozenset[str]:
    """The modules that a file imports as soon as it is imported itself; of ``from a import b`` also ``a.b``."""
    try:
        body = ast.parse(path.read_text(encoding="utf-8")).body
    except SyntaxError:  # pytest says so, if it is to read the file
        return frozenset()
    names = {alias.name for node in body if isinstance(node, ast.Import) for alias in node.names}
    for node in body:
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(names)


def backend_of(item: pytest.Item) -> str | None:
    """The backend that a case is for, None if it names none."""
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    named = [parameters[name] for name in PARAMETERS if isinstance(parameters.get(name), str)]
    found = next((name for name in named if name in BACKENDS), None)
    return ON if found == "cuda" and ON == "shim" and not {"kind", "pair"} & set(parameters) else found


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the cases of other backends; run few examples where few are asked for."""
    others = [item for item in items if backend_of(item) not in (None, ON)]
    if others:
        config.hook.pytest_deselected(items=others)
        left_out = set(others)
        items[:] = [item for item in items if item not in left_out]
    if EXAMPLES:
        for item in items:
            run_few_examples(item)


def run_few_examples(item: pytest.Item) -> None:
    """Let a test of hypothesis have no more examples than GPU_WCOJ_TESTS_EXAMPLES says."""
    from hypothesis import settings

    function = getattr(getattr(item, "obj", None), "__func__", getattr(item, "obj", None))
    given = getattr(function, "_hypothesis_internal_use_settings", None)
    if given is not None:
        function._hypothesis_internal_use_settings = settings(given, max_examples=min(EXAMPLES, given.max_examples))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write how a test ended: its call, or what before or after it failed or was skipped."""
    if report.when == "call" or report.outcome != "passed":
        line = {"test": report.nodeid, "outcome": report.outcome, "when": report.when, "seconds": report.duration}
        if report.outcome == "failed":
            line["message"] = report.longreprtext[-2000:]
        elif report.outcome == "skipped":
            line["message"] = _reason(report)
        _write(line)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Write which files could not be collected."""
    if report.outcome != "passed":
        line = {"test": report.nodeid, "outcome": report.outcome, "when": "collect", "seconds": 0.0}
        line["message"] = _reason(report) if report.outcome == "skipped" else report.longreprtext[-2000:]
        _write(line)


def _write(line: dict[str, Any]) -> None:
    if LOG and not os.environ.get("PYTEST_XDIST_WORKER"):
        with Path(LOG).open("a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    return str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else str(report.longrepr)


def _prepare() -> None:
    """Before any test imports a name that is replaced here."""
    if importlib.util.find_spec("lark") is None or os.environ.get("GPU_WCOJ_TESTS_LARK") == "none":
        _stand_in_for_lark()
    _send_programs_to(ON)
    if ON == "cuda" and os.environ.get("GPU_WCOJ_TESTS_POOL") == "none":
        import cupy

        cupy.cuda.set_allocator(None)


if ON:  # where this file is only looked at, nothing is replaced
    _prepare()
