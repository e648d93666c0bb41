"""The reward is CIDEr-D, and training with it makes rewarded captions likelier."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor

import beamsplit
from beamsplit import BeamSearch
from beamsplit.models import Captioner, PictureSizes
from beamsplit.models.text import END, Vocabulary
from research.training.consensus import Consensus, self_critical
from research.training.loop import Batch, imitation

VOCABULARY = 12
LENGTH = 9


def sentence(draw: random.Random) -> list[int]:
    words = [draw.randrange(END + 1, VOCABULARY) for _ in range(draw.randint(1, LENGTH - 2))]
    return [*words, END] + [0] * (LENGTH - 1 - len(words))


def as_text(ids: Tensor) -> str:
    return " ".join(str(i) for i in ids.tolist() if i)


def test_the_reward_is_that_of_the_reference_implementation() -> None:
    from pycocoevalcap.cider.cider import Cider

    draw = random.Random(0)
    references = torch.tensor(
        [[sentence(draw) if k <= i % 5 else [0] * LENGTH for k in range(5)] for i in range(40)]
    )
    captions = torch.tensor([sentence(draw) for _ in range(40)])
    ours = Consensus(references, VOCABULARY)(captions, torch.arange(40))
    _, theirs = Cider().compute_score(
        {i: [as_text(each) for each in texts if each[0]] for i, texts in enumerate(references)},
        {i: [as_text(caption)] for i, caption in enumerate(captions)},
    )
    assert ours.tolist() == pytest.approx(list(theirs), abs=1e-5)
    assert ours.max() > 1  # so that it is not all zeros on both sides


def test_what_everybody_says_of_every_picture_earns_nothing() -> None:
    """A word that is said of all pictures has no weight: log(2 / 2) = 0."""
    references = torch.tensor([[[4, 5, END]], [[4, 6, END]]])
    reward = Consensus(references, VOCABULARY)(torch.tensor([[4, END, 0], [4, 5, END]]), torch.tensor([0, 0]))
    assert reward[0] == 0
    # All four: unigrams, bigrams and the trigram are alike, and there are no 4-grams.
    assert reward[1].item() == pytest.approx(10 * 3 / 4)


def test_training_with_the_reward_makes_the_agreed_caption_likelier() -> None:
    torch.manual_seed(0)
    words = Vocabulary(["red", "green", "blue"])
    model = Captioner(words, PictureSizes(features=4, embedding=8, hidden=8))
    references = torch.tensor([[[4, END]], [[5, END]], [[6, END]]])
    loss = self_critical(imitation(smoothing=0.0), Consensus(references, len(words)), weight=1.0, samples=16)
    features = torch.eye(3, 4)
    batch = Batch((features, torch.ones(3, dtype=torch.bool)), references[:, 0], torch.arange(3))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    assert said(model, features) != ["red", "green", "blue"]
    for _ in range(120):
        optimiser.zero_grad()
        loss(model, batch).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    assert said(model, features) == ["red", "green", "blue"]


def said(model: Captioner, features: Tensor) -> list[str | None]:
    lists = beamsplit.decode(model, features, BeamSearch(beams=1), max_length=LENGTH)
    return [found.best.text for found in lists]
