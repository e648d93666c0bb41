"""Pictures: in memory alone, of a size that can be borne, and painted ones that the captioner understands."""

from __future__ import annotations

import builtins
import os
import struct
import tempfile
import time
import warnings
import zlib
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import beamsplit
from beamsplit.comparison import compare_lists
from beamsplit.models.scenes import SCENES, painted
from beamsplit.strategies.defaults import DEFAULTS
from beamsplit.strategies.spec import StrategySpec
from beamsplit.web import DemoLimits, DemoSettings
from beamsplit.web.pictures import picture_features
from beamsplit.web.samples import SamplePictures
from web.doubles import SHARED, app_with, client_of, encoded, picture

pytest.importorskip("PIL", reason="pictures need Pillow")
pytest.importorskip("efficientnet_lite_pytorch", reason="pictures need '.[vision]'")


@pytest.fixture(scope="module")
def client() -> TestClient:
    return client_of(app_with())


def ask(client: TestClient, data: bytes | str, model: str = "captioner") -> Any:
    text = data if isinstance(data, str) else encoded(data)
    return client.post("/api/decode", json={"model": model, "picture": {"data": text}})


def refused(client: TestClient, status: int, data: bytes | str) -> str:
    answer = ask(client, data)
    assert answer.status_code == status, answer.text
    line: str = answer.json()["error"]
    assert "\n" not in line
    return line


