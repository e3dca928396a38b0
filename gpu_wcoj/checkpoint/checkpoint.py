"""A checkpoint: one folder, one writer, one manifest for each version of a program's state."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

from gpu_wcoj.checkpoint.canonical import checksum, sealed
from gpu_wcoj.checkpoint.definition import Definition
from gpu_wcoj.checkpoint.folder import Folder
from gpu_wcoj.checkpoint.manifest import REMEMBERED, Batch, Manifest, OutputFile, chained, manifest_name, number_of
from gpu_wcoj.checkpoint.merging import MOST_RUNS
from gpu_wcoj.checkpoint.reading import LEASE, OURS, folder_at, holder, read_all, read_definition
from gpu_wcoj.checkpoint.stored import load, mark_stored, store
from gpu_wcoj.checkpoint.watched import WatchedFolder
from gpu_wcoj.errors import CheckpointError, GpuWcojError, LeaseLostError, UsageError
from gpu_wcoj.subject import Kept, Subject

_LOGGER = logging.getLogger("gpu_wcoj")


@dataclass(frozen=True)
class CheckpointOptions:
    """How a checkpoint is written.

    Attributes
    ----------
    most_runs
        Runs of one relation that are left, at least 2, so that a restart reads few files; more are merged.
    layout
        How the state is spread; it must be the same at every opening.
    takeover
        Open it also while another process that is alive has it open. That one stops at its next commit.
    """

    most_runs: int = MOST_RUNS
    layout: str = "one"
    takeover: bool = False


_DEFAULTS = CheckpointOptions()


@dataclass(eq=False)
class Checkpoint:
    """A folder that holds a program's state after its last committed batch. Use `open`.

    Attributes
    ----------
    subject
        The program's part that is kept.
    manifests
        Those that are kept, the newest last; of each of the last two versions one.
    """

    folder: WatchedFolder
    subject: Subject
    options: CheckpointOptions
    owner: str
    manifests: list[Manifest] = field(default_factory=list)
    _n_files: int = 0
    _is_locked: bool = True
    _is_open: bool = True

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] | Folder,
        *,
        program: Kept,
        owner: str | None = None,
        options: CheckpointOptions = _DEFAULTS,
    ) -> Checkpoint:
        """Open a folder for writing; it is made if it is not there.

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
            If the path is no path of a file system.
        """
        if options.most_runs < 2:
            raise UsageError(f"most_runs={options.most_runs!r} is not allowed; it must be at least 2.")
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
        made = cls(folder, program.subject, options, owner, _is_locked=is_locked)
        weakref.finalize(made, folder.unlock)
        try:
            made._begin()
        except BaseException:
            folder.unlock()
            raise
        return made

    @property
    def last(self) -> Manifest | None:
        """The version after the last batch; None before the first."""
        newest = self.manifests[-1]
        return newest if newest.batches else None

    @property
    def path(self) -> str:
        """The folder, for messages."""
        return self.folder.shown(".")

    @property
    def fence(self) -> int:
        """How often the checkpoint has been opened for writing, this time included."""
        return self.manifests[-1].fence

    def restore(self, program: Kept) -> None:
        """Load the state after the last batch into a program that has not ticked yet; nothing before the first batch.

        The program then is the one whose state is committed.

        Raises
        ------
        CheckpointDamagedError, CheckpointMismatchError, CheckpointError
            As `open`, and if the program has ticked already.
        """
        Definition.of(self.subject, self.options.layout).check(
            Definition.of(program.subject, self.options.layout), self.path
        )
        newest = self.manifests[-1]
        if newest.state is not None:
            load(program.subject, newest.state, self.folder, newest.version_name)
        self.subject = program.subject

    def has(self, batch: int, *, query: str = "", rows: int = 0, digest: str = "") -> bool:
        """Whether a batch has been committed: then it must not be taken in again. False if it is the next one.

        Raises
        ------
        BatchMismatchError
            If the checkpoint holds another batch of that id, or does not have the one before it.
        """
        return self.manifests[-1].has(Batch(batch, query, rows, digest), self.path)

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
        """Store the program's state as that after a batch; whatever happens, afterwards it is stored whole or not.

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
        """
        self._check_open()
        newest, taken = self.manifests[-1], _checked(Batch(batch, query, rows, digest))
        state = self.subject.ledger.state
        origin = None if state.journal is None else state.journal.version
        if self.has(batch, query=query, rows=rows, digest=digest):
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
        plain = _plain(extra or {})
        self._check_lease(self.folder.names())
        written = self._n_files
        try:
            stored = store(self.subject, newest.state, self.folder, self._new_run, self.options.most_runs)
            manifest = replace(
                newest,
                number=newest.number + 1,
                previous=newest.seal,
                version=newest.number + 1,
                batches=(*newest.batches, taken)[-REMEMBERED:],
                chain=chained(newest.chain, taken),
                state=stored,
                outputs=tuple(outputs),
                extra=plain,
            )
            names = self._publish(manifest)
        except BaseException as error:
            if not self.folder.broken:
                self._forget_files(written)
            if not isinstance(error, LeaseLostError) and self._is_lost():
                raise self._lost() from error  # what was missed is what the other writer has tidied up
            raise
        mark_stored(self.subject, manifest.version_name)
        self._tidy(names)
        return manifest

    def close(self) -> None:
        """Let others open it. What is committed stays; closing twice is no error."""
        if self._is_open:
            self._is_open = False
            self.folder.unlock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # How.

    def _begin(self) -> None:
        """Read what is there, compare, and publish that it is open with a higher fencing number."""
        names = self.folder.names()
        given = Definition.of(self.subject, self.options.layout)
        self.manifests = read_all(self.folder, names)
        if self.manifests:
            newest = self.manifests[-1]
            read_definition(self.folder, newest).check(given, self.path)
            opening = replace(
                newest,
                number=newest.number + 1,
                fence=newest.fence + 1,
                owner=self.owner,
                previous=newest.seal,
            )
            self._n_files = _next_file(names, opening.fence)
            self._tidy(self._publish(opening))
            return
        for name in names:
            if name != LEASE and not OURS.fullmatch(name):
                raise CheckpointError(
                    f"the folder '{self.path}' holds no checkpoint, but '{name}'.\n  Name an empty one."
                )
        self._n_files = _next_file(names, 1)
        name = self._new_name("definition", "json", 1)
        data = sealed(given.to_json())
        self._write(name, data)
        first = Manifest(0, os.urandom(16).hex(), 1, self.owner, "", 0, (name, checksum(data)))
        self._tidy(self._publish(first))

    def _publish(self, manifest: Manifest) -> list[str]:
        """Make it the newest, with files that are on the disk; their names are forced there first.

        Returns
        -------
        What is in the folder then.
        """
        temporary = self._new_name("manifest", "tmp", manifest.fence)
        self._write(temporary, manifest.to_bytes())
        self.folder.sync()
        try:
            self.folder.publish(temporary, manifest.name)
        except FileExistsError:
            raise self._lost() from None
        self.folder.sync()
        with self.folder.trying("looked at after it was published", manifest.name, breaks=True):
            names = self.folder.folder.names()
        if _has_newer(names, manifest.number):
            raise self._lost()
        self.manifests = _kept([*self.manifests, manifest])
        return names

    def _tidy(self, names: Sequence[str]) -> None:
        """Remove what no kept version needs, and note the newest one; the commit stands, whatever becomes of this."""
        newest = self.manifests[-1]
        needed: set[str] = set()
        needed.update(*(manifest.files for manifest in self.manifests))
        try:
            for name in names:
                ours = OURS.fullmatch(name)
                is_old = number_of(name) is not None or (ours is not None and int(ours[1]) <= newest.fence)
                if is_old and name not in needed:
                    self.folder.remove(name)
            self._is_locked = self._is_locked or self.folder.lock(LEASE)
            self.folder.note(sealed({"owner": self.owner, "fence": newest.fence, "newest": newest.number}))
        except GpuWcojError as error:
            _LOGGER.warning("after a commit: %s", error)

    def _check_lease(self, names: Sequence[str]) -> None:
        if _has_newer(names, self.manifests[-1].number):
            raise self._lost()

    def _is_lost(self) -> bool:
        other = self._newest()
        return other is not None and other.fence > self.fence

    def _newest(self) -> Manifest | None:
        """What is published last, by whomever, as far as can be told."""
        with contextlib.suppress(OSError, GpuWcojError, ValueError):
            folder = self.folder.folder
            newest = max(number for number in map(number_of, folder.names()) if number is not None)
            return Manifest.from_bytes(folder.read(manifest_name(newest)), newest)
        return None

    def _lost(self) -> LeaseLostError:
        other = self._newest()
        by = "another writer" if other is None else f"{other.owner}, with fencing number {other.fence}"
        self.folder.broken = f"it has been taken over by {by}"
        own = f" {self.fence}" if self.manifests else "out one yet"
        return LeaseLostError(
            f"the checkpoint '{self.path}' has been taken over by {by};\n  this one is {self.owner}, with{own}.\n"
            "  Stop this process: what it has not committed is for the other one to do."
        )

    def _check_open(self) -> None:
        if not self._is_open:
            raise CheckpointError("this checkpoint is closed.\n  Open it again.")
        self.folder.check()

    def _write(self, name: str, data: bytes) -> None:
        file = self.folder.create(name)
        try:
            file.write(data)
            file.sync()
        except BaseException:
            self._forget(name)
            raise
        finally:
            file.close()

    def _new_run(self) -> str:
        return self._new_name("run", "parquet", self.fence)

    def _new_name(self, kind: str, ending: str, fence: int) -> str:
        """A name that no other attempt has: of this opening, and counted."""
        self._n_files += 1
        return f"{kind}-{fence:06}-{self._n_files:08}.{ending}"

    def _forget_files(self, written: int) -> None:
        """Remove the runs of an attempt that has failed."""
        for number in range(written + 1, self._n_files + 1):
            self._forget(f"run-{self.fence:06}-{number:08}.parquet")

    def _forget(self, name: str) -> None:
        with contextlib.suppress(OSError, GpuWcojError):
            self.folder.folder.remove(name)


def _has_newer(names: Sequence[str], number: int) -> bool:
    return any(other is not None and other > number for other in map(number_of, names))


def _kept(manifests: Sequence[Manifest]) -> list[Manifest]:
    """Of each of the last two versions the newest manifest."""
    by_version = {manifest.version: manifest for manifest in manifests}
    return [by_version[version] for version in sorted(by_version)[-2:]]


def _next_file(names: Sequence[str], fence: int) -> int:
    """The largest number of a file of this fence: an opening that failed may have left some."""
    matches = [match for match in map(OURS.fullmatch, names) if match and int(match[1]) == fence]
    return max((int(match[2]) for match in matches), default=0)


def _checked(batch: Batch) -> Batch:
    allowed: dict[str, tuple[type, str]] = {"batch": (int, "a whole number"), "rows": (int, "a whole number")}
    allowed |= {"query": (str, "a text"), "digest": (str, "a text")}
    for name, value in vars(batch).items():
        kind, words = allowed[name]
        if type(value) is not kind:
            raise UsageError(f"{name}={value!r} is not allowed; it must be {words}.")
    if batch.batch < -1 or batch.rows < 0:
        raise UsageError(f"{batch} is not allowed: ids begin at -1, and numbers of rows at 0.")
    return batch


def _plain(extra: Mapping[str, Any]) -> dict[str, Any]:
    try:
        plain: dict[str, Any] = json.loads(json.dumps(dict(extra), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise UsageError(f"extra={extra!r:.200} cannot be stored as JSON: {error}.") from None
    return plain
