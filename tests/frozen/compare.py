"""Store records, and compare with what is stored."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator

from tests.frozen.records import COUNTS, DIGESTS, FOLDER, TEXTS, random_lines, texts

N_LINES = 12
"""Lines of a difference that are shown per program."""


def write() -> None:
    """Store what the code does now."""
    for name, cases in TEXTS.items():
        (FOLDER / f"{name}.txt").write_text(texts(cases()))
    DIGESTS.write_text("".join(f"{line}\n" for line in random_lines()))


def differences() -> Iterator[str]:
    """One text per program that differs."""
    yield from text_differences()
    yield from random_differences()


def text_differences() -> Iterator[str]:
    """One text per program that is stored as text and differs."""
    for name, cases in TEXTS.items():
        stored = _split((FOLDER / f"{name}.txt").read_text())
        now = _split(texts(cases()))
        for key in dict.fromkeys((*stored, *now)):
            before, after = stored.get(key, []), now.get(key, [])
            if before != after:
                lines = list(difflib.unified_diff(before, after, "stored", "now", lineterm="", n=1))[2:]
                more = [f"  ... and {len(lines) - N_LINES} more lines"] if len(lines) > N_LINES else []
                yield "\n".join([f"{name}: {key}", *(f"  {line}" for line in lines[:N_LINES]), *more])


def random_differences(part: int = 0, n_parts: int = 1) -> Iterator[str]:
    """One text per random program that differs, of those of a part: each `n_parts`-th program, from `part` on."""
    stored_lines = {
        fields["name"]: fields for fields in map(json.loads, DIGESTS.read_text().splitlines()[part::n_parts])
    }
    for line in random_lines(part, n_parts):
        after_fields = json.loads(line)
        before_fields = stored_lines.pop(after_fields["name"], {})
        if before_fields != after_fields:
            keys = [key for key in {**before_fields, **after_fields} if before_fields.get(key) != after_fields.get(key)]
            shown = [_difference(key, before_fields.get(key), after_fields.get(key)) for key in keys]
            yield f"random: {after_fields['name']}\n  {'; '.join(shown)}"
    for name in stored_lines:
        yield f"random: {name}\n  is stored, and there is no such program now"


def _split(text: str) -> dict[str, list[str]]:
    blocks = [block.splitlines() for block in ("\n" + text).split("\n== ")[1:]]
    return {block[0]: [line for line in block[1:] if line] for block in blocks}


def _difference(key: str, before: object, after: object) -> str:
    if not isinstance(before, list) or not isinstance(after, list):
        return key
    pairs = zip((*COUNTS, "merged_rows"), before, after, strict=True)
    return f"{key}: " + ", ".join(f"{name} {old} -> {new}" for name, old, new in pairs if old != new)
