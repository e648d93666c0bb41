"""The commands: decode, measure, choose, show."""

from __future__ import annotations

import json
import re
import sys
from itertools import product
from pathlib import Path
from typing import Any

import click
import torch

from beamsplit.errors import ArgumentError, BeamsplitError
from beamsplit.files import write_bytes
from beamsplit.progress import Progress
from research.chat.encoding import Encoder
from research.novelty.choice import choose_settings, reference_of
from research.novelty.decoding import BATCH, claim, outputs_of, prompts_of, write_run
from research.novelty.measures import Meter, is_readable
from research.novelty.measuring import joined, kept_lists, measure_all
from research.novelty.model import load_halved
from research.novelty.plot import draw_novelty
from research.novelty.pronouncing import choose_ways, measure_ways, ways
from research.novelty.report import KINDS
from research.novelty.settings import Row, rows_of_table, runs, similarity_of_search

HERE = Path(__file__).parents[2] / "docs" / "results" / "novelty"
EXAMPLES = ("curated-13", "curated-39", "curated-55")
"""Prompts whose answers are printed: fixed before anything was measured."""

_PART = click.Choice(["valid", "test"])
_PATH = click.Path(path_type=Path)
_model = click.option("--model", required=True, help="Folder of SmolLM2-135M-Instruct.")
_prompts = click.option(
    "--prompts", required=True, type=_PATH, help='Lines of {"id", "prompt"}, such as NoveltyBench.'
)
_skip = click.option(
    "--skip", type=click.IntRange(0), default=0, help="Leave out so many prompts: they were decoded before."
)
_results = click.option("--results", type=_PATH, default=HERE, help="Folder of the figures.")


@click.group()
def program() -> None:
    """Compare ways to get eight different answers, at equal cost."""


