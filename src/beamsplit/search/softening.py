"""Search a model at another temperature: what the search maximises changes, `log_prob` does not.

The option `model_temperature` divides the logits of a model before a strategy sees them. A search is wrapped:
it gets softened answers, as guidance beside the model's own logits, so that hypotheses keep the model's own
log-probability.
"""

from __future__ import annotations

import torch

from beamsplit.errors import ArgumentError
from beamsplit.model import Answer, Guided, Shortlist, is_normalised, log_softmax, plain
from beamsplit.search.asks import Advance, Search, Start

__all__ = ["soften_answer", "soften_search"]


def soften_search(search: Search, temperature: float) -> Search:
    """Return the search that gets the model's answers at this temperature; at 1, the search itself."""
    return search if temperature == 1 else _relay(search, temperature)


def _relay(search: Search, temperature: float) -> Search:
    reply = None
    while True:
        try:
            event = search.send(reply)
        except StopIteration:
            return
        reply = yield event
        if isinstance(event, Start | Advance):
            reply = soften_answer(reply, temperature)


def soften_answer(answer: Answer, temperature: float) -> Guided:
    """Return logits with guidance that makes a token's gain what it is after division by the temperature."""
    if isinstance(answer, Shortlist):
        raise ArgumentError(
            f"model_temperature={temperature:g} needs the whole vocabulary, and the model answers with "
            "candidate lists: leave it out, or set the temperature where the model runs"
        )
    log_prob = log_softmax(answer)
    # The likeliest token is at 0, so that division by a small temperature leaves one that is possible.
    below = log_prob - log_prob.amax(-1, keepdim=True)
    softened = torch.log_softmax(below / _within(temperature, log_prob.dtype), dim=-1)
    # A token that the model rules out stays ruled out: -inf minus -inf is NaN.
    guidance = (softened - log_prob).masked_fill(log_prob == -torch.inf, 0.0)
    if isinstance(answer, Guided):
        guidance = guidance + answer.guidance
    # A softened log-probability is no more than 0 either, so it may not raise a total.
    bounded = answer.bounded if isinstance(answer, Guided) else True
    return Guided(plain(answer), guidance, bounded, is_normalised(answer))


def _within(temperature: float, dtype: torch.dtype) -> float:
    """Return the temperature, or the nearest that the type can hold: 0 / 0 and inf / inf are NaN."""
    limits = torch.finfo(dtype)
    return min(max(temperature, limits.tiny), limits.max)
