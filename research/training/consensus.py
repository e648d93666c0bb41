"""Learning from consensus: a caption is good if it says what people said, by CIDEr-D.

The reward is CIDEr-D (Vedantam et al., 2015) over word ids, for thousands of captions at once on the
training device; the tests compare it with the reference implementation, which is what figures are measured
with. The end counts as a word, else captions learn to stop in the middle. Training is self-critical (Rennie
et al., 2017), with each sample measured against the others of its picture, and part of the loss stays
imitation, so that the network does not forget how many ways there are to say something.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from beamsplit.errors import ArgumentError
from beamsplit.models.pictures import LONGEST, PictureModel
from beamsplit.models.text import END, PAD, unspeakable
from beamsplit.training.loop import Batch, Loss

__all__ = ["Consensus", "self_critical"]

_LONGEST_GRAM = 4
_SIGMA = 6.0  # how far the length may be off


@dataclass(frozen=True)
class _Grams:
    """n-grams of one length in sequences [... time]: a number for each, -1 where there is none."""

    keys: Tensor  # [... places]

    @classmethod
    def of(cls, ids: Tensor, n: int, vocabulary: int) -> _Grams:
        padded = torch.nn.functional.pad(ids, (0, max(0, n - ids.shape[-1])), value=PAD)
        windows = padded.unfold(-1, n, 1)
        keys = windows[..., 0]
        for place in range(1, n):
            keys = keys * vocabulary + windows[..., place]
        return cls(torch.where((windows != PAD).all(-1), keys, -1))

    def first(self) -> Tensor:
        """[... places] whether an n-gram is there for the first time."""
        same = self.keys.unsqueeze(-1) == self.keys.unsqueeze(-2)
        earlier = torch.ones_like(same).tril(-1)
        return ~(same & earlier).any(-1) & (self.keys >= 0)

    def count_in(self, others: Tensor) -> Tensor:
        """How often each is among `others` [... other_places]: [... places]."""
        return (self.keys.unsqueeze(-1) == others.unsqueeze(-2)).sum(-1)


class Consensus:
    """CIDEr-D of captions with the texts of their pictures.

    `references` are ids [pictures texts time], padded, with their ends; a text may be missing altogether.
    """

    def __init__(self, references: Tensor, vocabulary: int) -> None:
        if vocabulary**_LONGEST_GRAM >= 2**63:
            raise ArgumentError(
                f"consensus is told among at most 55,000 words, not {vocabulary}: leave out rare ones"
            )
        self._references = references
        self._vocabulary = vocabulary
        self._tables = [self._rarity_table(n) for n in range(1, _LONGEST_GRAM + 1)]

    def __call__(self, captions: Tensor, picture: Tensor) -> Tensor:
        """[n] of captions [n time] that are about these pictures [n]."""
        references = self._references[picture].long()  # [n texts time]
        there = references[..., 0] != PAD
        apart = (captions != PAD).sum(1, keepdim=True) - (references != PAD).sum(2)  # [n texts]
        grams = [self._alike(captions, references, n) for n in range(1, _LONGEST_GRAM + 1)]
        scores = torch.stack(grams).mean(0) * torch.exp(-(apart.float() ** 2) / (2 * _SIGMA**2))
        return 10 * (scores * there).sum(1) / there.sum(1)

    def _alike(self, captions: Tensor, references: Tensor, n: int) -> Tensor:
        """Cosine of n-gram vectors, clipped: [n texts]."""
        ours = _Grams.of(captions, n, self._vocabulary)
        theirs = _Grams.of(references, n, self._vocabulary)
        rarity = self._rarity(ours.keys, n) * ours.first()  # [n places]
        count = ours.count_in(ours.keys)
        in_text = _Grams(ours.keys.unsqueeze(1)).count_in(theirs.keys)  # [n texts places]
        product = (torch.minimum(count.unsqueeze(1), in_text) * in_text * rarity.unsqueeze(1) ** 2).sum(2)
        length = (count * rarity).norm(dim=1, keepdim=True) * self._length(theirs, n)
        alike: Tensor = product / length.clamp(min=1e-12)
        return alike

    def _length(self, grams: _Grams, n: int) -> Tensor:
        rarity = self._rarity(grams.keys, n) * grams.first()
        length: Tensor = (grams.count_in(grams.keys) * rarity).norm(dim=-1)
        return length

    def _rarity(self, keys: Tensor, n: int) -> Tensor:
        """log(pictures / pictures that have the n-gram in a text)."""
        table, rarity = self._tables[n - 1]
        if not len(table):
            return torch.zeros_like(keys, dtype=torch.float)
        place = torch.searchsorted(table, keys).clamp(max=len(table) - 1)
        unseen = torch.log(torch.tensor(float(len(self._references)), device=keys.device))
        return torch.where(table[place] == keys, rarity[place], unseen)

    def _rarity_table(self, n: int) -> tuple[Tensor, Tensor]:
        """All n-grams in order, and how rare they are."""
        found = []
        for part in torch.split(self._references, 4096):
            keys = _Grams.of(part.long(), n, self._vocabulary).keys.flatten(1).sort(1).values
            new = torch.ones_like(keys, dtype=torch.bool)
            new[:, 1:] = keys[:, 1:] != keys[:, :-1]
            found.append(keys[new & (keys >= 0)])
        keys, pictures = torch.unique(torch.cat(found), return_counts=True)
        return keys, torch.log(len(self._references) / pictures.float())


def self_critical(imitate: Loss, consensus: Consensus, *, weight: float, samples: int = 4) -> Loss:
    """A loss that is part imitation, part the reward of what the network says on its own."""

    def loss(model: PictureModel, batch: Batch) -> Tensor:
        assert batch.picture is not None, "consensus is about pictures"
        features = batch.told[0].repeat_interleave(samples, 0)
        said = _sampled(model, features)
        reward = consensus(said, batch.picture.repeat_interleave(samples)).view(-1, samples)
        others = (reward.sum(1, keepdim=True) - reward) / (samples - 1)
        advantage = (reward - others).view(-1)

        spoken = said != PAD
        known = torch.ones(len(said), dtype=torch.bool, device=said.device)
        hidden = model.teach(features, known, said)
        # As in sampling: a network that could put weight on what is never sampled would learn just that.
        log_probs = torch.log_softmax(unspeakable(model.logits(hidden[spoken]).float()), -1)
        chosen = log_probs.gather(1, said[spoken].unsqueeze(1)).squeeze(1)
        policy = -(chosen * advantage.unsqueeze(1).expand_as(said)[spoken]).mean()
        return torch.lerp(imitate(model, batch), policy, weight)

    return loss


@torch.no_grad()
def _sampled(model: PictureModel, features: Tensor) -> Tensor:
    """A caption for each row of features, drawn word by word: [rows time], padded."""
    logits, state = model.start(features)
    said: list[Tensor] = []
    ended = torch.zeros(len(features), dtype=torch.bool, device=features.device)
    for _ in range(LONGEST):
        tokens = torch.multinomial(logits.float().softmax(1), 1).squeeze(1)
        said.append(tokens.masked_fill(ended, PAD))
        ended = ended | (tokens == END)
        logits, state = model.step(tokens, state)
    return torch.stack(said, 1)
