"""The command: decode every setting, then measure what was decoded, and print the table."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import click
import torch

from beamsplit import StepModel, decode
from beamsplit.errors import ArgumentError, BeamsplitError
from beamsplit.files import parse_json, read_json_objects, read_text, write_bytes
from beamsplit.loading import load_model
from beamsplit.progress import Progress
from research.chat.encoding import Encoder
from research.chat.measures import Answer, by_figure, measure_list
from research.chat.report import markdown
from research.chat.settings import LONGEST, Setting, compared, tried


@click.group()
def program() -> None:
    """Compare ways to get several answers from a chat model."""


@program.command()
@click.option("--model", required=True, help="A chat model: a folder, a name on the hub or a FILE.gguf.")
@click.option("--prompts", required=True, type=click.Path(path_type=Path), help='Lines of {"id", "prompt"}.')
@click.option(
    "--part",
    type=click.Choice(["valid", "test"]),
    required=True,
    help="Which half of the prompts.",
)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder for a file a setting.")
@click.option("--device", help="Device to decode on, such as cuda.")
@click.option("--turns", default=1, show_default=True, help="Times that every setting has its turn.")
def answers(model: str, prompts: Path, part: str, out: Path, device: str | None, turns: int) -> None:
    """Decode the prompts by every setting, in turns. A setting whose file is there is left out."""
    entries = [entry for _, entry in read_json_objects(prompts, '{"id": ..., "prompt": ...}')]
    entries = entries[0::2] if part == "valid" else entries[1::2]
    settings = tried() if part == "valid" else compared()
    files = {name: out / f"{number:02}.json" for number, name in enumerate(settings)}
    settings = {name: setting for name, setting in settings.items() if not files[name].exists()}
    door = load_model(model, device)
    seconds: dict[str, list[float]] = {name: [] for name in settings}
    with Progress("answers").bar(turns * len(settings)) as bar:
        for _ in range(turns):
            for name, setting in settings.items():
                lists, taken = _decode(door, entries, setting)
                seconds[name].append(taken)
                content = {"name": name, "seconds": seconds[name], "prompts": entries, "answers": lists}
                write_bytes(files[name], json.dumps(content, ensure_ascii=False).encode())
                bar.advance()


def _decode(door: StepModel, entries: list[dict[str, Any]], setting: Setting) -> tuple[list[Any], float]:
    """Return the answers for all prompts, decoded at once, and how long that took."""
    conversations = [[{"role": "user", "content": entry["prompt"]}] for entry in entries]
    began = time.perf_counter()
    found = decode(door, conversations, setting.strategy, max_length=LONGEST, **setting.options)
    seconds = time.perf_counter() - began
    lists = [
        [
            {"text": h.text, "log_prob": h.log_prob, "length": len(h.tokens), "finished": h.finished}
            for h in each
        ]
        for each in found
    ]
    return lists, seconds


@program.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--encoder", required=True, help="Folder of a sentence encoder, such as all-MiniLM-L6-v2.")
@click.option("--device", help="Device to encode on, such as cuda.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="File for the figures, JSON.")
def measure(folder: Path, encoder: str, device: str | None, out: Path) -> None:
    """Measure the answers in a folder."""
    encode, figures = Encoder(encoder, device), {}
    for file in sorted(folder.glob("*.json")):
        content = json.loads(file.read_text(encoding="utf-8"))
        figures[content["name"]] = {"seconds": content["seconds"], **_measure(content, encode)}
    write_bytes(out, (json.dumps(figures) + "\n").encode())


def _measure(content: dict[str, Any], encode: Encoder) -> dict[str, list[float]]:
    prompts = encode([entry["prompt"] for entry in content["prompts"]])
    lists = [[Answer(**answer) for answer in each] for each in content["answers"]]
    vectors = torch.split(
        encode([answer.text for each in lists for answer in each]), [len(each) for each in lists]
    )
    return by_figure([measure_list(*each) for each in zip(lists, prompts, vectors, strict=True)])


@program.command()
@click.argument("figures", type=click.Path(path_type=Path))
def report(figures: Path) -> None:
    """Print the figures as tables in Markdown: those of `measure`, which has a value for each prompt."""
    content = parse_json(read_text(figures), str(figures))
    if not all(isinstance(value, list) for row in content.values() for value in row.values()):
        raise ArgumentError(f"{figures} has means alone: give figures of `measure`, prompt by prompt")
    click.echo(markdown(content), nl=False)


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    try:
        program(prog_name="python -m research.chat")
    except BeamsplitError as error:
        sys.exit(f"python -m research.chat: {error}")