@program.command()
@_model
@_prompts
@click.option(
    "--part", "parts", type=_PART, multiple=True, required=True, help="Which prompts; may be given twice."
)
@click.option("--out", required=True, type=_PATH, help="Folder: gets a folder a part, with a file a run.")
@click.option("--only", metavar="PATTERN", default="", help="Runs whose names match this, somewhere.")
@click.option("--chosen", is_flag=True, help="Only runs that were chosen on the validation prompts.")
@click.option("--device", help="Device to decode on, such as cuda.")
@click.option("--batch", default=BATCH, show_default=True, help="Prompts at once; a GPU takes 25 and more.")
@click.option("--share", is_flag=True, help="Share the runs with other processes that write to OUT.")
@_skip
@_results
def answers(
    model: str,
    prompts: Path,
    parts: tuple[str, ...],
    out: Path,
    only: str,
    chosen: bool,
    device: str | None,
    batch: int,
    share: bool,
    skip: int,
    results: Path,
) -> None:
    """Decode the prompts by every run, except those that are there.

    Several processes can share the runs: each takes the next that nobody has begun. What one of them has
    left unfinished is taken up again when OUT has no .claim files any more.
    """
    entries = {part: prompts_of(prompts, part)[skip:] for part in parts}
    door = load_halved(model, device)
    asked = [run for name, run in runs(door).items() if re.search(only, name)]
    if chosen:
        wanted = {row.run for row in _chosen_rows(results)}
        asked = [run for run in asked if run.name in wanted]
    batches = sum(-(-len(each) // batch) for each in entries.values())
    with Progress("answers").bar(batches * len(asked)) as bar:
        for part, run in product(parts, asked):
            if not share or claim(run, out / part):
                bar.note(f"{run.name}, {part}")
                write_run(door, run, entries[part], out / part, bar.advance, batch, skip)


@program.command()
@click.argument("folder", type=_PATH)
@_model
@_prompts
@click.option("--part", type=_PART, required=True, help="Which half of the prompts.")
@click.option("--encoder", required=True, help="Folder of all-MiniLM-L6-v2.")
@click.option("--all", "every", is_flag=True, help="Of test prompts, all settings and not the chosen ones.")
@click.option("--add", is_flag=True, help="Keep what was measured, and add these settings or prompts.")
@_skip
@_results
def measure(
    folder: Path,
    model: str,
    prompts: Path,
    part: str,
    encoder: str,
    every: bool,
    add: bool,
    skip: int,
    results: Path,
) -> None:
    """Measure the answers in a folder: every setting, or of test prompts those that were chosen."""
    door = load_halved(model)
    rows = rows_of_table() if part == "valid" or every else _chosen_rows(results)
    meter, entries = Meter(Encoder(encoder), "all-MiniLM-L6-v2"), prompts_of(prompts, part)[skip:]
    with Progress("measure").bar(len(rows)) as bar:
        found = measure_all(folder, rows, runs(door), entries, meter, similarity_of_search(door), bar)
    file = results / f"{part}.json"
    _write(file, joined(_read(file), found) if add else found)


@program.command()
@click.argument("folder", type=_PATH)
@_model
@_prompts
@click.option("--family", "families", multiple=True, help="Families that are shown; by default, some.")
@_results
def examples(folder: Path, model: str, prompts: Path, families: tuple[str, ...], results: Path) -> None:
    """Write the answers of some chosen settings to a few test prompts."""
    entries, door = prompts_of(prompts, "test"), load_halved(model)
    similarity, files = similarity_of_search(door), runs(door)
    found: dict[str, Any] = {
        entry["id"]: {"prompt": entry["prompt"], "answers": {}}
        for entry in entries
        if entry["id"] in EXAMPLES
    }
    for row in _chosen_rows(results):
        if row.family not in (families or _SHOWN):
            continue
        content = outputs_of(folder / files[row.run].file, entries)
        for entry, kept in zip(entries, kept_lists(row, content, entries, similarity), strict=True):
            if entry["id"] in found:
                found[entry["id"]]["answers"][row.family] = [
                    {
                        "number": number,
                        "text": each.text,
                        "finished": each.finished,
                        "readable": is_readable(each, entry["prompt"]),
                    }
                    for number, each in enumerate(kept, 1)
                ]
    _write(results / "examples.json", found)


_SHOWN = (
    "nucleus 0.9, 8",
    "beam search, 32",
    "DBS hamming, 8 x 4",
    "nucleus 0.9, 32: 8 farthest",
    "chunk-wise, sentences, 8 x 4",
    "chunk-wise, tokens, 8 x 4",
)


@program.command()
@_results
def pronounce(results: Path) -> None:
    """Measure pronunciations: all settings on some words, and the chosen ones on others."""
    families = {way.family for way in ways()}
    with Progress("pronounce").bar(len(list(ways())) + len(families)) as bar:
        valid = measure_ways("valid", {}, bar.advance)
        test = measure_ways("test", choose_ways(valid), bar.advance)
    _write(results / "pronounce-valid.json", valid)
    _write(results / "pronounce-test.json", test)


@program.command()
@click.argument("part", default="test")
@click.option("--kind", type=click.Choice(list(KINDS)), default="answers", show_default=True)
@click.option("--against", help="The setting or family that the others are compared with.")
@click.option("--best", is_flag=True, help="Only the setting of each family that is chosen.")
@_results
def report(part: str, kind: str, against: str | None, best: bool, results: Path) -> None:
    """Print a table of RESULTS/PART.json, and draw the plot of the test prompts."""
    content = _read(results / f"{part}.json")
    if best:
        names = choose_settings(content).values()
        content["settings"] = {name: content["settings"][name] for name in names}
    click.echo("\n".join(KINDS[kind](content, *([against] if against else []))))
    draw_novelty(results)


def _chosen_rows(results: Path) -> list[Row]:
    """Return the settings that were chosen on the validation prompts, in the order of the table."""
    valid = _read(results / "valid.json")
    reference_of(valid)
    chosen = choose_settings(valid)
    rows = rows_of_table()
    alone = {row.family for row in rows if sum(row.family == other.family for other in rows) == 1}
    return [row for row in rows if row.family in alone or chosen.get(row.family) == row.name]


def _read(file: Path) -> Any:
    if not file.exists():
        raise ArgumentError(f"there is no {file}: measure first")
    return json.loads(file.read_text(encoding="utf-8"))


def _write(file: Path, content: Any) -> None:
    write_bytes(file, (json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n").encode())


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    try:
        program(prog_name="python -m research.novelty")
    except BeamsplitError as error:
        sys.exit(f"python -m research.novelty: {error}")
