"""The program that keeps the answer of a question, for all subscriptions that ask it."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_wcoj.datoms.question import Compiled, Question, Source
from gpu_wcoj.datoms.report import datoms_as_zset
from gpu_wcoj.datoms.schema import Attribute
from gpu_wcoj.datoms.store import Delta
from gpu_wcoj.errors import UnknownAttributeWarning
from gpu_wcoj.program import Program
from gpu_wcoj.tick import Mark
from gpu_wcoj.zset.zset import ZSet

_PACKAGE = str(Path(__file__).parents[1])


def _callers_level() -> int:
    """Return the `stacklevel` by which a warning points at the line outside of this package that led here."""
    level, frame = 0, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    return level


@dataclass(frozen=True)
class State:
    """What a transaction can move: the program, and what it was compiled from."""

    compiled: Compiled
    program: Program
    mark: Mark


class Follower:
    """Keeps the answer of a question.

    Attributes
    ----------
    first
        The answer at the start.
    """

    def __init__(self, question: Question, options: Mapping[str, Any]) -> None:
        self.question = question
        self.options = options
        self.compiled = question.compiled()
        for message in self.compiled.query.undeclared.values():
            warnings.warn(message, UnknownAttributeWarning, stacklevel=_callers_level())
        self.program = self._program(self.compiled)
        self._no_change: ZSet | None = None
        self.first = self._begun(self.program, self.compiled)

    def _program(self, compiled: Compiled) -> Program:
        query = compiled.query
        return Program(query.rules, outputs=[query.output], schema=compiled.schema, **self.options)

    def _begun(self, program: Program, compiled: Compiled) -> ZSet:
        """Let a new program have what is there; the answer."""
        return program.step(compiled.present())[compiled.query.output]

    @property
    def answer(self) -> ZSet:
        """The present answer."""
        return self.program.relation(self.compiled.query.output)

    def shaped(self, answer: ZSet) -> Any:
        """An answer in the shape that the query asks for."""
        return self.compiled.query.shape_answer([row for row, _ in answer.rows()])

    @property
    def no_change(self) -> ZSet:
        """An answer without rows."""
        if self._no_change is None:
            self._no_change = self.program.empty(self.compiled.query.output)
        return self._no_change

    def state(self) -> State:
        """What stands now, for `return_to`."""
        return State(self.compiled, self.program, self.program.mark())

    def return_to(self, state: State) -> None:
        """Undo what has happened since."""
        self.compiled, self.program, self._no_change = state.compiled, state.program, None
        self.program.return_to(state.mark)

    def take(self, source: Source, delta: Delta) -> ZSet:
        """Take a transaction of a database, whose store does not have it yet; the answer's change."""
        try:
            self.renew(source, delta.attributes)
            self._no_change = None  # what is known of types may change with the rows
            changes = {}
            for name, feed in self.compiled.feeds.items():
                if feed.source is source and (parts := feed.touched(delta)):
                    changes[name] = datoms_as_zset(parts, feed.kind, source.store.texts)
            return self.program.step(changes)[self.compiled.query.output]
        except Exception as error:
            error.add_note(
                f"The transaction was undone: the subscription to {self.question.text!r:.200} cannot take it."
            )
            raise

    def renew(self, source: Source, attributes: Mapping[str, Attribute]) -> None:
        """Compile anew if the question asks of attributes that are known only now; no answer changes by it."""
        if self.compiled.is_outdated(attributes):
            compiled = self.question.compiled(source, attributes)
            program = self._program(compiled)
            program.load(compiled.present())
            self.compiled, self.program, self._no_change = compiled, program, None
