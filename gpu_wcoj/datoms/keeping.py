"""Databases in folders: all datoms and what is known of attributes, written whole, all at once or not at all.

A version is three Parquet files (datoms, texts, bytes) and a sealed file that names them, which is written last. The
version before is removed once the new one is there.
"""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import numpy as np

from gpu_wcoj.checkpoint.canonical import opened, sealed
from gpu_wcoj.checkpoint.folder import Folder, OsFolder, write_whole
from gpu_wcoj.checkpoint.manifest import read_file
from gpu_wcoj.checkpoint.runs import Run, read_rows, read_values, write_rows, write_values
from gpu_wcoj.checkpoint.watched import WatchedFolder
from gpu_wcoj.datoms.pairs import Pairs
from gpu_wcoj.datoms.schema import Attribute
from gpu_wcoj.datoms.store import Store
from gpu_wcoj.datoms.values import Texts
from gpu_wcoj.dictionary import Dictionary
from gpu_wcoj.errors import CheckpointDamagedError, CheckpointError

_LOCK = "lock"
_VERSION = re.compile(r"datoms-(\d{12})\.json")
_OURS = re.compile(r"datoms-\d{12}(\.json|-[0-9a-f]{32}\.(json|parquet))|lock")
_FORMAT = 1


def keep(store: Store, transaction: int, path: str) -> None:
    """Write a database to a folder, in the place of what the folder had of one.

    Raises
    ------
    CheckpointError
        If the folder has something else, or another process writes to it.
    CheckpointWriteError
        If it cannot be written.
    """
    place = OsFolder(Path(path))
    folder = WatchedFolder(place)
    folder.prepare()
    names = _names(place)
    if not folder.lock(_LOCK):
        raise CheckpointError(f"another process writes to '{path}'.\n  Wait for it, or name another folder.")
    try:
        number = 1 + max((int(match[1]) for match in map(_VERSION.fullmatch, names) if match), default=0)
        content = _written(store, folder, number) | {"format": _FORMAT, "transaction": transaction}
        temporary = _new(number, "json")
        write_whole(folder.create(temporary), sealed(content))
        folder.publish(temporary, f"datoms-{number:012}.json")
        folder.sync()
        for name in {*names, temporary} - {_LOCK}:
            folder.remove(name)
    finally:
        folder.unlock()


def _names(place: OsFolder) -> list[str]:
    names = place.names()
    for name in names:
        if not _OURS.fullmatch(name):
            raise CheckpointError(f"the folder '{place.path}' has '{name}', which is of no database.\n  Name another.")
    return names


def _new(number: int, suffix: str) -> str:
    return f"datoms-{number:012}-{uuid4().hex}.{suffix}"


def _written(store: Store, folder: Folder, number: int) -> dict[str, Any]:
    attributes = list(store.attributes.values())
    columns = [store.pairs(one.name).columns() for one in attributes]
    lengths = [len(entity) for entity, _ in columns]
    rows = [
        np.repeat(np.arange(len(attributes)), lengths),
        *(np.concatenate([np.empty(0, np.int64), *(pair[i] for pair in columns)]) for i in range(2)),
    ]
    datoms = write_rows(folder, _new(number, "parquet"), rows, np.ones(len(rows[0]), np.int64))
    dictionaries = {}
    for dictionary in (store.texts.string, store.texts.binary):
        values = dictionary.decode(np.arange(len(dictionary)))
        dictionaries[dictionary.kind] = write_values(folder, _new(number, "parquet"), values, 0).to_json()
    return {
        "attributes": [asdict(one) for one in attributes],
        "datoms": datoms.to_json(),
        "next_id": store.next_id,
        "strict": store.strict,
        "values": dictionaries,
    }


def kept(path: str) -> tuple[Store, int]:
    """The store of a database in a folder, and the number of its last transaction.

    Raises
    ------
    CheckpointError
        If there is none, or a file is damaged.
    """
    folder = OsFolder(Path(path))
    found = sorted(name for name in _names(folder) if _VERSION.fullmatch(name))
    if not found:
        raise CheckpointError(f"there is no database in '{path}'.")
    content = opened(read_file(folder, found[-1]), folder.shown(found[-1]))
    if content["format"] != _FORMAT:
        raise CheckpointError(f"the database in '{path}' has the format {content['format']}, and {_FORMAT} is known.")
    texts = Texts(*(_values(folder, Run(**content["values"][kind]), kind) for kind in ("string", "binary")))
    attributes = [Attribute(**one) for one in content["attributes"]]
    store = Store({one.name: one for one in attributes}, content["strict"], texts, content["next_id"])
    (attribute, entity, code), _ = read_rows(folder, Run(**content["datoms"]), 3)
    ends = attribute.searchsorted(np.arange(len(attributes)), "right")
    for one, begin, end in zip(attributes, [0, *ends[:-1]], ends, strict=True):
        if end > begin:
            pairs = Pairs()
            pairs.replace((entity[begin:end], code[begin:end]))
            store.hold(one.name, pairs)
    return store, content["transaction"]


def _values(folder: Folder, run: Run, kind: Literal["string", "binary"]) -> Dictionary:
    dictionary = Dictionary(kind)
    codes = dictionary.encode(read_values(folder, run, kind))
    if codes.tolist() != list(range(run.rows)):
        raise CheckpointDamagedError(folder.shown(run.file), "has a value twice")
    return dictionary
