"""Persistence of databases in folders; each write is complete and atomic.

A version consists of three Parquet files (datoms, texts, bytes) and a sealed file that names them, which is written
last. The previous version is removed after the new version is complete.
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
_FILE_NAME = re.compile(r"datoms-\d{12}(\.json|-[0-9a-f]{32}\.(json|parquet))|lock")
_FORMAT_VERSION = 1
"""Format version of the sealed file. Files with another version are rejected."""


def write_database(store: Store, transaction: int, path: str) -> None:
    """Write a database to a folder, and replace a database in it.

    Raises
    ------
    CheckpointError
        If the folder contains other files, or another process writes to it.
    CheckpointWriteError
        If a file cannot be written.
    """
    place = OsFolder(Path(path))
    folder = WatchedFolder(place)
    folder.prepare()
    names = _names(place)
    if not folder.lock(_LOCK):
        raise CheckpointError(
            f"the folder '{path}' is locked by another process.\n  Wait for it, or use another folder."
        )
    try:
        version = 1 + max((int(match[1]) for match in map(_VERSION.fullmatch, names) if match), default=0)
        content = _write_files(store, folder, version) | {"format": _FORMAT_VERSION, "transaction": transaction}
        temporary = _file_name(version, "json")
        write_whole(folder.create(temporary), sealed(content))
        folder.publish(temporary, f"datoms-{version:012}.json")
        folder.sync()
        for name in {*names, temporary} - {_LOCK}:
            folder.remove(name)
    finally:
        folder.unlock()


def _names(place: OsFolder) -> list[str]:
    names = place.names()
    for name in names:
        if not _FILE_NAME.fullmatch(name):
            raise CheckpointError(
                f"the folder '{place.path}' contains '{name}', which does not belong to a database.\n"
                "  Use another folder."
            )
    return names


def _file_name(version: int, suffix: str) -> str:
    return f"datoms-{version:012}-{uuid4().hex}.{suffix}"


def _write_files(store: Store, folder: Folder, version: int) -> dict[str, Any]:
    attributes = list(store.attributes.values())
    columns = [store.pairs(attribute.name).columns() for attribute in attributes]
    lengths = [len(entity) for entity, _ in columns]
    rows = [
        np.repeat(np.arange(len(attributes)), lengths),
        *(np.concatenate([np.empty(0, np.int64), *(pair[i] for pair in columns)]) for i in range(2)),
    ]
    datoms = write_rows(folder, _file_name(version, "parquet"), rows, np.ones(len(rows[0]), np.int64))
    dictionaries = {}
    for dictionary in (store.texts.string, store.texts.binary):
        values = dictionary.decode(np.arange(len(dictionary)))
        dictionaries[dictionary.kind] = write_values(folder, _file_name(version, "parquet"), values, 0).to_json()
    return {
        "attributes": [asdict(attribute) for attribute in attributes],
        "datoms": datoms.to_json(),
        "next_id": store.next_id,
        "strict": store.strict,
        "values": dictionaries,
    }


def read_database(path: str) -> tuple[Store, int]:
    """Read the store of a database from a folder, and its number of transactions.

    Raises
    ------
    CheckpointError
        If the folder has no database, or a file is damaged.
    """
    folder = OsFolder(Path(path))
    names = sorted(name for name in _names(folder) if _VERSION.fullmatch(name))
    if not names:
        raise CheckpointError(f"the folder '{path}' has no database.")
    content = opened(read_file(folder, names[-1]), folder.shown(names[-1]))
    if content["format"] != _FORMAT_VERSION:
        raise CheckpointError.mismatch(
            f"the database in '{path}'", "has an unsupported format version", content["format"], _FORMAT_VERSION
        )
    texts = Texts(*(_values(folder, Run(**content["values"][kind]), kind) for kind in ("string", "binary")))
    attributes = [Attribute(**attribute) for attribute in content["attributes"]]
    store = Store({attribute.name: attribute for attribute in attributes}, content["strict"], texts, content["next_id"])
    (attribute_ids, entity, code), _ = read_rows(folder, Run(**content["datoms"]), 3)
    ends = attribute_ids.searchsorted(np.arange(len(attributes)), "right")
    for attribute, begin, end in zip(attributes, [0, *ends[:-1]], ends, strict=True):
        if end > begin:
            pairs = Pairs()
            pairs.replace((entity[begin:end], code[begin:end]))
            store.set_pairs(attribute.name, pairs)
    return store, content["transaction"]


def _values(folder: Folder, run: Run, kind: Literal["string", "binary"]) -> Dictionary:
    dictionary = Dictionary(kind)
    codes = dictionary.encode(read_values(folder, run, kind))
    if codes.tolist() != list(range(run.rows)):
        raise CheckpointDamagedError(folder.shown(run.file), "has a value twice")
    return dictionary
