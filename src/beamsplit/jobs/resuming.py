"""Results that appear when they are whole: until then a part grows beside them, which can be gone on with."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from beamsplit.errors import ArgumentError

try:
    import fcntl
except ImportError:  # where there is no such thing, nobody is kept out
    fcntl = None  # type: ignore[assignment]

__all__ = ["Part"]


class Part:
    """The part of a result, and a note of what it was begun with."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.path = out.with_name(f"{out.name}.part")
        self._note = out.with_name(f"{out.name}.part.json")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nobody else may write to it meanwhile."""
        try:
            note = self._note.open("a")
        except OSError as error:
            raise ArgumentError(f"{self.out} cannot be written: {error.strerror}") from error
        with note:
            if fcntl is not None:
                try:
                    fcntl.flock(note, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError as error:
                    raise ArgumentError(
                        f"{self.path} is being written by another run: wait for it, or give another --out"
                    ) from error
            yield

    def begin(self, about: dict[str, Any], force: bool) -> int:
        """How many lines are there from an earlier run that was stopped."""
        known = self._note.read_text(encoding="utf-8")
        if force or not known or not self.path.exists():
            self.path.write_bytes(b"")
            self._note.write_text(json.dumps(about), encoding="utf-8")
            return 0
        if json.loads(known) != json.loads(json.dumps(about)):
            raise ArgumentError(
                f"{self.path} was begun with other settings: give those, another --out, or --force"
            )
        content = self.path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]  # whoever was killed may have left half a line
        if len(whole) < len(content):
            self.path.write_bytes(whole)
        return whole.count(b"\n")

    def finish(self) -> None:
        os.replace(self.path, self.out)
        self._note.unlink()

    @staticmethod
    def flush(file: IO[str]) -> None:
        """What is written is on the disk."""
        file.flush()
        os.fsync(file.fileno())
