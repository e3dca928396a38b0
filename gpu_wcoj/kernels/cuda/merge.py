"""Merge two tries: place the smaller one's nodes in the larger one, then copy every level.

Left is the trie with more rows, right the other one; addition commutes.

1. *Places*, from the top down, a thread a right node: its position or insertion point among the left children of its
   parent, or the insertion point of its parent's children if left does not have the parent. Places ascend along a
   level, so they are the second run of a merge path over the whole level, for any parents.
2. *Changes*, from the bottom up, a thread a right node: it adds a node to the level (+1), meets an equal one (0), or
   removes one (-1): a row whose weights cancel, a node that keeps no child. Their running sums are the shifts of left's
   nodes. Neither step reads more of left than its searches do.
3. The only read: the change of each level's size, and whether weights other than 1 remain.
4. *Copies*, a launch a level, a block for every 4096 nodes of both tries in merged order: it finds its first and last
   right node by a search, marks the source of each of its ranks, and copies; a warp with left nodes only just copies.
   All else follows from the place in the order: the children of the node at rank d with r right nodes before it
   begin at ``left_offsets[d - r]``, moved by the changes of the children of these r nodes.

Launches: 3 a level less one, and one more if left has weights. Reads: one. Results of atomic operations do not depend
on their order.

Bytes, for n left and m right nodes of a level with codes of c bytes: a merge has to read c (n + m) and write as much,
and 8 (n + m) more of each for an inner level's offsets, or for the last one's weights if there are any. The copies move
as much, plus 16 m (8 m at the last level) for right's places and shifts. Steps 1 and 2 move about 20 m at the last
level and 50 m at an inner one, and the sectors of left that the searches read: all threads of a block search between
the places of its first and last node, and these sectors are in their cache after one sample each. So rows of narrow
codes without weights cost 8 bytes each, with weights 24, and a row of the change up to a hundred. If left has weights,
those that are not 1 are counted, up to the first that right cannot undo: if nearly all are 1, this reads up to 8 n
more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpu_wcoj.kernels.cuda.device import Device
from gpu_wcoj.kernels.protocol import CodeArray, Int64Array, Trie

CHUNK = 512
"""Right nodes that a block places and adds up, a thread each. Same in places.cuh."""
TILE = 4096
"""Nodes of both tries that a block copies. Same in merge_path.cuh."""
COPY_BLOCK = 256
"""Threads of a block that copies. Same in merge_path.cuh."""
COUNT_BLOCK = 256
"""Threads of a block that counts weights. Same in merge.cu."""
COUNT_CHUNK = 8 * COUNT_BLOCK
"""Weights that a block counts at a time. Same in merge.cu."""


@dataclass(frozen=True, eq=False, slots=True)
class _Level:
    """One level of both tries, with the places and changes of right's nodes.

    Attributes
    ----------
    places
        int64 (m,): four times the left node that a right one equals or precedes, plus its kind of change.
    within, chunk_before
        int32 (m + 1,) and int64: the sum of the changes before each node, within its chunk and before the chunk.
    child_shift
        int64 (m + 1,), at inner levels: the sum of the changes of the next level before each node's children.
    """

    left: Any
    right: Any
    places: Any
    within: Any
    chunk_before: Any
    child_shift: Any

    @property
    def n_left(self) -> int:
        return len(self.left)

    @property
    def n_right(self) -> int:
        return len(self.right)

    @property
    def n_chunks(self) -> int:
        return len(self.chunk_before)

    @property
    def sources(self) -> tuple[Any, ...]:
        """Both sides' values as arguments of kernels for both code widths."""
        left, right = self.left, self.right
        return left, int(left.itemsize == 8), len(left), right, int(right.itemsize == 8), len(right)


