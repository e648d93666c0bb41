"""Decode a model that only tells its 20 likeliest next tokens, as a serving engine does.

    python examples/top_candidates.py "I have to find a new job."

The search asks for no more than that. With the Hamming term, one candidate more than there are beams is
enough, so 20 log-probabilities allow 19 groups; where the last of a list might tie with a token outside it,
the step is not certified. Each hypothesis says whether it is. The engine here is our own translator behind
a small wall; yours may be behind a network.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor

from beamsplit import DiverseBeamSearch, Hypotheses, Shortlist, decode
from beamsplit.models import load

MOST = 20  # log-probabilities that the engine gives away
Prefix = tuple[str, tuple[int, ...]]  # a sentence, and what has been written so far


class Engine:
    """A stand-in for a serving engine: it is sent a prefix, and answers with its likeliest next tokens."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._states: dict[Prefix, Any] = {}  # as an engine's prefix cache
        self.requests = 0

    def top_log_probs(self, prefix: Prefix, count: int) -> dict[int, float]:
        self.requests += 1
        logits, self._states[prefix] = self._forward(prefix)
        log_prob, tokens = torch.log_softmax(logits[0], -1).topk(min(count, MOST))
        return dict(zip(tokens.tolist(), log_prob.tolist(), strict=True))

    @torch.no_grad()
    def _forward(self, prefix: Prefix) -> Any:
        sentence, tokens = prefix
        if not tokens:
            return self._model.start([sentence])
        before = self._states[sentence, tokens[:-1]]
        return self._model.step(torch.tensor(tokens[-1:]), before)


class TopCandidates:
    """The engine as a model: its state is the prefixes themselves, and its answers are candidate lists."""

    def __init__(self, engine: Engine, end: Any, to_text: Any) -> None:
        self._engine = engine
        self.end = end
        self.to_text = to_text

    def start(self, inputs: list[str]) -> tuple[Shortlist, list[Prefix]]:
        prefixes: list[Prefix] = [(sentence, ()) for sentence in inputs]
        return self._lists(prefixes), prefixes

    def step(self, tokens: Tensor, state: list[Prefix]) -> tuple[Shortlist, list[Prefix]]:
        grown = zip(state, tokens.tolist(), strict=True)
        prefixes: list[Prefix] = [(sentence, (*said, token)) for (sentence, said), token in grown]
        return self._lists(prefixes), prefixes

    def select(self, state: list[Prefix], rows: Tensor) -> list[Prefix]:
        return [state[row] for row in rows.tolist()]

    def _lists(self, prefixes: list[Prefix]) -> Shortlist:
        answers = [self._engine.top_log_probs(prefix, MOST) for prefix in prefixes]
        tokens = torch.tensor([list(answer) for answer in answers])
        log_prob = torch.tensor([list(answer.values()) for answer in answers])
        return Shortlist(tokens, log_prob)  # the least of each list bounds what is not in it


def main(sentence: str) -> Hypotheses:
    translator: Any = load("en-fr")
    engine = Engine(translator)
    model = TopCandidates(engine, translator.end, translator.to_text)
    strategy = DiverseBeamSearch(groups=19, beams_per_group=1, strength=2.0)
    (found,) = decode(model, [sentence], strategy, max_length=40)
    (exact,) = decode(translator, [sentence], strategy, max_length=40)
    for hypothesis in found.distinct()[:8]:
        print(f"{hypothesis.log_prob:7.2f}  {hypothesis.text}")
    certified = sum(hypothesis.certified for hypothesis in found)
    same = [h.tokens for h in found] == [h.tokens for h in exact]
    print(f"{certified} of {len(found)} certified; the same as with the whole vocabulary: {same}")
    print(f"{engine.requests} requests of {MOST} log-probabilities each")
    return found


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]) or "I have to find a new job before the summer.")
