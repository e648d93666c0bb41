"""Measure all settings of which there are outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean, mean
from typing import Any

from beamsplit import Hypothesis
from beamsplit.errors import ArgumentError
from beamsplit.progress import Bar
from beamsplit.selecting import Similarity
from research.novelty.decoding import outputs_of
from research.novelty.keeping import keep
from research.novelty.measures import Meter, by_figure
from research.novelty.settings import Row, Run

__all__ = ["joined", "kept_lists", "measure_all"]


def measure_all(
    folder: Path,
    rows: Sequence[Row],
    runs: dict[str, Run],
    prompts: Sequence[dict[str, Any]],
    meter: Meter,
    similarity: Similarity,
    bar: Bar,
) -> dict[str, Any]:
    """Return the figures of each setting whose run is in the folder."""
    found: dict[str, Any] = {}
    for row in rows:
        file = folder / runs[row.run].file
        if file.exists():
            content = outputs_of(file, prompts)
            lists = kept_lists(row, content, prompts, similarity)
            found[row.name] = {**asdict(row), **_cost(row, content, lists)}
            found[row.name]["figures"] = _figures(lists, prompts, meter)
        bar.advance()
    return {
        "encoder": meter.name,
        "signatures": meter.signatures(),
        "prompts": [entry["id"] for entry in prompts],
        "settings": found,
    }


def joined(before: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Return two measurements as one: of further settings, or of further prompts for the same settings.

    Settings that were not measured on further prompts are left out, since they cannot be compared.
    """
    old, new = before["settings"], more["settings"]
    if before["prompts"] == more["prompts"]:
        return {**before, "settings": {**old, **new}}
    if set(before["prompts"]) & set(more["prompts"]):
        raise ArgumentError("some prompts were measured before, and others not: give --skip their number")
    sizes = len(before["prompts"]), len(more["prompts"])
    settings = {name: _on_both(old[name], new[name], sizes) for name in old if name in new}
    return {**before, "prompts": before["prompts"] + more["prompts"], "settings": settings}


def _on_both(old: dict[str, Any], new: dict[str, Any], sizes: tuple[int, int]) -> dict[str, Any]:
    means: dict[str, Any] = {
        name: fmean((old[name], new[name]), weights=sizes)
        for name in ("cost", "seconds")
        if name in old and name in new
    }
    figures = {name: values + new["figures"][name] for name, values in old["figures"].items()}
    return {**old, **means, "figures": figures}


def kept_lists(
    row: Row, content: dict[str, Any], prompts: Sequence[dict[str, Any]], similarity: Similarity
) -> list[list[Hypothesis]]:
    """Return what a setting keeps for each prompt."""
    return [
        keep(row, [_read(each) for each in outputs], entry["id"], similarity)
        for outputs, entry in zip(content["outputs"], prompts, strict=True)
    ]


def _read(output: dict[str, Any]) -> Hypothesis:
    log_prob = output["log_prob"]
    tokens = tuple(output["tokens"])
    return Hypothesis(tokens, log_prob, log_prob, finished=output["finished"], text=output["text"])


def _cost(row: Row, content: dict[str, Any], lists: Sequence[Sequence[Hypothesis]]) -> dict[str, float]:
    """Return the rows that the model computed for a prompt, and the seconds that decoding took.

    Of samples, of which any eight do, only those eight would have been computed: a row for the prompt, and
    one for each token of an answer but its last.
    """
    prompts = len(content["prompts"])
    if row.keep == "any 8":
        return {"cost": mean(1 + sum(len(each.tokens) - 1 for each in kept) for kept in lists)}
    return {"cost": content["rows"] / prompts, "seconds": round(content["seconds"] / prompts, 3)}


def _figures(
    lists: Sequence[Sequence[Hypothesis]], prompts: Sequence[dict[str, Any]], meter: Meter
) -> dict[str, list[float]]:
    meter.learn([each.text or "" for kept in lists for each in kept])
    measure: Callable[..., dict[str, float]] = meter.measure
    return by_figure([measure(kept, entry["prompt"]) for kept, entry in zip(lists, prompts, strict=True)])
