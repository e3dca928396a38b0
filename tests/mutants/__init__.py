"""Faults that developers make, planted in copies of the tree one at a time, and the tests that find them.

``make test-mutants`` runs those of `engine.toml` (``python -m tests.mutants``), ``make test-kernel-mutants`` those of
`kernels.toml` (``python -m tests.mutants.kernels``), which are planted in the CUDA sources. `found.json` holds the
outcome of the last run of the former. A fault that no longer fits its file is an error of `test_fit.py`.
"""
