"""The definition of a program in a checkpoint: the parts that give its state a meaning."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpu_wcoj.errors import CheckpointMismatchError
from gpu_wcoj.query.stored import serialize
from gpu_wcoj.subject import Subject


@dataclass(frozen=True, eq=False)
class Definition:
    """The definition of a program and the layout of its state.

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
    def from_subject(cls, subject: Subject, layout: str = "one") -> Definition:
        """Return the definition of a program."""
        rules = subject.lowering.rules
        parts = {
            "program": str(replace(rules, directives=())),  # which files are read is no part of what they mean
            "semantics": "bag" if subject.lowering.bag else "set",
            "kept heads": list(subject.lowering.keep),
            "outputs": list(subject.lowering.outputs),
            "schema": {name: _plain(columns) for name, columns in subject.schema.items()},
            "layout": layout,
        }
        return cls(serialize(rules), parts)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Definition:
        """Return the definition in the result of `to_json`."""
        return cls(str(content["text"]), dict(content["parts"]))

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"text": self.text, "parts": dict(self.parts)}

    def options(self) -> dict[str, Any]:
        """Return the options to create the program with, in addition to its text."""
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

    def check(self, current: Definition, path: object) -> None:
        """Raise `CheckpointMismatchError` for the first part that differs."""
        for what in dict.fromkeys([*current.parts, *self.parts]):
            stored, current_part = self.parts.get(what), current.parts.get(what)
            if stored != current_part:
                raise CheckpointMismatchError(path, what, _format_part(stored), _format_part(current_part))


def _plain(columns: Any) -> list[Any]:
    return [list(column) if isinstance(column, tuple) else str(column) for column in columns]


def _format_part(part: Any) -> str:
    text = part if isinstance(part, str) else json.dumps(part, ensure_ascii=False)
    return text if len(text) < 2000 else f"{text[:2000]}..."
