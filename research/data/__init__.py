"""Read the public files that captioning, question and translation models learn from, or your own.

read_pairs("fra.txt")                                  sentences and their translations
read_described("dataset_coco.json", split="test")      pictures and their captions or questions
read_features("coco.test.features.npz").of(images)     pictures as a network sees them

Text stays as it is in the file, but for white space around it. What the tasks of `beamsplit evaluate` read
too is in `beamsplit.evaluation`.
"""

from beamsplit.evaluation.datasets import Described, Pair, data_folder
from beamsplit.evaluation.features import Features, read_features, read_projection
from beamsplit.models.projection import Projection
from research.data.features import write_features
from research.data.formats import picture_of_file, read_described
from research.data.pairs import read_pairs

__all__ = [
    "Described",
    "Features",
    "Pair",
    "Projection",
    "data_folder",
    "picture_of_file",
    "read_described",
    "read_features",
    "read_pairs",
    "read_projection",
    "write_features",
]
