"""Show and Tell: a picture's features are an LSTM's first word, and it goes on from there."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, TypeGuard, overload

import torch
from torch import Tensor, nn

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.hypotheses import Hypotheses, Results
from beamsplit.jobs.batches import decode_in_batches
from beamsplit.models import storage, vision
from beamsplit.models.text import BEGIN, END, Vocabulary, mask_special_tokens
from beamsplit.models.unconditioned import Unconditioned
from beamsplit.models.vision import Picture
from beamsplit.strategies import Strategy
from beamsplit.strategies.defaults import DEFAULTS, default_strategy

__all__ = ["Captioner", "PictureModel", "PictureSizes", "Questioner"]

LONGEST = DEFAULTS["captioner"].max_length
"""The most words of an output, its end included; longer captions were cut in training."""


@dataclass(frozen=True, kw_only=True)
class PictureSizes:
    """How large the network's parts are."""

    features: int = 1280
    embedding: int = 512
    hidden: int = 896


class PictureState(NamedTuple):
    hidden: Tensor  # [rows hidden]
    cell: Tensor  # [rows hidden]


class PictureModel(nn.Module, abc.ABC):
    """A `StepModel` whose inputs are pictures (paths, PIL images, arrays) or their features [n 1280]."""

    end = END
    keeps_earlier_steps = True
    capturable = True
    kind: ClassVar[str]

    def __init__(self, words: Vocabulary, sizes: PictureSizes, dropout: float = 0.0) -> None:
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
    def word_vectors(self) -> Tensor:
        """[words 100] GloVe vectors of the words, for the `Embedding` term; zeros for those without."""
        tensors, description = storage.read(storage.WEIGHTS / "words.safetensors")
        rows = {word: row for row, word in enumerate(description["words"], 1)}
        padded = torch.nn.functional.pad(tensors["vectors"], (0, 0, 1, 0))
        return padded[[0] * (END + 1) + [rows.get(word, 0) for word in self.words.words]].to(self.bias.device)

    @property
    def language_model(self) -> Unconditioned:
        """The same network without a picture: for `AntiLanguageModel`."""
        return Unconditioned(self)

    # The three verbs

    def start(self, pictures: Sequence[Picture] | Tensor) -> tuple[Tensor, PictureState]:
        with torch.no_grad():
            return self._begin(self.picture(self.features(pictures)))

    def start_without(self, count: int) -> tuple[Tensor, PictureState]:
        """Do what `start` does, for pictures of which nothing is known."""
        return self._begin(self.nothing.expand(count, -1))

    @torch.no_grad()
    def step(self, tokens: Tensor, state: PictureState) -> tuple[Tensor, PictureState]:
        return self._tell(self.embedding(tokens).unsqueeze(1), state)

    def select(self, state: PictureState, rows: Tensor) -> PictureState:
        return PictureState(*(part.index_select(0, rows) for part in state))

    def join(self, states: Sequence[PictureState]) -> PictureState:
        return PictureState(*(torch.cat(parts) for parts in zip(*states, strict=True)))

    # The network

    def teach(self, features: Tensor, known: Tensor, target: Tensor) -> Tensor:
        """Return what the network predicts for each of `target` [batch time]: [batch time embedding].

        `known` [batch] is false for pictures that are to be left out.
        """
        picture = torch.where(known.unsqueeze(1), self.picture(self.dropout(features)), self.nothing)
        before = torch.cat([torch.full_like(target[:, :1], BEGIN), target[:, :-1]], 1)
        heard = torch.cat([picture.unsqueeze(1).to(self.bias.dtype), self.embedding(before)], 1)
        told: Tensor = self.lstm(self.dropout(heard))[0][:, 1:]
        said: Tensor = self.dropout(self.output(self.dropout(told)))
        return said

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the logits [... words] of what is to be said [... embedding]."""
        return nn.functional.linear(hidden, self.embedding.weight, self.bias)

    @torch.no_grad()
    def _begin(self, picture: Tensor) -> tuple[Tensor, PictureState]:
        rows = picture.shape[0]
        begin = self.embedding.weight[BEGIN].expand(rows, -1)
        silent = picture.new_zeros(rows, self.sizes.hidden)
        return self._tell(torch.stack([picture, begin], 1), PictureState(silent, silent))

    def _tell(self, heard: Tensor, state: PictureState) -> tuple[Tensor, PictureState]:
        told, (hidden, cell) = self.lstm(heard, (state.hidden.unsqueeze(0), state.cell.unsqueeze(0)))
        logits = self.logits(self.output(told[:, -1]))
        return mask_special_tokens(logits), PictureState(hidden.squeeze(0), cell.squeeze(0))

    def features(self, pictures: Sequence[Picture] | Tensor) -> Tensor:
        """Return the features [pictures 1280] of pictures; features are checked and returned."""
        if not _is_features(pictures):
            return vision.features(_checked_list(pictures), device=self.bias.device).to(self.bias)
        if pictures.shape[1] != self.sizes.features:
            raise ArgumentError(
                f"features must be [pictures {self.sizes.features}], not {list(pictures.shape)}: "
                "give those of vision.features, or a list of pictures"
            )
        if not pictures.isfinite().all():
            raise ArgumentError("features must be finite numbers, and some are NaN or infinite")
        return pictures.to(self.bias)

    # Files

    def save(self, path: Path) -> None:
        """Write weights, sizes and words into one file."""
        description = {"kind": self.kind, "sizes": asdict(self.sizes), "words": self.words.words}
        storage.write(path, self.state_dict(), description, bits=6)

    @classmethod
    def from_file(cls, path: Path) -> Self:
        tensors, description = storage.read(path)
        storage.check_kind(path, description, cls.kind)
        with storage.fitting(path):
            words, sizes = Vocabulary(description["words"]), PictureSizes(**description["sizes"])
            return storage.build_with_weights(lambda: cls(words, sizes), tensors)


class Captioner(PictureModel):
    """Says what is in a picture."""

    kind = "captioner"

    @overload
    def caption(self, picture: Picture, strategy: Strategy | None = None, **options: Any) -> Hypotheses: ...
    @overload
    def caption(
        self, picture: Sequence[Picture], strategy: Strategy | None = None, **options: Any
    ) -> Results: ...
    def caption(
        self, picture: Picture | Sequence[Picture], strategy: Strategy | None = None, **options: Any
    ) -> Hypotheses | Results:
        """Return captions of a picture, or of each of a list; by default up to six, by late branching.

        Features [pictures 1280] count as a list.

        Of captions that read the same the first is kept; `beamsplit.decode` returns all. `options` are
        those of `decode`, and `batch_size`.
        """
        return _described(self, picture, strategy, options)

    def to_text(self, tokens: Sequence[int]) -> str:
        return self.words.text(tokens)


class Questioner(PictureModel):
    """Asks about a picture."""

    kind = "questioner"

    @overload
    def ask(self, picture: Picture, strategy: Strategy | None = None, **options: Any) -> Hypotheses: ...
    @overload
    def ask(
        self, picture: Sequence[Picture], strategy: Strategy | None = None, **options: Any
    ) -> Results: ...
    def ask(
        self, picture: Picture | Sequence[Picture], strategy: Strategy | None = None, **options: Any
    ) -> Hypotheses | Results:
        """Return questions about a picture, or about each of a list; see `Captioner.caption`."""
        return _described(self, picture, strategy, options)

    def to_text(self, tokens: Sequence[int]) -> str:
        said = self.words.text(tokens)
        return f"{said[:1].upper()}{said[1:]}?"


def _described(
    model: PictureModel,
    picture: Picture | Sequence[Picture],
    strategy: Strategy | None,
    options: dict[str, Any],
) -> Hypotheses | Results:
    several = isinstance(picture, list | tuple) or _is_features(picture)
    pictures: Any = picture if several else [picture]
    strategy = strategy or default_strategy(model)
    # All are looked at first, so that a bad one is known by its place before anything is decoded.
    features = model.features(pictures)
    found = decode_in_batches(model, features, strategy, **{"max_length": LONGEST, **options})
    lists = Results(each.distinct() for each in found)
    return lists if several else lists[0]


def _is_features(pictures: object) -> TypeGuard[Tensor]:
    """Return whether these are features [pictures features]; a picture of floats would come in a list."""
    return isinstance(pictures, Tensor) and pictures.is_floating_point() and pictures.dim() == 2


def _checked_list(pictures: object) -> Sequence[Picture]:
    if isinstance(pictures, str) or not isinstance(pictures, Sequence):
        raise ArgumentError(
            f"pictures must be a list of pictures, not {checks.short_repr(pictures)}: write [picture]"
        )
    return pictures
