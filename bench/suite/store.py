"""Where a run's document is kept while it grows, and which one a run may go on with.

The document is written whenever a case is done, each time as a whole. A run goes on with the document of another one
only if what it would add is measured alike: by the same sources, settings, machine and libraries.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.engine.machine import ROOT
from bench.suite.record import Document
from gpu_wcoj.errors import UsageError

SOURCES = ("gpu_wcoj", "cpu_fallback", "bench")
"""The folders whose files decide what is measured."""
SUFFIXES = (".py", ".lark", ".cu", ".cuh", ".rs", ".lock")
ALIKE = ("commit", "processor", "cores", "system", "python", "libraries")
"""What the machine of a run must have in common with the one that it goes on with."""


def sources() -> str:
    """A hash of all files that decide what is measured: of a checkout with changes, the commit says too little."""
    found = hashlib.sha256()
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                found.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]


@dataclass
class Store:
    """A folder of documents, and the file of the one that is being made.

    Attributes
    ----------
    path
        Of that document; chosen when it is first written, or when it is `resumed`.
    """

    folder: Path
    path: Path | None = None

    def write(self, document: Document) -> None:
        """Put the document in the place of the one before; a run that begins takes a name that no other has."""
        if self.path is None:
            self.path = self._free(document)
        document.write(self.path)

    def resumed(self, begun: Document) -> Document | None:
        """The last document that a run which begins with `begun` may go on with; None if there is none of its commit.

        Raises
        ------
        UsageError
            If there are some, and all of them were made otherwise.
        """
        commit = begun.machine["commit"]
        found = [(path, Document.read(path)) for path in self.folder.glob(f"suite-{begun.suite}-*.json")]
        found = [one for one in found if one[1].machine.get("commit") == commit]
        found.sort(key=lambda one: str(one[1].machine.get("date", "")))
        for path, document in reversed(found):
            if not _differences(document, begun):
                self.path = path
                return document
        if not found:
            return None
        path, document = found[-1]
        raise UsageError(
            f"{path} cannot be resumed, since it was made otherwise: {'; '.join(_differences(document, begun))}.\n"
            "  Ask for the same, or run it from the beginning, without --resume."
        )

    def _free(self, document: Document) -> Path:
        day, commit = str(document.machine["date"])[:10], str(document.machine["commit"]).replace("+", "-")
        name = f"suite-{document.suite}-{day}-{commit}"
        number = 1
        path = self.folder / f"{name}.json"
        while path.exists():
            number += 1
            path = self.folder / f"{name}-{number}.json"
        return path


def _differences(one: Document, other: Document) -> list[str]:
    """In which ways two runs do not measure alike, in words."""
    machines = ({name: each.machine.get(name) for name in ALIKE} for each in (one, other))
    plans = (each.planned for each in (one, other))
    found = [*_different(*machines), *_different(one.settings, other.settings)]
    if not found and len(set(plans)) > 1:
        found.append("other cases were planned")
    return found


def _different(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    return [
        f"{name} was {one.get(name)}, and is {other.get(name)}"
        for name in sorted({*one, *other})
        if one.get(name) != other.get(name)
    ]
