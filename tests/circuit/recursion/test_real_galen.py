"""The GALEN ontology: six rules that depend on each other, 976,552 facts, 24 million rows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TEXT = """
    .input p, q
    p(x, z) :- p(x, y), p(y, z).
    q(x, r, z) :- p(x, y), q(y, r, z).
    p(x, z) :- p(y, w), u(w, r, z), q(x, r, y).
    p(x, z) :- c(y, w, z), p(x, w), p(x, y).
    q(x, q, z) :- q(x, r, z), s(r, q).
    q(x, e, o) :- q(x, y, z), r(y, u, e), q(z, u, o).
"""
P, Q = 7_560_179, 16_595_494
GONE = 10
MEMORY = 6_000_000_000
SCRIPT = """
import hashlib, json, random, sys
import numpy as np
import pyarrow.csv as pa_csv
import gpu_wcoj as gw
from bench.suite.memory import peak_bytes

folder, text, gone = sys.argv[1], sys.argv[2], int(sys.argv[3])
WIDTHS = {"c": 3, "p": 2, "q": 3, "r": 3, "s": 2, "u": 3}

def digests(program):
    found = {}
    for name in "pq":
        rows = program.relation(name)
        total = hashlib.sha256()
        for column in rows.to_numpy().values():
            total.update(np.ascontiguousarray(column, np.int64).tobytes())
        found[name] = len(rows), total.hexdigest()
    return found

facts = {}
for name, width in WIDTHS.items():
    columns = [f"c{i}" for i in range(width)]
    table = pa_csv.read_csv(f"{folder}/{name}.txt.gz", pa_csv.ReadOptions(column_names=columns))
    facts[name] = np.unique(np.stack([table[column].to_numpy() for column in columns], axis=1), axis=0)
chance = random.Random(gone)
chosen = [("p", 1), ("q", 3), ("c", 2), ("r", 1), ("s", 1), ("u", 2)]
left = {name: sorted(chance.sample(range(len(facts[name])), number)) for name, number in chosen}
assert sum(map(len, left.values())) == gone
report = {"facts": sum(map(len, facts.values()))}
program = gw.Program(text, backend="cpu", outputs=["p", "q"])
if len(sys.argv) > 4:  # from scratch, without those that went
    program.load({name: np.delete(rows, left[name], axis=0) for name, rows in facts.items()})
    report["without"] = digests(program)
else:
    program.load(facts)
    report["before"] = digests(program)
    for way, weight in (("gone", -1), ("back", 1)):
        chosen = {name: [tuple(row) for row in facts[name][own].tolist()] for name, own in left.items()}
        change = {name: gw.ZSet.from_dict(dict.fromkeys(rows, weight)) for name, rows in chosen.items()}
        counts = program.step_counts(change)
        report[way] = {name: count.net for name, count in counts.items()}
        report[f"after {way}"] = digests(program)
        report[f"seconds {way}"] = program.last_tick.seconds
report["peak"] = peak_bytes()
print(json.dumps(report))
"""


def run(folder: Path, *more: str) -> dict:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder), TEXT, str(GONE), *more],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.long  # over a minute and 3 GB
def test_facts_go_and_come_back(shared_data: Path):
    report = run(shared_data / "galen")
    assert report["facts"] == 976_552
    assert [report["before"][name][0] for name in "pq"] == [P, Q]
    for name in "pq":
        assert report["gone"][name] < 0
        assert report["after gone"][name][0] == report["before"][name][0] + report["gone"][name]
        assert report["back"][name] == -report["gone"][name]
    assert report["after back"] == report["before"]
    assert report["peak"] < MEMORY
    without = run(shared_data / "galen", "from scratch")
    assert without["without"] == report["after gone"]
