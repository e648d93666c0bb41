"""Pictures that people send: from base64 to features, without touching the disk."""

from __future__ import annotations

import base64
import binascii
import io
from typing import TYPE_CHECKING

from torch import Tensor

from beamsplit import extras
from beamsplit.models import vision
from beamsplit.web.limits import DemoLimits
from beamsplit.web.problems import Problem

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["decode_base64", "picture_features"]

# Some of Pillow's other readers start programs, and few people send pictures that need them.
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP")
_SCAN = b"\xff\xda"  # the marker at which a scan of a JPEG begins; it cannot occur in pixel data
_MAX_SCANS = 100  # few JPEGs have more than ten


def decode_base64(text: str, limits: DemoLimits) -> bytes:
    if len(text) * 3 // 4 > limits.picture_bytes + 2:  # the last two characters may be padding
        raise _too_large(limits)
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Problem(422, "picture.data is not base64: send the file's bytes as base64") from error
    if len(data) > limits.picture_bytes:
        raise _too_large(limits)
    return data


def picture_features(data: bytes, limits: DemoLimits) -> Tensor:
    """Return the features of a picture, [1 1280]."""
    extras.need("PIL", "a picture", "vision")
    with _open(data) as image:
        if image.width * image.height > limits.pixels:
            raise _too_many_pixels(f"{image.width}x{image.height}", limits)
        _check_scans(data, image.format)
        image.filename = ""  # type: ignore[attr-defined]  # so that errors do not name a file
        return vision.features([image])


def _check_scans(data: bytes, kind: str | None) -> None:
    """Refuse progressive JPEGs of many scans, each of which costs a pass over the whole picture."""
    if kind in ("JPEG", "MPO") and (scans := data.count(_SCAN)) > _MAX_SCANS:
        raise Problem(422, f"the picture is a JPEG of {scans:,} scans, more than {_MAX_SCANS}: save it again")


def _open(data: bytes) -> Image.Image:
    """Open a picture. Only its header is read."""
    from PIL import Image

    try:
        with vision.quiet:  # a warning would write the size of the picture to the log
            return Image.open(io.BytesIO(data), formats=_FORMATS)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise Problem(422, "the picture has far too many pixels: make it smaller first") from error
    except Exception as error:  # decoders raise nearly anything
        raise Problem(
            422, "the picture is not a JPEG, PNG, WebP, GIF or BMP file: save it as one of them"
        ) from error


def _too_large(limits: DemoLimits) -> Problem:
    return Problem(
        413, f"the picture is larger than {limits.picture_bytes:,} bytes: send a smaller one, or a JPEG"
    )


def _too_many_pixels(size: str, limits: DemoLimits) -> Problem:
    most = f"{limits.pixels / 1e6:g} million"
    return Problem(422, f"the picture has {size} pixels, and the limit is {most}: make it smaller first")
