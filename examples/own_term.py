"""A diversity term of your own: a small class with one method.

`Echo` charges for a word that earlier groups have said anywhere, where `Hamming` looks at this step alone:
it keeps groups from telling the same story with its words shifted by one.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from captions import CAPTIONS, END, START, Trigrams, show
from torch import Tensor

import beamsplit
from beamsplit import DiverseBeamSearch, Earlier, Hamming, PrefixModel


@dataclass(frozen=True)
class Echo:
    """How many earlier outputs contain the token."""

    def penalty(self, tokens: Tensor, prefix: Tensor, earlier: Earlier) -> Tensor:
        # earlier.sequences [n f length] has -1 where there is no token, which no candidate equals.
        same = tokens[:, :, :, None, None] == earlier.sequences[:, None, None]  # [n beam k f length]
        return same.any(-1).sum(-1)


def main() -> None:
    trigrams = Trigrams(CAPTIONS)
    model = PrefixModel(trigrams.logits)
    prompt = torch.full((1, 2), trigrams.ids[START])
    for term in (Hamming(), Echo()):
        strategy = DiverseBeamSearch(groups=4, strength=1.0, diversity=term)
        outputs = beamsplit.decode(model, prompt, strategy, max_length=15, end=trigrams.ids[END])
        show(type(term).__name__, outputs[0].with_text(trigrams.text))


if __name__ == "__main__":
    main()
