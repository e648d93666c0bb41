"""Experiments: methods of decoding, compared on a task by their figures.

run(read_experiment(Path("experiment.toml")), Settings(data="data/"))      figures, ready for JSON
markdown(...)                                                              the same as tables
"""

from beamsplit.evaluation.decoding import Cache, decode_cached
from beamsplit.evaluation.experiment import Experiment, experiment_of, read_experiment
from beamsplit.evaluation.methods import Method, Saved
from beamsplit.evaluation.running import Settings, run
from beamsplit.evaluation.tables import markdown
from beamsplit.evaluation.tasks import TASKS, Task, read_task
from beamsplit.loading import load_model

__all__ = [
    "TASKS",
    "Cache",
    "Experiment",
    "Method",
    "Saved",
    "Settings",
    "Task",
    "decode_cached",
    "experiment_of",
    "load_model",
    "markdown",
    "read_experiment",
    "read_task",
    "run",
]
