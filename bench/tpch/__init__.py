"""TPC-H's queries 3, 5, 7, 8, 9 and 10 as views, kept up to date while orders come and go.

These are no results of the TPC, whose data and queries they use: views are refreshed, nothing is ordered or limited.
"""
