"""The definition of a program as a checkpoint stores it: what must be the same for its state to mean the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpu_wcoj.errors import CheckpointMismatchError
from gpu_wcoj.query.stored import stored
from gpu_wcoj.subject import Subject


@dataclass(frozen=True, eq=False)
class Definition:
    """What defines a program, and how its state is laid out.

    Attributes
    ----------
    text
        As it was given, to make the program from again.
    parts
        What is compared, each part with the name that messages give it.
    """

    text: str
    parts: Mapping[str, Any]

    @classmethod
    def of(cls, subject: Subject, layout: str = "one") -> Definition:
        """The definition of a program."""
        rules = subject.lowering.rules
        parts = {
            "program": str(replace(rules, directives=())),  # which files are read is no part of what they mean
            "semantics": "bag" if subject.lowering.bag else "set",
            "kept heads": list(subject.lowering.keep),
            "outputs": list(subject.lowering.outputs),
            "schema": {name: _plain(columns) for name, columns in subject.schema.items()},
            "layout": layout,
        }
        return cls(stored(rules), parts)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Definition:
        """The definition that `to_json` gave."""
        return cls(str(content["text"]), dict(content["parts"]))

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {"text": self.text, "parts": dict(self.parts)}

    def options(self) -> dict[str, Any]:
        """What to make the program with, beside its text."""
        schema = {
            name: dict(map(tuple, columns)) if columns and isinstance(columns[0], list) else columns
            for name, columns in self.parts["schema"].items()
        }
        return {
            "bag": self.parts["semantics"] == "bag",
            "keep": self.parts["kept heads"],
            "outputs": self.parts["outputs"],
            "schema": schema,
        }

    def check(self, given: Definition, path: object) -> None:
        """Raise `CheckpointMismatchError` for the first part that differs."""
        for what in dict.fromkeys([*given.parts, *self.parts]):
            stored, other = self.parts.get(what), given.parts.get(what)
            if stored != other:
                raise CheckpointMismatchError(path, what, _shown(stored), _shown(other))


def _plain(columns: Any) -> list[Any]:
    return [list(column) if isinstance(column, tuple) else str(column) for column in columns]


def _shown(part: Any) -> str:
    text = part if isinstance(part, str) else json.dumps(part, ensure_ascii=False)
    return text if len(text) < 2000 else f"{text[:2000]}..."
