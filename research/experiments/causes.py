"""Measure why diverse lists win or lose: python -m research.experiments.causes paper/coco paper/vqg.

A model is followed along its greedy output, to see how sure it is of itself. At every step the entropy of
its distribution is taken, and the gap between its two likeliest words in nats: a group of one beam leaves the
path of another only where the gap is less than strength times penalty. Then, how much of all probability the
lists of an experiment's methods hold: the 20 likeliest short outputs may be much of what a model has to say.
And the best similarity to a reference by word vectors, which forgives other words for the same thing.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import torch
from torch import Tensor

from beamsplit.cli.options import with_settings
from beamsplit.errors import BeamsplitError
from beamsplit.evaluation import RunSettings, read_experiment
from beamsplit.evaluation.figures import figures
from beamsplit.evaluation.methods import Method
from beamsplit.evaluation.running import lists_of, model_name, prepare
from beamsplit.evaluation.scoring import Measured
from beamsplit.evaluation.tables import aligned
from beamsplit.files import write_bytes
from beamsplit.metrics import Example, Oracle, oracles
from beamsplit.model import log_softmax, plain
from beamsplit.models import storage

__all__ = [
    "GreedyPath",
    "VectorSimilarity",
    "follow_greedily",
    "list_mass",
    "main",
    "similarity_table",
    "sureness_table",
]

GAPS = (0.5, 3.0)
"""Gaps in nats: one that a penalty of strength 0.5 does not cross, and one that six of them do not."""
_AT_ONCE = 128


@dataclass(frozen=True)
class GreedyPath:
    """What a model gave at every step of its greedy outputs, one after another."""

    entropy: Tensor  # [steps] in nats
    best: Tensor  # [steps] the likeliest word's probability
    gap: Tensor  # [steps] between the two likeliest, in nats

    def figures(self, outputs: int) -> dict[str, float]:
        """Return means over steps."""
        wide = {f"gap_above_{gap:g}": float((self.gap > gap).double().mean()) for gap in GAPS}
        return {
            "steps": len(self.gap) / outputs,
            "entropy": float(self.entropy.mean()),
            "best": float(self.best.mean()),
            **wide,
        }


@torch.no_grad()
def follow_greedily(model: Any, inputs: Any, max_length: int) -> GreedyPath:
    """Follow a model along the greedy output of each input, up to its end."""
    answer, state = model.start(inputs)
    live = torch.ones(plain(answer).shape[0], dtype=torch.bool)
    found: list[Tensor] = []
    for _ in range(max_length):
        log_prob = log_softmax(answer)
        top = log_prob.topk(2)
        # What is impossible adds nothing: 0 times -inf is NaN.
        entropy = -(log_prob.exp() * log_prob.masked_fill(log_prob == -torch.inf, 0.0)).sum(1)
        first, second = top.values.unbind(1)
        found.append(torch.stack([entropy, first.exp(), first - second], 1)[live])
        tokens = top.indices[:, 0]
        live = live & (tokens != model.end)
        if not bool(live.any()):
            break
        answer, state = model.step(tokens, state)
    return GreedyPath(*torch.cat(found).unbind(1))


def list_mass(lists: Sequence[Example]) -> float:
    """Return the mean over inputs of the probability of a list's outputs together; each text counts once."""
    total = 0.0
    for each in lists:
        best = dict(zip(reversed(each.hypotheses), reversed(each.log_probs), strict=True))
        total += float(torch.tensor(list(best.values()), dtype=torch.double).exp().sum())
    return total / len(lists)


@dataclass(frozen=True)
class VectorSimilarity:
    """The cosine of a text's mean word vector with that of the nearest reference, in percent.

    Words without a vector do not count; a text without any word that has one scores 0.
    """

    vectors: Mapping[str, Tensor]

    name = "vectors"
    signature = "vectors|glove:100|of:mean-of-words|references:nearest|tok:letters-lower"

    @classmethod
    def shipped(cls) -> VectorSimilarity:
        """Return the similarity by the word vectors that come with the package."""
        tensors, description = storage.read(storage.WEIGHTS / "words.safetensors")
        return cls(dict(zip(description["words"], tensors["vectors"].double(), strict=True)))

    def scores(self, examples: Sequence[Example]) -> list[list[float]]:
        return [self._of_list(each) for each in examples]

    def _of_list(self, example: Example) -> list[float]:
        references = torch.stack([self._direction(text) for text in example.references])
        texts = torch.stack([self._direction(text) for text in example.hypotheses])
        best: list[float] = (100 * (texts @ references.T).amax(1)).tolist()
        return best

    def _direction(self, text: str) -> Tensor:
        """Return the mean vector of the text's words, with length 1."""
        words = re.findall(r"[a-z]+", text.lower())
        known = [self.vectors[word] for word in words if word in self.vectors]
        if not known:
            return torch.zeros(len(next(iter(self.vectors.values()))), dtype=torch.double)
        return torch.nn.functional.normalize(torch.stack(known).mean(0), dim=0)


