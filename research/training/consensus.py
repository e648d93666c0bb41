"""Train captions for consensus: a caption is rewarded for saying what people said, by CIDEr-D.

The reward is CIDEr-D (Vedantam et al., 2015) over word ids, for thousands of captions at once on the
training device; the tests compare it with the reference implementation, which is what figures are measured
with. The end counts as a word, else captions learn to stop in the middle. Training is self-critical (Rennie
et al., 2017), with the other samples of a picture as the baseline of each. Part of the loss stays imitation,
so that captions stay diverse.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from beamsplit.errors import ArgumentError
from beamsplit.models.pictures import LONGEST, PictureModel
from beamsplit.models.text import END, PAD, mask_special_tokens
from research.training.loop import Batch, Loss

__all__ = ["Consensus", "self_critical"]

_LONGEST_GRAM = 4
_SIGMA = 6.0  # how far the length may be off


@dataclass(frozen=True)
class _Grams:
    """n-grams of one length in sequences [... time]: a number for each, -1 where there is none."""

    keys: Tensor  # [... places]

    @classmethod
    def of(cls, ids: Tensor, n: int, vocabulary: int) -> _Grams:
        """Return the n-grams of sequences [... time]."""
        padded = torch.nn.functional.pad(ids, (0, max(0, n - ids.shape[-1])), value=PAD)
        windows = padded.unfold(-1, n, 1)
        keys = windows[..., 0]
        for place in range(1, n):
            keys = keys * vocabulary + windows[..., place]
        return cls(torch.where((windows != PAD).all(-1), keys, -1))

    def first(self) -> Tensor:
        """Return whether each n-gram is the first of its kind in its sequence: [... places]."""
        same = self.keys.unsqueeze(-1) == self.keys.unsqueeze(-2)
        earlier = torch.ones_like(same).tril(-1)
        return ~(same & earlier).any(-1) & (self.keys >= 0)

    def count_in(self, others: Tensor) -> Tensor:
        """Count each n-gram among `others` [... other_places]: [... places]."""
        return (self.keys.unsqueeze(-1) == others.unsqueeze(-2)).sum(-1)


class Consensus:
    """CIDEr-D of captions with the texts of their pictures.

    `references` are ids [pictures texts time], padded, with their ends; a text may be missing altogether.
    """

    def __init__(self, references: Tensor, vocabulary: int) -> None:
        if vocabulary**_LONGEST_GRAM >= 2**63:
            raise ArgumentError(
                f"consensus works with at most 55,000 words, not {vocabulary}: leave out rare ones"
            )
        self._references = references
        self._vocabulary = vocabulary
        self._tables = [self._rarity_table(n) for n in range(1, _LONGEST_GRAM + 1)]

    def __call__(self, captions: Tensor, picture: Tensor) -> Tensor:
        """Return the CIDEr-D [n] of captions [n time] of these pictures [n]."""
        references = self._references[picture].long()  # [n texts time]
        there = references[..., 0] != PAD
        apart = (captions != PAD).sum(1, keepdim=True) - (references != PAD).sum(2)  # [n texts]
        grams = [self._similarity(captions, references, n) for n in range(1, _LONGEST_GRAM + 1)]
        scores = torch.stack(grams).mean(0) * torch.exp(-(apart.float() ** 2) / (2 * _SIGMA**2))
        return 10 * (scores * there).sum(1) / there.sum(1)

    def _similarity(self, captions: Tensor, references: Tensor, n: int) -> Tensor:
        """Return the clipped cosine of n-gram vectors: [n texts]."""
        ours = _Grams.of(captions, n, self._vocabulary)
        theirs = _Grams.of(references, n, self._vocabulary)
        rarity = self._rarity(ours.keys, n) * ours.first()  # [n places]
        count = ours.count_in(ours.keys)
        in_text = _Grams(ours.keys.unsqueeze(1)).count_in(theirs.keys)  # [n texts places]
        product = (torch.minimum(count.unsqueeze(1), in_text) * in_text * rarity.unsqueeze(1) ** 2).sum(2)
        length = (count * rarity).norm(dim=1, keepdim=True) * self._length(theirs, n)
        similarity: Tensor = product / length.clamp(min=1e-12)
        return similarity

    def _length(self, grams: _Grams, n: int) -> Tensor:
        rarity = self._rarity(grams.keys, n) * grams.first()
        length: Tensor = (grams.count_in(grams.keys) * rarity).norm(dim=-1)
        return length

    def _rarity(self, keys: Tensor, n: int) -> Tensor:
        """Return log(pictures / pictures that have the n-gram in a text)."""
        table, rarity = self._tables[n - 1]
        if not len(table):
            return torch.zeros_like(keys, dtype=torch.float)
        place = torch.searchsorted(table, keys).clamp(max=len(table) - 1)
        unseen = torch.log(torch.tensor(float(len(self._references)), device=keys.device))
        return torch.where(table[place] == keys, rarity[place], unseen)

    def _rarity_table(self, n: int) -> tuple[Tensor, Tensor]:
        """Return all n-grams of the references in order, and their rarity."""
        found = []
        for part in torch.split(self._references, 4096):
            keys = _Grams.of(part.long(), n, self._vocabulary).keys.flatten(1).sort(1).values
            new = torch.ones_like(keys, dtype=torch.bool)
            new[:, 1:] = keys[:, 1:] != keys[:, :-1]
            found.append(keys[new & (keys >= 0)])
        keys, pictures = torch.unique(torch.cat(found), return_counts=True)
        return keys, torch.log(len(self._references) / pictures.float())


def self_critical(imitate: Loss, consensus: Consensus, *, weight: float, samples: int = 4) -> Loss:
    """Return a loss that is part imitation, part the reward of the network's own samples."""

    def loss(model: PictureModel, batch: Batch) -> Tensor:
        assert batch.picture is not None, "consensus is about pictures"
        features = batch.inputs[0].repeat_interleave(samples, 0)
        captions = _sample(model, features)
        reward = consensus(captions, batch.picture.repeat_interleave(samples)).view(-1, samples)
        others = (reward.sum(1, keepdim=True) - reward) / (samples - 1)
        advantage = (reward - others).view(-1)

        is_token = captions != PAD
        known = torch.ones(len(captions), dtype=torch.bool, device=captions.device)
        hidden = model.teach(features, known, captions)
        # As in sampling: tokens that are never sampled must not get any probability.
        log_probs = torch.log_softmax(mask_special_tokens(model.logits(hidden[is_token]).float()), -1)
        chosen = log_probs.gather(1, captions[is_token].unsqueeze(1)).squeeze(1)
        policy = -(chosen * advantage.unsqueeze(1).expand_as(captions)[is_token]).mean()
        return torch.lerp(imitate(model, batch), policy, weight)

    return loss


@torch.no_grad()
def _sample(model: PictureModel, features: Tensor) -> Tensor:
    """Draw a caption for each row of features, word by word: [rows time], padded."""
    logits, state = model.start(features)
    drawn: list[Tensor] = []
    ended = torch.zeros(len(features), dtype=torch.bool, device=features.device)
    for _ in range(LONGEST):
        tokens = torch.multinomial(logits.float().softmax(1), 1).squeeze(1)
        drawn.append(tokens.masked_fill(ended, PAD))
        ended = ended | (tokens == END)
        logits, state = model.step(tokens, state)
    return torch.stack(drawn, 1)
