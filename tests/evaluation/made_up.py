"""A made-up experiment with all metrics: lists of several methods that share texts, as real ones do."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from evaluation.small import write_lines

INPUTS, LENGTH = 24, 8
_WORDS = (
    "a the man woman dog's horse on in front of street red don't riding stands U.S. 3.5 two "
    "(small) well-known l'eau d\u2019or & tables , . ? ;"
).split(" ")


def _sentence(random_numbers: random.Random) -> str:
    return " ".join(random_numbers.choices(_WORDS, k=random_numbers.randint(1, 12)))


def _changed(text: str, random_numbers: random.Random) -> str:
    words = text.split()
    words[random_numbers.randrange(len(words))] = random_numbers.choice(_WORDS)
    return " ".join(words)


def made_up_experiment(folder: Path, **more: Any) -> dict[str, Any]:
    """Write the task and the lists of four methods; return the experiment."""
    numbers = random.Random(7)
    inputs = []
    lists: dict[str, list[dict[str, Any]]] = {name: [] for name in ("one", "two", "three", "none new")}
    for index in range(INPUTS):
        references = [_sentence(numbers) for _ in range(numbers.randint(1, 6))]
        inputs.append({"id": index, "input": str(index), "references": references, "difficulty": index % 7})
        texts = [_changed(numbers.choice(references), numbers) for _ in range(2 * LENGTH)]
        for name, entries in lists.items():
            chosen = [] if name == "none new" else numbers.choices(texts, k=numbers.randint(1, LENGTH))
            log_probs = sorted((-numbers.random() * 9 for _ in chosen), reverse=True)
            hypotheses = [{"text": t, "log_prob": p} for t, p in zip(chosen, log_probs, strict=True)]
            entries.append({"id": index, "hypotheses": hypotheses or lists["one"][-1]["hypotheses"]})
    write_lines(folder / "made-up.jsonl", *inputs)
    for name, entries in lists.items():
        write_lines(folder / f"{name}.jsonl", *entries)
    return {
        "task": str(folder / "made-up.jsonl"),
        "metrics": ["cider", "meteor", "bleu4", "rouge", "bleu", "chrf"],
        "lists": ["distinct", "unique", "self-bleu", "vendi", "spread", "length", "log-prob"],
        "mbr": "bleu",
        "oracle": [1, 3, LENGTH],
        "split": True,
        "methods": {name: {"file": str(folder / f"{name}.jsonl")} for name in lists},
        **more,
    }


def only_figures(results: dict[str, Any]) -> dict[str, Any]:
    """Return what was measured, without what may change with the version or the folder."""
    kept = {key: results[key] for key in ("figures", "parts", "lengths", "unavailable")}
    found: dict[str, Any] = json.loads(json.dumps(kept))
    return found
