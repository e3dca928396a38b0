"""Sharing the work of ticks: of the rows that start a delta path, those that one of several equal engines takes.

All of them hold the same state and get the same changes; each extends its share of every change's rows, and their
answers add up to the whole one. Which share a row is in follows from its values alone: codes of text, batches and
orders of rows differ between engines that have started at different times, and must not matter.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpu_wcoj.backend import Backend
from gpu_wcoj.join.path import AtomUse
from gpu_wcoj.join.seeds import Seeds
from gpu_wcoj.zset.arrays import positions

if TYPE_CHECKING:
    from gpu_wcoj.dictionary import Dictionary

_UInt64Array = npt.NDArray[np.uint64]


@dataclass(eq=False)
class Share:
    """One of `of` shares, the one with this number.

    Attributes
    ----------
    family
        Of a relation's stored column, which dictionary has its values, ``"string"`` or ``"binary"``; else empty. None
        for a column of null flags, which an engine may not have before it has seen a null.
    dictionaries
        By family. Code 0 is the empty text in each, whose hash rows without a value have, too.
    """

    number: int
    of: int
    family: Callable[[str, int], str | None]
    dictionaries: dict[str, Dictionary]
    _hashes: dict[str, _UInt64Array] = field(default_factory=dict)

    def rows_of(self, use: AtomUse, seeds: Seeds, backend: Backend) -> Seeds:
        """The seeds of this share, in their order."""
        xp = backend.xp
        mixed: Any = xp.zeros(len(seeds), np.uint64)
        for column in sorted(use.key.order):  # whatever arrangement an engine's plan takes the seeds from
            family = self.family(use.key.relation, column)
            if family is None:
                continue
            values = seeds.matrix[use.key.order.index(column)]
            own = backend.asarray(self._text_hashes(family))[values] if family else values.view(np.uint64)
            mixed = _mixed(mixed * np.uint64(0x9E3779B97F4A7C15) + own, xp)
        (kept,) = positions(backend, mixed % np.uint64(self.of) == np.uint64(self.number))
        if len(kept) == len(seeds):
            return seeds
        weights = None if seeds.weights is None else seeds.weights[kept]
        return Seeds(seeds.order, xp.ascontiguousarray(seeds.matrix[:, kept]), weights)

    def _text_hashes(self, family: str) -> _UInt64Array:
        """Per code a hash of its value; only those of new values are computed."""
        dictionary = self.dictionaries[family]
        known = self._hashes.get(family, np.empty(0, np.uint64))[: len(dictionary)]
        if len(known) < len(dictionary):
            values = dictionary.decode(np.arange(len(known), len(dictionary))).to_pylist()
            fresh = [zlib.crc32(value.encode() if isinstance(value, str) else value) for value in values]
            known = np.concatenate([known, np.array(fresh, np.uint64)])
        self._hashes[family] = known
        return known


def _mixed(values: Any, xp: Any) -> Any:
    """Every bit of the result depends on every bit of the value (the finaliser of SplitMix64)."""
    values = (values ^ values >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ values >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return xp.bitwise_xor(values, values >> np.uint64(31))
