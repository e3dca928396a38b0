"""Answers, plans and counted work of many programs, stored, so that a change of the code shows what it changes.

``python -m tests.frozen`` compares, ``python -m tests.frozen --write`` stores what the code does now, and
``python -m tests.frozen --write FOLDER`` writes everything as full texts into a folder, to look at a difference.
"""
