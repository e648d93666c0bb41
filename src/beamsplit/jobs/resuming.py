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
from io import FileIO
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

__all__ = ["PartialResult", "difference", "to_json"]

_SYNC = 5.0  # seconds after which what is written must be on the disk
_NUMBERED = re.compile(rb'\{"line": (\d+), ')
_UNNUMBERED = b'{"id": '  # as parts were written at first, in the order of their lines
_BLOCK = 1 << 16
_REPLACES = "replaces"  # in the note of a part that was begun by force
_SPOILT = b"#"  # the first byte of a line that is passed over


class PartialResult:
    """A part of a result in a file, and a note beside it of the settings that it was begun with."""

    unit = "a batch was done; nothing is kept (a smaller --batch-size is done sooner)"
    """What a run that has kept nothing says."""

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

    @property
    def replaces(self) -> bool:
        """Whether it was begun to take the place of a result that is there."""
        return bool(self._read_note().get(_REPLACES))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs from writing to it for the length of a block; leave nothing that is empty."""
        with self._lock():
            try:
                yield
            finally:
                if self.is_empty:
                    self._remove()

    def _lock(self) -> IO[str]:
        while True:
            try:
                note = self._note.open("a")
            except OSError as error:
                raise ArgumentError(f"{self.out} cannot be written: {error.strerror}") from error
            try:
                _flock(note)
                if os.path.samestat(os.fstat(note.fileno()), os.stat(self._note)):
                    return note
            except BlockingIOError as error:
                note.close()
                raise ArgumentError(
                    f"{self.path} is being written by another run: wait for it, or give another file"
                ) from error
            except FileNotFoundError:
                pass
            note.close()  # of another run, which has just ended and removed it

    def resume(self, settings: dict[str, Any], force: bool) -> None:
        """Prepare to go on from an earlier run with these settings; `force` starts over."""
        now, before = json.loads(json.dumps(settings)), self._read_note()
        before.pop(_REPLACES, None)
        if force or not self.path.exists() or not (before or self._note.stat().st_size):
            self.path.write_bytes(b"")
            self._write_note({**now, _REPLACES: True} if force else now)
        elif before != now:
            raise ArgumentError(
                f"{self.path} was begun with other settings ({difference(before, now)}): "
                f"give those, {self._instead}"
            )
        else:
            _cut_half_line(self.path)

    def _read_note(self) -> dict[str, Any]:
        try:
            found = json.loads(self._note.read_bytes())
        except (OSError, ValueError):  # not there, empty, or spoilt
            return {}
        return found if isinstance(found, dict) else {}

    def _write_note(self, content: dict[str, Any]) -> None:
        with self._note.open("wb") as file:
            file.write(json.dumps(content).encode())
            _sync(file)

    def known_lines(self, lines: Iterable[InputLine]) -> Iterator[KnownLine]:
        """Tell of each line whether its result is there. Raise if that was begun with other inputs."""
        with _StoredLines(self.path) as stored:
            for line in lines:
                entry = stored.entry(line.number)
                if entry is None:
                    yield KnownLine(line)
                else:
                    self._check_same(line, entry)
                    yield KnownLine(line, True, "error" in entry, entry)

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
        with self.path.open("ab", buffering=0) as file:
            writer = _Writer(file)
            try:
                yield writer
            finally:
                writer.sync()

    def finish(self, numbers: Iterable[int]) -> None:
        """Put the results of these lines in order, and give the file its name, since it is whole."""
        ordered = self.out.with_name(f"{self.out.name}.part.ordered")
        try:
            with _named_errors(ordered), _StoredLines(self.path) as stored, ordered.open("wb") as file:
                for number in numbers:
                    line = stored.take(number)
                    assert line is not None, f"line {number} has no result"
                    file.write(line)
                _sync(file)
            os.replace(ordered, self.out)
        finally:
            ordered.unlink(missing_ok=True)
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

    def __init__(self, file: FileIO) -> None:
        self._file = file
        self._synced = monotonic()

    def write(self, results: Iterable[LineResult]) -> None:
        """Write results so that they outlive this program, and every few seconds so that they outlive all."""
        lines = (f'{{"line": {each.number + 1}, {to_json(each.result)[1:]}' for each in results)
        rest = memoryview("".join(lines).encode())
        with _named_errors(self._file.name):
            while rest:
                rest = rest[self._file.write(rest) :]
        if monotonic() - self._synced > _SYNC:
            self.sync()

    def sync(self) -> None:
        """Have what is written on the disk."""
        with _named_errors(self._file.name):
            os.fsync(self._file.fileno())
        self._synced = monotonic()


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


@contextmanager
def _named_errors(name: object) -> Iterator[None]:
    """Raise what is wrong with a file that is written, such as a full disk, as one line."""
    try:
        yield
    except OSError as error:
        raise ArgumentError(f"{name} cannot be written: {error.strerror}") from error


def _flock(file: IO[str]) -> None:
    """Lock a file; raise BlockingIOError if another run has it."""
    if fcntl is None:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:  # a disk without locks, as some in a network
        pass


def difference(before: Any, now: Any, name: str = "") -> str:
    """Say where two settings differ first.

    >>> difference({"seed": 0, "methods": [{"groups": 2}]}, {"seed": 0, "methods": [{"groups": 3}]})
    'groups: 2, now 3'
    """
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now) == 1:
        return difference(before[0], now[0], name)
    if isinstance(before, dict) and isinstance(now, dict):
        names = [*before, *(key for key in now if key not in before)]
        changed = next(key for key in names if before.get(key) != now.get(key))
        return difference(before.get(changed), now.get(changed), changed)
    return f"{name}: {json.dumps(before):.60}, now {json.dumps(now):.60}"


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
