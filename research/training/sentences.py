"""Make the batches that the translator learns from."""

from __future__ import annotations

import io
import itertools
import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import sentencepiece
import torch
from torch import Tensor

from beamsplit.errors import ArgumentError
from beamsplit.models.text import BEGIN, END, PAD, UNKNOWN, Pieces, normalised
from beamsplit.models.translator import LONGEST
from research.data import Pair
from research.training.loop import Batch, epoch_seed

__all__ = ["Sentences", "learn_pieces"]

INPUT_DROPOUT = 0.1
"""The share of examples whose source is left out, so that the network is a language model too."""
PIECE_DROPOUT = 0.03
"""The share of a source's pieces that become unknown, so that the network learns to handle these."""
AS_TYPED = 0.05
"""The share of sources in lower case, and of examples without a full stop: people type so."""
CONTINUED = 0.15
"""The share of examples with one more sentence: the data's are short, people's are not."""


def learn_pieces(pairs: Sequence[Pair], count: int) -> Pieces:
    """Return word pieces, learned from both languages together."""
    texts = sorted({normalised(text) for pair in pairs for text in (pair.source, *pair.targets)})
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=model,
        vocab_size=count,
        model_type="unigram",
        character_coverage=1.0,
        hard_vocab_limit=False,  # a small text has fewer
        normalization_rule_name="identity",
        pad_id=PAD,
        unk_id=UNKNOWN,
        bos_id=BEGIN,
        eos_id=END,
        num_threads=1,  # the result would depend on it
        minloglevel=2,
    )
    return Pieces(model.getvalue())


Ids: TypeAlias = list[int]


class _Pair(NamedTuple):
    """A pair in pieces."""

    source: Ids
    small: Ids  # the source in lower case
    targets: list[Ids]


class Sentences:
    """Batches of sentences of about one length, drawn again for each epoch.

    Each source comes once, with one of its translations; the constants above say how they are varied.
    """

    def __init__(
        self, train: Sequence[Pair], valid: Sequence[Pair], pieces: Pieces, *, batch: int, seed: int
    ) -> None:
        self._train = _read(train, pieces)
        self._valid = [(pair.source, target) for pair in _read(valid, pieces) for target in pair.targets]
        self._stop = pieces.ids(["Go."])[0][-1]
        self._batch = min(batch, len(self._train))
        self._seed = seed
        self.steps = len(self._train) // self._batch

    def epoch(self, number: int) -> Iterator[Batch]:
        """Yield the batches of an epoch."""
        seed = epoch_seed(self._seed, number)
        draw, noise = random.Random(seed), torch.Generator().manual_seed(seed)
        drawn = [self._example(pair, draw) for pair in draw.sample(self._train, self.steps * self._batch)]
        drawn.sort(key=lambda example: (len(example[1]) // 2, len(example[0])))
        batches = [drawn[begin : begin + self._batch] for begin in range(0, len(drawn), self._batch)]
        draw.shuffle(batches)
        for examples in batches:
            source, target = _padded(examples)
            yield Batch((_drop_pieces(source, noise),), target)

    def valid(self) -> Iterator[Batch]:
        """Yield the batches of the validation part, unvaried."""
        for begin in range(0, len(self._valid), self._batch):
            source, target = _padded(self._valid[begin : begin + self._batch])
            yield Batch((source,), target)

    def _example(self, pair: _Pair, draw: random.Random) -> tuple[Ids, Ids]:
        source, target = self._sentence(pair, draw)
        while draw.random() < CONTINUED and len(target) < 80:
            more, its_target = self._sentence(draw.choice(self._train), draw)
            source, target = source + more, target + its_target
        return ([] if draw.random() < INPUT_DROPOUT else source), target

    def _sentence(self, pair: _Pair, draw: random.Random) -> tuple[Ids, Ids]:
        source = pair.small if draw.random() < AS_TYPED else pair.source
        target = draw.choice(pair.targets)
        if source[-1] == target[-1] == self._stop and draw.random() < AS_TYPED:
            return source[:-1], target[:-1]
        return source, target


def _read(pairs: Sequence[Pair], pieces: Pieces) -> list[_Pair]:
    sources = [normalised(pair.source) for pair in pairs]
    targets = iter(pieces.ids([normalised(target) for pair in pairs for target in pair.targets]))
    small = pieces.ids([source.lower() for source in sources])
    read = [
        _Pair(
            source,
            in_small,
            [target for target in itertools.islice(targets, len(pair.targets)) if _fits(target)],
        )
        for pair, source, in_small in zip(pairs, pieces.ids(sources), small, strict=True)
    ]
    kept = [pair for pair in read if _fits(pair.source) and pair.targets]
    if not kept:
        raise ArgumentError(f"none of {len(pairs)} pairs has from 1 to {LONGEST} word pieces on both sides")
    return kept


def _fits(ids: Ids) -> bool:
    """Return whether a text is neither empty nor longer than the translator reads."""
    return 0 < len(ids) <= LONGEST


def _drop_pieces(source: Tensor, noise: torch.Generator) -> Tensor:
    """Return the source with some pieces unknown."""
    dropped = torch.rand(source.shape, generator=noise) < PIECE_DROPOUT
    return source.masked_fill(dropped & (source > END), UNKNOWN)


def _padded(examples: Sequence[tuple[Ids, Ids]]) -> tuple[Tensor, Tensor]:
    """Return sources and targets [examples time], each with its end."""
    sources, targets = zip(*examples, strict=True)
    return _stack(sources), _stack(targets)


def _stack(rows: Sequence[Ids]) -> Tensor:
    width = max(map(len, rows)) + 1
    return torch.tensor([[*row, END, *[PAD] * (width - 1 - len(row))] for row in rows])
