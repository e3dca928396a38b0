"""Manifests: one small sealed file per version, created only if its number is free."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from gpu_wcoj.checkpoint.canonical import checksum, opened, sealed
from gpu_wcoj.checkpoint.folder import Folder
from gpu_wcoj.checkpoint.state import StoredState
from gpu_wcoj.errors import BatchMismatchError, CheckpointDamagedError, CheckpointError

FORMAT = 1
"""Format version of manifests and of the files that they name. Files with another version are rejected."""

REMEMBERED = 16
"""Number of last batches that a manifest lists one by one."""

_NAME = re.compile(r"manifest-(\d{12})\.json")


@dataclass(frozen=True)
class Batch:
    """The identity of a committed batch.

    Attributes
    ----------
    batch
        Its id.
    query
        Who numbers the batches: Spark's query id, or nothing.
    rows, digest
        How many rows it had, and a checksum of them.
    """

    batch: int
    query: str = ""
    rows: int = 0
    digest: str = ""

    def __str__(self) -> str:
        return f"batch {self.batch} of query '{self.query}' with {self.rows:,} rows and digest '{self.digest}'"


@dataclass(frozen=True)
class OutputFile:
    """A file that a batch wrote beside the checkpoint."""

    path: str
    rows: int
    bytes: int
    sha256: str = ""


@dataclass(frozen=True)
class Manifest:
    """One version of a checkpoint.

    Attributes
    ----------
    number
        Of the manifest; they have no gaps when written, and the largest is the one that counts.
    checkpoint
        A random name, the same for all manifests of one checkpoint.
    fence
        How often the checkpoint has been opened for writing.
    owner
        Who had it open.
    previous
        Checksum of the manifest before; empty for the first.
    version
        Number of the manifest with which this state was written; an opening writes a manifest, and no state.
    batches
        The last batches, the newest last; none before the first.
    chain
        A checksum over all batches so far; see `chained`.
    definition
        The file with the program's definition, and its checksum.
    state
        The state after the last batch; None before the first.
    outputs
        What the last batch wrote beside the checkpoint.
    extra
        What its writer wants to find again.
    """

    number: int
    checkpoint: str
    fence: int
    owner: str
    previous: str
    version: int
    definition: tuple[str, str]
    batches: tuple[Batch, ...] = ()
    chain: str = ""
    state: StoredState | None = None
    outputs: tuple[OutputFile, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def seal(self) -> str:
        """Checksum of the file."""
        return checksum(self.data)

    @property
    def name(self) -> str:
        """The name of the file."""
        return manifest_name(self.number)

    @property
    def version_name(self) -> str:
        """The globally unique name of the state."""
        runs = [] if self.state is None else sorted(run.sha256 for run in self.state.runs)
        content = checksum("".join((self.chain, *runs)).encode())  # copies of a checkpoint may go on apart
        return f"{self.checkpoint}-{self.version}-{content[:16]}"

    @property
    def last(self) -> Batch | None:
        """The last batch."""
        return self.batches[-1] if self.batches else None

    @property
    def batch(self) -> int:
        """Id of the last batch; -2 before the first, as batches are numbered from -1 or later."""
        return self.batches[-1].batch if self.batches else -2

    @property
    def query(self) -> str:
        """Query of the last batch."""
        return self.batches[-1].query if self.batches else ""

    @property
    def rows(self) -> int:
        """Rows of the last batch."""
        return self.batches[-1].rows if self.batches else 0

    @property
    def digest(self) -> str:
        """Digest of the last batch."""
        return self.batches[-1].digest if self.batches else ""

    @property
    def tick(self) -> int:
        """Number of the program's last tick."""
        return -1 if self.state is None else self.state.tick

    @property
    def files(self) -> set[str]:
        """All files that this version needs."""
        runs = () if self.state is None else self.state.runs
        return {self.name, self.definition[0], *(run.file for run in runs)}

    @cached_property
    def data(self) -> bytes:
        """The bytes of the file as written or read, independent of later changes of `extra`."""
        return sealed(
            {
                "format": FORMAT,
                "number": self.number,
                "checkpoint": self.checkpoint,
                "fence": self.fence,
                "owner": self.owner,
                "previous": self.previous,
                "version": self.version,
                "definition": list(self.definition),
                "batches": [vars(batch) for batch in self.batches],
                "chain": self.chain,
                "state": None if self.state is None else self.state.to_json(),
                "outputs": [vars(output) for output in self.outputs],
                "extra": dict(self.extra),
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes, path: object) -> Manifest:
        """Return the manifest in the bytes of a file; raises the errors of `opened`."""
        content = opened(data, path)
        if content.pop("format", None) != FORMAT:
            raise CheckpointError(f"checkpoint file '{path}' is not of format {FORMAT}, the one that is known here.")
        try:
            file, digest = content.pop("definition")
            state = content.pop("state")
            manifest = cls(
                definition=(str(file), str(digest)),
                batches=tuple(Batch(**batch) for batch in content.pop("batches")),
                state=None if state is None else StoredState.from_json(state),
                outputs=tuple(OutputFile(**output) for output in content.pop("outputs")),
                **content,
            )
            vars(manifest)["data"] = data
            return manifest
        except (KeyError, TypeError, ValueError):
            raise CheckpointDamagedError(path, "has not the parts of a manifest") from None

    def has(self, batch: Batch, path: object) -> bool:
        """Return True if a batch is in this version; False if it is the next one.

        Raises
        ------
        BatchMismatchError
            If it is neither: another batch of the same id, or not the one after the last.
        """
        last_batch = self.last
        if last_batch is None:
            return False
        if batch.batch <= last_batch.batch:
            for committed in self.batches:
                if committed.batch == batch.batch:
                    if committed == batch:
                        return True
                    raise BatchMismatchError(
                        f"the checkpoint '{path}' holds {committed};\n  what was given is {batch}.\n"
                        "  This is another source, or one that has changed: it cannot go on from this checkpoint."
                    )
            raise BatchMismatchError(
                f"{batch} is older than the batches that the checkpoint '{path}' can tell apart, "
                f"{self.batches[0].batch} to {last_batch.batch}.\n  The source was restarted, or is another one."
            )
        if last_batch.query and batch.query != last_batch.query:
            raise BatchMismatchError(
                f"the last batch of the checkpoint '{path}' is {last_batch};\n  what was given is {batch}.\n"
                "  Batches of another query do not follow it: begin a new checkpoint."
            )
        if batch.batch != last_batch.batch + 1:
            raise BatchMismatchError(
                f"the last batch of the checkpoint '{path}' is {last_batch.batch}, and what was given is {batch}.\n"
                f"  The next one must be {last_batch.batch + 1}: batches in between have been lost."
            )
        return False


def manifest_name(manifest_number: int) -> str:
    """Return the file name of a manifest."""
    return f"manifest-{manifest_number:012}.json"


def number_of(name: str) -> int | None:
    """Return the number in the name of a manifest; None for other files."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


def chained(chain: str, batch: Batch) -> str:
    """Return the checksum over all batches after one more batch.

    Examples
    --------
    >>> chained("", Batch(0))[:8] != chained(chained("", Batch(0)), Batch(0))[:8]
    True
    """
    return hashlib.sha256(chain.encode() + sealed(vars(batch))).hexdigest()


def read_file(folder: Folder, name: str) -> bytes:
    """Return the content of a file that must exist."""
    try:
        return folder.read(name)
    except FileNotFoundError:
        raise CheckpointDamagedError(folder.shown(name), "is missing") from None


def read_manifests(folder: Folder, names: Sequence[str]) -> list[Manifest]:
    """Return all manifests among these files, the newest last.

    Raises
    ------
    CheckpointDamagedError
        If one of them is not what was written, or what the newest one names is not there.
    """
    numbers = sorted(manifest_number for manifest_number in map(number_of, names) if manifest_number is not None)
    manifests: list[Manifest] = []
    seals: dict[int, str] = {}
    for number in numbers:
        name = manifest_name(number)
        path = folder.shown(name)
        data = read_file(folder, name)
        manifest = Manifest.from_bytes(data, path)
        if manifest.number != number:
            raise CheckpointDamagedError(path, f"is manifest {manifest.number}, under another's name")
        if seals.get(number - 1, manifest.previous) != manifest.previous:
            raise CheckpointDamagedError(path, "does not follow the manifest before it")
        if manifests and manifests[-1].checkpoint != manifest.checkpoint:
            raise CheckpointDamagedError(path, "is of another checkpoint")
        seals[number] = manifest.seal
        manifests.append(manifest)
    if manifests:
        for missing in sorted(manifests[-1].files - set(names)):
            raise CheckpointDamagedError(folder.shown(missing), "is missing")
    return manifests