def _blocks(n: int, per_block: int) -> int:
    return -(-n // per_block)


def _levels(device: Device, left: Trie, right: Trie) -> list[_Level]:
    xp = device.xp
    levels = []
    for depth, (x, y) in enumerate(zip(left[0], right[0], strict=True)):
        m = len(y)
        inner = depth < len(left[0]) - 1
        levels.append(
            _Level(
                x, y, xp.empty(m, xp.int64), xp.empty(m + 1, xp.int32), xp.empty(_blocks(m + 1, CHUNK), xp.int64),
                xp.empty(m + 1, xp.int64) if inner else None,
            )
        )  # fmt: skip
    return levels


def _place(device: Device, left: Trie, right: Trie, levels: list[_Level], counters: Any) -> None:
    """Run steps 1 and 2.

    `counters` holds per level the sum of its changes and a ticket, then three counts of weights.
    """
    last_level = len(levels) - 1
    for depth, level in enumerate(levels):
        x, x_wide, n, y, y_wide, m = level.sources
        above: tuple[Any, ...] = (None, y, y_wide, m, None, 0, None)
        if depth > 0:
            parents = levels[depth - 1]
            above = left[1][depth - 1], y, y_wide, m, right[1][depth - 1], parents.n_right, parents.places
        arguments = [x, x_wide, n, *above, level.places]
        if depth < last_level:
            device.launch("merge", "place_nodes", _blocks(m, CHUNK), CHUNK, arguments)
        else:
            sums = [level.within, level.chunk_before, counters[2 * depth :], counters[2 * depth + 2 :]]
            device.launch(
                "merge", "place_rows", level.n_chunks, CHUNK, [*arguments, left[2], right[2], *sums]
            )  # fmt: skip
    for depth in range(last_level - 1, -1, -1):
        level, below = levels[depth], levels[depth + 1]
        device.launch(
            "merge", "change_nodes", level.n_chunks, CHUNK,
            [
                level.n_right, level.places, left[1][depth], right[1][depth], below.within, below.chunk_before,
                level.child_shift, level.within, level.chunk_before, counters[2 * depth :],
            ],
        )  # fmt: skip


def _copy(device: Device, level: _Level, size: int, kind: str, along: tuple[Any, ...]) -> CodeArray:
    """Copy the merged values of a level.

    `along` holds the arrays that accompany them on the left, on the right, and in the output.
    """
    xp = device.xp
    wide = 8 in (level.left.itemsize, level.right.itemsize)
    out: CodeArray = xp.empty(size, xp.int64 if wide else xp.int32)
    values = level.sources if wide else (level.left, level.n_left, level.right, level.n_right)
    # At least one block: it writes the end of the last node's children.
    n_blocks = max(1, _blocks(level.n_left + level.n_right, TILE))
    device.launch(
        "merge", f"copy_{'wide' if wide else 'narrow'}_{kind}", n_blocks, COPY_BLOCK,
        [*values, level.places, level.within, level.chunk_before, out, *along],
    )  # fmt: skip
    return out


def merge_tries(device: Device, left: Trie, right: Trie) -> tuple[list[CodeArray], list[Int64Array], Int64Array | None]:
    """See `gpu_wcoj.kernels.protocol.Kernels.merge_tries`."""
    xp = device.xp
    if len(left[0][-1]) < len(right[0][-1]):
        left, right = right, left
    levels = _levels(device, left, right)
    last_level = len(levels) - 1
    counters = xp.zeros(2 * len(levels) + 3, xp.int64)
    _place(device, left, right, levels, counters)
    if left[2] is not None:
        n_blocks = min(_blocks(len(left[2]), COUNT_CHUNK), 8 * device.multiprocessors)
        arguments = [left[2], len(left[2]), counters[2 * len(levels) :]]
        device.launch("merge", "count_weights", n_blocks, COUNT_BLOCK, arguments)
    counts = [int(counter) for counter in device.to_host(counters)]
    brought, met, n_other = counts[2 * len(levels) :]
    sizes = [level.n_left + change for level, change in zip(levels, counts[0 : 2 * len(levels) : 2], strict=True)]
    values: list[CodeArray] = []
    offsets: list[Int64Array] = []
    for depth in range(last_level):
        offsets.append(xp.empty(sizes[depth] + 1, xp.int64))
        along = left[1][depth], levels[depth].child_shift, offsets[depth]
        values.append(_copy(device, levels[depth], sizes[depth], "nodes", along))
    if brought == 0 and n_other <= met:
        values.append(_copy(device, levels[last_level], sizes[last_level], "rows", ()))
        return values, offsets, None
    weights: Int64Array = xp.empty(sizes[last_level], xp.int64)
    values.append(_copy(device, levels[last_level], sizes[last_level], "weighted", (left[2], right[2], weights)))
    return values, offsets, weights
