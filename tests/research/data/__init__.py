"""Readers of data, on small files that each test writes itself."""
