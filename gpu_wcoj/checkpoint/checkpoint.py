"""A checkpoint: a folder with one writer and a manifest for each version of a state."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import socket
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from gpu_wcoj.checkpoint.canonical import checksum, opened, rows_digest, sealed
from gpu_wcoj.checkpoint.folder import Folder, OsFolder, WatchedFolder, write_whole
from gpu_wcoj.checkpoint.manifest import (
    REMEMBERED,
    Batch,
    Manifest,
    OutputFile,
    chained,
    manifest_name,
    number_of,
    read_file,
    read_manifests,
)
from gpu_wcoj.checkpoint.state import MAX_RUNS, Definition, load, mark_stored, store
from gpu_wcoj.destination import folder_path
from gpu_wcoj.engine.options import ProgramOptions
from gpu_wcoj.engine.state import Checkpointable, Subject
from gpu_wcoj.errors import (
    BatchMismatchError,
    CheckpointDamagedError,
    CheckpointError,
    GpuWcojError,
    LeaseLostError,
    UsageError,
    counted,
    entry_point,
)
from gpu_wcoj.query.ir import Rules

if TYPE_CHECKING:
    import pyarrow as pa


# Reading a checkpoint without opening it for writing.
#
# Any number of readers may run beside a writer.


LEASE = "lease"
OURS = re.compile(r"(?:run|definition|manifest)-(\d{6})-(\d{8})\.(?:parquet|json|tmp)")
"""Files that are named by the fencing number of who wrote them, and counted."""

_ATTEMPTS = 10
"""Maximum attempts to read a version that a writer may remove meanwhile."""

P = TypeVar("P", bound=Checkpointable)
T = TypeVar("T")


def restored(path: str | os.PathLike[str], make: Callable[[Rules, ProgramOptions], P], options: ProgramOptions) -> P:
    """Return the program of a checkpoint; see `restored_with_extra`."""
    return restored_with_extra(path, make, options, allows_empty=True)[0]


def restored_with_extra(
    path: str | os.PathLike[str],
    make: Callable[[Rules, ProgramOptions], P],
    options: ProgramOptions,
    *,
    allows_empty: bool = False,
) -> tuple[P, dict[str, Any]]:
    """Return the program of a checkpoint, and the values stored beside it.

    Its state is that after the last batch.

    Parameters
    ----------
    make
        Makes a program of rules and options.
    options
        The options that are not stored in the checkpoint; those that are have their defaults.
    allows_empty
        Whether a checkpoint without a committed batch is that of an empty program, rather than an error.
    """

    def read(folder: WatchedFolder, manifest: Manifest, definition: Definition) -> tuple[P, dict[str, Any]]:
        if definition.parts["layout"] != "one":
            raise CheckpointError(
                f"the checkpoint '{folder.shown('.')}' is of a program that is spread over cells.\n"
                "  gpu_wcoj.spark.View.restore reads it, by the folder that is the view's checkpoint."
            )
        if manifest.state is None and not allows_empty:
            raise CheckpointError(
                f"the checkpoint '{folder.shown('.')}' holds no state: no commit was completed.\n"
                "  Load a new program from the inputs, and store that."
            )
        rules = definition.rules(options.functions)
        program = make(rules, definition.complete_options(options, rules))
        if manifest.state is not None:
            load(program.subject, manifest.state, folder, manifest.version_name)
        return program, dict(manifest.extra)

    return read_again(path, read)


def read_again(path: str | os.PathLike[str], read: Callable[[WatchedFolder, Manifest, Definition], T]) -> T:
    """Return the result of `read` on the newest manifest.

    It is repeated with a newer manifest if a writer removed files meanwhile.
    """
    folder = WatchedFolder(folder_at(path))
    for attempt in range(_ATTEMPTS):
        manifest = None
        try:
            manifest, definition = read_newest(folder)
            return read(folder, manifest, definition)
        except CheckpointDamagedError:
            # Beside a writer, versions come and go: damage is what is still there in the same version.
            if attempt == _ATTEMPTS - 1 or (manifest is not None and manifest.name in folder.names()):
                raise
    raise AssertionError


def folder_at(path: str | os.PathLike[str] | Folder) -> Folder:
    """Return the folder of a path.

    Stores that are named by a URL cannot create a file only if it is absent in the way that is needed here.
    """
    return path if isinstance(path, Folder) else OsFolder(folder_path(path))


def read_all(folder: Folder, names: Sequence[str]) -> list[Manifest]:
    """Return all manifests of a folder, the newest last; see `read_manifests`.

    The newest must be the one noted in the lease.
    """
    manifests = read_manifests(folder, names)
    newest = manifests[-1].number if manifests else -1
    if newest < 0 and any(name.startswith("run-") and OURS.fullmatch(name) for name in names):
        raise CheckpointDamagedError(folder.shown(manifest_name(0)), "is missing, and every other manifest too")
    if LEASE in names and (noted := _noted(folder).get("newest", -1)) > newest:
        raise CheckpointDamagedError(folder.shown(manifest_name(noted)), "is missing")
    return manifests


def read_definition(folder: Folder, manifest: Manifest) -> Definition:
    """Return the definition of the program of a manifest."""
    name, digest = manifest.definition
    data = read_file(folder, name)
    if checksum(data) != digest:
        raise CheckpointDamagedError(folder.shown(name), "does not have the checksum that it was written with")
    return Definition.from_json(opened(data, folder.shown(name)))


def read_newest(folder: Folder) -> tuple[Manifest, Definition]:
    """Return the newest manifest and its definition, without taking the lease.

    Raises
    ------
    CheckpointError
        If there is none; and as `Checkpoint.open`.
    """
    manifests = read_all(folder, folder.names())
    if not manifests:
        raise CheckpointError(f"the folder '{folder.shown('.')}' holds no checkpoint.\n  Name a folder that holds one.")
    return manifests[-1], read_definition(folder, manifests[-1])


def holder(folder: Folder) -> str:
    """Return the process that has the checkpoint open, according to the lease."""
    return str(_noted(folder).get("owner", "by a process that has not said its name"))


def _noted(folder: Folder) -> dict[str, Any]:
    """Return the content of the lease; empty if unreadable.

    It is a hint that a loss of power may tear.
    """
    try:
        return opened(folder.read(LEASE), LEASE)
    except (OSError, CheckpointError):
        return {}


# The versions that one writer publishes in a folder, until another one takes over.


_LOGGER = logging.getLogger("gpu_wcoj")


@dataclass(eq=False)
class Versions:
    """A folder's manifests; this process writes the next one.

    Every opening publishes a manifest with the next fencing number, and the name of a manifest is taken only if it is
    free: a writer that was taken over finds its next name taken.

    Attributes
    ----------
    owner
        Who writes, as messages shall say.
    is_locked
        Whether this process has the lease.
    manifests
        Those that are kept, the newest last; of each of the last two versions one.
    """

    folder: WatchedFolder
    owner: str
    is_locked: bool
    manifests: list[Manifest] = field(default_factory=list)
    _n_files: int = 0

    @property
    def newest(self) -> Manifest:
        """The last manifest that this process knows."""
        return self.manifests[-1]

    @property
    def path(self) -> str:
        """The folder, for messages."""
        return self.folder.shown(".")

    def begin(self, definition: Definition) -> None:
        """Read the folder, compare the definition, and publish a higher fencing number."""
        names = self.folder.names()
        self.manifests = read_all(self.folder, names)
        if self.manifests:
            newest = self.newest
            read_definition(self.folder, newest).check(definition, self.path)
            opening = replace(
                newest,
                number=newest.number + 1,
                fence=newest.fence + 1,
                owner=self.owner,
                previous=newest.seal,
            )
            self._n_files = _next_file(names, opening.fence)
            self.tidy(self.publish(opening))
            return
        for name in names:
            if name != LEASE and not OURS.fullmatch(name):
                raise CheckpointError(
                    f"the folder '{self.path}' holds no checkpoint, but '{name}'.\n  Name an empty one."
                )
        self._n_files = _next_file(names, 1)
        name = self._new_name("definition", "json", 1)
        data = sealed(definition.to_json())
        self._write(name, data)
        first = Manifest(0, os.urandom(16).hex(), 1, self.owner, "", 0, (name, checksum(data)))
        self.tidy(self.publish(first))

    def check(self) -> None:
        """Raise `LeaseLostError` if another process has published since."""
        if _has_newer(self.folder.names(), self.newest.number):
            raise self._lost()

    @contextmanager
    def attempt(self) -> Generator[None]:
        """Remove the block's runs if it fails; the error names another writer if that is the cause.

        A version that an interrupt has cut off after it was published stands, and needs its runs.
        """
        written, number = self._n_files, self.newest.number
        try:
            yield
        except BaseException as error:
            published = self._published_last()
            is_newer = published is not None and published.number > number
            if is_newer and not self.folder.broken:
                self.folder.broken = "the last commit was interrupted after it was published"
            if not self.folder.broken:
                self._forget_runs(written)
            if not isinstance(error, LeaseLostError) and self._is_lost():
                raise self._lost() from error  # what was missed is what the other writer has tidied up
            raise

    def publish(self, manifest: Manifest) -> list[str]:
        """Publish a manifest whose files are on the disk; their names are forced there first.

        Returns
        -------
        What is in the folder then.
        """
        temporary = self._new_name("manifest", "tmp", manifest.fence)
        self._write(temporary, manifest.data)
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
        self.manifests = _newest_of_versions([*self.manifests, manifest])
        return names

    def tidy(self, names: Sequence[str]) -> None:
        """Remove files that no stored version needs, and note the newest version.

        The commit stands even if this fails.
        """
        newest = self.newest
        needed: set[str] = set()
        needed.update(*(manifest.files for manifest in self.manifests))
        try:
            for name in names:
                ours = OURS.fullmatch(name)
                is_old = number_of(name) is not None or (ours is not None and int(ours[1]) <= newest.fence)
                if is_old and name not in needed:
                    self.folder.remove(name)
            self.is_locked = self.is_locked or self.folder.lock(LEASE)
            self.folder.note(sealed({"owner": self.owner, "fence": newest.fence, "newest": newest.number}))
        except GpuWcojError as error:
            _LOGGER.warning("after a commit: %s", error)

    def new_run(self) -> str:
        """Return the name of a new run."""
        return self._new_name("run", "parquet", self.newest.fence)

    def _is_lost(self) -> bool:
        published = self._published_last()
        return published is not None and published.fence > self.newest.fence

    def _published_last(self) -> Manifest | None:
        """Return the manifest that any writer published last; None if unreadable."""
        with contextlib.suppress(OSError, GpuWcojError, ValueError):
            folder = self.folder.folder
            newest = max(
                manifest_number for manifest_number in map(number_of, folder.names()) if manifest_number is not None
            )
            return Manifest.from_bytes(folder.read(manifest_name(newest)), newest)
        return None

    def _lost(self) -> LeaseLostError:
        published = self._published_last()
        by = "another writer" if published is None else f"{published.owner}, with fencing number {published.fence}"
        self.folder.broken = f"it has been taken over by {by}"
        own_fence = f" {self.newest.fence}" if self.manifests else "out one yet"
        return LeaseLostError(
            f"the checkpoint '{self.path}' has been taken over by {by};\n  this one is {self.owner}, with{own_fence}.\n"
            "  Stop this process: what it has not committed is for the other one to do."
        )

    def _write(self, name: str, data: bytes) -> None:
        file = self.folder.create(name)
        try:
            write_whole(file, data)
        except BaseException:
            self._forget(name)
            raise

    def _new_name(self, kind: str, ending: str, fence: int) -> str:
        """Return a name that no other attempt uses: of this opening, and counted."""
        self._n_files += 1
        return f"{kind}-{fence:06}-{self._n_files:08}.{ending}"

    def _forget_runs(self, written: int) -> None:
        """Remove the runs of a failed attempt."""
        for file_number in range(written + 1, self._n_files + 1):
            self._forget(f"run-{self.newest.fence:06}-{file_number:08}.parquet")

    def _forget(self, name: str) -> None:
        with contextlib.suppress(OSError, GpuWcojError):
            self.folder.folder.remove(name)


def _has_newer(names: Sequence[str], newest: int) -> bool:
    return any(manifest_number is not None and manifest_number > newest for manifest_number in map(number_of, names))


def _newest_of_versions(manifests: Sequence[Manifest]) -> list[Manifest]:
    """Return the newest manifest of each of the last two versions."""
    by_version = {manifest.version: manifest for manifest in manifests}
    return [by_version[version] for version in sorted(by_version)[-2:]]


def _next_file(names: Sequence[str], fence: int) -> int:
    """Return the largest file number of this fence: a failed opening may have left files."""
    matches = [match for match in map(OURS.fullmatch, names) if match and int(match[1]) == fence]
    return max((int(match[2]) for match in matches), default=0)


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
                "  Stop that process first, or name another folder; of a view on Spark, start(takeover=True) stops it."
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
            last = newest.last
            writer = "another program or an interrupted commit has written to"
            holds = f"holds {last}" if last is not None and last.query else writer
            raise CheckpointError(
                f"the state of this program does not come from the checkpoint '{self.path}', which {holds}.\n"
                "  Restore into a new program, or choose an empty folder."
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


# Resuming a stopped run over files: finished ticks are skipped after a comparison.


QUERY = "gpu-wcoj run"


class Replay:
    """The ticks of a run, numbered from 0, compared with those of its checkpoint.

    Attributes
    ----------
    done
        How many the checkpoint holds.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._last = checkpoint.last
        if self._last is not None and self._last.query != QUERY:
            raise BatchMismatchError(
                f"the checkpoint '{checkpoint.path}' is not that of a run over files.\n"
                "  Restore it in Python (Program.restore), or choose an empty folder."
            )
        self.done = 0 if self._last is None else self._last.batch + 1
        self._chain = ""
        self._seen = 0
        self._batch = Batch(-1)

    @property
    def extra(self) -> dict[str, Any]:
        """A copy of the extra data stored with the last tick."""
        return {} if self._last is None else deepcopy(dict(self._last.extra))

    def is_done(self, tables: Mapping[str, pa.Table]) -> bool:
        """Return True if the next tick, which has these rows, is in the checkpoint.

        Raises
        ------
        BatchMismatchError
            If the tick there had other rows. Of long runs that is known only at the last tick that is done.
        """
        rows = sum(table.num_rows for table in tables.values())
        batch = self._batch = Batch(self._seen, QUERY, rows, rows_digest(tables))
        self._seen += 1
        last_manifest = self._last
        if last_manifest is None or batch.batch > last_manifest.batch:
            return False
        if batch.batch >= last_manifest.batches[0].batch:
            self._checkpoint.has(batch.batch, query=QUERY, rows=rows, digest=batch.digest)
        self._chain = chained(self._chain, batch)
        if batch.batch == last_manifest.batch and self._chain != last_manifest.chain:
            raise BatchMismatchError(
                f"the checkpoint '{self._checkpoint.path}' was made from other rows: the first {self._seen:,} ticks "
                "differ from those it holds.\n  Give the same files and options, or begin a new checkpoint."
            )
        return True

    @property
    def name(self) -> str:
        """The checkpoint's name, independent of its folder."""
        return self._checkpoint.versions.newest.checkpoint

    @property
    def is_resumed(self) -> bool:
        """True if the checkpoint existed before, with or without a tick."""
        return self._checkpoint.fence > 1

    def commit(self, extra: Mapping[str, Any]) -> None:
        """Store the state after the tick of the last call of `is_done`."""
        batch = self._batch
        self._checkpoint.commit(batch.batch, query=QUERY, rows=batch.rows, digest=batch.digest, extra=extra)

    def finish(self) -> None:
        """Raise if the files ended before the finished ticks."""
        if self._seen < self.done:
            raise BatchMismatchError(
                f"the checkpoint '{self._checkpoint.path}' holds {counted(self.done, 'tick')}, and the files have "
                f"{self._seen:,}.\n  Give the same files and options, or begin a new checkpoint."
            )
