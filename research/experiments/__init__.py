"""The paper's tables and figures, and more, on real data: `python -m experiments --help`."""
