"""Models for the part that needs no GPU, and a process that runs them with another version of the package.

As a program it reads lines of JSON that each name a run, and answers when it is done.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch

import beamsplit
from beamsplit import BeamSearch, DiverseBeamSearch
from research.benchmarks.generation import Worker
from research.benchmarks.models import GruModel

__all__ = ["CpuModel", "run_in"]


class CpuModel:
    """A model with random weights, one input for it, and what is done with both."""

    def __init__(self, name: str, beams: int, tokens: int) -> None:
        torch.manual_seed(0)
        self.name = name
        self._beams, self._tokens = beams, tokens
        self._model, self._inputs = _gru(name) if name.startswith("gru") else _transformer(name)

    def beam_search(self) -> Any:
        return self._decode(BeamSearch(beams=self._beams))

    def diverse(self) -> Any:
        return self._decode(DiverseBeamSearch(groups=self._beams, beams_per_group=1, strength=0.5))

    @torch.no_grad()
    def bare_calls(self) -> int:
        """Call the model as a search does, on as many rows, with nothing in between; return how often."""
        _, state = self._model.start(self._inputs)
        state = self._model.select(state, torch.zeros(self._beams, dtype=torch.long))
        tokens = torch.arange(2, 2 + self._beams)
        for _ in range(self._tokens - 1):
            _, state = self._model.step(tokens, state)
        return self._tokens

    def _decode(self, strategy: Any) -> Any:
        found = beamsplit.decode(self._model, self._inputs, strategy, max_length=self._tokens, end=None)
        if isinstance(self._model, GruModel):
            self._model.calls.clear()
        return found


def _gru(name: str) -> tuple[Any, Any]:
    model = GruModel(300 if name == "gru-tiny" else 10_000, small=name != "gru-1000")
    return model, model.inputs(1)


def _transformer(name: str) -> tuple[Any, Any]:
    from beamsplit.huggingface import from_transformers
    from research.benchmarks.generation_worker import build

    prompt = torch.arange(2, 18).unsqueeze(0)
    model = from_transformers(build(name, "cpu"))
    return model, {"input_ids": prompt, "attention_mask": torch.ones_like(prompt)}


def run_in(worker: Worker, task: dict[str, Any]) -> None:
    """Let the other process run a task; raise what it raises."""
    answer = worker.run(task)
    if "error" in answer:
        raise RuntimeError(answer["error"])


def main() -> None:
    model: CpuModel | None = None
    made: dict[str, Any] = {}
    for line in sys.stdin:
        task = json.loads(line)
        try:
            run = task.pop("run")
            if model is None or task != made:
                torch.set_num_threads(task["threads"])
                model, made = CpuModel(task["model"], task["beams"], task["tokens"]), task
            getattr(model, run)()
            answer = {"beamsplit": beamsplit.__file__}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
