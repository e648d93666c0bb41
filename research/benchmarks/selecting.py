"""Time one step of selection: from short lists, and by a pass over the vocabulary for each group."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from beamsplit import Hamming
from beamsplit.search.pricing import GroupPenalty
from beamsplit.search.rules import Maximise
from beamsplit.search.select import Picks, settle
from beamsplit.search.shortlist import VocabularyReader
from beamsplit.search.state import Beams
from research.benchmarks.timing import take_turns

__all__ = ["measure_selection"]

BEAMS = 20
STRENGTH = 0.5
END = 1


def measure_selection(vocabulary: int, turns: int) -> list[dict[str, Any]]:
    logits = torch.randn(BEAMS, vocabulary) * 3 - torch.arange(1, vocabulary + 1).log()
    return [_measure(logits, groups, turns) for groups in (1, 2, 5, 10, 20)]


def _measure(logits: Tensor, groups: int, turns: int) -> dict[str, Any]:
    beams = midway(groups)
    short, full = by_short_lists(logits, beams), by_passes(logits, beams)
    if not torch.equal(short[1], full[1]):
        raise AssertionError(f"the two ways pick different tokens: {short[1].tolist()} {full[1].tolist()}")
    repeat = 5  # a single step is too short to time well

    def lists() -> None:
        for _ in range(repeat):
            by_short_lists(logits, beams)

    def passes() -> None:
        for _ in range(repeat):
            by_passes(logits, beams)

    times = take_turns({"lists": lists, "passes": passes}, turns)
    return {
        "vocabulary": logits.shape[1],
        "groups": groups,
        "lists_us": times["lists"].median / repeat * 1e6,
        "passes_us": times["passes"].median / repeat * 1e6,
        "speed_up": times["passes"].ratio_to(times["lists"]),
    }


def midway(groups: int) -> Beams:
    """Return beams some steps into a search, with different scores."""
    shape = (1, groups, BEAMS // groups)
    score = -torch.rand(shape, generator=torch.Generator().manual_seed(1)).sort(dim=2).values * 4
    tokens = torch.zeros(*shape, 5, dtype=torch.long)
    return Beams(tokens, score, score)


def by_short_lists(logits: Tensor, beams: Beams) -> tuple[Tensor, Tensor]:
    """Select as a step of the search does: read, list, settle the groups, check the certificate."""
    groups, width = beams.score.shape[1:]
    reader = VocabularyReader(logits)
    length = 9  # as the search begins, after its first step
    while True:
        lists = reader.shortlist(length).shaped(beams.score)
        picks, bound = settle(Maximise(), beams, lists, 2 * width, penalty(groups) if groups > 1 else None)
        if bool(Maximise().secure(picks.order, picks.order[..., width - 1], bound).all()):
            return _kept(picks, width)
        length *= 4


def penalty(groups: int) -> GroupPenalty:
    strengths = torch.full((groups, 1, 1), STRENGTH)
    strengths[0] = 0.0
    not_earlier = torch.ones(1, groups, groups, dtype=torch.bool).triu().unsqueeze(3)
    finished = torch.full((1, groups, BEAMS // groups, 0), -1)
    return GroupPenalty(Hamming(), strengths, not_earlier, finished, None)


def _kept(picks: Picks, width: int) -> tuple[Tensor, Tensor]:
    return picks.parent[..., :width], picks.token[..., :width]


def by_passes(logits: Tensor, beams: Beams) -> tuple[Tensor, Tensor]:
    """Select the usual way: for each group, log-probabilities, penalties, and topk over the vocabulary."""
    groups, width = beams.score.shape[1:]
    vocabulary = logits.shape[1]
    parents, tokens = [], []
    said = logits.new_zeros(vocabulary)
    rows = logits.view(groups, width, vocabulary)
    for g in range(groups):
        scores = torch.log_softmax(rows[g], dim=-1) - STRENGTH * said
        scores = scores + beams.score[0, g].unsqueeze(1)
        best = scores.flatten().topk(2 * width).indices[:width]
        parents.append(best // vocabulary)
        tokens.append(best % vocabulary)
        said = said + torch.bincount(tokens[-1], minlength=vocabulary)
    return torch.stack(parents).unsqueeze(0), torch.stack(tokens).unsqueeze(0)
