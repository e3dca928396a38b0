"""Runs the tests on a device: loaded by ``python -m tests.gpu``, never by a plain run of pytest.

GPU_WCOJ_TESTS_ON names the backend, ``cuda`` or ``shim``. Cases of other backends are left out, a program that names
no backend gets this one, and where lark is missing the reader of `tests.gpu.rules` stands in for it.
GPU_WCOJ_TESTS_ROUTE is the route of programs that name none; ``device``, so that no small tick slips away to the CPU.
GPU_WCOJ_TESTS_LOG names a file that gets one line of JSON for every test as it ends, so that a run that is stopped has
told what it did.
"""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from gpu_wcoj.backend import Backend

ON = os.environ.get("GPU_WCOJ_TESTS_ON", "cuda")
ROUTE = os.environ.get("GPU_WCOJ_TESTS_ROUTE", "device")
LOG = os.environ.get("GPU_WCOJ_TESTS_LOG")
BACKENDS = frozenset({"cpu", "numba", "numpy", "compiled", "plain", "shim", "cuda"})
"""What a parameter of a test can be to name a backend."""
PARAMETERS = ("backend", "kernels", "kind", "device")
"""How the parameters are called whose values name backends."""


def pytest_configure(config: pytest.Config) -> None:
    """Stand in for lark; let libraries warn of each other; send programs to the device."""
    for kind in ("DeprecationWarning", "PendingDeprecationWarning", "FutureWarning"):
        config.addinivalue_line("filterwarnings", f"default::{kind}")
    for library in ("cupy", "cupyx", "torch", "numba"):
        config.addinivalue_line("filterwarnings", rf"default:::{library}(\..*)?")
    from gpu_wcoj.query import datalog

    if importlib.util.find_spec("lark") is None:
        from tests.gpu import rules

        datalog.parse = rules.parse
    _send_auto_to(ON)


def _send_auto_to(kind: str) -> None:
    import gpu_wcoj.program
    from gpu_wcoj.backend import select_backend
    from gpu_wcoj.routing.router import router_of

    def select(name: Any = "auto", *arguments: Any, **options: Any) -> Backend:
        if name not in ("auto", kind):
            return select_backend(name, *arguments, **options)
        if kind != "shim":
            return select_backend(kind, *arguments, **options)
        from tests.shim import shim_backend

        return shim_backend()

    def router(lowering: Any, primary: Backend, twin: Backend | None, route: object, twin_memory: object) -> Any:
        return router_of(lowering, primary, twin, ROUTE if route == "auto" else route, twin_memory)

    gpu_wcoj.program.select_backend = select
    gpu_wcoj.program.router_of = router


def backend_of(item: pytest.Item) -> str | None:
    """The backend that a case is for, None if it names none."""
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    named = [parameters[name] for name in PARAMETERS if isinstance(parameters.get(name), str)]
    return next((name for name in named if name in BACKENDS), None)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the cases of other backends."""
    others = [item for item in items if backend_of(item) not in (None, ON)]
    if others:
        config.hook.pytest_deselected(items=others)
        left_out = set(others)
        items[:] = [item for item in items if item not in left_out]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write how a test ended: its call, or what before or after it failed or was skipped."""
    if LOG and not os.environ.get("PYTEST_XDIST_WORKER") and (report.when == "call" or report.outcome != "passed"):
        line = {"test": report.nodeid, "outcome": report.outcome, "when": report.when, "seconds": report.duration}
        if report.outcome == "failed":
            line["message"] = report.longreprtext[-2000:]
        elif report.outcome == "skipped":
            line["message"] = _reason(report)
        with Path(LOG).open("a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Write which files could not be collected."""
    if LOG and not os.environ.get("PYTEST_XDIST_WORKER") and report.outcome != "passed":
        line = {"test": report.nodeid, "outcome": report.outcome, "when": "collect", "seconds": 0.0}
        line["message"] = _reason(report) if report.outcome == "skipped" else report.longreprtext[-2000:]
        with Path(LOG).open("a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    return str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else str(report.longrepr)
