"""``python -m bench.suite.report DIR``: the report of all results in a folder, without a run."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.suite.report import page

if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        raise SystemExit(
            "usage: python -m bench.suite.report DIR\n  DIR holds what `gpu-wcoj bench --report DIR` wrote."
        )
    folder = Path(sys.argv[1])
    if not (documents := page.read(folder)):
        raise SystemExit(f"{folder} holds no results, files suite-*.json.\n  Run `gpu-wcoj bench --report {folder}`.")
    for path in page.write(folder, documents):
        print(f"Written to {path}")
