"""The parts of a program that a checkpoint stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from gpu_wcoj.engine.compile import Compiler
from gpu_wcoj.engine.state import StateStore

if TYPE_CHECKING:
    from gpu_wcoj.dictionary import Dictionary


@dataclass(frozen=True, eq=False)
class Subject:
    """The checkpoint's view of a program: its definition and its state.

    Attributes
    ----------
    schema
        The types of input columns that were passed in addition to the text.
    lowering
        The compiler of the program.
    ledger
        The holder of its state.
    dictionaries
        The dictionaries of text and of bytes; they grow with the state.
    """

    schema: Mapping[str, Sequence[Any]]
    lowering: Compiler
    ledger: StateStore
    dictionaries: tuple[Dictionary, Dictionary]


class Checkpointable(Protocol):
    """An object that a checkpoint can store: a program."""

    @property
    def subject(self) -> Subject:
        """The parts of it that a checkpoint stores."""
        ...
