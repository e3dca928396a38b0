"""One parser's fuzzing, in a process of its own, which it ends: ``python -m tests.fuzz.worker PARSER SECONDS``."""

from __future__ import annotations

import ast
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["gpu_wcoj.query", "lark", "sqlglot"]):
    import lark  # noqa: F401  # what the parsers import when they are first called
    import sqlglot  # noqa: F401

    from tests.fuzz.targets import CORPUS, ROOT, TARGETS, read, text_of

FOUND = ROOT / ".run" / "fuzz"
HANG_SECONDS = 25
"""Of a machine that has other work, and of a parser that is watched."""
MEMORY_MB = 2048
LONGEST = 2000


def fuzz(name: str, seconds: int) -> None:
    """Fuzz a parser until the time is over, then end the process."""
    with tempfile.TemporaryDirectory() as place:
        seeds, words = Path(place, "seeds"), Path(place, "words")
        seeds.mkdir()
        for number, seed in enumerate(_seeds(name)):
            (seeds / f"{number:05}").write_bytes(seed)
        words.write_text("".join(f'"{_escaped(word)}"\n' for word in TARGETS[name].words))
        (FOUND / name).mkdir(parents=True, exist_ok=True)
        options = [
            f"-max_total_time={seconds}", f"-timeout={HANG_SECONDS}", f"-rss_limit_mb={MEMORY_MB}",
            f"-max_len={LONGEST}", f"-dict={words}", f"-artifact_prefix={FOUND}/{name}-", "-print_final_stats=1",
        ]  # fmt: skip
        command = [sys.argv[0], *options, str(FOUND / name), str(seeds)]
        atheris.Setup(command, lambda data: read(name, text_of(data)))
        atheris.Fuzz()


def _seeds(name: str) -> Iterator[bytes]:
    """The texts in the tests of a parser, and what broke it before."""
    for path in sorted({path for pattern in TARGETS[name].tests for path in ROOT.glob(pattern)}):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and 4 <= len(node.value) <= LONGEST:
                yield node.value.encode("utf-8", "replace")
    for path in sorted((CORPUS / name).glob("*")):
        yield path.read_bytes()


def _escaped(word: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word.encode())


if __name__ == "__main__":
    fuzz(sys.argv[1], int(sys.argv[2]))
