"""Execution on many executors: the state is partitioned into cells, each with an engine.

A plan (`plan`) assigns rows to cells and work to stages. Rows of small batches are routed in the driver (`parcels`),
others by tasks (`exchange`). A task does the work of a cell (`worker`), which keeps its state in files that no two
attempts share. The driver publishes one manifest for all cells (`driver`), which is the commit.
"""
