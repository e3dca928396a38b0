"""Many executors: the state spread over cells, each a task of Spark that runs an engine of its own.

A plan (`plan`) says which cells a row goes to and what each cell computes, in stages. Rows are routed in SQL
(`routing`), a cell works in `DataFrame.mapInArrow` inside the streaming plan (`step`) and keeps its state in files that
no two attempts share (`state`), and the driver publishes one manifest for all cells (`commit`), which is the commit.
"""
