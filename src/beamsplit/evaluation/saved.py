"""Read lists that were made elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.evaluation.tasks import check_once
from beamsplit.files import read_json_objects
from beamsplit.metrics import Example

__all__ = ["read_lists"]

_LINE = '{"id": ..., "hypotheses": ["...", ...]}'


def read_lists(path: Path, ids: Sequence[str], references: Sequence[tuple[str, ...]]) -> list[Example]:
    """Return the lists of these inputs from a file, which has a line for each, in any order.

    A hypothesis is a text, or a table with a "text" and a "log_prob". Lists of other inputs are left alone,
    so that one file serves for parts of a task.
    """
    entries = list(read_json_objects(path, _LINE))
    for where, entry in entries:
        if "id" not in entry:
            raise ArgumentError(f'{where} has no "id": give {_LINE}')
    names = [str(entry["id"]) for _, entry in entries]
    found = dict(zip(names, entries, strict=True))
    lists = [(str(each[1]["id"]), each) for each in entries if each[1].get("hypotheses") != []]
    check_once([name for name, _ in lists], path)
    found.update(lists)  # before those of blank lines, whose ids are only their numbers
    missing = [each for each in ids if each not in found]
    if missing:
        raise ArgumentError(
            f"{path} has no line for {len(missing)} of the {len(ids)} inputs, such as id {missing[0]!r} "
            f"(its own ids are such as {names[0]!r}): ids must be those of the task"
        )
    return [_example(*found[each], of) for each, of in zip(ids, references, strict=True)]


def _example(where: str, entry: dict[str, Any], references: tuple[str, ...]) -> Example:
    given = entry.get("hypotheses")
    if given is None and "error" in entry:
        raise ArgumentError(f'{where} has an "error" instead of "hypotheses": {entry["error"]}')
    if not isinstance(given, list) or not given:
        raise ArgumentError(f'{where} has no list under "hypotheses": give one text at least')
    texts: list[Any] = [each.get("text") if isinstance(each, dict) else each for each in given]
    for text in texts:
        if not isinstance(text, str):
            raise ArgumentError(f"{where} has a hypothesis that is no text: {checks.short_repr(text)}")
        if not text.strip():
            raise ArgumentError(f"{where} has an empty hypothesis: leave it out")
    log_probs: list[Any] = [each.get("log_prob") for each in given if isinstance(each, dict)]
    known = len(log_probs) == len(texts) and all(isinstance(each, int | float) for each in log_probs)
    return Example(tuple(texts), references, tuple(map(float, log_probs)) if known else ())
