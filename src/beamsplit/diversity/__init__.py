"""The diversity terms: what it costs a group to repeat what earlier groups hold. One term a file."""

from beamsplit.diversity.cumulative import Cumulative
from beamsplit.diversity.embedding import Embedding
from beamsplit.diversity.hamming import Hamming
from beamsplit.diversity.ngram import NGram
from beamsplit.diversity.term import Diversity, Earlier

__all__ = ["Cumulative", "Diversity", "Earlier", "Embedding", "Hamming", "NGram"]
