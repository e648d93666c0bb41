"""Metrics: laws, tables worked by hand, and the reference implementations."""
