"""State on the disk: one folder that always holds a program's state after some batch, whole.

Files, all written once and never changed:

``run-FENCE-COUNT.parquet``
    Sorted rows of one relation that has state (an input; the number of derivations of a head's rows; a head that is
    kept or read by rules), as int64 codes with their weights: all of them, or what some batches changed. The relation
    is the sum of its runs. Or values of a dictionary, from some code on. Pages have checksums.
``definition-FENCE-COUNT.json``
    The program's text and options.
``manifest-NUMBER.json``
    One version: the last batches (id, query, rows, digest), the tick, types, names and nulls of columns, the runs with
    sizes and checksums, the fencing number, the checksum of the manifest before, and of itself. The one with the
    largest number counts.
``lease``
    Locked by the process that writes; says who that is, as a hint.

A commit writes the new runs and forces each to the disk, writes the manifest under a temporary name and forces it,
forces the folder, links the manifest to its name, which fails if it is taken, and forces the folder again. An opening
publishes a manifest, too, with the next fencing number: whoever had the checkpoint open finds the name of its next
manifest taken. Files carry the fencing number and a count in their names, so no two attempts write the same file.
"""

from gpu_wcoj.checkpoint.checkpoint import Checkpoint, CheckpointOptions
from gpu_wcoj.checkpoint.manifest import Batch, Manifest, OutputFile

__all__ = ["Batch", "Checkpoint", "CheckpointOptions", "Manifest", "OutputFile"]


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
