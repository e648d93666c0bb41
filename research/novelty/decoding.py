"""Decode the prompts by a run, a few at a time, and write down what was found and what it cost."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from beamsplit import Hypotheses, StepModel, decode
from beamsplit.errors import ArgumentError
from beamsplit.files import read_json_objects, write_bytes
from research.novelty.model import Counted
from research.novelty.settings import LONGEST, SEED, Run

__all__ = ["claim", "decode_run", "outputs_of", "prompts_of", "write_run"]

BATCH = 5
"""Prompts at once on a CPU: with more, what a step works on does not fit into a cache."""


def prompts_of(file: Path, part: str) -> list[dict[str, Any]]:
    """Return every other prompt of a file to report on, and the others to choose settings by.

    Of these, every second comes first: settings were chosen on them alone once, and the rest was added.
    """
    entries = [entry for _, entry in read_json_objects(file, '{"id": ..., "prompt": ...}')]
    return entries[0::4] + entries[2::4] if part == "valid" else entries[1::2]


def write_run(
    model: StepModel,
    run: Run,
    prompts: Sequence[dict[str, Any]],
    folder: Path,
    advance: Callable[[], None],
    batch: int = BATCH,
    before: int = 0,
) -> None:
    """Write FOLDER/RUN.json, unless it is there. `before` is how many prompts come before these."""
    file = folder / run.file
    if file.exists():
        return
    content = decode_run(model, run, prompts, advance, batch, before)
    write_bytes(file, (json.dumps(content, ensure_ascii=False) + "\n").encode())


def claim(run: Run, folder: Path) -> bool:
    """Tell whether this process is the first to take up a run, of those that share the runs."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        (folder / run.file).with_suffix(".claim").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def decode_run(
    model: StepModel,
    run: Run,
    prompts: Sequence[dict[str, Any]],
    advance: Callable[[], None] = lambda: None,
    batch: int = BATCH,
    before: int = 0,
) -> dict[str, Any]:
    """Return the outputs for each prompt, the rows that the model has computed, and the time."""
    counted = Counted(model)
    outputs: list[Any] = []
    began = time.perf_counter()
    for start in range(0, len(prompts), batch):
        some = prompts[start : start + batch]
        conversations = [[{"role": "user", "content": entry["prompt"]}] for entry in some]
        numbers = [before + start + place for place in range(len(some))]
        found = decode(
            counted,
            conversations,
            run.strategy,
            max_length=LONGEST,
            seed=SEED,
            numbers=numbers,
            **run.options,
        )
        outputs += [_written(each) for each in found]
        advance()
    seconds = time.perf_counter() - began
    ids = [entry["id"] for entry in prompts]
    return {"run": run.name, "prompts": ids, "rows": counted.rows, "seconds": seconds, "outputs": outputs}


def _written(found: Hypotheses) -> list[dict[str, Any]]:
    return [
        {
            "text": each.text,
            "log_prob": round(each.log_prob, 4),
            "finished": each.finished,
            "tokens": list(each.tokens),
        }
        for each in found
    ]


def outputs_of(file: Path, prompts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Read what `write_run` wrote. Raise if it is of other prompts."""
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    if content["prompts"] != [entry["id"] for entry in prompts]:
        raise ArgumentError(f"{file} is of other prompts: decode again, or give the prompts that it is of")
    return content
