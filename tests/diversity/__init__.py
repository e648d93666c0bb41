"""Tests of the diversity terms."""
