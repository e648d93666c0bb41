"""Whether big jobs lose anything: workers, nodes and drivers are killed at random, and bytes compared."""
