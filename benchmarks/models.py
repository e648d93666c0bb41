"""Models to time: as large as the paper's, with random weights that still make likely and unlikely words."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

__all__ = ["DotModel", "GruModel"]


class GruModel(nn.Module):
    """A GRU language model of the paper's size. Its input is the first hidden state [batch hidden]."""

    def __init__(self, vocabulary: int, hidden: int = 512) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, hidden)
        self.cell = nn.GRUCell(hidden, hidden)
        self.output = nn.Linear(hidden, vocabulary)
        make_peaked(self.output)
        self.rows: list[int] = []  # of every call, for a replay of the bare forwards

    @torch.no_grad()
    def start(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        return self.step(torch.zeros(len(inputs), dtype=torch.long), inputs)

    @torch.no_grad()
    def step(self, tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        self.rows.append(len(tokens))
        state = self.cell(self.embedding(tokens), state)
        return self.output(state), state

    def select(self, state: Tensor, rows: Tensor) -> Tensor:
        return state.index_select(0, rows)

    def join(self, states: Sequence[Tensor]) -> Tensor:
        return torch.cat(list(states))


class DotModel(nn.Module):
    """The cheapest model with a vocabulary of any size: one product with the output matrix a step."""

    def __init__(self, vocabulary: int, hidden: int = 256) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, hidden)
        self.output = nn.Linear(hidden, vocabulary)
        make_peaked(self.output)
        self.rows: list[int] = []

    @torch.no_grad()
    def start(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        return self.step(torch.zeros(len(inputs), dtype=torch.long), inputs)

    @torch.no_grad()
    def step(self, tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        self.rows.append(len(tokens))
        state = torch.tanh(state + self.embedding(tokens))
        return self.output(state), state

    def select(self, state: Tensor, rows: Tensor) -> Tensor:
        return state.index_select(0, rows)


@torch.no_grad()
def make_peaked(output: nn.Linear) -> None:
    """Logits spread as a trained model's are: some words likely, most hardly ever said (Zipf's law)."""
    rank = torch.arange(1, output.out_features + 1, dtype=torch.float32)
    output.weight.mul_(6.0)
    output.bias.copy_(-torch.log(rank))
