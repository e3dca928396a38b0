"""Programs with their files and expected outputs, read from files of sections, and run by the command line."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gpu_wcoj.cli.main import main

FOLDER = Path(__file__).parents[2] / "tests" / "query" / "souffle"
"""Files of programs.

A line ``//// title`` begins a program; ``//// facts r``, ``//// file name``, ``//// expect r`` and ``//// error`` begin
its parts: files, the rows of outputs, or a piece of the message."""
_PARTS = ("facts", "file", "expect", "error")


@dataclass
class SouffleProgram:
    """A program with its files and what it shall print or write."""

    area: str
    title: str
    text: str = ""
    files: dict[str, str] = field(default_factory=dict)
    expected: dict[str, str] = field(default_factory=dict)
    error: str = ""

    @property
    def name(self) -> str:
        """The area and the title."""
        return f"{self.area}: {self.title}"

    def differences(self, folder: Path) -> list[str]:
        """Run the program in an empty folder; return what differs from what is expected, in words."""
        (folder / "facts").mkdir()
        (folder / "program.dl").write_text(self.text)
        for name, content in self.files.items():
            place = folder if name.endswith(".dl") else folder / "facts"
            (place / name).write_text(content)
        out, err = io.StringIO(), io.StringIO()
        arguments = ["run", str(folder / "program.dl"), "-F", str(folder / "facts"), "-D", str(folder / "out")]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main(arguments)
        if self.error:
            return (
                [] if status and self.error in err.getvalue() else [f"expected '{self.error}', got: {err.getvalue()}"]
            )
        if status:
            return [f"status {status}: {err.getvalue()}"]
        different = []
        for name, rows in self.expected.items():
            if name == "stdout":
                found = out.getvalue().splitlines()
                wanted = rows.splitlines()
            else:
                found = sorted((folder / "out" / f"{name}.csv").read_text().splitlines())
                wanted = sorted(rows.splitlines())
            if found != wanted:
                different.append(f"{name}: expected {wanted}, got {found}")
        return different


def programs() -> Iterator[SouffleProgram]:
    """Yield the programs of all files."""
    for path in sorted(FOLDER.glob("*.dl")):
        program: SouffleProgram | None = None
        part, name, lines = "", "", list[str]()
        for line in [*path.read_text().splitlines(), "//// "]:
            if not line.startswith("//// "):
                lines.append(line)
                continue
            if program is not None:
                _put(program, part, name, "".join(f"{one}\n" for one in lines))
            lines = []
            part, _, name = line.removeprefix("//// ").partition(" ")
            if part not in _PARTS:
                if program is not None:
                    yield program
                program, part = SouffleProgram(path.stem, line.removeprefix("//// ")), ""


def _put(program: SouffleProgram, part: str, name: str, content: str) -> None:
    if part in ("facts", "file"):
        program.files[f"{name}.facts" if part == "facts" else name] = content
    elif part == "expect":
        program.expected[name] = content
    elif part == "error":
        program.error = content.strip()
    else:
        program.text = content
