"""Measure how fast and how small a search is, against its peers and against what the hardware allows."""
