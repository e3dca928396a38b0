"""A checkpoint: a folder with one writer and a manifest for each version of a state."""

from __future__ import annotations

import json
import os
import socket
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

from gpu_wcoj.checkpoint.definition import Definition
from gpu_wcoj.checkpoint.folder import Folder
from gpu_wcoj.checkpoint.manifest import REMEMBERED, Batch, Manifest, OutputFile, chained
from gpu_wcoj.checkpoint.merging import MAX_RUNS
from gpu_wcoj.checkpoint.reading import LEASE, folder_at, holder
from gpu_wcoj.checkpoint.state import load, mark_stored, store
from gpu_wcoj.checkpoint.versions import Versions
from gpu_wcoj.checkpoint.watched import WatchedFolder
from gpu_wcoj.errors import CheckpointError, UsageError, entry_point
from gpu_wcoj.subject import Checkpointable, Subject


@dataclass(frozen=True)
class CheckpointOptions:
    """Options for writing a checkpoint.

    Attributes
    ----------
    most_runs
        Runs of one relation that are left, at least 2, so that a restart reads few files; more are merged.
    layout
        How the state is spread; it must be the same at every opening.
    takeover
        Open it also while another process that is alive has it open. That one stops at its next commit.
    """

    most_runs: int = MAX_RUNS
    layout: str = "one"
    takeover: bool = False


_DEFAULTS = CheckpointOptions()


