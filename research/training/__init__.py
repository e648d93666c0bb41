"""Train and measure the models of `beamsplit.models`: `python -m research.training --help`."""
