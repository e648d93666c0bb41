"""Models to time: as large as the paper's, with random weights and distributions like a trained model's."""

from __future__ import annotations

from typing import TypeAlias

import torch
from torch import Tensor, nn

__all__ = ["DotModel", "GruModel"]

State: TypeAlias = tuple[Tensor, Tensor]


class GruModel(nn.Module):
    """A GRU decoder. Its inputs are a first hidden state and a summary of the source for each row.

    The default is as large as the translation decoder of the paper, which is Bahdanau et al.'s (2014): 1000
    hidden units, words of 620 dimensions, a source summary of 2000 and a readout of 500. Attention, which
    would only add to the model's own time, is left out. `small` is a captioner's: 512 throughout, no source.
    """

    def __init__(self, vocabulary: int, *, small: bool = False) -> None:
        super().__init__()
        self.hidden, self.source = (512, 0) if small else (1000, 2000)
        words, readout = (512, 512) if small else (620, 500)
        self.embedding = nn.Embedding(vocabulary, words)
        self.cell = nn.GRUCell(words + self.source, self.hidden)
        self.readout = nn.Identity() if small else nn.Linear(self.hidden, readout)
        self.output = nn.Linear(readout, vocabulary)
        make_peaked(self.output)
        self.calls: list[tuple[Tensor, State]] = []  # for a replay of the bare forwards

    def inputs(self, batch: int) -> State:
        return torch.randn(batch, self.hidden), torch.randn(batch, self.source)

    @torch.no_grad()
    def start(self, inputs: State) -> tuple[Tensor, State]:
        return self.step(torch.zeros(len(inputs[0]), dtype=torch.long), inputs)

    @torch.no_grad()
    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        self.calls.append((tokens, state))
        hidden, source = state
        hidden = self.cell(torch.cat([self.embedding(tokens), source], dim=1), hidden)
        return self.output(torch.tanh(self.readout(hidden))), (hidden, source)

    def select(self, state: State, rows: Tensor) -> State:
        return state[0].index_select(0, rows), state[1].index_select(0, rows)


class DotModel(nn.Module):
    """The cheapest model with a vocabulary of any size: one product with the output matrix a step."""

    def __init__(self, vocabulary: int, hidden: int = 256) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, hidden)
        self.output = nn.Linear(hidden, vocabulary)
        make_peaked(self.output)
        self.calls: list[tuple[Tensor, Tensor]] = []

    def inputs(self, batch: int) -> Tensor:
        return torch.randn(batch, self.embedding.embedding_dim)

    @torch.no_grad()
    def start(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        return self.step(torch.zeros(len(inputs), dtype=torch.long), inputs)

    @torch.no_grad()
    def step(self, tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        self.calls.append((tokens, state))
        state = torch.tanh(state + self.embedding(tokens))
        return self.output(state), state

    def select(self, state: Tensor, rows: Tensor) -> Tensor:
        return state.index_select(0, rows)


@torch.no_grad()
def make_peaked(output: nn.Linear) -> None:
    """Spread the logits as in a trained model: a few words are likely, most are not (Zipf's law)."""
    rank = torch.arange(1, output.out_features + 1, dtype=torch.float32)
    output.weight.mul_(6.0)
    output.bias.copy_(-torch.log(rank))
