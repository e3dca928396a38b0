"""Reading a checkpoint without opening it for writing.

Any number of readers may run beside a writer.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from gpu_wcoj.checkpoint.canonical import checksum, opened
from gpu_wcoj.checkpoint.definition import Definition
from gpu_wcoj.checkpoint.folder import Folder, OsFolder
from gpu_wcoj.checkpoint.manifest import Manifest, manifest_name, read_file, read_manifests
from gpu_wcoj.checkpoint.state import load
from gpu_wcoj.checkpoint.watched import WatchedFolder
from gpu_wcoj.errors import CheckpointDamagedError, CheckpointError, UsageError
from gpu_wcoj.query.rules import Rules
from gpu_wcoj.query.stored import deserialize
from gpu_wcoj.subject import Checkpointable

LEASE = "lease"
OURS = re.compile(r"(?:run|definition|manifest)-(\d{6})-(\d{8})\.(?:parquet|json|tmp)")
"""Files that are named by the fencing number of who wrote them, and counted."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/+")

_ATTEMPTS = 10
"""Maximum attempts to read a version that a writer may remove meanwhile."""

P = TypeVar("P", bound=Checkpointable)
T = TypeVar("T")


def restored(path: str | os.PathLike[str], make: Callable[[Rules, dict[str, Any]], P]) -> P:
    """Return the program of a checkpoint in its state after the last batch.

    Parameters
    ----------
    make
        Makes a program of rules and the options that belong to its definition.
    """

    def read(folder: WatchedFolder, manifest: Manifest, definition: Definition) -> P:
        if definition.parts["layout"] != "one":
            raise CheckpointError(
                f"the checkpoint '{folder.shown('.')}' is of a program that is spread over cells.\n"
                "  gpu_wcoj.spark.View.restore reads it, by the folder that is the view's checkpoint."
            )
        program = make(deserialize(definition.text), definition.options())
        if manifest.state is not None:
            load(program.subject, manifest.state, folder, manifest.version_name)
        return program

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
    """Return the folder of a path."""
    if not isinstance(path, (str, os.PathLike)):
        return path
    text = os.fspath(path)
    if not text:
        raise UsageError.invalid_value("path", path, "the path of a folder")
    if _SCHEME.match(text):
        raise UsageError(
            f"the checkpoint '{text}' is not a path of a local or mounted file system.\n"
            "  Stores that are named by a URL cannot create a file only if it is absent in the way that is needed "
            "here; name a folder, as /data/checkpoint."
        )
    return OsFolder(Path(text).expanduser().absolute())


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
        raise CheckpointError(f"there is no checkpoint in '{folder.shown('.')}'.\n  Name a folder that holds one.")
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
