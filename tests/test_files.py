"""Files: what cannot be read is refused in a line that names it, and what is written is whole."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beamsplit import ArgumentError
from beamsplit.files import (
    TextLine,
    json_object,
    read_bytes,
    read_json_lines,
    read_json_objects,
    read_lines,
    read_text,
    stream_lines,
    write_bytes,
)

EXAMPLE = '{"input": ...}'


def _refused(read: Callable[[Path], Any], path: Path, message: str) -> None:
    with pytest.raises(ArgumentError, match=f"^{re.escape(f'{path}{message}')}") as caught:
        list(read(path))
    assert "\n" not in str(caught.value)


def objects(path: Path) -> list[Any]:
    return list(read_json_objects(path, EXAMPLE))


# Reading


@pytest.mark.parametrize("read", [read_bytes, read_text, read_lines, read_json_lines, objects])
def test_a_missing_file_and_a_folder(read: Callable[[Path], Any], tmp_path: Path) -> None:
    _refused(read, tmp_path / "a.jsonl", " cannot be read: No such file or directory")
    (tmp_path / "b.json").mkdir()
    _refused(read, tmp_path / "b.json", " cannot be read: Is a directory")
    (tmp_path / "c.json").write_text("")
    _refused(read, tmp_path / "c.json" / "d.json", " cannot be read: Not a directory")


def test_broken_gzip(tmp_path: Path) -> None:
    path, packed = tmp_path / "a.jsonl.gz", gzip.compress(b'{"image": 1, "captions": ["a"]}')
    path.write_bytes(packed[:-9])
    ended = "Compressed file ended before the end-of-stream marker was reached (fetch it again)"
    _refused(read_text, path, f" is a broken gzip file: {ended}")
    path.write_bytes(packed[:-8] + bytes(8))
    _refused(read_text, path, " is a broken gzip file: CRC check failed")
    path.write_bytes(packed[:10] + b"\xff" * 9)
    _refused(read_text, path, " is a broken gzip file: Error -3 while decompressing data")
    path.write_bytes(b"{}")
    _refused(read_text, path, " is not gzipped, though its name says so: rename it or fetch it again")


def test_gzip_is_known_without_its_name(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(gzip.compress(b"text"))
    assert read_text(tmp_path / "a.txt") == "text"


def test_text_that_is_not_utf_8_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"image": 1}\n{"image": "\xe9"}\n')
    message = ", line 2 is not UTF-8: convert the file (iconv -t utf-8)"
    for read in (read_text, read_json_lines):
        _refused(read, tmp_path / "a.jsonl", message)


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "marked"])
def test_a_byte_order_mark_is_passed_over(tmp_path: Path, mark: bytes) -> None:
    (tmp_path / "a.jsonl").write_bytes(mark + b'{"image": 1}')
    assert objects(tmp_path / "a.jsonl") == [(f"{tmp_path / 'a.jsonl'}, line 1", {"image": 1})]


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("", []),
        ("a\nb", ["a", "b"]),
        ("a\r\n\r\nb\r\n", ["a", "", "b"]),
        ("a\u2028b\x85c\nd\n", ["a\u2028b\x85c", "d"]),  # separators inside a text
    ],
)
def test_lines(tmp_path: Path, content: str, lines: list[str]) -> None:
    (tmp_path / "a.txt").write_bytes(content.encode())
    assert read_lines(tmp_path / "a.txt") == lines


# Lines one at a time


def lines_of(content: bytes) -> list[TextLine]:
    return list(stream_lines(io.BytesIO(content), "the file"))


def test_every_line_has_its_number() -> None:
    content = b"\xef\xbb\xbfone\r\n\n  two\rhalf \ncaf\xe9 \xff\n\xe2\x80\xa8three\xc2\x85four"
    assert lines_of(content) == [
        TextLine(1, "one"),
        TextLine(2, ""),
        TextLine(3, "two\rhalf"),
        TextLine(
            4,
            "caf\ufffd \ufffd",
            "is not UTF-8 (byte 4 is 0xe9): convert the file (iconv -f latin1 -t utf-8)",
        ),
        TextLine(5, "three\x85four"),
    ]
    assert lines_of(b"") == []


def test_lines_come_when_they_are_there() -> None:
    """A pipe is not read to its end first."""
    read, write = os.pipe()
    with open(read, "rb") as pipe, open(write, "wb", buffering=0) as sender:
        lines = stream_lines(pipe, "the pipe")
        sender.write(b"one\n")
        assert next(lines).text == "one"
        sender.write(b"two\n")
        assert next(lines).text == "two"


def test_compressed_lines() -> None:
    content = b"one\n" * 100_000
    assert lines_of(gzip.compress(content[:8]) + gzip.compress(content[8:])) == lines_of(content)
    for cut in (gzip.compress(content)[:-9], gzip.compress(content)[:-8] + bytes(8)):
        with pytest.raises(ArgumentError, match=r"^the file is a broken gzip file: .* \(fetch it again\)$"):
            lines_of(cut)


def test_zstd(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    content = b"one\n" * 100_000
    packed: bytes = zstandard.compress(content)
    assert lines_of(packed + packed) == lines_of(content + content)
    (tmp_path / "a.zst").write_bytes(packed)
    assert read_bytes(tmp_path / "a.zst") == content
    with pytest.raises(
        ArgumentError, match=r"^the file is a broken zstd file: it ends in the middle \(fetch"
    ):
        lines_of(packed[:-5])
    with pytest.raises(ArgumentError, match=r"^the file is a broken zstd file: .+ \(fetch it again\)$"):
        lines_of(packed[:4] + b"\xff" * 20)


def test_zstd_without_a_package_that_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("compression.zstd", "zstandard"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ArgumentError) as caught:
        lines_of(b"\x28\xb5\x2f\xfd rest")
    assert str(caught.value) == (
        "the file is compressed by zstd, which needs a package: "
        "pip install zstandard, or unpack it first (unzstd)"
    )


NO_TEXT = {
    "a zip archive, not lines of text: unpack it first (unzip)": b"PK\x03\x04...",
    "compressed by bzip2: unpack it first (bunzip2)": bz2.compress(b"text"),
    "compressed by xz: unpack it first (unxz)": lzma.compress(b"text"),
    "a PDF, not lines of text: convert it first (pdftotext)": b"%PDF-1.7",
    "a picture, not lines of text: write its path on a line of a text file": b"\xff\xd8\xff\xe0...",
    "UTF-16 text, not UTF-8: convert it first (iconv -f utf-16 -t utf-8)": "text".encode("utf-16"),
    "binary (it has zero bytes), not lines of text: give a text file": b"\x7fELF\x02\0",
}


@pytest.mark.parametrize("what", NO_TEXT)
def test_what_is_no_text_is_named(what: str) -> None:
    for content in (NO_TEXT[what], gzip.compress(NO_TEXT[what])):
        with pytest.raises(ArgumentError) as caught:
            lines_of(content)
        assert str(caught.value) == f"the file is {what}"


# JSON


def test_values_come_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('\n{"a": 1}\n  \n[2]\n', encoding="utf-8")
    found = list(read_json_lines(path))
    assert found == [(f"{path}, line 2", {"a": 1}), (f"{path}, line 4", [2])]
    assert [where.line_index for where, _ in found] == [1, 3]


REFUSED = [
    ("{", " is not JSON: Expecting property name enclosed in double quotes at column 2"),
    ("{}{", " is not JSON: Extra data at column 3"),
    ("[" * 99999, " is JSON that cannot be read: maximum recursion depth"),
    ("9" * 5000, " is JSON that cannot be read: Exceeds the limit"),
    ("[1]", f" is not a JSON object: give {EXAMPLE}"),
]


@pytest.mark.parametrize(("line", "message"), REFUSED, ids=range(len(REFUSED)))
def test_lines_that_are_no_objects(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"a": 1}}\n{line}\n', encoding="utf-8")
    _refused(objects, path, f", line 2{message}")
    with pytest.raises(ArgumentError, match=f"^here{re.escape(message)}"):
        json_object(line, "here", EXAMPLE)


def test_a_file_without_objects(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(" \n\n", encoding="utf-8")
    _refused(objects, tmp_path / "a.jsonl", f" is empty: give lines of {EXAMPLE}")


# Writing


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_bytes(tmp_path / "file", b"old")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ArgumentError, match="cannot be written: No space left"):
        write_bytes(tmp_path / "file", b"new")
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


def test_a_file_is_replaced(tmp_path: Path) -> None:
    for content in (b"old and long", b"new"):
        write_bytes(tmp_path / "file", content)
    assert (tmp_path / "file").read_bytes() == b"new"
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_what_cannot_be_written_is_said_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    with pytest.raises(ArgumentError, match=r"file/x cannot be written: .* \(give another place\)$"):
        write_bytes(tmp_path / "file" / "x", b"content")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ArgumentError, match=r"folder cannot be written: Is a directory"):
        write_bytes(tmp_path / "folder", b"content")
    assert {each.name for each in tmp_path.iterdir()} == {"file", "folder"}


def test_files_need_no_torch() -> None:
    """The command line reads its inputs before it has loaded any model."""
    code = "import sys; sys.modules['torch'] = None; import beamsplit.files, beamsplit.progress"
    subprocess.run([sys.executable, "-c", code], check=True)
