"""Make the batches that the captioner and the questioner learn from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from beamsplit.errors import ArgumentError
from beamsplit.models.pictures import LONGEST
from beamsplit.models.text import END, Vocabulary
from research.data import Described, Features
from research.training.loop import Batch, epoch_seed

__all__ = ["Texts", "TextsOfPictures"]

INPUT_DROPOUT = 0.1
"""The share of examples whose picture is left out, so that the network is a language model too."""


@dataclass(frozen=True)
class Texts:
    """All texts of some pictures, as tensors."""

    features: Tensor  # [pictures features]
    picture: Tensor  # [texts] the index of a text's picture
    ids: Tensor  # [texts time], padded

    @classmethod
    def of(cls, described: Sequence[Described], features: Features, words: Vocabulary) -> Texts:
        """Return the texts of pictures as ids of these words; texts without words are left out."""
        read = [(place, words.ids(text)) for place, each in enumerate(described) for text in each.texts]
        read = [(place, [*ids[: LONGEST - 1], END]) for place, ids in read if ids]
        if not read:
            raise ArgumentError(f"the texts of {len(described)} pictures have no words: give others")
        ids = torch.zeros(len(read), max(len(ids) for _, ids in read), dtype=torch.int32)
        for row, (_, each) in enumerate(read):
            ids[row, : len(each)] = torch.tensor(each)
        pictures = torch.tensor([place for place, _ in read])
        return cls(features.of([each.image for each in described]), pictures, ids)

    def references(self, at_most: int = 5) -> Tensor:
        """Return the first texts of each picture: [pictures at_most time]."""
        gathered = self.ids.new_zeros(len(self.features), at_most, self.ids.shape[1])
        first = torch.searchsorted(self.picture, torch.arange(len(self.features), device=self.picture.device))
        place = torch.arange(len(self.picture), device=self.picture.device) - first[self.picture]
        kept = place < at_most
        gathered[self.picture[kept], place[kept]] = self.ids[kept]
        return gathered

    def to(self, device: torch.device) -> Texts:
        """Return the texts on a device."""
        return Texts(self.features.to(device), self.picture.to(device), self.ids.to(device))

    def batch(self, rows: Tensor, known: Tensor) -> Batch:
        """Return these texts as a batch; where `known` is false, the picture is left out."""
        ids = self.ids[rows].long()
        longest = int((ids > 0).sum(1).amax())
        picture = self.picture[rows]
        return Batch((self.features[picture], known), ids[:, :longest], picture)


class TextsOfPictures:
    """Batches of texts. These are on the device throughout: all of COCO is a few hundred megabytes."""

    def __init__(self, train: Texts, valid: Texts, *, batch: int, seed: int) -> None:
        self._train = train
        self._valid = valid
        self._batch = min(batch, len(train.picture))
        self._seed = seed
        self.steps = len(train.picture) // self._batch

    def epoch(self, number: int) -> Iterator[Batch]:
        """Yield the batches of an epoch."""
        device = self._train.ids.device
        draw = torch.Generator().manual_seed(epoch_seed(self._seed, number))
        order = torch.randperm(len(self._train.picture), generator=draw)[: self.steps * self._batch]
        known = torch.rand(len(order), generator=draw) >= INPUT_DROPOUT
        for rows, shown in zip(order.view(self.steps, -1), known.view(self.steps, -1), strict=True):
            yield self._train.batch(rows.to(device), shown.to(device))

    def valid(self) -> Iterator[Batch]:
        """Yield the batches of the validation part."""
        rows = torch.arange(len(self._valid.picture), device=self._valid.ids.device)
        for part in torch.split(rows, self._batch):
            yield self._valid.batch(part, torch.ones_like(part, dtype=torch.bool))
