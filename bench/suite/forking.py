"""What the process that forks those of the engine's contenders does first."""

from __future__ import annotations

import os
import signal

signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for who starts contenders, and ends them
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # no contender computes with it, and its threads would not be forked
