"""Readers for what captioning, question and translation models learn from: the public files, or your own.

read_pairs("fra.txt")                                  sentences and their translations
read_described("dataset_coco.json", split="test")      pictures and their captions or questions
read_features("coco.test.features.npz").of(images)     pictures as a network sees them

Text stays as it is in the file, but for white space around it.
"""

from beamsplit.data.described import Described
from beamsplit.data.features import Features, read_features, write_features
from beamsplit.data.files import data_folder
from beamsplit.data.formats import read_described
from beamsplit.data.pairs import Pair, read_pairs
from beamsplit.data.projection import Projection, read_projection

__all__ = [
    "Described",
    "Features",
    "Pair",
    "Projection",
    "data_folder",
    "read_described",
    "read_features",
    "read_pairs",
    "read_projection",
    "write_features",
]
