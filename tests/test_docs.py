"""Every snippet of the README is run, and prints what the README says.

A ``text`` block right after a snippet is its output; ``...`` in it stands for anything. Python snippets share one
namespace and shell snippets one folder, in the order of the page. A snippet under ``<!-- not run: why -->`` is skipped,
one under ``<!-- needs a GPU -->`` runs where there is one, one under ``<!-- needs Spark -->`` in a process of its own.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import gpu_wcoj as gw
from gpu_wcoj.kernels.cuda import finding

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
CHECKER = doctest.OutputChecker()
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Snippet:
    language: str
    code: str
    output: str | None
    run: bool
    needs_gpu: bool
    needs_spark: bool


def snippets() -> list[Snippet]:
    text = (ROOT / "README.md").read_text()
    blocks = list(FENCE.finditer(text))
    found = []
    for i, block in enumerate(blocks):
        following = blocks[i + 1] if i + 1 < len(blocks) else None
        printed = following and following[1] == "text" and not text[block.end() : following.start()].strip()
        not_run = re.search(r"<!-- not run: [^>]+ -->\n$", text[: block.start()])
        needs_gpu = text[: block.start()].endswith("<!-- needs a GPU -->\n")
        needs_spark = text[: block.start()].endswith("<!-- needs Spark -->\n")
        output = following[2] if following and printed else None
        found.append(Snippet(block[1], block[2], output, not not_run, needs_gpu, needs_spark))
    return found


def of(language: str) -> list[Snippet]:
    return [one for one in snippets() if one.language == language and one.run and not one.needs_gpu | one.needs_spark]


def assert_prints(snippet: Snippet, printed: str) -> None:
    if snippet.output is not None:
        right = CHECKER.check_output(snippet.output, printed, FLAGS)
        assert right, f"{snippet.code}\nprinted\n{printed}\ninstead of\n{snippet.output}"


def test_every_code_block_is_run_or_says_why_not():
    run = {snippet.language for snippet in snippets() if snippet.run}
    assert run == {"python", "sh", "text", ""}
    assert len([snippet for snippet in snippets() if snippet.language == "text"]) == len(
        [snippet for snippet in snippets() if snippet.output is not None]
    )


def test_python_snippets():
    namespace: dict[str, object] = {"__name__": "readme"}
    assert any(snippet.output for snippet in of("python"))
    for snippet in of("python"):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(snippet.code, "README.md", "exec"), namespace)
        assert_prints(snippet, printed.getvalue())


def test_gpu_snippets():
    chosen = [snippet for snippet in snippets() if snippet.needs_gpu]
    assert chosen
    if finding.count_driver_devices() == 0 or not finding.has_cupy():
        pytest.skip("these snippets need an NVIDIA GPU and CuPy")
    namespace: dict[str, object] = {"__name__": "readme", "gw": gw}
    for snippet in chosen:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(snippet.code, "README.md", "exec"), namespace)
        assert_prints(snippet, printed.getvalue())


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_spark_snippets(tmp_path):
    pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")
    from gpu_wcoj.errors import JavaNotFoundError
    from gpu_wcoj.spark.java import find_java

    try:
        find_java()
    except JavaNotFoundError as error:
        pytest.skip(str(error).splitlines()[0])
    chosen = [snippet for snippet in snippets() if snippet.needs_spark]
    assert chosen
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    for snippet in chosen:
        command = [sys.executable, "-c", snippet.code]
        done = subprocess.run(
            command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{snippet.code}\nended with {done.returncode}\n{done.stderr}"
        assert_prints(snippet, done.stdout)


def test_shell_snippets(tmp_path):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "120"}
    assert any(snippet.output for snippet in of("sh"))
    for snippet in of("sh"):
        command = ["bash", "-euo", "pipefail", "-c", snippet.code]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{snippet.code}\nended with {done.returncode}\n{done.stderr}"
        assert_prints(snippet, done.stdout)
