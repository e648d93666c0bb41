"""Inputs of a study, and pictures small enough to be stored with it."""

from __future__ import annotations

import io
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from beamsplit import extras
from beamsplit.errors import ArgumentError
from beamsplit.models.vision import PIXEL_LIMIT, open_picture, quiet

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["SIDE", "Source", "to_jpeg"]

SIDE = 800
"""The longest side of a stored picture, in pixels."""

_QUALITY = 85


@dataclass(frozen=True)
class Source:
    """What the files say about an input."""

    text: str = ""
    image: Path | None = None
    complexity: float | None = None
    difficulty: float | None = None

    def completed(self, other: Source) -> Source:
        """Return a copy with missing values taken from another source."""
        names = [each.name for each in fields(self)]
        known = {name: getattr(self, name) for name in names}
        return Source(**{n: getattr(other, n) if known[n] in (None, "") else known[n] for n in names})


def to_jpeg(path: Path) -> bytes:
    """Return the picture upright, on white, small, and without metadata such as where it was taken."""
    extras.need("PIL", "a study of pictures", "study")
    from PIL import Image, ImageOps

    try:
        with quiet, open_picture(path) as image:
            _check_size(path, *image.size)
            upright = _on_white(ImageOps.exif_transpose(image))
    except ArgumentError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise _too_large(path, "too many pixels") from error
    except Exception as error:  # decoders raise nearly anything at damaged data
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ArgumentError(f"{path} cannot be read as a picture: {reason}"[:300]) from error
    upright.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    upright.save(buffer, "JPEG", quality=_QUALITY, optimize=True)
    return buffer.getvalue()


def _on_white(image: Image.Image) -> Image.Image:
    from PIL import Image

    if image.has_transparency_data:
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image.convert("RGBA"))
    return image.convert("RGB")


def _check_size(path: Path, width: int, height: int) -> None:
    if width * height > PIXEL_LIMIT:
        raise _too_large(path, f"{width}x{height} pixels")


def _too_large(path: Path, what: str) -> ArgumentError:
    limit = PIXEL_LIMIT // 10**6
    return ArgumentError(f"{path} has {what}, and the limit is {limit} million: make it smaller")