def header_of_png(width: int, height: int) -> bytes:
    """A file that promises so many pixels, and has none."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 1_000))


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


@pytest.mark.parametrize("model", ["captioner", "questioner"])
def test_a_picture_is_described_as_the_library_does(client: TestClient, tmp_path: Path, model: str) -> None:
    file = tmp_path / "one.jpg"
    file.write_bytes(picture(kind="JPEG"))
    network = SHARED(model)
    lists = []
    for name in ("bs", "branching"):
        each = StrategySpec.of_widths(name, DEFAULTS[model].widths)
        (found,) = beamsplit.decode(network, [str(file)], each.make(network), max_length=20)
        lists.append((each.title, found))
    texts = [column.hypotheses.texts for column in compare_lists(lists)]
    answer = ask(client, file.read_bytes(), model).json()
    assert [tuple(each["text"] for each in column["hypotheses"]) for column in answer["columns"]] == texts


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "WEBP"])
def test_kinds_of_files(client: TestClient, kind: str) -> None:
    assert ask(client, picture(kind=kind)).status_code == 200


@pytest.mark.parametrize(
    ("data", "line"),
    [
        ("äöü", "picture.data is not base64: send the file's bytes as base64"),
        ("abc", "picture.data is not base64: send the file's bytes as base64"),
        ("data:image/png;base64,aaaa", "picture.data is not base64: send the file's bytes as base64"),
        ("", "the picture is not a JPEG, PNG, WebP, GIF or BMP file: save it as one of them"),
        (
            b"%!PS-Adobe-3.0 EPSF-3.0\n",
            "the picture is not a JPEG, PNG, WebP, GIF or BMP file: save it as one of them",
        ),
        (header_of_png(60_000, 60_000), "the picture has far too many pixels: make it smaller first"),
        (header_of_png(10_000, 10_000), "the picture has far too many pixels: make it smaller first"),
        (
            header_of_png(8_000, 8_000),
            "the picture has 8000x8000 pixels, and the limit is 32 million: make it smaller first",
        ),
    ],
)
def test_what_is_no_picture(client: TestClient, data: bytes | str, line: str) -> None:
    assert refused(client, 422, data) == line


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP"])
@pytest.mark.parametrize("share", [0.2, 0.6, 0.95])
def test_a_file_that_was_cut_off(client: TestClient, kind: str, share: float) -> None:
    whole = picture(300, 200, kind)
    answer = ask(client, whole[: int(len(whole) * share)])
    assert answer.status_code in (200, 422)  # some formats can do without their last bytes
    if answer.status_code == 422:
        assert answer.json()["error"].startswith("the picture is ")


def test_a_photo_of_24_megapixels_is_not_too_large(client: TestClient) -> None:
    """Telephones take such photos. This file is only a header."""
    assert "damaged" in refused(client, 422, header_of_png(5_712, 4_284))


def test_a_jpeg_of_many_scans(client: TestClient) -> None:
    """Each of them could make work for the whole picture, in a few bytes."""
    whole = picture(kind="JPEG", progressive=True)
    scans = whole.count(b"\xff\xda")
    assert scans > 1
    assert ask(client, whole + b"\xff\xda" * (100 - scans)).status_code == 200
    line = "the picture is a JPEG of 101 scans, more than 100: save it again"
    assert refused(client, 422, whole + b"\xff\xda" * (101 - scans)) == line
    assert ask(client, picture(kind="PNG") + b"\xff\xda" * 101).status_code == 200


def test_no_warning_tells_the_size_of_a_picture(client: TestClient) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        refused(client, 422, header_of_png(10_000, 10_000))
    assert not told


def test_the_time_that_a_picture_takes_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*given: Any) -> Any:
        time.sleep(0.3)
        return picture_features(*given)

    monkeypatch.setattr("beamsplit.web.jobs.picture_features", slow)
    short = client_of(app_with(seconds=0.2))
    answer = short.post("/api/search", json={"model": "captioner", "picture": {"sample": "boat"}})
    assert answer.status_code == 503  # and no step was told of


def test_limits_of_pictures() -> None:
    data = picture(100, 100)
    small = client_of(app_with(picture_bytes=len(data) - 1))
    line = f"the picture is larger than {len(data) - 1:,} bytes: send a smaller one, or a JPEG"
    assert refused(small, 413, data) == line
    assert ask(client_of(app_with(picture_bytes=len(data), pixels=10_000)), data).status_code == 200
    few = client_of(app_with(pixels=9_999))
    assert refused(few, 422, data).startswith(
        "the picture has 100x100 pixels, and the limit is 0.009999 million"
    )


def test_a_picture_never_touches_the_disk(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even one of more than a megabyte, which upload forms would write to a file."""
    from PIL import Image

    side = 1_100
    noise = Image.frombytes("RGB", (side, side), os.urandom(side * side * 3))
    data = _saved(noise)
    assert len(data) > 3_000_000
    assert ask(client, picture()).status_code == 200  # whatever is read on the way has been read

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a file was made")

    kept_open, kept_os_open = builtins.open, os.open

    def only_reading(file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
        return refuse() if set(mode) & set("wax+") else kept_open(file, mode, *args, **options)

    def only_reading_os(path: Any, flags: int, *args: Any, **options: Any) -> int:
        return (
            refuse()
            if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            else kept_os_open(path, flags, *args, **options)
        )

    for name in ("TemporaryFile", "NamedTemporaryFile", "SpooledTemporaryFile", "mkstemp", "mkdtemp"):
        monkeypatch.setattr(tempfile, name, refuse)
    monkeypatch.setattr(builtins, "open", only_reading)
    monkeypatch.setattr(os, "open", only_reading_os)
    answer = ask(client, data)
    monkeypatch.undo()
    assert answer.status_code == 200, answer.text


def _saved(image: Any) -> bytes:
    import io

    file = io.BytesIO()
    image.save(file, "PNG", compress_level=0)
    return file.getvalue()


# Samples


@pytest.mark.parametrize(
    ("name", "word"), [("boat", "boat"), ("pizza", "pizza"), ("bus", "bus"), ("clock", "clock tower")]
)
def test_the_captioner_knows_what_was_painted(client: TestClient, name: str, word: str) -> None:
    answer = client.post("/api/decode", json={"model": "captioner", "picture": {"sample": name}}).json()
    texts = [each["text"] for column in answer["columns"] for each in column["hypotheses"]]
    assert sum(word in text for text in texts) > len(texts) / 3, texts


def test_sample_pictures_are_served(client: TestClient) -> None:
    listed = client.get("/api/models").json()["pictures"]
    assert [each["name"] for each in listed] == list(SCENES)
    for each in listed:
        answer = client.get(each["address"])
        assert answer.headers["content-type"] == "image/png"
        assert answer.content.startswith(b"\x89PNG")


def test_a_scene_is_the_same_every_time() -> None:
    before = painted("boat")
    painted.cache_clear()
    assert painted("boat") == before


def test_a_folder_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "my dog#1.jpg").write_bytes(picture(kind="JPEG"))
    (tmp_path / "notes.txt").write_text("secret")
    (tmp_path / "sub.png").mkdir()
    client = client_of(app_with(settings=DemoSettings(pictures=tmp_path, limits=DemoLimits())))
    first, *others = client.get("/api/models").json()["pictures"]
    assert first == {"name": "my dog#1.jpg", "title": "my dog#1", "address": "/api/pictures/my%20dog%231.jpg"}
    assert [each["name"] for each in others] == list(SCENES)
    assert client.get(first["address"]).headers["content-type"] == "image/jpeg"
    for outside in ("notes.txt", "..%2Fnotes.txt", "%2Fetc%2Fpasswd", "sub.png"):
        assert client.get(f"/api/pictures/{outside}").status_code == 404
    assert SamplePictures(tmp_path).names() == ["my dog#1.jpg", *SCENES]
