"""Interrupts at any moment of a tick: the process lives, and the state is that before or after the tick."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.slow,  # a child process and a hundred ticks, most of them interrupted
    pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs signals of Unix"),
]

SCRIPT = """
import random, signal, sys
import gpu_wcoj as gw

def raise_interrupt(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, raise_interrupt)
seed, n_ticks = int(sys.argv[1]), 60

def closure(rows):
    following, pairs = {}, set()
    for a, b in rows:
        following.setdefault(a, []).append(b)
    for start in following:
        reached, waiting = set(), list(following[start])
        while waiting:
            if (value := waiting.pop()) not in reached:
                reached.add(value)
                waiting += following.get(value, ())
        pairs |= {(start, value) for value in reached}
    return pairs

def triangles(rows):
    following = {}
    for a, b in rows:
        following.setdefault(a, []).append(b)
    return {(a, b, c) for a, b in rows for c in following.get(b, ()) if (a, c) in rows}

n_interrupted = 0

def run():
    global n_interrupted
    chance = random.Random(seed)
    for text, answer, n_values, sizes in (
        ("p(a, b) :- e(a, b). p(a, c) :- p(a, b), e(b, c).", closure, 90, (1, 5, 150)),
        ("t(a, b, c) :- e(a, b), e(b, c), e(a, c).", triangles, 400, (1, 60, 2000)),
    ):
        view, rows = gw.view(text, e=[(0, 0)], keep=[text[0]]), {(0, 0)}
        for _ in range(n_ticks):
            changed = {(chance.randrange(n_values), chance.randrange(n_values)) for _ in range(chance.choice(sizes))}
            change = gw.ZSet.from_rows([(row, -1 if row in rows else 1) for row in changed], ("a", "b"))
            before = view.program.last_tick.tick
            seconds = chance.choice((1e-4, 1e-3, 1e-2)) * (1 + chance.random())
            try:
                signal.setitimer(signal.ITIMER_REAL, seconds)
                view.apply(e=change)
            except KeyboardInterrupt:
                n_interrupted += 1
            finally:
                while True:  # the alarm may still be raised here
                    try:
                        signal.setitimer(signal.ITIMER_REAL, 0)
                        break
                    except KeyboardInterrupt:
                        pass
            if view.program.last_tick.tick > before:
                rows ^= changed
            assert view.count("e") == len(rows), seed
        assert set(view.snapshot().rows()) == answer(rows), seed

run()
print(n_interrupted)
"""


@pytest.mark.parametrize("seed", range(2))
def test_ticks_that_are_interrupted_anywhere_leave_no_trace(seed):
    """A signal in a compiled function was raised while numba made its results, and memory was freed twice."""
    print(f"seed {seed}")
    environment = {**os.environ, "GPU_WCOJ_COMPILE": "wait"}
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(seed)], capture_output=True, text=True, env=environment, check=False,
        timeout=300,
    )  # fmt: skip
    assert run.returncode == 0, (run.returncode, run.stderr[-2000:])
    assert int(run.stdout) > 10
