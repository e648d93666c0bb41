"""Write the results of a shard: lines of JSON, or a Parquet file. Lines with an error are kept apart."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from beamsplit import extras
from beamsplit.jobs.resuming import to_json
from beamsplit.jobs.running import LineResult

__all__ = ["FORMATS", "Table", "Writer", "make_writer"]

FORMATS = {"jsonl": ".jsonl", "parquet": ".parquet"}
"""Extensions of the files of results."""

_USER = "a Parquet file"

Table = Callable[[], Any]
"""Returns the rows of a shard as an Arrow table."""


class Writer(Protocol):
    """Writes results in the order of their lines."""

    def write(self, results: Iterable[LineResult]) -> None:
        """Write the next results; none of them is an error."""

    def finish(self) -> None:
        """Write what is left. After that, the file is whole."""

    def close(self) -> None:
        """Let the file go, whole or not."""


def make_writer(kind: str, path: Path, rows: Table | None, first: int) -> Writer:
    """Return what writes a kind of file (see `FORMATS`).

    `rows` returns the shard's rows as an Arrow table if the input has columns, and `first` is the number of
    the first of them.
    """
    if kind == "jsonl":
        return _JsonLines(path)
    return _Parquet(path, rows, first)


class _JsonLines:
    def __init__(self, path: Path) -> None:
        self._file = path.open("wb", buffering=0)  # so that nothing is left to write when it is let go

    def write(self, results: Iterable[LineResult]) -> None:
        rest = memoryview("".join(to_json(_plain(each.result)) for each in results).encode())
        while rest:
            rest = rest[self._file.write(rest) :]

    def finish(self) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()


def _plain(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result with texts where Parquet had dates, bytes and the like."""
    try:
        json.dumps(result)
    except (TypeError, ValueError):
        plain: dict[str, Any] = json.loads(json.dumps(result, default=_shown))
        return plain
    return result


def _shown(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


class _Parquet:
    """Keeps results until all are there: a shard fits into memory."""

    def __init__(self, path: Path, rows: Table | None, first: int) -> None:
        self._arrow = extras.need("pyarrow", _USER, "ray")
        self._parquet = extras.need("pyarrow.parquet", _USER, "ray")
        self._path = path
        self._rows = rows
        self._first = first
        self._results: list[LineResult] = []

    def write(self, results: Iterable[LineResult]) -> None:
        self._results += results

    def close(self) -> None:
        self._results.clear()

    def finish(self) -> None:
        about = self._given() if self._rows is None else self._taken(self._rows())
        lists = [each.result["hypotheses"] for each in self._results]
        column = self._arrow.array([_as_lists(each) for each in lists], _type_of_lists(self._arrow))
        self._parquet.write_table(about.append_column("hypotheses", column), self._path)

    def _taken(self, rows: Any) -> Any:
        """Return the input's own columns for the lines that have a list, and ids if it has none."""
        places = [each.number - self._first for each in self._results]
        taken = rows.take(self._arrow.array(places, self._arrow.int64()))
        if "id" in taken.column_names:
            return taken
        ids = self._arrow.array([each.result["id"] for each in self._results], self._arrow.string())
        return taken.add_column(0, "id", ids)

    def _given(self) -> Any:
        """Return columns of what lines of text or JSON say: the input as a text, and the rest as JSON."""
        text = self._arrow.string()
        schema = self._arrow.schema([("id", text), ("input", text), ("about", text)])
        rows = [_columns(each.result) for each in self._results]
        return self._arrow.Table.from_pylist(rows, schema)


_INPUTS = ("input", "image", "messages")


def _columns(result: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the columns of a line: whatever is not its id or its input is one of JSON."""
    key = next((key for key in _INPUTS if key in result), None)
    rest = {name: value for name, value in result.items() if name not in ("id", key, "hypotheses")}
    value = None if key is None else result[key]
    given = value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return {
        "id": result["id"],
        "input": given,
        "about": json.dumps(rest, ensure_ascii=False) if rest else None,
    }


def _as_lists(found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{**each, "tokens": list(each["tokens"])} for each in found]


def _type_of_lists(arrow: Any) -> Any:
    fields = [
        ("tokens", arrow.list_(arrow.int32())),
        ("log_prob", arrow.float64()),
        ("score", arrow.float64()),
        ("group", arrow.int32()),
        ("finished", arrow.bool_()),
        ("text", arrow.string()),
        ("certified", arrow.bool_()),
    ]
    return arrow.list_(arrow.struct(fields))
