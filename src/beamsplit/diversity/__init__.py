"""The diversity terms: the penalty of a group for repeating what earlier groups hold. One term a file."""

from beamsplit.diversity.cumulative import Cumulative
from beamsplit.diversity.embedding import Embedding
from beamsplit.diversity.hamming import Hamming
from beamsplit.diversity.ngram import NGram
from beamsplit.diversity.term import Diversity, Earlier, Similarity, SoftTerm

__all__ = ["Cumulative", "Diversity", "Earlier", "Embedding", "Hamming", "NGram", "Similarity", "SoftTerm"]
