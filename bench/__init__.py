"""Measurements: each folder is one, run by `make bench` or ``python -m bench.<folder>``."""
