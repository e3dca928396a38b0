"""Refusals: calls that must raise, each with its whole error, in the files of `tests/refusals`.

Each file is Python. Imports, assignments and functions prepare the others; every other statement is a call that must
raise, and the comment directly below it is the error: its class, its message and its notes. `FOLDER` begins empty.

``WRITE_GOLDEN=1`` in the environment writes what is raised now; read what has changed. To add a case, write the call.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_wcoj.errors import GpuWcojError

GOLDEN = sorted((Path(__file__).parent / "refusals").glob("*.txt"))
MARK = "#   "


def raised_by(call: ast.stmt, names: dict[str, object], folder: Path) -> str:
    """Return the error of a call as lines of a comment."""
    with pytest.raises(GpuWcojError) as caught:
        exec(compile(ast.Module([call], []), ast.unparse(call), "exec"), names)
    error = caught.value
    at = re.search(r"\(line (\d+), column (\d+)", str(error))
    if at is not None and getattr(error, "lineno", None) is not None:
        assert (str(error.lineno), str(error.offset)) == at.groups()
    lines = [f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())]
    text = "\n".join(lines).replace(str(folder), "FOLDER").encode("utf-8", "backslashreplace").decode()
    return "\n".join((MARK + line).rstrip() for line in text.split("\n"))


def with_errors(path: Path, folder: Path, **names: object) -> Iterator[tuple[str, str, str]]:
    """Yield the text up to the end of each call, its error as written, and its error as raised; then the last text."""
    text, names = path.read_text(), {"FOLDER": folder, **names}
    lines, end = text.split("\n"), 0
    for statement in ast.parse(text).body:
        assert statement.end_lineno is not None
        if not isinstance(statement, ast.Expr) or isinstance(statement.value, ast.Constant):
            exec(compile(ast.Module([statement], []), str(path), "exec"), names)
            continue
        below = statement.end_lineno
        while lines[below].startswith(MARK) or (lines[below] == "#" and lines[below - 1].startswith("#")):
            below += 1
        written = "\n".join(lines[statement.end_lineno : below])
        yield "\n".join(lines[end : statement.end_lineno]), written, raised_by(statement, names, folder)
        end = below
    yield "\n".join(lines[end:]), "", ""


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_refusals(path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch):
    compare(path, tmp_path_factory, monkeypatch)


def compare(
    path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, **names: object
) -> None:
    """Compare the errors in a file with those that are raised, or write them; `names` are known to its calls."""

    def run() -> list[tuple[str, str, str]]:
        folder = tmp_path_factory.mktemp(path.stem)
        monkeypatch.chdir(folder)
        return list(with_errors(path, folder, **names))

    parts = run()
    if "WRITE_GOLDEN" in os.environ:
        lines = [line for text, _, raised in parts[:-1] for line in (text, raised)]
        path.write_text("\n".join([*lines, parts[-1][0]]))
        parts = run()
    changed = [f"{text.strip()}\n{written}\n  now:\n{raised}" for text, written, raised in parts if written != raised]
    assert not changed, "\n".join(changed)
