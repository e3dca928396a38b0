"""``python -m gpu_wcoj``: the command line."""

import sys

from gpu_wcoj.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
