"""Files of inputs: found by paths, globs, folders and URLs, and read from the middle."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beamsplit import ArgumentError
from beamsplit.batch import sources
from beamsplit.batch.plan import LARGEST, make_plan, shard_size_of
from beamsplit.batch.sources import Source, expand, find, read_lines, read_table, scan
from beamsplit.files import stream_lines

_lines = st.lists(st.text("ab é\r", max_size=5), max_size=40)


def texts_of(source: Source, first: int, count: int, place: tuple[int, int] | None) -> list[tuple[int, str]]:
    return [(line.number, line.text) for line in read_lines(source, first, count, place)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    lines=_lines,
    ends=st.booleans(),
    size=st.integers(1, 7),
    step=st.integers(1, 5),
    block=st.sampled_from([3, 8, 1 << 20]),
)
def test_shards_are_the_lines_of_the_file(
    tmp_path: Path, lines: list[str], ends: bool, size: int, step: int, block: int
) -> None:
    """Once each, in order, wherever a shard or a block begins; with or without an end of the last line."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "_BLOCK", block)
        check_shards(tmp_path, lines, ends, size, step)


def check_shards(tmp_path: Path, lines: list[str], ends: bool, size: int, step: int) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(("\n".join(lines) + "\n" * ends).encode())
    whole = [(line.number, line.text) for line in stream_lines(path, "in.txt")]
    (source,) = find(str(path))
    assert scan(source, step).rows == len(whole)
    if not whole:
        with pytest.raises(ArgumentError, match="there is nothing to decode"):
            make_plan([source], size)
        return
    plan = make_plan([source], size)
    found = [texts_of(each.source, each.first, each.rows, each.place) for each in plan.shards()]
    assert [line for part in found for line in part] == whole
    assert [each.index for each in plan.shards()] == list(range(len(found)))
    assert [each.number + each.first for each in plan.shards()] == list(range(0, len(whole), size))
    scanned = scan(source, step)
    first = len(whole) // 2
    assert texts_of(scanned, first, 3, scanned.place(first)) == whole[first : first + 3]


def test_a_place_is_known_for_every_shard(tmp_path: Path) -> None:
    """So that a worker reads no line of another's, even at the end of the largest file."""
    (tmp_path / "in.txt").write_bytes(b"word\n" * 100_000)
    for size in (None, 1, 64, 1000):
        plan = make_plan(expand([str(tmp_path / "in.txt")]), size)
        if size is None or size % 64 == 0:
            assert len(plan.sources[0].offsets) == len(plan.shards())
        for each in plan.shards():
            assert each.place == (each.first, 5 * each.first)
            assert each.source.offsets == ()


def test_a_compressed_file_has_shards_too(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "in.txt.gz", "wb") as file:
        file.write(b"".join(b"line %d\n" % number for number in range(10)))
    plan = make_plan(expand([str(tmp_path / "in.txt.gz")]), 4)
    found = [texts_of(each.source, each.first, each.rows, each.place) for each in plan.shards()]
    assert [text for part in found for _, text in part] == [f"line {number}" for number in range(10)]
    assert [len(part) for part in found] == [4, 4, 2]


def test_globs_folders_and_urls(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "_hidden.txt", ".swp.txt", "c.jsonl", "notes.md"):
        (tmp_path / name).write_text("{}\n")

    def names(*patterns: str) -> list[str]:
        return [Path(each.url).name for each in expand(patterns)]

    assert names(f"{tmp_path}/*.txt") == ["a.txt", "b.txt"]
    assert names(f"file://{tmp_path}/*.txt") == ["a.txt", "b.txt"]
    assert names(str(tmp_path)) == ["a.txt", "b.txt", "c.jsonl"]
    assert names(f"{tmp_path}/notes.md", f"{tmp_path}/b.txt") == ["notes.md", "b.txt"]
    assert [each.kind for each in expand([str(tmp_path)])] == ["text", "text", "json"]
    with pytest.raises(ArgumentError, match=r"a\.txt is given twice: give it once"):
        expand([f"{tmp_path}/a.txt", f"{tmp_path}/*.txt"])
    with pytest.raises(ArgumentError, match=r"^there is no file .*/no\.txt$"):
        expand([f"{tmp_path}/no.txt"])
    with pytest.raises(ArgumentError, match=r"^there is no file for .*/\*\.csv: none that matches$"):
        expand([f"{tmp_path}/*.csv"])


