"""How the models of `beamsplit.models` are made: `python -m beamsplit.training translator --data DIR`."""
