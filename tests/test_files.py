"""Files: what cannot be read is refused in a line that names it, and what is written is whole."""

from __future__ import annotations

import gzip
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
    json_object,
    read_bytes,
    read_json_lines,
    read_json_objects,
    read_lines,
    read_text,
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


# JSON


def test_values_come_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('\n{"a": 1}\n  \n[2]\n', encoding="utf-8")
    assert list(read_json_lines(path)) == [(f"{path}, line 2", {"a": 1}), (f"{path}, line 4", [2])]


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
