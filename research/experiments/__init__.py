"""Run the paper's experiments, and more, on real data: `python -m research.experiments --help`."""
