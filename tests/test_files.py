"""Files: what cannot be read is refused in a line that names it, and what is written is whole."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beamsplit import ArgumentError, files
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


# Small files that unpack to much


def bomb(kind: str, lines: bool) -> bytes:
    """Some kilobytes that unpack to 400 MB: lines of text, or one without an end."""
    part = (b"a" * 9_999 + (b"\n" if lines else b"a")) * 1_000
    if kind == "gzip":
        return gzip.compress(part, 9) * 40
    zstandard = pytest.importorskip("zstandard")
    whole: bytes = zstandard.compress(part * 40)
    return whole


BOUNDED = """
import resource, sys
from beamsplit import files
resource.setrlimit(resource.RLIMIT_AS, (200_000_000, 200_000_000))
files.LINE_LIMIT, files.UNPACKED_LIMIT = 1_000_000, 50_000_000
{work}
"""


def do_in_little_memory(work: str, path: Path) -> None:
    """Do something with a file in a program that is given no more than 200 MB."""
    subprocess.run([sys.executable, "-c", BOUNDED.format(work=work), str(path)], check=True)


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
@pytest.mark.parametrize("lines", [True, False], ids=["lines", "one line"])
def test_lines_of_a_bomb_take_no_memory(kind: str, lines: bool, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(packed := bomb(kind, lines))
    assert len(packed) < 2_000_000
    count = 40_000 if lines else 1
    do_in_little_memory(
        f"assert sum(1 for _ in files.stream_lines(sys.argv[1], 'a')) == {count}", tmp_path / "a"
    )


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_a_bomb_is_not_read_whole(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(bomb(kind, lines=True))
    monkeypatch.setattr(files, "UNPACKED_LIMIT", 50_000_000)
    _refused(
        read_text,
        tmp_path / "a",
        " unpacks to more than 50,000,000 bytes, the most that is read at once: "
        "unpack it yourself if it is meant to be so large",
    )
    do_in_little_memory("try: files.read_bytes(sys.argv[1])\nexcept ValueError: pass", tmp_path / "a")


def test_the_limit_is_for_what_is_packed_and_what_is_as_large_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "UNPACKED_LIMIT", 4)
    (tmp_path / "plain").write_bytes(b"12345")
    (tmp_path / "packed").write_bytes(gzip.compress(b"1234"))
    assert read_bytes(tmp_path / "plain") == b"12345"
    assert read_bytes(tmp_path / "packed") == b"1234"


def test_a_line_that_is_too_long_has_a_fault_and_the_next_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LINE_LIMIT", 200_000)
    content = b"one\n" + b"a" * 400_000 + b"\n" + b"b" * 200_000 + b"\n\nthree"
    first, long, whole, blank, last = lines_of(content)
    fault = "has more than 200,000 bytes: end each input with a line break"
    assert (first, long) == (TextLine(1, "one"), TextLine(2, f"{'a' * 80}...", fault))
    assert whole == TextLine(3, "b" * 200_000)
    assert (blank, last) == (TextLine(4, ""), TextLine(5, "three"))


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


def test_a_link_that_somebody_has_put_there_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder where others write, too, neither the name nor one that can be guessed leads away."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    for name in (f".file.{os.getpid()}", "file"):
        (tmp_path / name).symlink_to(victim)
    write_bytes(tmp_path / "file", b"new")
    assert (victim.read_bytes(), (tmp_path / "file").read_bytes()) == (b"precious", b"new")
    assert not (tmp_path / "file").is_symlink()
    # Even a name that was guessed.
    monkeypatch.setattr(secrets, "token_hex", lambda _: "guessed")
    (tmp_path / ".beamsplit-guessed").symlink_to(victim)
    with pytest.raises(ArgumentError, match=r"file cannot be written: File exists"):
        write_bytes(tmp_path / "file", b"newer")
    assert victim.read_bytes() == b"precious"
    assert (tmp_path / ".beamsplit-guessed").is_symlink()


def test_a_file_may_be_read_by_whom_others_may_be(tmp_path: Path) -> None:
    write_bytes(tmp_path / "file", b"content")
    (tmp_path / "other").write_bytes(b"content")
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_files_need_no_torch() -> None:
    """The command line reads its inputs before it has loaded any model."""
    code = "import sys; sys.modules['torch'] = None; import beamsplit.files, beamsplit.progress"
    subprocess.run([sys.executable, "-c", code], check=True)
