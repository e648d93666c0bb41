"""Beam search and diverse beam search on a model small enough to read.

The model is a trigram model, counted from three dozen made-up captions of one picture. Any network will
do in its place: see own_model.py.
"""

from __future__ import annotations

from collections import Counter, defaultdict

import torch
from torch import Tensor

import beamsplit
from beamsplit import BeamSearch, DiverseBeamSearch, Hypotheses, PrefixModel

CAPTIONS = """
a brown dog is running on the beach
a brown dog is running along the beach
a brown dog is running on the sand
a brown dog runs along the beach with a stick
a brown dog runs on the beach with a stick in its mouth
a brown dog is playing on the beach
a brown dog is playing with a stick on the beach
a brown dog with a stick in its mouth
a brown dog carrying a stick along the beach
a brown dog carrying a stick in its mouth
a dog is running on the beach
a dog is running along the water
a dog is running with a stick in its mouth
a dog is playing with a stick
a dog is playing in the water
a dog runs on the beach
a dog runs along the water with a stick
a dog carrying a stick on the beach
a wet dog is running out of the water
a wet dog runs out of the sea with a stick
a wet dog carrying a stick out of the water
a happy dog is playing on the sand
a happy dog runs along the beach
the dog is carrying a stick
the dog is running on the beach
the dog has a stick in its mouth
the dog runs out of the sea
the brown dog has a stick in its mouth
someone has thrown a stick for the dog
someone is playing with a dog on the beach
waves are breaking behind a dog on the beach
waves are breaking behind a brown dog
on the beach a dog is playing with a stick
there is a dog on the beach with a stick
there is a brown dog running along the water
there is a dog playing in the sea
"""

END = "."
START = "<s>"


class Trigrams:
    """Word frequencies after two, one and no words before, mixed 8:1:1."""

    def __init__(self, text: str) -> None:
        sentences = [[START, START, *line.split(), END] for line in text.strip().splitlines()]
        self.words = sorted({word for sentence in sentences for word in sentence})
        self.ids = {word: place for place, word in enumerate(self.words)}
        self.counts: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
        for sentence in sentences:
            for place in range(2, len(sentence)):
                for length in (0, 1, 2):
                    self.counts[tuple(sentence[place - length : place])][sentence[place]] += 1

    def logits(self, prefixes: Tensor) -> Tensor:
        """The log-probability of every word after each prefix: [rows time] -> [rows words]."""
        return torch.stack([self._after([self.words[i] for i in prefix]) for prefix in prefixes.tolist()])

    def text(self, tokens: tuple[int, ...]) -> str:
        return " ".join(self.words[token] for token in tokens).removesuffix(" " + END)

    def _after(self, prefix: list[str]) -> Tensor:
        mixture = torch.zeros(len(self.words))
        for length, weight in ((2, 0.8), (1, 0.1), (0, 0.1)):
            counts = self.counts[tuple(prefix[len(prefix) - length :])]
            for word, count in counts.items():
                mixture[self.ids[word]] += weight * count / counts.total()
        return mixture.log()


def show(title: str, hypotheses: Hypotheses) -> None:
    print(title)
    for hypothesis in hypotheses:
        print(f"  {hypothesis.log_prob:7.2f}  group {hypothesis.group}  {hypothesis.text}")


def main() -> None:
    trigrams = Trigrams(CAPTIONS)
    model = PrefixModel(trigrams.logits)
    prompt = torch.full((1, 2), trigrams.ids[START])  # a batch of one: no words yet
    end = trigrams.ids[END]

    plain = beamsplit.decode(model, prompt, BeamSearch(beams=6), max_length=15, end=end)
    diverse = beamsplit.decode(
        model, prompt, DiverseBeamSearch(groups=6, strength=1.5), max_length=15, end=end
    )
    show("Beam search, 6 beams", plain[0].with_text(trigrams.text))
    show("Diverse beam search, 6 groups of 1", diverse[0].with_text(trigrams.text))


if __name__ == "__main__":
    main()
