"""Folders of results, and files of inputs: on this machine, or wherever fsspec reaches (s3://, gs://, ...).

A file of results appears whole. On a disk it is written beside its place and renamed; an object store shows
an object when all of it is there.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, Protocol

from beamsplit import extras
from beamsplit.errors import ArgumentError

try:
    import fcntl
except ImportError:  # a system without locks of files
    fcntl = None  # type: ignore[assignment]

__all__ = ["Folder", "LocalFolder", "RemoteFolder", "filesystem_of", "is_remote", "open_folder"]

_TEMPORARY = "_beamsplit/tmp"
_USER = "decoding on several workers"


def is_remote(path: str) -> bool:
    """Tell whether this is a URL, and not a path of this machine.

    >>> is_remote("s3://bucket/in.jsonl"), is_remote("in.jsonl"), is_remote("file:///tmp/in.jsonl")
    (True, False, False)
    """
    scheme, separator, _ = path.partition("://")
    return bool(separator) and scheme.isidentifier() and scheme not in ("file", "local")


def filesystem_of(url: str) -> tuple[Any, str]:
    """Return the file system that a path or URL belongs to, and the path within it."""
    fsspec = extras.need("fsspec", _USER, "ray")
    try:
        filesystem, path = fsspec.core.url_to_fs(url)
    except ImportError as error:  # such as of s3fs
        raise ArgumentError(f"{url} cannot be reached: {error}") from error
    except (ValueError, OSError) as error:
        raise ArgumentError(f"{url} cannot be reached: {' '.join(str(error).split())}") from error
    return filesystem, str(path)


class Folder(Protocol):
    """A folder that results are written to. Names in it have "/" between their parts."""

    url: str

    def make(self) -> None:
        """Make the folder, if it is not there. Raise if nothing can be written to it."""

    def names(self, within: str = "") -> list[str]:
        """Return the names of files and folders in a folder of it, sorted; none if that is not there."""

    def size(self, name: str) -> int | None:
        """Return how many bytes a file has; None if it is not there."""

    def read(self, names: Sequence[str]) -> list[bytes]:
        """Return the contents of files."""

    def open(self, name: str) -> IO[bytes]:
        """Open a file to be read."""

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all that is in it, if it is there."""

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """Give a file of this machine to write to; at the end of the block, it gets its name at once."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs out for the length of a block, as far as the place knows locks."""


def open_folder(url: str) -> Folder:
    """Return a folder by its path or URL."""
    if is_remote(url):
        return RemoteFolder(url)
    return LocalFolder(url.removeprefix("file://").removeprefix("local://"))


@contextmanager
def _named_errors(name: object) -> Iterator[None]:
    """Raise what is wrong with a file, such as a full disk, as one line."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or " ".join(str(error).split()) or type(error).__name__
        raise ArgumentError(f"{name} cannot be written: {reason}") from error


class LocalFolder:
    """A folder of this machine, or of a disk in a network that all machines see."""

    def __init__(self, path: str) -> None:
        self._path = Path(path).absolute()
        self.url = str(self._path)

    def make(self) -> None:
        with _named_errors(self._path):
            (self._path / _TEMPORARY).mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self._path / _TEMPORARY):
                pass

    def names(self, within: str = "") -> list[str]:
        try:
            return sorted(os.listdir(self._path / within))
        except FileNotFoundError:
            return []
        except NotADirectoryError as error:
            raise ArgumentError(f"{self._path / within} is a file: give a folder") from error

    def size(self, name: str) -> int | None:
        try:
            return (self._path / name).stat().st_size
        except FileNotFoundError:
            return None

    def read(self, names: Sequence[str]) -> list[bytes]:
        return [(self._path / name).read_bytes() for name in names]

    def open(self, name: str) -> IO[bytes]:
        return (self._path / name).open("rb")

    def remove(self, name: str) -> None:
        path = self._path / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        path = self._path / name
        temporary = self._path / _TEMPORARY / f"{path.name}.{uuid.uuid4().hex}"
        with _named_errors(path):
            try:
                yield temporary
                with temporary.open("rb") as file:
                    os.fsync(file.fileno())
                path.parent.mkdir(parents=True, exist_ok=True)
                os.replace(temporary, path)
                _sync_folder(path.parent)
            finally:
                temporary.unlink(missing_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        if fcntl is None:
            yield
            return
        with _named_errors(self._path):
            file = (self._path / "_beamsplit" / "lock").open("a")
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ArgumentError(
                    f"{self._path} is being written by another run: wait for it, or give another --out"
                ) from error
            except OSError:  # a disk without locks, as some in a network
                pass
            yield


def _sync_folder(path: Path) -> None:
    """Have the names in a folder on the disk, where the system can do that."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)


class RemoteFolder:
    """A folder of an object store. It has no locks: two runs would write the same bytes."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._filesystem, path = filesystem_of(self.url)
        self._path = PurePosixPath(path)

    def make(self) -> None:
        with self._errors(""), self.writing("_beamsplit/begun") as file:
            file.write_bytes(b"\n")

    def names(self, within: str = "") -> list[str]:
        self._filesystem.invalidate_cache()
        try:
            found = self._filesystem.ls(self._at(within), detail=False)
        except FileNotFoundError:
            return []
        return sorted({PurePosixPath(each).name for each in found} - {PurePosixPath(within).name, ""})

    def size(self, name: str) -> int | None:
        try:
            return int(self._filesystem.size(self._at(name)))
        except FileNotFoundError:
            return None

    def read(self, names: Sequence[str]) -> list[bytes]:
        paths = [self._at(name) for name in names]
        if not paths:
            return []
        found = self._filesystem.cat(paths)  # those that can ask for many at once do
        if isinstance(found, bytes):
            return [found]
        by_path = {str(path).lstrip("/"): content for path, content in found.items()}
        return [by_path[path.lstrip("/")] for path in paths]

    def open(self, name: str) -> IO[bytes]:
        file: IO[bytes] = self._filesystem.open(self._at(name), "rb")
        return file

    def remove(self, name: str) -> None:
        try:
            self._filesystem.rm(self._at(name), recursive=True)
        except FileNotFoundError:
            pass

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="beamsplit-") as folder, self._errors(name):
            local = Path(folder) / PurePosixPath(name).name
            yield local
            self._filesystem.makedirs(self._at(str(PurePosixPath(name).parent)), exist_ok=True)
            self._filesystem.put_file(str(local), self._at(name))

    @contextmanager
    def locked(self) -> Iterator[None]:
        yield

    def _at(self, name: str) -> str:
        return str(self._path / name) if name else str(self._path)

    @contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        try:
            yield
        except ArgumentError:
            raise
        except Exception as error:  # each store has its own
            reason = " ".join(str(error).split()) or type(error).__name__
            raise ArgumentError(f"{self.url}/{name} cannot be written: {reason:.200}") from error
