"""The house checks: what no other checker of `make check` knows about names, docstrings, modules and prose.

``python -m tests.house`` prints what is wrong and how to put it right. ``exceptions.toml`` lists what was there before;
its lists may only shrink, and ``python -m tests.house --write`` rewrites them.
"""
