"""The versions that one writer publishes in a folder, until another one takes over."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from gpu_wcoj.checkpoint.canonical import checksum, sealed
from gpu_wcoj.checkpoint.definition import Definition
from gpu_wcoj.checkpoint.folder import write_whole
from gpu_wcoj.checkpoint.manifest import Manifest, manifest_name, number_of
from gpu_wcoj.checkpoint.reading import LEASE, OURS, read_all, read_definition
from gpu_wcoj.checkpoint.watched import WatchedFolder
from gpu_wcoj.errors import CheckpointError, GpuWcojError, LeaseLostError

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
        """Remove the block's runs if it fails; the error names another writer if that is the cause."""
        written = self._n_files
        try:
            yield
        except BaseException as error:
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
