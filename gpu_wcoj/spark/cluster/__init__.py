"""Execution on many executors: the state is partitioned into cells, each with an engine.

A plan (`plan`) assigns rows to cells and work to stages. Rows are routed in SQL (`routing`). A cell works in
`DataFrame.mapInArrow` inside the streaming plan (`step`) and keeps its state in files that no two attempts share
(`state`). The driver publishes one manifest for all cells (`commit`), which is the commit.
"""
