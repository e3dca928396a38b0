"""A plugin of pytest that appends the tests that fail to the file that MUTANTS_FAILED names."""

from __future__ import annotations

import os

import pytest

VARIABLE = "MUTANTS_FAILED"


def _append(node: str) -> None:
    with open(os.environ[VARIABLE], "a", encoding="utf-8") as file:
        file.write(f"{node}\n")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note a test that fails."""
    if report.failed:
        _append(report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Note a file that cannot be imported."""
    if report.failed:
        _append(report.nodeid)
