"""Terms answer on the device of what they are asked about, whatever torch's default device is."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from beamsplit import Cumulative, Diversity, Earlier, Embedding, Hamming, NGram

TEMPERATURES = (1.0 + i / 1024 for i in itertools.count(1))  # never seen before, by any cache
PREFIX = torch.tensor([[[1, 2], [3, 0]]])
TOKENS = torch.arange(4).expand(1, 2, 4)
BEAMS = torch.tensor([[[1, 2, 3], [1, 0, 0], [2, 1, -1]]])
ARRAY = np.random.default_rng(0).normal(size=(4, 3))


def make(name: str, temperature: float) -> Diversity:
    terms = {"hamming": Hamming(), "cumulative": Cumulative(temperature=temperature), "ngram": NGram()}
    term: Any = terms[name.removeprefix("soft ")]
    return Embedding(vectors=ARRAY, of=term) if name.startswith("soft ") else term


NAMES = ["hamming", "cumulative", "ngram", "soft hamming", "soft cumulative", "soft ngram"]


@pytest.mark.parametrize("name", NAMES)
def test_another_default_device_changes_nothing(name: str) -> None:
    temperature = next(TEMPERATURES)
    earlier = Earlier.of(BEAMS, time=2)
    with torch.device("meta"):
        term = make(name, temperature)
        paid = term.penalty(TOKENS, PREFIX, earlier)
        least = term.least(PREFIX, earlier) if hasattr(term, "least") else None
    assert paid.device == TOKENS.device
    assert least is None or least.device == TOKENS.device
    # What it has kept since is still good.
    assert torch.equal(term.penalty(TOKENS, PREFIX, earlier), paid)


@pytest.mark.parametrize("name", NAMES)
def test_a_term_may_be_asked_on_one_device_and_then_on_another(name: str) -> None:
    term = make(name, next(TEMPERATURES))
    here = term.penalty(TOKENS, PREFIX, Earlier.of(BEAMS, time=2))
    there = term.penalty(TOKENS.to("meta"), PREFIX.to("meta"), Earlier.of(BEAMS.to("meta"), time=2))
    assert there.device.type == "meta"
    assert there.shape == here.shape
    assert torch.equal(term.penalty(TOKENS, PREFIX, Earlier.of(BEAMS, time=2)), here)
