"""The diversity terms: the penalty of a group for repeating what earlier groups hold. One term a file."""

from typing import TYPE_CHECKING

from beamsplit.lazy import package_dir, package_getattr

if TYPE_CHECKING:
    from beamsplit.diversity.cumulative import Cumulative
    from beamsplit.diversity.embedding import Embedding
    from beamsplit.diversity.hamming import Hamming
    from beamsplit.diversity.ngram import NGram
    from beamsplit.diversity.term import Comparison, Diversity, Earlier, Pairs, Similarity, SoftTerm

__all__ = [
    "Comparison",
    "Cumulative",
    "Diversity",
    "Earlier",
    "Embedding",
    "Hamming",
    "NGram",
    "Pairs",
    "Similarity",
    "SoftTerm",
]

# So that the names of the terms (`names`) can be read without torch.
__getattr__ = package_getattr(
    __name__,
    {
        "beamsplit.diversity.cumulative": "Cumulative",
        "beamsplit.diversity.embedding": "Embedding",
        "beamsplit.diversity.hamming": "Hamming",
        "beamsplit.diversity.ngram": "NGram",
        "beamsplit.diversity.term": "Comparison Diversity Earlier Pairs Similarity SoftTerm",
    },
)
__dir__ = package_dir(__all__)
