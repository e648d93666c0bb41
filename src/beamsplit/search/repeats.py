"""Keep an output from saying the same n-gram twice, which is how long texts fall into loops."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["complete_again", "completions"]


def completions(prefix: Tensor, n: int) -> Tensor:
    """Return the tokens that would complete an n-gram of the prefix again: [... time] -> [... p].

    -1 stands in the place of windows that do not begin as the prefix ends.

    >>> completions(torch.tensor([5, 6, 7, 5, 6]), 3)
    tensor([ 7, -1, -1])
    """
    if prefix.shape[-1] < n:
        return prefix.new_full((*prefix.shape[:-1], 0), -1)
    windows = prefix.unfold(-1, n, 1)  # [... p n]
    context = prefix[..., prefix.shape[-1] - (n - 1) :].unsqueeze(-2)  # [... 1 n-1]
    begins = (windows[..., :-1] == context).all(-1)
    return torch.where(begins, windows[..., -1], -1)


def complete_again(tokens: Tensor, prefix: Tensor, n: int) -> Tensor:
    """Tell which candidates [... k] complete an n-gram that their prefix [... time] has already."""
    return (tokens.unsqueeze(-1) == completions(prefix, n).unsqueeze(-2)).any(-1)
