"""Fuzzing itself needs atheris; the corpus does not."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("atheris") else ["worker.py"]
