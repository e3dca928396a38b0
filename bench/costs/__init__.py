"""Measurement of the costs in `gpu_wcoj.costs`."""
