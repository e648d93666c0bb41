"""Models whose every number is known, and slow, simple searches, to test against."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from beamsplit.diversity import Diversity, Earlier
from beamsplit.hypotheses import Hypothesis
from beamsplit.model import Answer, Shortlist, StepModel, log_softmax, read_answer
from beamsplit.search.noise import mix

__all__ = ["MarkovModel", "PrefixHashModel", "exhaustive_search", "reference_search", "rescore"]


class MarkovModel:
    """A model whose next token depends on the last one alone: `table` [vocab vocab] has a row for each token.

    An input is the id of the token before the first. There is no state.

    >>> model = MarkovModel(torch.tensor([[0.5, 0.5], [0.1, 0.9]]).log())
    >>> model.start([1])[0].exp()
    tensor([[0.1000, 0.9000]])
    """

    capturable = True

    def __init__(self, table: Tensor) -> None:
        self.table = table

    def start(self, inputs: Sequence[int] | Tensor) -> tuple[Tensor, None]:
        return self.table[torch.as_tensor(inputs, dtype=torch.long, device=self.table.device)], None

    def step(self, tokens: Tensor, state: None) -> tuple[Tensor, None]:
        return self.table[tokens], None

    def select(self, state: None, rows: Tensor) -> None:
        return None

    def join(self, states: Sequence[None]) -> None:
        return None


class PrefixHashModel:
    """A model that gives every prefix other logits, computed from a hash of the prefix.

    An input is any integer. With `levels`, logits take only so many values, so that there are many ties.
    """

    capturable = True

    def __init__(
        self, vocabulary: int, *, seed: int = 0, levels: int | None = None, scale: float = 3.0
    ) -> None:
        self.vocabulary = vocabulary
        self._seed = seed
        self._levels = levels
        self._scale = scale

    def start(self, inputs: Sequence[int] | Tensor) -> tuple[Tensor, Tensor]:
        state = mix(torch.as_tensor(inputs, dtype=torch.long) + mix(torch.tensor(self._seed)).item())
        return self._logits(state), state

    def step(self, tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        state = mix(mix(state + 1) + tokens)
        return self._logits(state), state

    def select(self, state: Tensor, rows: Tensor) -> Tensor:
        return state.index_select(0, rows)

    def join(self, states: Sequence[Tensor]) -> Tensor:
        return torch.cat(list(states))

    def _logits(self, state: Tensor) -> Tensor:
        bits = mix(mix(state[:, None]) + torch.arange(self.vocabulary, device=state.device))
        unit = (bits >> 40).to(torch.float32) / 2**24 + 0.5
        if self._levels is not None:
            unit = (unit * self._levels).floor() / self._levels
        return unit * self._scale


def rescore(model: StepModel, inputs: Any, input_index: int, tokens: Sequence[int]) -> float:
    """Return the log-probability of a sequence for one of the inputs, fed to the model token by token."""
    logits, state = model.start(inputs)
    state = model.select(state, torch.tensor([input_index]))
    log_prob = _log_prob(logits)[input_index]
    total = 0.0
    for t, token in enumerate(tokens):
        total += float(log_prob[token])
        if t + 1 < len(tokens):
            logits, state = model.step(torch.tensor([token]), state)
            log_prob = _log_prob(logits)[0]
    return total


def exhaustive_search(
    model: StepModel, inputs: Any, *, max_length: int, end: int | None = None
) -> list[list[Hypothesis]]:
    """Return every possible sequence for each input, likeliest first. For tiny vocabularies and lengths."""
    logits, state = model.start(inputs)
    batch = _log_prob(logits).shape[0]
    return [
        sorted(
            _all_sequences(
                model, _log_prob(logits)[i], model.select(state, torch.tensor([i])), (), 0.0, max_length, end
            ),
            key=lambda h: -h.log_prob,
        )
        for i in range(batch)
    ]


def _all_sequences(
    model: StepModel,
    log_prob: Tensor,
    state: Any,
    prefix: tuple[int, ...],
    total: float,
    room: int,
    end: int | None,
) -> Iterator[Hypothesis]:
    for token, gain in enumerate(log_prob.tolist()):
        tokens = (*prefix, token)
        if gain == -torch.inf:
            continue
        if token == end or room == 1:
            yield Hypothesis(tokens, total + gain, total + gain, finished=token == end)
        else:
            kept = model.select(state, torch.tensor([0]))
            logits, after = model.step(torch.tensor([token]), kept)
            yield from _all_sequences(model, _log_prob(logits)[0], after, tokens, total + gain, room - 1, end)


@dataclass
class _Path:
    tokens: tuple[int, ...]
    log_prob: Tensor
    score: Tensor
    state: Any
    row: Tensor  # [vocab] log-probabilities of what may follow


def reference_search(
    model: StepModel,
    inputs: Any,
    *,
    groups: int,
    beams: int,
    strength: Sequence[float],
    diversity: Diversity,
    max_length: int,
    end: int | None = None,
) -> list[list[list[Hypothesis]]]:
    """Run Diverse Beam Search as in the paper's Algorithm 1: a loop over time, a loop over groups, the whole
    vocabulary each time. Returns the hypotheses by input, group and rank.

    It shares no code with the real search but the diversity terms. It rounds at the same points, so that
    results can be compared bit for bit.
    """
    logits, state = model.start(inputs)
    rows = _log_prob(logits)
    return [
        _search_one(
            model,
            model.select(state, torch.tensor([i])),
            rows[i],
            groups,
            beams,
            strength,
            diversity,
            max_length,
            end,
        )
        for i in range(rows.shape[0])
    ]


def _search_one(
    model: StepModel,
    state: Any,
    row: Tensor,
    groups: int,
    beams: int,
    strength: Sequence[float],
    diversity: Diversity,
    max_length: int,
    end: int | None,
) -> list[list[Hypothesis]]:
    zero = torch.zeros((), dtype=row.dtype)
    live = [[_Path((), zero, zero, state, row)] for _ in range(groups)]
    found: list[list[Hypothesis]] = [[] for _ in range(groups)]
    for time in range(max_length):
        said: list[tuple[int, ...]] = []  # the beams of earlier groups at this step
        ended: list[tuple[int, ...]] = []  # the hypotheses that they had finished before it
        for g in range(groups):
            ranked = _extensions(live[g], said, ended, time, float(strength[g]), diversity)
            ended += [h.tokens for h in found[g]]
            said += [(*path.tokens, token) for _, path, token in ranked[:beams]]
            live[g], found[g] = _survivors(model, ranked, found[g], beams, end, last=time + 1 == max_length)
    return found


def _extensions(
    paths: list[_Path],
    said: list[tuple[int, ...]],
    ended: list[tuple[int, ...]],
    time: int,
    strength: float,
    diversity: Diversity,
) -> list[tuple[Tensor, _Path, int]]:
    """Return the extensions of a group's beams, best first; of equals the lower beam, then token."""
    extensions = []
    for beam, path in enumerate(paths):
        scores = path.score + path.row
        if said or ended:
            penalties = _penalties(path, said, ended, time, diversity).to(scores.dtype)
            scores = scores - strength * penalties
        extensions += [(score, beam, path, token) for token, score in enumerate(scores) if score > -torch.inf]
    extensions.sort(key=lambda e: (-float(e[0]), e[1], e[3]))
    return [(score, path, token) for score, _, path, token in extensions]


