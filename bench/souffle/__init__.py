"""Programs in Soufflé's dialect, each with the output that its documentation promises."""
