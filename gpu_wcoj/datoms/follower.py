"""Incremental maintenance of the answer of a query, shared by its subscriptions."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_wcoj.datoms.question import BoundQuery, CompiledQuery, Source
from gpu_wcoj.datoms.report import datoms_as_zset
from gpu_wcoj.datoms.schema import Attribute
from gpu_wcoj.datoms.store import Delta
from gpu_wcoj.engine.state import Mark
from gpu_wcoj.errors import UnknownAttributeWarning
from gpu_wcoj.program import Program
from gpu_wcoj.zset.zset import ZSet

_PACKAGE = str(Path(__file__).parents[1])


def _callers_level() -> int:
    """Return the `stacklevel` with which a warning points at the caller of this package."""
    level, frame = 0, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    return level


@dataclass(frozen=True)
class State:
    """State that a transaction can change: the program and its compiled query."""

    compiled: CompiledQuery
    program: Program
    mark: Mark


class Follower:
    """Maintains the answer of a query.

    Attributes
    ----------
    first
        The initial answer.
    """

    def __init__(self, bound_query: BoundQuery, options: Mapping[str, Any]) -> None:
        self.bound_query = bound_query
        self.options = options
        self.compiled = bound_query.compile()
        for message in self.compiled.query.undeclared.values():
            warnings.warn(message, UnknownAttributeWarning, stacklevel=_callers_level())
        self.program = self._program(self.compiled)
        self._no_change: ZSet | None = None
        self.first = self._start(self.program, self.compiled)

    def _program(self, compiled: CompiledQuery) -> Program:
        query = compiled.query
        return Program(query.rules, outputs=[query.output], schema=compiled.schema, **self.options)

    def _start(self, program: Program, compiled: CompiledQuery) -> ZSet:
        """Run the first tick of a program on the present datoms; return the answer."""
        return program.step(compiled.present())[compiled.query.output]

    @property
    def answer(self) -> ZSet:
        """The present answer."""
        return self.program.relation(self.compiled.query.output)

    def shape_answer(self, answer: ZSet) -> Any:
        """Return an answer in the shape of ``:find``."""
        return self.compiled.query.shape_answer([row for row, _ in answer.rows()])

    @property
    def no_change(self) -> ZSet:
        """A change without rows."""
        if self._no_change is None:
            self._no_change = self.program.empty(self.compiled.query.output)
        return self._no_change

    def state(self) -> State:
        """Return the present state, for `return_to`."""
        return State(self.compiled, self.program, self.program.mark())

    def return_to(self, state: State) -> None:
        """Restore a state."""
        self.compiled, self.program, self._no_change = state.compiled, state.program, None
        self.program.return_to(state.mark)

    def process(self, source: Source, delta: Delta) -> ZSet:
        """Process a transaction before its store applies it; return the answer's change."""
        try:
            self.recompile(source, delta.attributes)
            self._no_change = None  # types may become known with the rows
            changes = {}
            for name, feed in self.compiled.feeds.items():
                if feed.source is source and (parts := feed.select(delta)):
                    changes[name] = datoms_as_zset(parts, feed.kind, source.store.texts)
            return self.program.step(changes)[self.compiled.query.output]
        except Exception as error:
            error.add_note(
                f"The transaction was undone: the subscription to {self.bound_query.text!r:.200} cannot process it."
            )
            raise

    def recompile(self, source: Source, attributes: Mapping[str, Attribute]) -> None:
        """Recompile if the types of attributes have become known; the answer is unchanged."""
        if self.compiled.is_outdated(attributes):
            compiled = self.bound_query.compile(source, attributes)
            program = self._program(compiled)
            program.load(compiled.present())
            self.compiled, self.program, self._no_change = compiled, program, None
