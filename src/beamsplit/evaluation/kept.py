"""Keep the scores of slow metrics in files, so that no text is scored twice against the same references."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from beamsplit.metrics import Example, TextMetric

__all__ = ["KeptScores"]

_SETTLED = 0.2  # seconds after which a line that another process is writing is there


class KeptScores:
    """A metric of texts whose scores are kept: a line of a file each, under a key of text and references."""

    def __init__(self, metric: TextMetric, folder: Path, at_once: int) -> None:
        self._metric = metric
        self._folder = folder
        self._at_once = at_once
        self._known: dict[str, float] | None = None

    @property
    def name(self) -> str:
        return self._metric.name

    @property
    def signature(self) -> str:
        return self._metric.signature

    def scores(self, examples: Sequence[Example]) -> list[list[float]]:
        """Return all scores. New ones are written after every few texts: a run that is killed loses those."""
        known = self._read() if self._known is None else self._known
        keys = [_keys(example) for example in examples]
        new = [
            Example(tuple(t for t, key in of.items() if key not in known), example.references)
            for example, of in zip(examples, keys, strict=True)
        ]
        new = [each for each in new if each.hypotheses]
        if new and hasattr(self._metric, "prepare"):
            self._metric.prepare(new)
        for part in _parts(new, self._at_once):
            self._add(part, self._metric.scores(part))
        return [[known[of[text]] for text in e.hypotheses] for e, of in zip(examples, keys, strict=True)]

    def _read(self) -> dict[str, float]:
        self._known = {}
        if self._path.exists():
            for line in _whole_lines(self._path).decode().splitlines():
                key, _, score = line.partition(" ")
                self._known[key] = float(score)
        return self._known

    def _add(self, examples: Sequence[Example], scores: Sequence[Sequence[float]]) -> None:
        known = self._known if self._known is not None else self._read()
        new: dict[str, float] = {}
        for example, found in zip(examples, scores, strict=True):
            new |= zip(_keys(example).values(), found, strict=True)
        known |= new
        self._folder.mkdir(parents=True, exist_ok=True)
        # In one piece, since another run may be writing to the same file.
        with self._path.open("ab", buffering=0) as file:
            file.write("".join(f"{key} {score!r}\n" for key, score in new.items()).encode())

    @property
    def _path(self) -> Path:
        return self._folder / f"{_digest(self.signature)}.txt"


def _whole_lines(path: Path) -> bytes:
    """Return the lines of a file. Half a line at the end, of a run that was killed, is cut off."""
    content = path.read_bytes()
    if not content.endswith(b"\n"):
        time.sleep(_SETTLED)  # another run may be writing: then it is done by now
        content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        with path.open("r+b") as file:
            file.truncate(len(whole))
    return whole


def _keys(example: Example) -> dict[str, str]:
    """Return a key for each text, made of the text and its references."""
    references = _digest(json.dumps(example.references))
    return {text: _digest(references + text) for text in example.hypotheses}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _parts(examples: Sequence[Example], at_once: int) -> Iterator[list[Example]]:
    part: list[Example] = []
    texts = 0
    for example in examples:
        part.append(example)
        texts += len(example.hypotheses)
        if texts >= at_once:
            yield part
            part, texts = [], 0
    if part:
        yield part
