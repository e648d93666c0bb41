"""Pictures to begin with: little scenes, and a folder of the user's own."""

from __future__ import annotations

from pathlib import Path

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.models.scenes import SCENES, painted
from beamsplit.web.problems import Problem

__all__ = ["KINDS", "SamplePictures"]

KINDS = ("image/jpeg", "image/png", "image/webp", "image/gif")
_KINDS = {".jpg": KINDS[0], **{f".{kind.removeprefix('image/')}": kind for kind in KINDS}}


class SamplePictures:
    """Sample pictures by name: the scenes, and the pictures of a folder, as they are in it now."""

    def __init__(self, folder: Path | None = None) -> None:
        if folder is not None and not folder.is_dir():
            raise ArgumentError(f"there is no folder {folder}: --pictures takes one with JPEG or PNG files")
        self._folder = folder

    def names(self) -> list[str]:
        return [*sorted(self._files()), *SCENES]

    def read(self, name: str) -> tuple[bytes, str]:
        """The file, and its media type."""
        files = self._files()
        if name in files:
            return files[name].read_bytes(), _KINDS[files[name].suffix.lower()]
        if name in SCENES:
            return painted(name), "image/png"
        names = [*files, *SCENES]
        hint = checks.nearest(name, names, f"there are {', '.join(names[:10])}")
        raise Problem(404, f"there is no sample picture {checks.shown(name)}: {hint}")

    def _files(self) -> dict[str, Path]:
        found = self._folder.iterdir() if self._folder is not None else ()
        return {each.name: each for each in found if each.suffix.lower() in _KINDS and each.is_file()}
