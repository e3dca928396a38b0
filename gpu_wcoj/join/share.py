"""Work partition of ticks: the share of a path's seeds that one of several engines runs.

All engines hold the same state and receive the same changes; each extends its share of every change's rows, and their
answers add up. A row's share depends on its values only: codes of text, batches and orders of rows differ between
engines that were started at different times, and must not matter.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpu_wcoj.backend import Backend
from gpu_wcoj.join.plan import AtomUse
from gpu_wcoj.join.seeds import Seeds
from gpu_wcoj.zset.arrays import positions

if TYPE_CHECKING:
    from gpu_wcoj.dictionary import Dictionary

_UInt64Array = npt.NDArray[np.uint64]


@dataclass(eq=False)
class Share:
    """One of several shares.

    Attributes
    ----------
    family
        Maps a relation's stored column to its dictionary, ``"string"`` or ``"binary"``, or an empty string. None for a
        column of null flags, which an engine may lack before it has seen a null.
    dictionaries
        By family. Code 0 is the empty text in each; rows without a value have its hash.
    """

    index: int
    n_shares: int
    family: Callable[[str, int], str | None]
    dictionaries: dict[str, Dictionary]
    _hashes: dict[str, _UInt64Array] = field(default_factory=dict)

    def rows_of(self, use: AtomUse, seeds: Seeds, backend: Backend) -> Seeds:
        """Return the seeds of this share, in their order."""
        xp = backend.xp
        mixed: Any = xp.zeros(len(seeds), np.uint64)
        for column in sorted(use.key.order):  # independent of the arrangement that an engine's plan uses
            family = self.family(use.key.relation, column)
            if family is None:
                continue
            values = seeds.matrix[use.key.order.index(column)]
            hashes = backend.asarray(self._text_hashes(family))[values] if family else values.view(np.uint64)
            mixed = _mix_bits(mixed * np.uint64(0x9E3779B97F4A7C15) + hashes, xp)
        (in_share,) = positions(backend, mixed % np.uint64(self.n_shares) == np.uint64(self.index))
        if len(in_share) == len(seeds):
            return seeds
        weights = None if seeds.weights is None else seeds.weights[in_share]
        return Seeds(seeds.order, xp.ascontiguousarray(seeds.matrix[:, in_share]), weights)

    def _text_hashes(self, family: str) -> _UInt64Array:
        """Return a hash of each code's value; only hashes of new values are computed."""
        dictionary = self.dictionaries[family]
        hashes = self._hashes.get(family, np.empty(0, np.uint64))[: len(dictionary)]
        if len(hashes) < len(dictionary):
            values = dictionary.decode(np.arange(len(hashes), len(dictionary))).to_pylist()
            fresh = [zlib.crc32(value.encode() if isinstance(value, str) else value) for value in values]
            hashes = np.concatenate([hashes, np.array(fresh, np.uint64)])
        self._hashes[family] = hashes
        return hashes


def _mix_bits(values: Any, xp: Any) -> Any:
    """Mix the bits of values (the finaliser of SplitMix64)."""
    values = (values ^ values >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ values >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return xp.bitwise_xor(values, values >> np.uint64(31))