@dataclass(eq=False)
@entry_point
class Checkpoint:
    """A folder with a program's state after its last committed batch; made by `open`.

    Attributes
    ----------
    versions
        What is published in the folder.
    subject
        The program's part that is kept.
    """

    versions: Versions
    subject: Subject
    options: CheckpointOptions
    _is_open: bool = True

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] | Folder,
        *,
        program: Checkpointable,
        owner: str | None = None,
        options: CheckpointOptions = _DEFAULTS,
    ) -> Checkpoint:
        """Open a folder for writing; it is created if it is missing.

        The program's state is not touched: `restore` loads it, and `commit` refuses one that comes from elsewhere.

        Parameters
        ----------
        path
            A folder of a local or mounted file system.
        program
            The program whose state it is to hold, or holds.
        owner
            Who opens it, as messages shall say.

        Raises
        ------
        CheckpointMismatchError
            If it was made with another program, schema, semantics or layout.
        CheckpointDamagedError
            If a file is missing or is not what was written.
        CheckpointError
            If another process has it open, or the folder holds something else.
        UsageError
            If the path is not a path of a file system.
        """
        if options.most_runs < 2:
            raise UsageError.invalid_value("most_runs", options.most_runs, "an integer from 2 on")
        folder = WatchedFolder(folder_at(path))
        folder.prepare()
        is_locked = folder.lock(LEASE)
        if not is_locked and not options.takeover:
            raise CheckpointError(
                f"the checkpoint '{folder.shown('.')}' is open: {holder(folder)}.\n"
                "  Stop that process first; or take over with options=CheckpointOptions(takeover=True), and it stops "
                "with an error at its next commit."
            )
        owner = owner or f"process {os.getpid()} on {socket.gethostname()}"
        made = cls(Versions(folder, owner, is_locked), program.subject, options)
        weakref.finalize(made, folder.unlock)
        try:
            made.versions.begin(Definition.from_subject(made.subject, options.layout))
        except BaseException:
            folder.unlock()
            raise
        return made

    @property
    def last(self) -> Manifest | None:
        """The version after the last batch; None before the first."""
        newest = self.versions.newest
        return newest if newest.batches else None

    @property
    def manifests(self) -> list[Manifest]:
        """The stored manifests, the newest last: one of each of the last two versions."""
        return self.versions.manifests

    @property
    def folder(self) -> WatchedFolder:
        """The folder of the manifests."""
        return self.versions.folder

    @property
    def owner(self) -> str:
        """The name of the process that opened it."""
        return self.versions.owner

    @property
    def path(self) -> str:
        """The folder, for messages."""
        return self.versions.path

    @property
    def fence(self) -> int:
        """The number of openings for writing so far, including this one."""
        return self.versions.newest.fence

    def restore(self, program: Checkpointable) -> None:
        """Load the state after the last batch into a program that has not ticked yet.

        Before the first batch there is nothing to load.

        The program then is the one whose state is committed.

        Raises
        ------
        CheckpointDamagedError, CheckpointMismatchError, CheckpointError
            As `open`, and if the program has ticked already.
        """
        Definition.from_subject(self.subject, self.options.layout).check(
            Definition.from_subject(program.subject, self.options.layout), self.path
        )
        newest = self.versions.newest
        if newest.state is not None:
            subject, state = program.subject, newest.state
            subject.ledger.turns.run("restoring", lambda: load(subject, state, self.folder, newest.version_name))
        self.subject = program.subject

    def has(self, batch: int, *, query: str = "", rows: int = 0, digest: str = "") -> bool:
        """Return True if a batch has been committed and must not run again; False for the next one.

        Raises
        ------
        BatchMismatchError
            If the checkpoint holds another batch of that id, or does not have the one before it.
        """
        return self.versions.newest.has(Batch(batch, query, rows, digest), self.path)

    def commit(
        self,
        batch: int,
        *,
        query: str = "",
        rows: int = 0,
        digest: str = "",
        outputs: Sequence[OutputFile] = (),
        extra: Mapping[str, Any] | None = None,
    ) -> Manifest:
        """Store the program's state after a batch, atomically.

        What is written follows what has changed since the last commit. A batch that is committed already is not
        committed again, if it is the same to its digest.

        Parameters
        ----------
        batch
            Its id: one more than the last one's; the first may have any from -1 on.
        query, rows, digest
            What else tells it from others.
        outputs, extra
            What to find again in the manifest; `extra` is stored as JSON.

        Raises
        ------
        BatchMismatchError
            If the id is taken by another batch, or is not the next one.
        LeaseLostError
            If another process has taken over. This one must stop.
        CheckpointWriteError
            If a file cannot be written. The checkpoint is as before. Only if a file could not be forced to the disk,
            it takes no more commits until it is opened again.
        CheckpointError
            If the program's state does not come from this checkpoint, or the checkpoint takes no more commits.
        UsageError
            If it is called in the middle of a tick.
        """
        taken = _checked(Batch(batch, query, rows, digest))
        plain = _plain(extra or {})
        return self.subject.ledger.turns.run("storing the state", lambda: self._commit(taken, tuple(outputs), plain))

    def _commit(self, taken: Batch, outputs: tuple[OutputFile, ...], extra: dict[str, Any]) -> Manifest:
        self._check_open()
        versions = self.versions
        newest = versions.newest
        state = self.subject.ledger.state
        origin = None if state.journal is None else state.journal.version
        if newest.has(taken, self.path):
            if origin != newest.version_name or state.report.tick != newest.tick:
                raise CheckpointError(
                    f"{taken} is committed already, and the program has taken in more than the checkpoint holds.\n"
                    "  Ask has() before a batch is taken in; now, restore into a new program."
                )
            return newest
        if newest.batches and origin != newest.version_name:
            raise CheckpointError(
                f"the state of this program does not come from the checkpoint '{self.path}', "
                f"which holds {newest.last}.\n  Restore into a new program, or choose an empty folder."
            )
        versions.check()
        with versions.attempt():
            stored = store(self.subject, newest.state, versions.folder, versions.new_run, self.options.most_runs)
            manifest = replace(
                newest,
                number=newest.number + 1,
                previous=newest.seal,
                version=newest.number + 1,
                batches=(*newest.batches, taken)[-REMEMBERED:],
                chain=chained(newest.chain, taken),
                state=stored,
                outputs=outputs,
                extra=extra,
            )
            names = versions.publish(manifest)
        mark_stored(self.subject, manifest.version_name)
        versions.tidy(names)
        return manifest

    def close(self) -> None:
        """Let others open it. Commits stay; it may be closed twice."""
        if self._is_open:
            self._is_open = False
            self.folder.unlock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if not self._is_open:
            raise CheckpointError("this checkpoint is closed.\n  Open it again.")
        self.folder.check()


def _checked(batch: Batch) -> Batch:
    allowed: dict[str, tuple[type, str]] = {"batch": (int, "an integer"), "rows": (int, "an integer")}
    allowed |= {"query": (str, "a text"), "digest": (str, "a text")}
    for name, value in vars(batch).items():
        kind, words = allowed[name]
        if type(value) is not kind:
            raise UsageError.invalid_value(name, value, words)
    if batch.batch < -1 or batch.rows < 0:
        raise UsageError(f"{batch} is not allowed: ids begin at -1, and numbers of rows at 0.")
    return batch


def _plain(extra: Mapping[str, Any]) -> dict[str, Any]:
    try:
        plain: dict[str, Any] = json.loads(json.dumps(dict(extra), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise UsageError(f"extra={extra!r:.200} cannot be stored as JSON: {error}.") from None
    return plain
