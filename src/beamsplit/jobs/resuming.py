"""Write results that appear when they are whole: until then a part grows beside them, and can be resumed.

Results are written when they are found, in any order, each after the number of its line:

    {"line": 3, "id": "2", "input": ..., "hypotheses": [...]}

They are put in order when all are there. So what is found is kept, whenever the run is stopped.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import IO, Any

from beamsplit.errors import ArgumentError
from beamsplit.jobs.lines import RESULT_KEYS, InputLine
from beamsplit.jobs.running import KnownLine, LineResult

try:
    import fcntl
except ImportError:  # a system without locks of files
    fcntl = None  # type: ignore[assignment]

__all__ = ["PartialResult", "to_json"]

_SYNC = 5.0  # seconds after which what is written must be on the disk
_NUMBERED = re.compile(rb'\{"line": (\d+), ')
_UNNUMBERED = b'{"id": '  # as parts were written at first, in the order of their lines
_BLOCK = 1 << 16
_SPOILT = b"#"  # the first byte of a line that is passed over


class PartialResult:
    """A part of a result in a file, and a note beside it of the settings that it was begun with."""

    def __init__(self, out: Path, instead: str = "or another file") -> None:
        """Name the result; `instead` is what people can do who want another result there."""
        self.out = out
        self.path = out.with_name(f"{out.name}.part")
        self._note = out.with_name(f"{out.name}.part.json")
        self._instead = instead

    @property
    def is_empty(self) -> bool:
        """Whether nothing is kept."""
        return not self.path.exists() or not self.path.stat().st_size

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs from writing to it for the length of a block; leave nothing that is empty."""
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
                        f"{self.path} is being written by another run: wait for it, or give another file"
                    ) from error
            try:
                yield
            finally:
                if self.is_empty:
                    self._remove()

    def resume(self, settings: dict[str, Any], force: bool) -> None:
        """Prepare to go on from an earlier run with these settings; `force` starts over."""
        known = self._note.read_text(encoding="utf-8")
        if force or not known or not self.path.exists():
            self.path.write_bytes(b"")
            self._note.write_text(json.dumps(settings), encoding="utf-8")
        elif json.loads(known) != json.loads(json.dumps(settings)):
            raise ArgumentError(f"{self.path} was begun with other settings: give those, {self._instead}")
        else:
            _cut_half_line(self.path)

    def known_lines(self, lines: Iterable[InputLine]) -> Iterator[KnownLine]:
        """Tell of each line whether its result is there. Raise if that was begun with other inputs."""
        with _StoredLines(self.path) as stored:
            for line in lines:
                entry = stored.entry(line.number)
                if entry is None:
                    yield KnownLine(line)
                else:
                    self._check_same(line, entry)
                    yield KnownLine(line, True, "error" in entry)

    def _check_same(self, line: InputLine, entry: dict[str, Any]) -> None:
        before = json.dumps({key: value for key, value in entry.items() if key not in RESULT_KEYS})
        if before != (now := json.dumps(line.about)):
            raise ArgumentError(
                f"{self.path} was begun with {before[:60]} where the input now has {now[:60]}: "
                f"give the same input, {self._instead}"
            )

    @contextmanager
    def writing(self) -> Iterator[_Writer]:
        """Write results for the length of a block, however it ends."""
        with self.path.open("ab") as file:
            writer = _Writer(file)
            try:
                yield writer
            finally:
                writer.sync()

    def finish(self, numbers: Iterable[int]) -> None:
        """Put the results of these lines in order, and give the file its name, since it is whole."""
        ordered = self.out.with_name(f"{self.out.name}.part.ordered")
        with _StoredLines(self.path) as stored, ordered.open("wb") as file:
            for number in numbers:
                line = stored.take(number)
                assert line is not None, f"line {number} has no result"
                file.write(line)
            _sync(file)
        os.replace(ordered, self.out)
        self._remove()

    def _remove(self) -> None:
        self.path.unlink(missing_ok=True)
        self._note.unlink(missing_ok=True)


def to_json(result: dict[str, Any]) -> str:
    """Return a line of JSON for people to read: letters are escaped only where UTF-8 has none for them."""
    text = json.dumps(result, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a pair of surrogates
        text = json.dumps(result)
    return f"{text}\n"


class _Writer:
    """Writes the results of a batch at a time."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._synced = monotonic()

    def write(self, results: Iterable[LineResult]) -> None:
        """Write results so that they outlive this program, and every few seconds so that they outlive all."""
        lines = (f'{{"line": {number + 1}, {to_json(result)[1:]}' for number, result in results)
        self._file.write("".join(lines).encode())
        self._file.flush()
        if monotonic() - self._synced > _SYNC:
            self.sync()

    def sync(self) -> None:
        """Write to the disk what is still in memory."""
        _sync(self._file)
        self._synced = monotonic()


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


class _StoredLines:
    """The lines of a part by their numbers. Those that are passed on the way to a number are remembered."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("r+b")
        self._end = path.stat().st_size  # what is written from now on is not looked at
        self._read_to = 0
        self._last = -1  # the number of the last line
        self._found: dict[int, int] = {}  # where lines begin

    def __enter__(self) -> _StoredLines:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def entry(self, number: int) -> dict[str, Any] | None:
        """Return what a line says, if it is there and whole."""
        begin = self._find(number)
        while begin is not None:
            try:
                found = json.loads(self._line_at(begin))
                if isinstance(found, dict):
                    return found
            except ValueError:  # what a computer that lost its power has left
                pass
            self._spoil(begin)
            begin = self._find(number)
        return None

    def take(self, number: int) -> bytes | None:
        """Return a line as it is in the result, if it is there."""
        begin = self._find(number)
        return None if begin is None else self._line_at(begin)

    def _find(self, number: int) -> int | None:
        """Return where the line with this number begins; read on until it is found."""
        while number not in self._found and self._read_to < self._end:
            self._read_on()
        return self._found.pop(number, None)

    def _read_on(self) -> None:
        self._file.seek(begin := self._read_to)
        line = self._file.readline()
        self._read_to += len(line)
        if numbered := _NUMBERED.match(line):
            self._last = int(numbered[1]) - 1
        elif line.startswith(_UNNUMBERED):
            self._last += 1
        else:
            return
        self._found[self._last] = begin

    def _line_at(self, begin: int) -> bytes:
        """Return a line without its number."""
        self._file.seek(begin)
        line = self._file.readline()
        numbered = _NUMBERED.match(line)
        return line if numbered is None else b"{" + line[numbered.end() :]

    def _spoil(self, begin: int) -> None:
        """Have a line passed over from now on."""
        self._file.seek(begin)
        self._file.write(_SPOILT)
        self._file.flush()


def _cut_half_line(path: Path) -> None:
    """Cut off what a run that was killed has left of a line."""
    with path.open("r+b") as file:
        begin = file.seek(0, os.SEEK_END)
        newline = -1
        while begin and newline < 0:
            begin = max(0, begin - _BLOCK)
            file.seek(begin)
            newline = file.read(_BLOCK).rfind(b"\n")
        file.truncate(begin + newline + 1)
