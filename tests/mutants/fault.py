"""Faults as data: what is replaced in which file, what that breaks, and which tests are to find it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENGINE = Path(__file__).with_name("engine.toml")
"""Faults in the packages' Python."""
KERNELS = Path(__file__).with_name("kernels.toml")
"""Faults in the CUDA sources."""


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes
    ----------
    name
        A name for the command line; those of the CUDA sources are numbers.
    breaks
        What goes wrong with it, in one sentence.
    file
        The file, from the root of the checkout.
    edits
        (old, new): what is replaced, each once in the file.
    tests
        The arguments of pytest: the narrowest files that find it, and perhaps an expression for ``-k``.
    flavour
        Of CUDA sources, the flavour of the shim that finds it.
    """

    name: str
    breaks: str
    file: str
    edits: tuple[tuple[str, str], ...]
    tests: tuple[str, ...]
    flavour: str = ""

    @property
    def test_files(self) -> list[Path]:
        """The files among `tests`."""
        return [ROOT / argument for argument in self.tests if argument.endswith(".py")]

    def planted(self, root: Path = ROOT) -> str:
        """Return the text of the file, in the checkout or a copy of it, with the fault in it.

        Raises
        ------
        ValueError
            If the text of an edit does not occur exactly once.
        """
        text = (root / self.file).read_text(encoding="utf-8")
        for old, new in self.edits:
            if text.count(old) != 1:
                raise ValueError(
                    f"Fault {self.name} does not fit {self.file}: got {text.count(old)} places with {old!r},"
                    " expected 1. Bring it up to date with the source."
                )
            text = text.replace(old, new)
        return text


def read_faults(path: Path) -> tuple[Fault, ...]:
    """Return the faults of a file, in order."""
    with path.open("rb") as file:
        entries = tomllib.load(file)["fault"]
    return tuple(
        Fault(
            entry["name"], entry["breaks"], entry["file"],
            tuple(map(tuple, entry["edits"])) if "edits" in entry else ((entry["old"], entry["new"]),),
            tuple(entry["tests"]), entry.get("flavour", ""),
        )
        for entry in entries
    )  # fmt: skip


def choose(faults: tuple[Fault, ...], names: list[str]) -> list[Fault]:
    """Return the faults of these names, all if there are none.

    Raises
    ------
    SystemExit
        If there is no fault of a name.
    """
    unknown = set(names) - {fault.name for fault in faults}
    if unknown:
        raise SystemExit(f"unknown faults: {', '.join(sorted(unknown))}; see {Path(__file__).parent}")
    return [fault for fault in faults if not names or fault.name in names]
