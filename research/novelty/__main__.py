"""The commands: decode, measure, choose, show."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click
import torch

from beamsplit.errors import BeamsplitError
from beamsplit.progress import Progress
from research.novelty.decoding import BATCH, prompts_of, write_run
from research.novelty.model import load_halved
from research.novelty.settings import runs

_PART = click.Choice(["valid", "test"])
_PATH = click.Path(path_type=Path)


@click.group()
def program() -> None:
    """Compare ways to get eight different answers, at equal cost."""


@program.command()
@click.option("--model", required=True, help="Folder of SmolLM2-135M-Instruct.")
@click.option("--prompts", required=True, type=_PATH, help='Lines of {"id", "prompt"}, such as NoveltyBench.')
@click.option("--part", type=_PART, required=True, help="Which half of the prompts.")
@click.option("--out", required=True, type=_PATH, help="Folder for a file a run.")
@click.option("--only", metavar="PATTERN", default="", help="Runs whose names match this, somewhere.")
def answers(model: str, prompts: Path, part: str, out: Path, only: str) -> None:
    """Decode the prompts by every run, except those that are there."""
    entries, door = prompts_of(prompts, part), load_halved(model)
    asked = [run for name, run in runs(door).items() if re.search(only, name)]
    batches = -(-len(entries) // BATCH)
    with Progress("answers").bar(batches * len(asked)) as bar:
        for run in asked:
            bar.note(run.name)
            write_run(door, run, entries, out, bar.advance)


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    try:
        program(prog_name="python -m research.novelty")
    except BeamsplitError as error:
        sys.exit(f"python -m research.novelty: {error}")
