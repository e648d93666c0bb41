"""What a path rules out for its next token: n-grams that it has already, and ends that come too early.

A search for proposals knows the tokens of the chunk alone. So the model's answers are changed before it
reads them: what is ruled out is impossible, and the log-probabilities of all else stay what they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from beamsplit.model import Answer, Guided, LogProbs, Shortlist, log_softmax
from beamsplit.options import DecodeOptions
from beamsplit.search.repeats import completions
from beamsplit.search.shortlist import without

__all__ = ["restrict"]

_NOTHING = -1


def restrict(answer: Answer, sequences: Sequence[Sequence[int]], options: DecodeOptions) -> Answer:
    """Return the answer without what these sequences, one for each row, may not go on with."""
    banned = _banned(sequences, options)
    if not bool((banned != _NOTHING).any()):
        return answer
    if isinstance(answer, Shortlist):
        banned = banned.to(answer.tokens.device)
        return without(answer, (answer.tokens.unsqueeze(-1) == banned.unsqueeze(-2)).any(-1))
    log_prob = log_softmax(answer)
    rows, slots = (banned != _NOTHING).nonzero(as_tuple=True)
    log_prob[rows.to(log_prob.device), banned[rows, slots].to(log_prob.device)] = -torch.inf
    if isinstance(answer, Guided):
        return Guided(log_prob, answer.guidance, answer.bounded, normalised=True)
    return LogProbs(log_prob)


def _banned(sequences: Sequence[Sequence[int]], options: DecodeOptions) -> Tensor:
    """Return tokens that are ruled out [rows n], filled up with -1."""
    ends = options.ends
    early = [ends if len(tokens) + 1 < options.min_length else [_NOTHING] * len(ends) for tokens in sequences]
    banned = torch.tensor(early, dtype=torch.long).view(len(sequences), len(ends))
    if options.no_repeat_ngram is None:
        return banned
    return torch.cat([banned, completions(_aligned(sequences), options.no_repeat_ngram)], dim=1)


def _aligned(sequences: Sequence[Sequence[int]]) -> Tensor:
    """Return sequences [rows longest] that end together, with -1 before those that are shorter."""
    longest = max(map(len, sequences), default=0)
    rows = [[*[_NOTHING] * (longest - len(tokens)), *tokens] for tokens in sequences]
    return torch.tensor(rows, dtype=torch.long).view(len(sequences), longest)
