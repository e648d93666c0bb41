"""Decode many inputs: in batches, from files of any length, and again from where a run was stopped."""
