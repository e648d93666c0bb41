"""Make and measure what the package ships: not part of the wheel, run from the repository's root.

python -m research.training        train the models, or your own of their kind
python -m research.experiments     the tables and plots of docs/results.md
python -m research.chat            the settings and figures of docs/chat.md
python -m research.benchmarks      the speed of the search
research.data                      readers of public data sets
"""