def measure(path: Path, settings: RunSettings) -> dict[str, Any]:
    """Return the figures of an experiment's model on its inputs, and of the lists of its methods."""
    experiment = read_experiment(path)
    prepared = prepare(experiment, settings)
    model, task = prepared.model, prepared.task
    paths = [follow_greedily(model, part, experiment.max_length) for part in _parts(task.inputs)]
    whole = GreedyPath(*(torch.cat(parts) for parts in zip(*map(_columns, paths), strict=True)))
    lists = {
        method.name: lists_of(method, prepared, experiment, settings)[0]
        for method in experiment.methods
        if isinstance(method, Method)
    }
    return {
        "task": task.name,
        "model": model_name(experiment.model),
        "items": len(task.ids),
        **whole.figures(len(task.ids)),
        "mass": {name: list_mass(examples) for name, examples in lists.items()},
        "similarity": _similarity(lists, experiment.oracle, settings.draws),
    }


def _similarity(lists: Mapping[str, list[Example]], ks: Sequence[int], draws: int) -> dict[str, Any]:
    metric = VectorSimilarity.shipped()
    scores = {name: [oracles(metric, ks, examples)] for name, examples in lists.items()}
    measured = [
        Measured(Oracle(metric, k), {name: [runs[0][index]] for name, runs in scores.items()})
        for index, k in enumerate(ks)
    ]
    return figures(measured, range(len(next(iter(lists.values())))), draws)


def _columns(path: GreedyPath) -> tuple[Tensor, Tensor, Tensor]:
    return path.entropy, path.best, path.gap


def _parts(inputs: Any) -> Iterator[Any]:
    return (inputs[begin : begin + _AT_ONCE] for begin in range(0, len(inputs), _AT_ONCE))


def sureness_table(results: Mapping[str, Any], *methods: str) -> list[str]:
    """Return a table of models: how sure they are, and how much of all probability these methods find."""
    head = ["", "task", "steps", "entropy", "p of best", *(f"gap > {gap:g}" for gap in GAPS)]
    rows = [
        [
            Path(each["model"]).stem,
            each["task"],
            f"{each['steps']:.1f}",
            f"{each['entropy']:.2f}",
            f"{each['best']:.2f}",
            *(f"{100 * each[f'gap_above_{gap:g}']:.0f}%" for gap in GAPS),
            *(f"{100 * each['mass'][method]:.1f}%" if method in each["mass"] else "" for method in methods),
        ]
        for each in results["models"].values()
    ]
    return aligned([*head, *(f"mass, {method}" for method in methods)], rows)


def similarity_table(results: Mapping[str, Any], name: str) -> list[str]:
    """Return a table of the similarity of the methods' lists to the references, of one experiment."""
    each = results["models"][name]
    columns = list(each["similarity"])
    rows = [
        [
            method,
            *(
                f"{each['similarity'][column][method]['value']:.1f}{_star(each, column, method)}"
                for column in columns
            ),
        ]
        for method in each["mass"]
    ]
    return aligned(
        ["", *(f"similarity {column.rpartition('_')[2].removeprefix('vectors')}" for column in columns)], rows
    )


def _star(each: Mapping[str, Any], column: str, method: str) -> str:
    against = each["similarity"][column][method].get("against_first")
    return "\\*" if against and not against["low"] <= 0 <= against["high"] else ""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, required=True)
@with_settings
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A JSON file; what it has of other experiments stays (default: docs/results/paper/causes.json).",
)
def main(names: Sequence[str], out: Path | None, settings: RunSettings) -> None:
    """Measure the models and the lists of the experiments NAMES, such as paper/coco."""
    here = Path(__file__).parent
    out = out or here.parents[1] / "docs" / "results" / "paper" / "causes.json"
    found = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {"models": {}}
    for name in names:
        path = here / f"{name}.toml"
        if not path.is_file():
            raise click.UsageError(f"there is no experiment {name!r}: give one such as paper/coco")
        found["models"][name] = measure(path, settings)
        write_bytes(out, (json.dumps(found, indent=1, ensure_ascii=False) + "\n").encode())
        print(f"{name} is measured", file=sys.stderr)


if __name__ == "__main__":
    try:
        main(prog_name="python -m research.experiments.causes")
    except BeamsplitError as error:
        sys.exit(f"python -m research.experiments.causes: {error}")
