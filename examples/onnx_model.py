"""A network in ONNX Runtime: one step of it is a file, and torch is needed to write that file alone.

    pip install onnx onnxruntime onnxscript

The network is the speller of own_model.py. Yours may come from anywhere: what matters is that tokens and
state go in, logits and state come out, and that the number of rows is a dynamic axis.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from own_model import LETTERS, Speller, train
from torch import Tensor, nn

import beamsplit
from beamsplit import DiverseBeamSearch, FunctionModel


class OneStep(nn.Module):
    """One step of the speller: tokens [rows] and a state [rows 64] to logits [rows letters] and a state."""

    def __init__(self, speller: Speller) -> None:
        super().__init__()
        self.speller = speller

    def forward(self, tokens: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        logits, after = self.speller(tokens.unsqueeze(1), hidden)
        return logits[:, 0], after


def export(speller: Speller, path: Path) -> None:
    rows = torch.export.Dim("rows")
    torch.onnx.export(
        OneStep(speller).eval(),
        (torch.zeros(2, dtype=torch.long), torch.zeros(2, 64)),
        path,
        input_names=["tokens", "hidden"],
        output_names=["logits", "after"],
        dynamic_shapes={"tokens": {0: rows}, "hidden": {0: rows}},
        verbose=False,
    )


def onnx_model(path: Path, begin: int) -> FunctionModel:
    session = onnxruntime.InferenceSession(str(path))

    def step(tokens: Tensor, hidden: Any) -> Any:  # hidden: an array [rows 64]
        logits, after = session.run(["logits", "after"], {"tokens": tokens.numpy(), "hidden": hidden})
        return logits, after

    return FunctionModel(step, start=begin)


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the network is so small that several threads would only wait for each other
    speller = Speller()
    train(speller)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "speller.onnx"
        export(speller, path)
        model = onnx_model(path, begin=LETTERS.index("^"))
    states = np.zeros((1, 64), np.float32)  # the inputs are the first states, one row an input
    strategy = DiverseBeamSearch(groups=5, beams_per_group=2, strength=1.0)
    (found,) = beamsplit.decode(model, states, strategy, max_length=12, end=LETTERS.index("."))
    for group in found.groups:
        print(*("".join(LETTERS[token] for token in hypothesis.tokens) for hypothesis in group))


if __name__ == "__main__":
    main()
