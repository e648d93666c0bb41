"""Make a data folder whose captions are cut after a few words, for experiments with short outputs."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from beamsplit.errors import ArgumentError
from beamsplit.evaluation.datasets import Described, read_described_lines
from beamsplit.files import write_bytes

__all__ = ["shorten_captions"]

_PARTS = ("train", "valid", "test")


def shorten_captions(folder: Path, out: Path, words: int) -> None:
    """Write COCO's captions with their first `words` words; the other files become links."""
    if out.exists():
        raise ArgumentError(f"{out} exists: give a folder that does not")
    cut = {folder / "captions" / f"coco.{part}.jsonl.gz" for part in _PARTS}
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        target = out / file.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        if file in cut:
            write_bytes(target, _packed([_shortened(each, words) for each in read_described_lines(file)]))
        else:
            target.symlink_to(file.resolve())


def _shortened(each: Described, words: int) -> dict[str, object]:
    captions = [" ".join(text.split()[:words]) for text in each.texts]
    return {"image": each.image, "captions": captions}


def _packed(rows: list[dict[str, object]]) -> bytes:
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return gzip.compress(lines.encode(), mtime=0)
