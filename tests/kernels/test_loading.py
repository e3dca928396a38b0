"""Which kernels are loaded, and that programs answer alike on both."""

from __future__ import annotations

import logging
import random
import subprocess
import sys
from pathlib import Path

import pytest

import cpu_fallback
import gpu_wcoj as gw
from gpu_wcoj.backend import cpu_backend

ROOT = Path(__file__).parents[2]

PROGRAMS = {
    "triangle": "triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c).",
    "triangles of three": "t(a, b, c) :- r(a, b), s(b, c), q(a, c).",
    "diamond": "d(a, b, c, d) :- e(a, b), e(a, c), e(b, c), e(a, d), e(b, d), c < d.",
    "hub": "h(a, c) :- a1(a), s(a, b, c), u(c), b != 1.",
    "cross": "x(a, b) :- p(a), q(b), a <= b.",
    "two rules": "v(a, c) :- e(a, b), e(b, c). v(a, b) :- f(a, b, 1). w(a) :- v(a, b), e(b, a).",
}

BLOCKED = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("numba", "llvmlite"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
import logging
logging.basicConfig(format="%(name)s: %(message)s", stream=sys.stderr)
import gpu_wcoj as gw
program = gw.Program("triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c).")
program.step({"edge": gw.ZSet.from_rows([(1, 2), (2, 3), (3, 4)])})
changes = program.step({"edge": gw.ZSet.from_rows([(1, 3), (2, 4)])})
gw.Program("triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c).").step({"edge": gw.ZSet.from_rows([(1, 2)])})
assert "numba" not in sys.modules
print(changes["triangle"].rows())
"""


@pytest.mark.drawn("bag")
@pytest.mark.parametrize("bag", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_answer_alike(name, bag):
    text = PROGRAMS[name]
    programs = [gw.Program(text, bag=bag, backend=cpu_backend(compiled), chunk_rows=chunk)
                for compiled, chunk in ((True, None), (False, None), (False, 3))]  # fmt: skip
    rng = random.Random(name)
    for _ in range(8):
        change = {}
        for relation in programs[0].inputs:
            arity = programs[0].arity(relation)
            rows = [(tuple(rng.randrange(5) for _ in range(arity)), rng.choice([-1, 1, 1, 2])) for _ in range(12)]
            change[relation] = gw.ZSet.from_rows(rows)
        first, *others = [
            {output: zset.to_dict() for output, zset in program.step(change).items()} for program in programs
        ]
        assert all(other == first for other in others)
    assert any(len(programs[0].relation(output)) for output in programs[0].outputs)


def test_both_kinds_are_named():
    assert cpu_fallback.load_kernels(True).name == "numba"
    assert cpu_fallback.load_kernels(False).name == "numpy"
    assert repr(cpu_backend(False)) == "Backend('cpu', numpy)"


def test_without_numba_the_engine_works_and_says_so_once():
    done = subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[((1, 2, 3), 1), ((2, 3, 4), 1)]"]
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("gpu_wcoj: numba is not installed (No module named 'numba'): the NumPy kernels")


def test_insisting_on_compiled_kernels_without_numba(monkeypatch, caplog):
    """An installed numba may still refuse to be imported, as beside a NumPy that is too new for it."""
    for module in [name for name in sys.modules if name.startswith("cpu_fallback.kernels")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "cpu_fallback.extend", None)
    with pytest.raises(ImportError, match=r"cpu_fallback\.extend"):
        cpu_fallback.load_kernels(True)
    with caplog.at_level(logging.WARNING):
        assert cpu_fallback.load_kernels().name == "numpy"
    assert len(caplog.records) == 1
