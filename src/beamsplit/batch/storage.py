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
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from beamsplit import extras
from beamsplit.errors import ArgumentError

try:
    import fcntl
except ImportError:  # a system without locks of files
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "Folder",
    "LocalFolder",
    "RemoteFolder",
    "filesystem_of",
    "is_remote",
    "local_path",
    "naming_errors",
    "open_folder",
]

_TEMPORARY = "_beamsplit/tmp"
_BEGUN = "_beamsplit/begun"
_CLAIM = "_beamsplit/run"
_LOCAL = ("file://", "local://")
_USER = "decoding on several workers"


def is_remote(path: str) -> bool:
    """Tell whether this is a URL, and not a path of this machine.

    >>> is_remote("s3://bucket/in.jsonl"), is_remote("in.jsonl"), is_remote("file:///tmp/in.jsonl")
    (True, False, False)
    """
    scheme, separator, _ = path.partition("://")
    return bool(separator) and scheme.isidentifier() and not path.startswith(_LOCAL)


def local_path(path: str) -> str:
    """Return a path of this machine from the root on; it may be given as a URL.

    >>> local_path("file:///tmp/in.jsonl")
    '/tmp/in.jsonl'
    """
    for scheme in _LOCAL:
        path = path.removeprefix(scheme)
    return os.path.abspath(path)


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

    def sizes(self) -> dict[str, int]:
        """Return how many bytes each of its own files has."""

    def read(self, names: Sequence[str]) -> list[bytes]:
        """Return the contents of files."""

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all that is in it, if it is there."""

    def remove_empty(self) -> None:
        """Remove the folder itself if nothing is in it."""

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """Give a file of this machine to write to; at the end of the block, it gets its name at once."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs out for the length of a block, as far as the place knows locks."""

    def claim(self) -> None:
        """Have what other runs write from now on refused, where the place knows no locks."""


def open_folder(url: str, run: str = "") -> Folder:
    """Return a folder by its path or URL.

    `run` tells one run from others. What a worker of an earlier run still writes is then never seen. On a
    disk, the place where it writes is removed before the next run begins. In a store, it looks for the name
    of its own run before it writes.
    """
    return RemoteFolder(url, run) if is_remote(url) else LocalFolder(local_path(url), run)


@contextmanager
def naming_errors(name: object) -> Iterator[None]:
    """Raise what is wrong with a file that is written, such as a full disk, as one line."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or " ".join(str(error).split()) or type(error).__name__
        raise ArgumentError(f"{name} cannot be written: {reason}") from error


class LocalFolder:
    """A folder of this machine, or of a disk in a network that all machines see."""

    def __init__(self, path: str, run: str = "") -> None:
        self._path = Path(path)
        self._temporary = self._path / _TEMPORARY / run
        self.url = str(self._path)

    def make(self) -> None:
        with naming_errors(self._path):
            self._temporary.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self._temporary) as file:
                file.write(b"\n")

    def names(self, within: str = "") -> list[str]:
        try:
            return sorted(os.listdir(self._path / within))
        except FileNotFoundError:
            return []
        except NotADirectoryError as error:
            raise ArgumentError(f"{self._path / within} is a file: give a folder") from error
        except OSError as error:
            raise ArgumentError(f"{self._path / within} cannot be read: {error.strerror}") from error

    def sizes(self) -> dict[str, int]:
        with os.scandir(self._path) as found:
            return {each.name: each.stat().st_size for each in found if each.is_file()}

    def read(self, names: Sequence[str]) -> list[bytes]:
        return [(self._path / name).read_bytes() for name in names]

    def remove(self, name: str) -> None:
        path = self._path / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    def remove_empty(self) -> None:
        with suppress(OSError):  # something is in it
            self._path.rmdir()

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        path = self._path / name
        temporary = self._temporary / f"{path.name}.{uuid.uuid4().hex}"
        try:
            yield temporary
            with naming_errors(path):
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
        with naming_errors(self._path):
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

    def claim(self) -> None:
        """Do nothing: the lock is enough."""


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
    """A folder of an object store. It has no locks: of two runs, the one that began last goes on."""

    def __init__(self, url: str, run: str = "") -> None:
        self.url = url.rstrip("/")
        self._run = run.encode()
        self._filesystem, path = filesystem_of(self.url)
        self._path = PurePosixPath(path)

    def make(self) -> None:
        with self.writing(_BEGUN) as file:  # or all that follows would be for nothing
            file.write_bytes(b"\n")

    def names(self, within: str = "") -> list[str]:
        return sorted(self._listed(within))

    def sizes(self) -> dict[str, int]:
        return self._listed("")

    def _listed(self, within: str) -> dict[str, int]:
        """Return what is in a folder by name, and how many bytes each has.

        An object that stands for the folder itself, as consoles of stores make one, is none of it.
        """
        self._filesystem.invalidate_cache()
        with self._errors(within, "read"):
            try:
                found = self._filesystem.ls(self._at(within), detail=True)
            except FileNotFoundError:
                return {}
        own = _parts(self._at(within))
        paths = [(_parts(each["name"]), int(each.get("size") or 0)) for each in found]
        return {parts[-1]: size for parts, size in paths if parts != own}

    def read(self, names: Sequence[str]) -> list[bytes]:
        paths = [self._at(name) for name in names]
        if not paths:
            return []
        with self._errors(names[0], "read"):
            found = self._filesystem.cat(paths)  # those that can ask for many at once do
        if isinstance(found, bytes):
            return [found]
        by_path = {_parts(path): content for path, content in found.items()}
        return [by_path[_parts(path)] for path in paths]

    def remove(self, name: str) -> None:
        self._filesystem.invalidate_cache()  # or what other processes have written would stay
        with self._errors(name, "removed"), suppress(FileNotFoundError):
            self._filesystem.rm(self._at(name), recursive=True)

    def remove_empty(self) -> None:
        """Do nothing: a store has no folders."""

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="beamsplit-") as folder:
            local = Path(folder) / PurePosixPath(name).name
            yield local
            if name not in (_BEGUN, _CLAIM) and not self._is_ours():
                raise ArgumentError(
                    f"{self.url} has been taken over by another run: wait for it, or give another --out"
                )
            with self._errors(name, "written"):
                # This makes folders where a place has them. Nothing else may: s3fs would make a bucket.
                self._filesystem.put_file(str(local), self._at(name))

    @contextmanager
    def locked(self) -> Iterator[None]:
        yield

    def claim(self) -> None:
        with self.writing(_CLAIM) as file:
            file.write_bytes(self._run)

    def _is_ours(self) -> bool:
        """Tell whether no other run has claimed the folder since."""
        if not self._run:
            return True
        with self._errors(_CLAIM, "read"):
            try:
                return bool(self._filesystem.cat_file(self._at(_CLAIM)) == self._run)
            except FileNotFoundError:
                return False

    def _at(self, name: str) -> str:
        return str(self._path / name) if name else str(self._path)

    @contextmanager
    def _errors(self, name: str, done: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # each store has its own
            reason = " ".join(str(error).split()) or type(error).__name__
            raise ArgumentError(f"{self.url}/{name} cannot be {done}: {reason:.200}") from error


def _parts(path: str) -> tuple[str, ...]:
    """Return the names of a path in a store, which may begin or end with "/"."""
    return tuple(part for part in str(path).split("/") if part)
