"""A search for cliffs: random queries whose cost may not hang on how they are put; see `bench.cliffs.__main__`."""
