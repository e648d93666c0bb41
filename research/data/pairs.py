"""Read sentences and their translations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike

from beamsplit.checks import short_repr
from beamsplit.errors import ArgumentError
from beamsplit.evaluation.datasets import Pair, read_pair_lines
from beamsplit.files import AnyPath, check_extension, read_lines

__all__ = ["read_pairs"]


def read_pairs(
    path: AnyPath,
    target_path: AnyPath | Sequence[AnyPath] | None = None,
    *,
    source: str = "en",
    target: str = "fr",
) -> list[Pair]:
    """Return sentences and their translations, from one file or from files that match line by line.

    One file is `.jsonl`, with `source` and `target` for keys, or `.tsv` and `.txt`, where a tab divides them
    (more columns are passed over, and what a sentence has on several lines is gathered). With `target_path`
    the files are plain text, a line each; several target files are several references. All may be gzipped.

    Pairs with a blank side are left out.
    """
    if target_path is None:
        hint = "; or give the translations as a second file"
        read = FORMATS[check_extension(path, FORMATS, hint)]
        found = read(path, source, target)
    else:
        found = _parallel(path, [target_path] if isinstance(target_path, str | PathLike) else target_path)
    kept = [pair for pair in found if pair.is_complete]
    if not kept:
        raise ArgumentError(f"{path}: no sentence with a translation in it")
    return kept


def _from_columns(path: AnyPath, source: str, target: str) -> Iterator[Pair]:  # noqa: ARG001
    gathered: dict[str, list[str]] = {}
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        sentence, tab, rest = line.partition("\t")
        if not tab:
            raise ArgumentError(
                f"{path}, line {number}: no tab between sentence and translation in {short_repr(line)} "
                "(plain text takes a second file, with the translations)"
            )
        translation = rest.partition("\t")[0].strip()
        gathered.setdefault(sentence.strip(), []).extend([translation] if translation else [])
    for sentence, translations in gathered.items():
        yield Pair(sentence, tuple(translations))


def _parallel(path: AnyPath, target_paths: Sequence[AnyPath]) -> Iterator[Pair]:
    if not target_paths:
        raise ArgumentError(f"{path}: target_path is an empty list, give at least one file")
    _refuse_tables([path, *target_paths])
    sources = read_lines(path)
    columns = [_read_matching(path, len(sources), other) for other in target_paths]
    for sentence, *translations in zip(sources, *columns, strict=True):
        yield Pair(sentence.strip(), tuple(filter(None, map(str.strip, translations))))


def _read_matching(path: AnyPath, count: int, target_path: AnyPath) -> list[str]:
    found = read_lines(target_path)
    if len(found) != count:
        raise ArgumentError(
            f"{path} has {count} lines and {target_path} has {len(found)}: they must match line by line"
        )
    return found


def _refuse_tables(paths: Iterable[AnyPath]) -> None:
    for path in paths:
        if str(path).lower().removesuffix(".gz").endswith((".jsonl", ".tsv")):
            raise ArgumentError(f"{path}: holds both sides, so read it alone (target_path is for plain text)")


FORMATS: dict[str, Callable[[AnyPath, str, str], Iterable[Pair]]] = {
    ".jsonl": read_pair_lines,
    ".tsv": _from_columns,
    ".txt": _from_columns,  # as the files of manythings.org/anki are named
}