def _penalties(
    path: _Path, said: list[tuple[int, ...]], ended: list[tuple[int, ...]], time: int, diversity: Diversity
) -> Tensor:
    beams = _table(said, time + 1)
    sequences = _table(said + ended, time + 1)
    earlier = Earlier(beams[..., -1], lambda: beams, lambda: sequences)
    tokens = torch.arange(path.row.shape[0]).view(1, 1, -1)
    prefix = torch.tensor(path.tokens, dtype=torch.long).view(1, 1, -1)
    return diversity.penalty(tokens, prefix, earlier)[0, 0]


def _table(sequences: list[tuple[int, ...]], width: int) -> Tensor:
    rows = [(*tokens, *[-1] * (width - len(tokens))) for tokens in sequences]
    return torch.tensor(rows, dtype=torch.long).view(1, len(rows), width)


def _survivors(
    model: StepModel,
    ranked: list[tuple[Tensor, _Path, int]],
    found: list[Hypothesis],
    beams: int,
    end: int | None,
    last: bool,
) -> tuple[list[_Path], list[Hypothesis]]:
    live: list[_Path] = []
    for rank, (score, path, token) in enumerate(ranked):
        tokens, log_prob = (*path.tokens, token), path.log_prob + path.row[token]
        if token == end:
            if rank < beams:
                found = [*found, Hypothesis(tokens, float(log_prob), float(score))]
        elif len(live) < beams:
            live.append(_Path(tokens, log_prob, score, path.state, path.row))
            if last:
                found = [*found, Hypothesis(tokens, float(log_prob), float(score), finished=False)]
    found = sorted(found, key=lambda h: -h.score)[:beams]
    if last or (live and len(found) == beams and found[-1].score >= float(live[0].score)):
        return [], found
    return [_stepped(model, path) for path in live], found


def _stepped(model: StepModel, path: _Path) -> _Path:
    kept = model.select(path.state, torch.tensor([0]))
    logits, state = model.step(torch.tensor([path.tokens[-1]]), kept)
    return _Path(path.tokens, path.log_prob, path.score, state, _log_prob(logits)[0])


def _log_prob(answer: Answer) -> Tensor:
    answer, _ = read_answer((answer, None), "the model")
    assert not isinstance(answer, Shortlist), "a reference search reads whole vocabularies"
    return log_softmax(answer)
