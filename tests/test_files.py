"""Where data is, and files that cannot be read."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from beamsplit import ArgumentError, data
from beamsplit.data import data_folder, read_described


def _refused(path: Path, said: str) -> None:
    with pytest.raises(ArgumentError, match=re.escape(f"{path}{said}")) as caught:
        read_described(path)
    assert "\n" not in str(caught.value)


def test_the_public_names() -> None:
    assert sorted(data.__all__) == data.__all__
    assert all(hasattr(data, name) for name in data.__all__)


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    _refused(tmp_path / "a.jsonl", ": no such file, check the path")
    (tmp_path / "b.json").mkdir()
    _refused(tmp_path / "b.json", ": a folder, give a file in it")
    (tmp_path / "c.json").write_text("")
    _refused(tmp_path / "c.json" / "d.json", ": cannot be read (Not a directory)")


def test_broken_gzip(tmp_path: Path) -> None:
    path, packed = tmp_path / "a.jsonl.gz", gzip.compress(b'{"image": 1, "captions": ["a"]}')
    path.write_bytes(packed[:-9])
    _refused(path, ": broken gzip (Compressed file ended before the end-of-stream marker was reached): fetch")
    path.write_bytes(packed[:-8] + bytes(8))
    _refused(path, ": broken gzip (CRC check failed")
    path.write_bytes(packed[:10] + b"\xff" * 9)
    _refused(path, ": broken gzip (Error -3 while decompressing data")
    path.write_bytes(b"{}")
    _refused(path, ": not gzipped, though its name says so: rename it or fetch it again")


def test_gzip_is_known_without_its_name(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(gzip.compress(b'{"image": 1, "captions": ["a"]}'))
    assert read_described(tmp_path / "a.jsonl")[0].image == "1"


def test_text_that_is_not_utf_8_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(
        b'{"image": 1, "captions": ["a"]}\n{"image": 2, "captions": ["\xe9"]}\n'
    )
    _refused(tmp_path / "a.jsonl", ", line 2: not UTF-8, convert the file (iconv -t utf-8)")


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "marked"])
def test_a_byte_order_mark_is_passed_over(tmp_path: Path, mark: bytes) -> None:
    (tmp_path / "a.jsonl").write_bytes(mark + b'{"image": 1, "captions": ["a"]}')
    assert read_described(tmp_path / "a.jsonl")[0].image == "1"


def test_the_folder_given_goes_before_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "b").mkdir()
    monkeypatch.setenv("BEAMSPLIT_DATA", str(tmp_path))
    assert data_folder(None) == tmp_path
    assert data_folder(str(tmp_path / "b")) == tmp_path / "b"


def test_no_folder_is_refused_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BEAMSPLIT_DATA", raising=False)
    with pytest.raises(
        ArgumentError, match=r"^no data folder: give one as an option, or set BEAMSPLIT_DATA to it$"
    ):
        data_folder(None)
    missing = str(tmp_path / "x")
    said = re.escape(f" is {missing!r}, which is no folder: give one that exists")
    with pytest.raises(ArgumentError, match=f"^the data folder{said}$"):
        data_folder(missing)
    monkeypatch.setenv("BEAMSPLIT_DATA", missing)
    with pytest.raises(ArgumentError, match=f"^BEAMSPLIT_DATA{said}$"):
        data_folder(None)
