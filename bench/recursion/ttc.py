"""The social-media case of the Transformation Tool Contest 2018: two rankings, kept up to date over 20 change sets.

A post scores 10 for each comment in its tree and 1 for each like of those comments. A comment scores the sum, over the
connected components of friends among those who like it, of the component's size squared. Each ranking names the three
with the highest score, of equal ones the newest.
"""

from __future__ import annotations

import csv
import tarfile
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import gpu_wcoj as gw

POSTS = """
    .decl post(id: int64, time: string)
    .decl comment(id: int64, time: string, parent: int64)
    .decl likes(person: int64, comment: int64)

    root(c, p) :- comment(c, _, p), post(p, _).
    root(c, p) :- comment(c, _, d), root(d, p).
    points(p, p, 0, 0) :- post(p, _).
    points(p, c, 0, 10) :- root(c, p).
    points(p, c, person, 1) :- root(c, p), likes(person, c).
    total(p, sum(v)) :- points(p, _, _, v).
    score(p, s, t) :- total(p, s), post(p, t).
    .output score
"""
COMMENTS = """
    .decl comment(id: int64, time: string, parent: int64)
    .decl likes(person: int64, comment: int64)
    .decl friends(one: int64, other: int64)

    component(c, a, min(a)) :- likes(a, c).
    component(c, b, min(least)) :- component(c, a, least), friends(a, b), likes(b, c).
    size(c, least, count()) :- component(c, a, least).
    score(c, s, t) :- comment(c, t, _), s = sum z : { size(c, _, n), z = n * n }.
    .output score
"""
QUERIES = {"Q1": POSTS, "Q2": COMMENTS}
SIZES = (1, 4, 16)
N_CHANGES = 20

Tick = dict[str, list[tuple[Any, ...]]]
"""Rows to insert, per relation."""


def ticks(folder: Path, size: int) -> list[Tick]:
    """The initial state, then the change sets, from ``size-N.tar.gz``."""
    files: dict[str, list[str]] = {}
    with tarfile.open(folder / f"size-{size}.tar.gz") as archive:
        for member in archive:
            content = archive.extractfile(member)
            if content is not None:
                files[Path(member.name).name] = content.read().decode().split("\n")
    kinds = ("Posts", "Comments", "Likes", "Friends")
    initial = [f"{kind}|{line}" for kind in kinds for line in files[f"csv-{kind.lower()}-initial.csv"] if line]
    return [_tick(initial), *(_tick(files[f"change{number:02}.csv"]) for number in range(1, N_CHANGES + 1))]


def _tick(lines: Iterable[str]) -> Tick:
    found: Tick = {"post": [], "comment": [], "likes": [], "friends": []}
    for line in filter(None, lines):
        kind, *fields = line.rstrip("\r").split("|")
        first = int(fields[0])
        if kind == "Posts":
            found["post"].append((first, fields[1]))
        elif kind == "Comments":
            found["comment"].append((first, fields[1], int(fields[-1])))
        elif kind in ("Likes", "Friends"):
            found[kind.lower()].append((first, int(fields[1])))
        elif kind != "Users":  # who neither writes nor likes anything changes no ranking
            raise ValueError(f"a change of an unknown kind: {line!r}")
    return found


def expected(folder: Path, query: str, size: int) -> list[str]:
    """The rankings after the initial state and after each change set, as ``id|id|id``."""
    with (folder / "expected-results.csv").open(encoding="utf-8", newline="") as file:
        rows = [
            row for row in csv.DictReader(file, delimiter=";") if (row["View"], row["ChangeSet"]) == (query, str(size))
        ]
    return [row["MetricValue"] for row in sorted(rows, key=lambda row: int(row["Iteration"]))]


class Ranking:
    """One query with its three best, kept up to date from what changes of the scores.

    Examples
    --------
    >>> ranking = Ranking("Q1")
    >>> ranking.step({"post": [(1, "2010-02-01"), (2, "2010-02-02")], "comment": [(3, "2010-02-03", 1)]})
    '1|2'
    >>> ranking.step({"comment": [(4, "2010-02-04", 2)]})
    '2|1'
    """

    def __init__(self, query: str, **options: Any) -> None:
        self.program = gw.Program(QUERIES[query], **options)
        self.best: list[tuple[int, str, int]] = []
        """(score, time, id), ascending."""

    def step(self, tick: Mapping[str, list[tuple[Any, ...]]]) -> str:
        """Take a change set; return the ranking."""
        changes = {name: rows for name, rows in tick.items() if name in self.program.inputs and rows}
        for (subject, score, time), weight in self.program.step(changes)["score"].rows():
            entry = score, time, subject
            if weight > 0:
                insort(self.best, entry)
            else:
                del self.best[bisect_left(self.best, entry)]
        return "|".join(str(subject) for _, _, subject in self.best[:-4:-1])