def test_an_object_store_is_read_as_a_disk_is() -> None:
    fsspec = pytest.importorskip("fsspec", reason="pip install '.[ray]'")
    store = fsspec.filesystem("memory")
    store.pipe("/texts/b.txt", b"one\ntwo\nthree\n")
    store.pipe("/texts/a.txt", b"zero\n")
    try:
        plan = make_plan(expand(["memory://texts/*.txt"]), 2)
        assert [each.url for each in plan.sources] == ["memory:///texts/a.txt", "memory:///texts/b.txt"]
        found = [texts_of(each.source, each.first, each.rows, each.place) for each in plan.shards()]
        assert found == [[(1, "zero")], [(1, "one"), (2, "two")], [(3, "three")]]
        with pytest.raises(ArgumentError, match=r"there is no file memory://texts/c\.txt"):
            expand(["memory://texts/c.txt"])
        with pytest.raises(ArgumentError, match="nowhere://x cannot be reached: Protocol not known"):
            expand(["nowhere://x"])
    finally:
        store.rm("/texts", recursive=True)


@pytest.mark.parametrize("group", [1, 3, 100])
def test_rows_of_a_table_are_read_from_the_middle(tmp_path: Path, group: int) -> None:
    arrow: Any = pytest.importorskip("pyarrow", reason="pip install '.[ray]'")
    parquet: Any = pytest.importorskip("pyarrow.parquet", reason="pip install '.[ray]'")
    table = arrow.table({"input": [f"text {n}" for n in range(10)], "hypotheses": [["old"]] * 10})
    parquet.write_table(table, tmp_path / "in.parquet", row_group_size=group)
    (source,) = expand([str(tmp_path / "in.parquet")])
    assert scan(source, 64).rows == 10
    for size in (1, 4, 10):
        shards = make_plan([source], size).shards()
        read = [read_table(each.source, each.first, each.rows) for each in shards]
        assert all(each.column_names == ["input"] for each in read)
        rows = [row["input"] for each in read for row in each.to_pylist()]
        assert rows == [f"text {n}" for n in range(10)]


def test_what_is_no_table_is_named(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pip install '.[ray]'")
    (tmp_path / "in.parquet").write_bytes(b"PAR1 no, this is none")
    with pytest.raises(ArgumentError, match=r"in\.parquet is no Parquet file: "):
        make_plan(expand([str(tmp_path / "in.parquet")]), 4)


def test_a_file_is_known_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_text("one\ntwo\n")
    plan = make_plan(expand([str(path)]), 4)
    path.write_text("one\nTWO\n")
    assert make_plan(expand([str(path)]), 4).fingerprint != plan.fingerprint
    path.write_text("one\ntwo\n")
    assert make_plan(expand([str(path)]), 4).fingerprint == plan.fingerprint


def test_a_known_file_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "in.txt"
    path.write_text("one\n" * 9)
    plan = make_plan(expand([str(path)]), 4)
    monkeypatch.setattr("beamsplit.batch.plan.scan", None)
    assert make_plan(expand([str(path)]), None, plan) == plan


@pytest.mark.parametrize("rows", [1, 63, 64, 5_000, 10**6, 10**8])
def test_a_shard_is_neither_too_small_nor_too_large(rows: int) -> None:
    size = shard_size_of(rows)
    assert 64 <= size <= LARGEST
    assert size & (size - 1) == 0, "a power of two, so that batches are those of the whole file"
    assert rows // size <= max(128, rows // LARGEST)
