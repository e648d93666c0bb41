"""Write results that appear when they are whole: until then a part grows beside them, and can be resumed."""

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
except ImportError:  # a system without locks of files
    fcntl = None  # type: ignore[assignment]

__all__ = ["PartialResult"]


class PartialResult:
    """A part of a result in a file, and a note beside it of the settings that it was begun with."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.path = out.with_name(f"{out.name}.part")
        self._note = out.with_name(f"{out.name}.part.json")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs from writing to it for the length of a block."""
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

    def resume(self, settings: dict[str, Any], force: bool) -> int:
        """Return how many lines are there from an earlier run with these settings; `force` starts over."""
        known = self._note.read_text(encoding="utf-8")
        if force or not known or not self.path.exists():
            self.path.write_bytes(b"")
            self._note.write_text(json.dumps(settings), encoding="utf-8")
            return 0
        if json.loads(known) != json.loads(json.dumps(settings)):
            raise ArgumentError(
                f"{self.path} was begun with other settings: give those, another --out, or --force"
            )
        content = self.path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]  # a run that was killed may have left half a line
        if len(whole) < len(content):
            self.path.write_bytes(whole)
        return whole.count(b"\n")

    def finish(self) -> None:
        """Give the result its name, since it is whole."""
        os.replace(self.path, self.out)
        self._note.unlink()

    @staticmethod
    def flush(file: IO[str]) -> None:
        """Write to the disk what is still in memory."""
        file.flush()
        os.fsync(file.fileno())
