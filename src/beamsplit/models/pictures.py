"""Show and Tell: a picture's features are an LSTM's first word, and it goes on from there."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor, nn

from beamsplit.errors import ArgumentError
from beamsplit.hypotheses import Hypotheses
from beamsplit.models import inputs, storage, vision
from beamsplit.models.text import BEGIN, END, Words, unspeakable
from beamsplit.models.unconditioned import Unconditioned
from beamsplit.strategies import DiverseBeamSearch, Strategy

__all__ = ["Captioner", "PictureModel", "PictureSizes", "Questioner"]

LONGEST = 20
"""The most words of an output, its end included; longer captions were cut in training."""


@dataclass(frozen=True, kw_only=True)
class PictureSizes:
    """How large the network's parts are."""

    features: int = 1280
    embedding: int = 512
    hidden: int = 768


class State(NamedTuple):
    hidden: Tensor  # [rows hidden]
    cell: Tensor  # [rows hidden]


class PictureModel(nn.Module, abc.ABC):
    """A `StepModel` whose inputs are pictures (paths, PIL images, arrays) or their features [n 1280]."""

    end = END
    kind: ClassVar[str]

    def __init__(self, words: Words, sizes: PictureSizes, dropout: float = 0.0) -> None:
        super().__init__()
        self.words = words
        self.sizes = sizes
        self.picture = nn.Linear(sizes.features, sizes.embedding)
        self.nothing = nn.Parameter(torch.zeros(sizes.embedding))  # in place of a picture
        self.embedding = nn.Embedding(len(words), sizes.embedding)  # of input and output
        self.lstm = nn.LSTM(sizes.embedding, sizes.hidden, batch_first=True)
        self.output = nn.Linear(sizes.hidden, sizes.embedding)
        self.bias = nn.Parameter(torch.zeros(len(words)))
        self.dropout = nn.Dropout(dropout)
        nn.init.normal_(self.embedding.weight, std=sizes.embedding**-0.5)

    @abc.abstractmethod
    def to_text(self, tokens: Sequence[int]) -> str: ...

    @property
    def language_model(self) -> Unconditioned:
        """The same network without a picture: for `AntiLanguageModel`."""
        return Unconditioned(self)

    # The three verbs

    def start(self, pictures: Sequence[vision.Picture] | Tensor) -> tuple[Tensor, State]:
        with torch.no_grad():
            return self._begin(self.picture(self._features(pictures)))

    def start_without(self, count: int) -> tuple[Tensor, State]:
        """As `start`, for pictures of which nothing is known."""
        return self._begin(self.nothing.expand(count, -1))

    @torch.no_grad()
    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        return self._tell(self.embedding(tokens).unsqueeze(1), state)

    def select(self, state: State, rows: Tensor) -> State:
        return State(*(part.index_select(0, rows) for part in state))

    def join(self, states: Sequence[State]) -> State:
        return State(*(torch.cat(parts) for parts in zip(*states, strict=True)))

    # The network

    def teach(self, features: Tensor, known: Tensor, _: Tensor, target: Tensor) -> Tensor:
        """What the network has to say before each of `target` [batch time]: [batch time embedding].

        `known` [batch] is false for pictures that are to be left out.
        """
        picture = torch.where(known.unsqueeze(1), self.picture(self.dropout(features)), self.nothing)
        before = torch.cat([torch.full_like(target[:, :1], BEGIN), target[:, :-1]], 1)
        heard = torch.cat([picture.unsqueeze(1).to(self.bias.dtype), self.embedding(before)], 1)
        told = self.lstm(self.dropout(heard))[0][:, 1:]
        return self.dropout(self.output(self.dropout(told)))

    def logits(self, hidden: Tensor) -> Tensor:
        """[... embedding] -> [... words]"""
        return nn.functional.linear(hidden, self.embedding.weight, self.bias)

    @torch.no_grad()
    def _begin(self, picture: Tensor) -> tuple[Tensor, State]:
        rows = picture.shape[0]
        begin = self.embedding.weight[BEGIN].expand(rows, -1)
        silent = picture.new_zeros(rows, self.sizes.hidden)
        return self._tell(torch.stack([picture, begin], 1), State(silent, silent))

    def _tell(self, heard: Tensor, state: State) -> tuple[Tensor, State]:
        told, (hidden, cell) = self.lstm(heard, (state.hidden.unsqueeze(0), state.cell.unsqueeze(0)))
        logits = self.logits(self.output(told[:, -1]))
        return unspeakable(logits), State(hidden.squeeze(0), cell.squeeze(0))

    def _features(self, pictures: Sequence[vision.Picture] | Tensor) -> Tensor:
        given = _given_features(pictures, self.sizes.features)
        made = vision.features(pictures) if given is None else given
        return made.to(self.bias)

    def describe(
        self, pictures: Sequence[vision.Picture] | Tensor, strategy: Strategy | None, **options: Any
    ) -> list[Hypotheses]:
        """Outputs for each picture; by default six, by diverse beam search."""
        strategy = DiverseBeamSearch(groups=6, strength=0.7) if strategy is None else strategy
        options = {"max_length": LONGEST, **options}
        return inputs.decode_in_batches(self, pictures, strategy, **options)

    # Files

    def save(self, path: Path) -> None:
        """Weights, sizes and words in one file."""
        description = {"kind": self.kind, "sizes": asdict(self.sizes), "words": self.words.words}
        storage.write(path, self.state_dict(), description)

    @classmethod
    def from_file(cls, path: Path) -> Self:
        tensors, description = storage.read(path)
        storage.check_kind(path, description, cls.kind)
        with torch.device("meta"):
            made = cls(Words(description["words"]), PictureSizes(**description["sizes"]))
        made.load_state_dict(tensors, assign=True)
        return made.eval().requires_grad_(False)


class Captioner(PictureModel):
    """Says what is in a picture."""

    kind = "captioner"

    def caption(
        self, pictures: Sequence[vision.Picture], strategy: Strategy | None = None, **options: Any
    ) -> list[Hypotheses]:
        return self.describe(pictures, strategy, **options)

    def to_text(self, tokens: Sequence[int]) -> str:
        return self.words.text(tokens)


class Questioner(PictureModel):
    """Asks about a picture."""

    kind = "questioner"

    def to_text(self, tokens: Sequence[int]) -> str:
        said = self.words.text(tokens)
        return f"{said[:1].upper()}{said[1:]}?"


def _given_features(pictures: object, size: int) -> Tensor | None:
    """The features, if that is what was given."""
    if not isinstance(pictures, Tensor) or not pictures.is_floating_point() or pictures.dim() != 2:
        return None
    if pictures.shape[1] != size:
        raise ArgumentError(f"features must be [pictures {size}], not {list(pictures.shape)}")
    return pictures
