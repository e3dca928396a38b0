"""What a checkpoint keeps of a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from gpu_wcoj.lowering import Lowering
from gpu_wcoj.tick import StateStore

if TYPE_CHECKING:
    from gpu_wcoj.dictionary import Dictionary


@dataclass(frozen=True, eq=False)
class Subject:
    """A program, as far as a checkpoint is concerned: what defines it, and where its state is.

    Attributes
    ----------
    schema
        The types of input columns that were asked for, beyond the text.
    lowering
        How the program is lowered.
    ledger
        Its state.
    dictionaries
        Of text and of bytes; they grow with the state.
    """

    schema: Mapping[str, Sequence[Any]]
    lowering: Lowering
    ledger: StateStore
    dictionaries: tuple[Dictionary, Dictionary]


class Kept(Protocol):
    """What can be kept in a checkpoint: a program."""

    @property
    def subject(self) -> Subject:
        """What a checkpoint keeps of it."""
        ...
