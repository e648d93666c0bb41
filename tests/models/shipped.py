"""The models that ship, each loaded once, with inputs for them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from beamsplit.models import Captioner, Questioner, Translator, load
from beamsplit.models.text import END, normalised

TEXTS = [
    "Where did you leave the keys?",
    "I'm cold.",
    "The little girl was reading a book in the garden when it started to rain.",
]


@cache
def translator() -> Translator:
    return load("en-fr")


@cache
def captioner() -> Captioner:
    return load("captioner")


@cache
def questioner() -> Questioner:
    return load("questioner")


def features(count: int = 3, seed: int = 0) -> Tensor:
    """Of no picture, but as sparse as those of pictures."""
    return 3 * torch.rand(count, 1280, generator=torch.Generator().manual_seed(seed)) ** 6


def model(name: str) -> Any:
    return {"en-fr": translator, "captioner": captioner, "questioner": questioner}[name]()


def inputs(name: str) -> Any:
    return TEXTS if name == "en-fr" else features()


def taught(name: str, place: int, tokens: Sequence[int]) -> Tensor:
    """Log-probabilities [time vocabulary] as in training: the whole output at once."""
    network = model(name)
    target = torch.tensor([tokens])
    if name == "en-fr":
        (source,) = network.pieces.ids([normalised(TEXTS[place])])
        told: tuple[Tensor, ...] = (torch.tensor([[*source, END]]),)
    else:
        told = (features()[[place]], torch.tensor([True]))
    with torch.no_grad():
        logits: Tensor = network.logits(network.teach(*told, target))[0]
    logits[:, :END] = -torch.inf
    return logits.log_softmax(1)
