"""Every snippet of the README is run, and prints what the README says.

A ``text`` block that follows a snippet is its output; ``...`` in it stands for anything. Python snippets share one
namespace and shell snippets one folder, in the order of the page. A snippet under ``<!-- not run: why -->`` is skipped.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"(<!-- not run: [^>]+ -->\n)?```(\w+)\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)
RUN_IN = {"python", "sh"}
CHECKER = doctest.OutputChecker()
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def snippets(language: str) -> list[tuple[str, str | None]]:
    found = BLOCK.findall((ROOT / "README.md").read_text())
    return [(code, output or None) for skipped, name, code, output in found if name == language and not skipped]


def assert_prints(expected: str | None, printed: str, code: str) -> None:
    if expected is not None:
        assert CHECKER.check_output(expected, printed, FLAGS), f"{code}\nprinted\n{printed}\ninstead of\n{expected}"


def test_every_block_is_run_or_says_why_not():
    found = BLOCK.findall((ROOT / "README.md").read_text())
    assert {name for skipped, name, _, _ in found if not skipped} == RUN_IN
    assert (ROOT / "README.md").read_text().count("```") == sum(4 if output else 2 for *_, output in found)


def test_python_snippets():
    namespace: dict[str, object] = {"__name__": "readme"}
    blocks = snippets("python")
    assert any(output for _, output in blocks)
    for code, output in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "README.md", "exec"), namespace)
        assert_prints(output, printed.getvalue(), code)


@pytest.mark.skipif(sys.platform == "win32", reason="the snippets are for a POSIX shell")
def test_shell_snippets(tmp_path):
    environment = dict(os.environ, PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", COLUMNS="120")
    blocks = snippets("sh")
    assert any(output for _, output in blocks)
    for code, output in blocks:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{code}\nended with {done.returncode}\n{done.stderr}"
        assert_prints(output, done.stdout, code)
