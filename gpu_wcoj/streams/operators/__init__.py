"""The operators, one file each."""
