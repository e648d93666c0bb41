"""Run experiments: compare methods of decoding on a task by their figures.

run(read_experiment(Path("experiment.toml")), RunSettings(data="data/"))      figures, ready for JSON
markdown(...), latex(...), to_csv(...)                                     the same as tables
"""

from beamsplit.evaluation.decoding import Cache, decode_cached
from beamsplit.evaluation.experiment import Experiment, experiment_of, read_experiment
from beamsplit.evaluation.methods import Method, Saved
from beamsplit.evaluation.running import RunSettings, run
from beamsplit.evaluation.tables import markdown
from beamsplit.evaluation.tasks import TASKS, Task, read_task
from beamsplit.evaluation.tex import latex
from beamsplit.evaluation.tidy import to_csv
from beamsplit.loading import load_model

__all__ = [
    "TASKS",
    "Cache",
    "Experiment",
    "Method",
    "RunSettings",
    "Saved",
    "Task",
    "decode_cached",
    "experiment_of",
    "latex",
    "load_model",
    "markdown",
    "read_experiment",
    "read_task",
    "run",
    "to_csv",
]
