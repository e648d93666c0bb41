"""Run determinantal beam search (Meister et al. 2021), to compare with.

    python -m research.experiments.determinantal

At every step the beams are the subset of the candidates with the greatest log det(D + w K), chosen greedily.
D has their probabilities, relative to the likeliest candidate's, and K is a kernel of strings. We take pairs
of tokens in their order, weighted by how far apart they stand (the subsequence kernel of length 2). With
w = 0 it is beam search. The lists are compared with those of beam search and of late branching, on validation
data, in docs/results/determinantal.json.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from numpy.typing import NDArray

from beamsplit.cli.options import with_settings
from beamsplit.errors import ArgumentError, BeamsplitError
from beamsplit.evaluation import RunSettings, read_experiment, run
from beamsplit.evaluation.running import prepare
from beamsplit.files import write_bytes
from beamsplit.model import Answer, Guided, LogProbs, Shortlist, StepModel, end_of, log_softmax

__all__ = ["Found", "determinantal_beam_search", "greedy_subset", "kernel_of", "main"]

BEAMS = 20
DECAY = 0.5
WEIGHTS = (0.001, 0.01, 0.1)
OUT = Path(__file__).parents[2] / "docs" / "results" / "determinantal.json"

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Found:
    """A hypothesis: the row of the model that has read it, or None if it has ended."""

    tokens: tuple[int, ...]
    log_prob: float
    row: int | None


def determinantal_beam_search(
    model: StepModel, source: Any, *, beams: int, weight: float, max_length: int
) -> list[Found]:
    """Return the beams of one input when all have ended, the likeliest first."""
    end = end_of(model)
    ends = {end} if isinstance(end, int) else set(end or ())
    logits, state = model.start(source)
    beam = [Found((), 0.0, 0)]
    for _ in range(max_length):
        beam = _chosen(_extended(beam, log_softmax(_whole(logits)), beams, ends), beams, weight)
        live = [each for each in beam if each.row is not None]
        if not live:
            break
        state = model.select(state, torch.tensor([each.row for each in live]))
        logits, state = model.step(torch.tensor([each.tokens[-1] for each in live]), state)
        places = iter(range(len(live)))
        beam = [Found(h.tokens, h.log_prob, None if h.row is None else next(places)) for h in beam]
    return sorted(beam, key=lambda each: -each.log_prob)


def _whole(answer: Answer) -> torch.Tensor | Guided | LogProbs:
    if isinstance(answer, Shortlist):
        raise ArgumentError("determinantal beam search needs the whole vocabulary, and the model gives lists")
    return answer


def _extended(beam: Sequence[Found], log_prob: torch.Tensor, beams: int, ends: set[int]) -> list[Found]:
    """Return the likeliest candidates: what has ended, and extensions of what has not."""
    best = log_prob.topk(min(beams + len(ends), log_prob.shape[1]))
    found = [each for each in beam if each.row is None]
    for each in beam:
        if each.row is not None:
            for gain, token in zip(
                best.values[each.row].tolist(), best.indices[each.row].tolist(), strict=True
            ):
                row = None if token in ends else each.row
                found.append(Found((*each.tokens, token), each.log_prob + gain, row))
    return sorted(found, key=lambda each: -each.log_prob)[: 3 * beams]


def _chosen(candidates: Sequence[Found], beams: int, weight: float) -> list[Found]:
    log_prob = np.array([each.log_prob for each in candidates])
    matrix = np.diag(np.exp(log_prob - log_prob[0]))
    if weight:
        matrix += weight * kernel_of([each.tokens for each in candidates])
    return [candidates[place] for place in greedy_subset(matrix, beams)]


def kernel_of(texts: Sequence[tuple[int, ...]]) -> Floats:
    """Return the normalised kernel of all pairs of texts: 1 for equals, 0 for those that share no pair."""
    numbers: dict[tuple[int, int], int] = {}
    rows: list[dict[int, float]] = []
    for tokens in texts:
        row: dict[int, float] = {}
        before = (-1, *tokens)  # so that the first token is in a pair too
        for i, first in enumerate(before):
            for distance, second in enumerate(before[i + 1 :], 1):
                place = numbers.setdefault((first, second), len(numbers))
                row[place] = row.get(place, 0.0) + DECAY**distance
        rows.append(row)
    matrix = np.zeros((len(texts), max(1, len(numbers))))
    for i, row in enumerate(rows):
        matrix[i, list(row)] = list(row.values())
    matrix /= np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-12)
    kernel: Floats = matrix @ matrix.T
    return kernel


def greedy_subset(matrix: Floats, count: int) -> list[int]:
    """Return places of a subset of large determinant: each adds the most to it (Chen et al. 2018)."""
    left = matrix.diagonal().copy()
    factors = np.zeros((0, len(matrix)))
    chosen: list[int] = []
    while len(chosen) < min(count, len(matrix)):
        place = int(left.argmax())
        factor = (matrix[place] - factors[:, place] @ factors) / np.sqrt(max(left[place], 1e-300))
        factors = np.vstack([factors, factor])
        left -= factor**2
        left[[*chosen, place]] = -np.inf
        chosen.append(place)
    return chosen


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@with_settings
def main(settings: RunSettings) -> None:
    """Compare determinantal beam search with beam search and late branching on validation data."""
    found = {
        task: _compared(task, model, metric, length, settings)
        for task, model, metric, length in (
            ("coco.valid", "captioner", "cider", 20),
            ("tatoeba.valid", "en-fr", "bleu", 100),
        )
    }
    write_bytes(OUT, (json.dumps(found, indent=1, ensure_ascii=False) + "\n").encode())


def _compared(task: str, model: str, metric: str, length: int, settings: RunSettings) -> dict[str, Any]:
    head = f'task = "{task}"\nmodel = "{model}"\nmetrics = ["{metric}"]\nlists = ["distinct", "unique"]\n'
    head += f"distinct = [2]\noracle = [1, 5, 20]\nlimit = 200\nmax_length = {length}\n"
    head += f'[methods.BS]\nstrategy = "bs"\nbeams = {BEAMS}\n'
    head += f'[methods."late branching"]\nstrategy = "branching"\noutputs = {BEAMS}\n'
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "mine.toml"
        file.write_text(head, encoding="utf-8")
        prepared = prepare(read_experiment(file), settings, scored=False)
        for weight in WEIGHTS:
            lists = Path(folder) / f"{weight}.jsonl"
            _write_lists(lists, prepared, weight, length)
            head += f'[methods."determinantal, w = {weight}"]\nfile = "{lists}"\n'
        file.write_text(head, encoding="utf-8")
        results = run(read_experiment(file), settings)
    return {
        figure: {method: value["value"] for method, value in by_method.items()}
        for figure, by_method in results["figures"].items()
        if not figure.startswith("corpus")
    }


def _write_lists(path: Path, prepared: Any, weight: float, length: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        for index, name in enumerate(prepared.task.ids):
            source = prepared.task.inputs[index : index + 1]
            found = determinantal_beam_search(
                prepared.model, source, beams=BEAMS, weight=weight, max_length=length
            )
            texts = [(prepared.model.to_text(h.tokens), h.log_prob) for h in found]
            # An empty text is no output, but where all beams must differ one of them may be.
            lists = [{"text": text, "log_prob": log_prob} for text, log_prob in texts if text.strip()]
            file.write(json.dumps({"id": name, "hypotheses": lists}) + "\n")


if __name__ == "__main__":
    try:
        main(prog_name="python -m research.experiments.determinantal")
    except BeamsplitError as error:
        sys.exit(f"python -m research.experiments.determinantal: {error}")
