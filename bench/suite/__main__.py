"""``python -m bench.suite`` is ``gpu-wcoj bench``."""

from __future__ import annotations

import sys

from gpu_wcoj.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main(["bench", *sys.argv[1:]]))
