"""Experiments: methods of decoding, compared on a task by their figures.

run(read_experiment(Path("experiments/coco.toml")), Settings(data="data/"))      figures, ready for JSON
markdown(...)                                                                     the same as tables
"""

from beamsplit.evaluation.decoding import Cache, decoded
from beamsplit.evaluation.experiment import Experiment, Method, experiment_of, read_experiment
from beamsplit.evaluation.run import Settings, run
from beamsplit.evaluation.tables import markdown
from beamsplit.evaluation.tasks import TASKS, Task, read_task

__all__ = [
    "TASKS",
    "Cache",
    "Experiment",
    "Method",
    "Settings",
    "Task",
    "decoded",
    "experiment_of",
    "markdown",
    "read_experiment",
    "read_task",
    "run",
]
