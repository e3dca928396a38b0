"""Routing of ticks: small ticks run on a CPU twin of the state, large ones on the device."""
