"""Which join to use: every strategy of the engine and its rivals on the same states and changes."""
