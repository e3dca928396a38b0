"""SQL as analysts write it: TPC-H, TPC-DS and a thousand statements, each beside DuckDB's answer.

These are no results of the TPC, whose data and queries they use.
"""
