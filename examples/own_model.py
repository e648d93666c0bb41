"""A network of your own: give its step function to `FunctionModel`, a batch of states to `decode`.

The network is a GRU, trained here for a second to spell English number words, so that there is
something to see. What the search needs of it is `step`, three lines long.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

import beamsplit
from beamsplit import DiverseBeamSearch, FunctionModel

LETTERS = "^abcdefghijklmnopqrstuvwxyz."  # ^ begins a word and . ends it
WORDS = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred"
).split()


class Speller(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(LETTERS), 32)
        self.gru = nn.GRU(32, 64, batch_first=True)
        self.output = nn.Linear(64, len(LETTERS))

    def forward(self, tokens: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [rows time letters] after each letter, and the hidden state [rows 64] after the last."""
        outputs, last = self.gru(self.embedding(tokens), hidden.unsqueeze(0))
        return self.output(outputs), last[0]


def train(model: Speller, steps: int = 150) -> None:
    spelled = [[LETTERS.index(letter) for letter in f"^{word}."] for word in WORDS]
    longest = max(map(len, spelled))
    tokens = torch.tensor([ids + [-1] * (longest - len(ids)) for ids in spelled])
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(steps):
        logits, _ = model(tokens[:, :-1].clamp(min=0), torch.zeros(len(WORDS), 64))
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=-1)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the network is so small that several threads would only wait for each other
    speller = Speller()
    train(speller)

    def step(tokens: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        logits, hidden = speller(tokens.unsqueeze(1), hidden)
        return logits[:, 0], hidden

    model = FunctionModel(step, start=LETTERS.index("^"))
    states = torch.zeros(1, 64)  # the inputs are the first states, one row an input
    strategy = DiverseBeamSearch(groups=5, beams_per_group=2, strength=1.0)
    outputs = beamsplit.decode(model, states, strategy, max_length=12, end=LETTERS.index("."))
    for group in outputs[0].groups:
        print("  ".join("".join(LETTERS[t] for t in h.tokens).rstrip(".") for h in group))


if __name__ == "__main__":
    main()
