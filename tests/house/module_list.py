"""The list of modules in docs/modules.md, generated from the first lines of their docstrings."""

from __future__ import annotations

import ast
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docs" / "modules.md"
HEADER = """# Modules

Every module with the first line of its docstring. `python -m tests.house --modules` writes this page, and `make check`
compares it. [ARCHITECTURE.md](../ARCHITECTURE.md) says where to start.
"""


def module_list() -> str:
    """Return the text of docs/modules.md."""
    files = sorted(
        path.relative_to(ROOT) for package in ("gpu_wcoj", "cpu_fallback") for path in (ROOT / package).rglob("*.py")
    )
    lines = [HEADER]
    for folder, members in groupby(
        sorted(files, key=lambda path: (path.parent, path.name)), key=lambda path: path.parent
    ):
        rows = [
            f"| [{path.name}](../{path}) | {first} |"
            for path in members
            if (first := _first_line(ROOT / path)) or path.name != "__init__.py"
        ]
        lines += [f"## {folder}", "", "| Module | Content |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def _first_line(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.split("\n", 1)[0].replace("|", "\\|")
