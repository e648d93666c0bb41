"""What big jobs cost: the overhead of workers, their memory, their start, and what 10^8 inputs would take."""
