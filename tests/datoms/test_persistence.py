"""Databases in folders."""

import datetime as dt
from uuid import UUID

import pytest

from gpu_wcoj.checkpoint.folder import OsFolder
from gpu_wcoj.datoms import Database
from gpu_wcoj.errors import CheckpointDamagedError, CheckpointError, TransactionConflictError, UnknownAttributeError

ONE = {
    ":name": "Ann",
    ":email": "ann@x",
    ":age": -7,
    ":size": 1.5,
    ":color": ":red",
    ":paid": True,
    ":since": dt.datetime(2026, 2, 3, tzinfo=dt.UTC),
    ":code": UUID("12345678-1234-5678-1234-567812345678"),
    ":blob": b"\x00",
    ":friend": [1, 2],
}
SCHEMA = {
    ":email": {"unique": "identity"},
    ":color": {"valueType": "keyword"},
    ":friend": {"valueType": "ref", "cardinality": "many"},
    ":unused": {},
}


def test_a_database_comes_back_as_it_was(tmp_path):
    db = Database(SCHEMA)
    rows = db.transact([{":db/id": 9, **ONE}]).rows()
    db.transact([[":db/add", 40, ":age", 1], [":db/retract", 9, ":friend", 2]])
    db.checkpoint(tmp_path / "deep" / "folder")
    again = Database.restore(tmp_path / "deep" / "folder")
    assert (len(again), again.attributes, again.transactions) == (len(db), db.attributes, 2)
    assert again.transact([{":db/id": "x", ":age": 2}]).tempids == {"x": 41}
    with pytest.raises(TransactionConflictError, match="unique"):
        again.transact([[":db/add", 1, ":email", "ann@x"]])
    gone = again.transact([[":db/retractEntity", 9]]).rows()
    assert dict(gone) == {row: -1 for row, _ in rows if row[1:] != (":friend", 2)}


def test_a_database_without_datoms(tmp_path):
    Database({":a": {}}, strict=True).checkpoint(tmp_path)
    again = Database.restore(tmp_path)
    assert (len(again), again.attributes) == (0, {":a": None})
    with pytest.raises(UnknownAttributeError):
        again.transact([[":db/add", 1, ":b", 1]])


def test_a_database_without_attributes(tmp_path):
    Database().checkpoint(tmp_path)
    again = Database.restore(tmp_path)
    assert (len(again), again.attributes) == (0, {})
    assert again.transact([[":db/add", 1, ":a", 1]]).rows() == [((1, ":a", 1), 1)]


def test_the_last_version_is_the_one_that_is_kept(tmp_path):
    db = Database()
    for number in range(3):
        db.transact([[":db/add", number, ":n", number]])
        db.checkpoint(tmp_path)
    assert len(Database.restore(tmp_path)) == 3
    assert len([name for name in tmp_path.iterdir() if name.suffix == ".json"]) == 1


def test_a_version_that_was_not_finished_is_none(tmp_path, monkeypatch):
    db = Database()
    db.transact([[":db/add", 1, ":n", 1]])
    db.checkpoint(tmp_path)
    db.transact([[":db/add", 2, ":n", 1]])

    def failing(*_):
        raise OSError(28, "no space")

    with monkeypatch.context() as patched:
        patched.setattr(OsFolder, "publish", failing)
        with pytest.raises(OSError, match="no space"):
            db.checkpoint(tmp_path)
    assert len(Database.restore(tmp_path)) == 1
    db.checkpoint(tmp_path)
    assert len(Database.restore(tmp_path)) == 2
    assert len(list(tmp_path.iterdir())) == 5


def test_what_is_no_database_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="has no database"):
        Database.restore(tmp_path)
    (tmp_path / "mine.txt").write_text("")
    with pytest.raises(CheckpointError, match="contains 'mine.txt', which does not belong to a database"):
        Database().checkpoint(tmp_path)
    with pytest.raises(CheckpointError, match="is a file"):
        Database().checkpoint(tmp_path / "mine.txt")


@pytest.mark.parametrize("suffix", [".json", ".parquet"])
def test_a_damaged_file_is_noticed(tmp_path, suffix):
    db = Database()
    db.transact([[":db/add", 1, ":n", "text"]])
    db.checkpoint(tmp_path)
    for file in tmp_path.iterdir():
        if file.suffix == suffix:
            data = bytearray(file.read_bytes())
            data[len(data) // 2] ^= 1
            file.write_bytes(data)
    with pytest.raises(CheckpointDamagedError, match="datoms-"):
        Database.restore(tmp_path)


def test_two_that_write_at_once(tmp_path):
    db = Database()
    db.checkpoint(tmp_path)
    other = OsFolder(tmp_path)
    assert other.lock("lock")
    try:
        with pytest.raises(CheckpointError, match="locked by another process"):
            db.checkpoint(tmp_path)
    finally:
        other.unlock()
