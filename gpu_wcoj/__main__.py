"""``python -m gpu_wcoj``: the command line."""

import sys

from gpu_wcoj.cli import main

if __name__ == "__main__":
    sys.exit(main())
