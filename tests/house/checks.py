"""All checks, and their exceptions."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.house import modules, names, prose
from tests.house.sources import Sources, Violation

FILE = Path(__file__).with_name("exceptions.toml")
HEADER = """\
# What the house checks let pass, per check by address. The lists may only shrink: python -m tests.house fails for what
# is not listed and for what is listed and gone, python -m tests.house --write takes out what is gone. A comment behind
# an address says why it stays, and is kept.
"""

CHECKS: dict[str, Callable[[Sources], Iterator[Violation]]] = {
    "banned_names": names.banned_names,
    "many_parameters": names.many_parameters,
    "docstring_first_words": prose.first_words,
    "docstring_lengths": prose.first_lengths,
    "units": prose.units,
    "is_no": prose.is_no,
    "long_paragraphs": prose.long_paragraphs,
    "single_importers": modules.single_importers,
    "short_files": modules.short_files,
    "hidden_imports": modules.hidden_imports,
    "public_names": modules.public_names,
    "circles": modules.circles,
}

Found = dict[str, dict[str, str]]
"""Per check the remedy of each address."""


def run(sources: Sources) -> Found:
    """Run all checks."""
    return {name: {one.address: one.remedy for one in check(sources)} for name, check in CHECKS.items()}


def problems(found: Found, exceptions: Mapping[str, list[str]]) -> Iterator[str]:
    """Messages about what is not listed, and what is listed and gone."""
    for name, remedies in found.items():
        listed = exceptions.get(name, [])
        for address in remedies.keys() - set(listed):
            yield f"{name}: {address}: {remedies[address]}"
        for address in set(listed) - remedies.keys():
            yield f"{name}: {address}: no longer occurs; remove it from the list ({FILE.name}, or --write)"
    for name in exceptions.keys() - found.keys():
        yield f"{name}: there is no such check; remove its list from {FILE.name}"


def growing(found: Found, exceptions: Mapping[str, list[str]]) -> list[str]:
    """Checks whose list would become longer."""
    return [name for name, remedies in found.items() if len(remedies) > len(exceptions.get(name, []))]


def read_exceptions() -> dict[str, list[str]]:
    """The stored lists."""
    return tomllib.loads(FILE.read_text()) if FILE.exists() else {}


def as_toml(found: Found, before: str = "") -> str:
    """The lists as text; comments behind addresses are taken over from the text before."""
    comments = dict(re.findall(r'^  ("(?:[^"\\]|\\.)*"),(  #.*)$', before, re.MULTILINE))
    blocks = [HEADER]
    for name, remedies in found.items():
        quoted = [json.dumps(address, ensure_ascii=False) for address in sorted(remedies)]
        lines = [f"  {address},{comments.get(address, '')}" for address in quoted]
        blocks.append("\n".join([f"{name} = [", *lines, "]"]) + "\n" if lines else f"{name} = []\n")
    return "\n".join(blocks)
