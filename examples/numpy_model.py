"""A model in numpy: nothing of it is a torch module, and its state is an array.

It has counted which letter follows which two in English number words. `step` is given tokens as a tensor,
and returns arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from own_model import LETTERS, WORDS
from torch import Tensor

import beamsplit
from beamsplit import DiverseBeamSearch, FunctionModel

Array = npt.NDArray[Any]
BEGIN, END = LETTERS.index("^"), LETTERS.index(".")


def count(words: list[str]) -> Array:
    """Return log-probabilities [before last next] of a letter after two others, all a little likely."""
    counts = np.full((len(LETTERS),) * 3, 1e-3)
    for word in words:
        ids = [LETTERS.index(letter) for letter in f"^^{word}."]
        for before, last, following in zip(ids, ids[1:], ids[2:], strict=False):
            counts[before, last, following] += 1
    log_probs: Array = np.log(counts / counts.sum(-1, keepdims=True))
    return log_probs


TABLE = count(WORDS)


def step(tokens: Tensor, before: Array) -> tuple[Array, Array]:  # tokens [rows], before [rows]
    last = tokens.numpy()
    return TABLE[before, last], last  # logits [rows letters], and the new state


def main() -> None:
    model = FunctionModel(step, start=BEGIN)
    states = np.full(1, BEGIN)  # the inputs are the first states, one row an input
    strategy = DiverseBeamSearch(groups=5, beams_per_group=2, strength=1.0)
    (found,) = beamsplit.decode(model, states, strategy, max_length=12, end=END)
    for group in found.groups:
        print(*("".join(LETTERS[token] for token in hypothesis.tokens) for hypothesis in group))


if __name__ == "__main__":
    main()
