"""Small ticks on a twin of the state, on the CPU: which tick runs where, and what the other side has to take in."""
