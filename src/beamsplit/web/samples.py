"""Sample pictures: drawn scenes, and the pictures of a folder."""

from __future__ import annotations

from pathlib import Path

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.models.scenes import SCENES, painted
from beamsplit.web.problems import Problem

__all__ = ["MEDIA_TYPES", "SamplePictures"]

MEDIA_TYPES = ("image/jpeg", "image/png", "image/webp", "image/gif")
_BY_SUFFIX = {".jpg": MEDIA_TYPES[0], **{f".{kind.removeprefix('image/')}": kind for kind in MEDIA_TYPES}}


class SamplePictures:
    """Sample pictures by name: the scenes, and the pictures that a folder has at the moment."""

    def __init__(self, folder: Path | None = None) -> None:
        if folder is not None and not folder.is_dir():
            raise ArgumentError(f"there is no folder {folder}: --pictures takes one with JPEG or PNG files")
        self._folder = folder

    def names(self) -> list[str]:
        return [*sorted(self._files()), *SCENES]

    def read(self, name: str) -> tuple[bytes, str]:
        """Return the content of the file and its media type."""
        files = self._files()
        if name in files:
            return files[name].read_bytes(), _BY_SUFFIX[files[name].suffix.lower()]
        if name in SCENES:
            return painted(name), "image/png"
        names = [*files, *SCENES]
        hint = checks.nearest(name, names, f"there are {', '.join(names[:10])}")
        raise Problem(404, f"there is no sample picture {checks.short_repr(name)}: {hint}")

    def _files(self) -> dict[str, Path]:
        found = self._folder.iterdir() if self._folder is not None else ()
        return {each.name: each for each in found if each.suffix.lower() in _BY_SUFFIX and each.is_file()}
