"""What the code does with a case, as text: plans, the answers of each tick, and counted work."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import gpu_wcoj as gw
from tests.frozen.cases import FOLDER, Case, golden_cases, named_cases, random_cases

COUNTS = ("sum_of_minima", "proposals", "probes", "marks", "survivors", "ranked")
TEXTS = {"golden": golden_cases, "named": named_cases}
DIGESTS = FOLDER / "random.jsonl"
ARROW = {"int": "int64", "text": "string", "float": "float64", "truth": "bool"}

Record = dict[str, str]
"""Sections in order: ``plan``, ``tick 1`` with the changes of the answers, ``work 1``, ..., ``plan after``."""


def record(case: Case, is_random: bool = False) -> Record:
    """Run a case; an error is recorded by its type."""
    sections: Record = {"program": case.text}
    try:
        program, apply = _started(case)
        if not is_random:
            sections["plan"] = _plan(program)
        if case.sizes:
            sections["plan by sizes"] = _by_sizes(case, program)
        for number, tick in enumerate(case.ticks(), 1):
            sections[f"tick {number}"] = _tried(lambda tick=tick: "\n".join(apply(tick)))
            sections[f"work {number}"] = _work(program)
        sections["plan after"] = _plan(program)
        sections["answers"] = "\n".join(_relations(program))
        sections["state"] = "\n".join(f"{name} {sum(rows)}" for name, rows in program.state_rows.items())
    except gw.GpuWcojError as error:
        sections["error"] = type(error).__name__
    return sections


def _started(case: Case) -> tuple[gw.Program, Any]:
    """The program, and what takes a tick and gives the lines of the answers' changes."""
    options: dict[str, Any] = {"backend": "cpu", "threads": 1, **case.options}

    def changes(tick: Any, with_weights: bool = True) -> dict[str, Any]:
        found = {}
        for name, (way, rows) in tick.items():
            table = case.arrow(name, rows)
            found[name] = table if way == "rows" else gw.ZSet.from_arrow(table, weight="weight")
        return found

    if case.language == "datalog":
        program = gw.Program(case.text, bag=case.bag, inputs=list(case.tables), **options)
        return program, lambda tick: _lines(program.step(changes(tick)))
    if case.language == "motif":
        empty = {name: case.arrow(name, []).drop(["weight"]) for name in case.tables}
        view = gw.view(case.text, language="motif", **empty, **options)
        return view.program, lambda tick: _lines(
            {"matches": view.apply({n: case.arrow(n, r) for n, (_, r) in tick.items()})}
        )
    schema = {name: {column: ARROW[kind] for column, kind in columns.items()} for name, columns in case.tables.items()}
    schema = {name: columns for name, columns in schema.items() if name.casefold() in case.text.casefold()}
    view = gw.view(case.text, language=case.language, schema=schema, **options)
    return view.program, lambda tick: _lines(
        view.program.step(changes({name: change for name, change in tick.items() if name in schema}))
    )


def _plan(program: gw.Program, **options: Any) -> str:
    """The plan as text, without the lines about ticks: how a tick runs is no part of the plan."""
    lines = program.explain(**options).splitlines()
    return "\n".join(line for line in lines if not line.startswith(("small ticks: ", "last tick: ")))


def _tried(run: Any) -> str:
    try:
        return run()
    except gw.GpuWcojError as error:
        return f"refused: {type(error).__name__}"


def _lines(changes: dict[str, Any]) -> Iterator[str]:
    for name, zset in sorted(changes.items()):
        yield from sorted(f"{name}{row!r} {weight:+d}" for row, weight in zset.rows())


def _relations(program: gw.Program) -> Iterator[str]:
    for name in sorted(program.outputs):
        yield f"{name}: count {program.count(name)}"
        yield from sorted(f"{name}{row!r} {weight:+d}" for row, weight in program.relation(name).rows())


def _work(program: gw.Program) -> str:
    """Counts of the last tick: of all levels together, and rows that merging moved."""
    report = program.last_tick
    total = sum(_arrays(report.work), np.zeros(len(COUNTS), np.int64)).tolist()
    counts = [f"{name} {count}" for name, count in zip(COUNTS, total, strict=True)]
    return ", ".join([*counts, f"merged_rows {report.merged_rows}"])


def _arrays(work: Any) -> Iterator[Any]:
    if isinstance(work, Mapping):
        for inner in work.values():
            yield from _arrays(inner)
    else:
        yield work


def _by_sizes(case: Case, program: gw.Program) -> str:
    """The plan by statistics that have no more than sizes."""
    with tempfile.TemporaryDirectory() as folder:
        relations = {
            name: {"rows": rows, "columns": len(case.tables[name]), "distinct": [], "met": []}
            for name, rows in case.sizes.items()
        }
        (Path(folder) / "statistics.json").write_text(json.dumps({"format": 1, "relations": relations}))
        return _plan(program, statistics=folder)


def as_text(case: Case, sections: Record) -> str:
    """A record as text for people."""
    lines = [f"== {case.name}"]
    for name, text in sections.items():
        lines += [f"-- {name}", *(line.rstrip() for line in text.splitlines())]
    return "\n".join(lines) + "\n"


def digest(text: str) -> str:
    """Twelve hexadecimal digits."""
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def as_line(case: Case, sections: Record) -> str:
    """A record as one line of JSON, in which work stands in full and everything else as a digest."""
    fields = {
        name: [int(one.split(" ")[1]) for one in text.split(", ")] if name.startswith("work") else digest(text)
        for name, text in sections.items()
        if name != "program"
    }
    return json.dumps({"name": case.name} | fields)


def random_lines(part: int = 0, n_parts: int = 1) -> Iterator[str]:
    """A line per random program, or per `n_parts`-th one, from `part` on."""
    for case in islice(random_cases(), part, None, n_parts):
        yield as_line(case, record(case, is_random=True))


def texts(cases: Iterable[Case]) -> str:
    """Records of some cases as one text."""
    return "\n".join(as_text(case, record(case)) for case in cases)
