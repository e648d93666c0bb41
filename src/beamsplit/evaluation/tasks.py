"""Read tasks: inputs, and references for them where there are any."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from beamsplit.errors import ArgumentError
from beamsplit.evaluation.datasets import read_described_lines, read_pair_lines
from beamsplit.evaluation.features import read_features, read_projection
from beamsplit.files import id_of, read_json_objects, read_lines
from beamsplit.models.text import normalised

__all__ = [
    "TASKS",
    "Task",
    "check_once",
    "has_references",
    "is_plain_text",
    "is_task_file",
    "read_plain_lines",
    "read_task",
    "task_stem",
]

_JSON, _TEXT = ".jsonl", ".txt"
_LINE = '{"input": ..., "references": [...]}'


@dataclass(frozen=True, kw_only=True)
class Task:
    """Inputs for a model, with references or without."""

    name: str
    ids: tuple[str, ...]
    inputs: Sequence[Any] | Tensor
    """Texts, the features of pictures, or whatever else a model takes."""
    references: tuple[tuple[str, ...], ...]
    """Those of each input; of a task without references, an empty tuple each."""
    difficulty: tuple[float, ...] | None = None
    """How hard people find the inputs, where that is known."""
    pictures: bool = False
    """Whether inputs are paths of pictures, for a model to look at."""
    keys: tuple[str, ...] | None = None
    """What a cache knows inputs by; their contents, unless they may differ from one machine to another."""
    folder: Path | None = None
    """The folder of a plain text file, whose lines are paths if the model takes pictures."""

    @property
    def has_references(self) -> bool:
        return any(self.references)

    def as_pictures(self) -> Task:
        """Return the task with its lines as the paths of pictures."""
        assert self.folder is not None
        return replace(self, inputs=[self.folder / line for line in self.inputs], pictures=True)

    def some(self, count: int | None) -> Task:
        """Return so many inputs, evenly spread: files are often in the order of length."""
        whole = len(self.ids)
        if count is None or count >= whole:
            return self
        return self.only([index * whole // count for index in range(count)])

    def only(self, indices: Sequence[int]) -> Task:
        """Return the task with these inputs alone."""
        difficulty, inputs = self.difficulty, self.inputs
        return replace(
            self,
            ids=tuple(self.ids[index] for index in indices),
            inputs=inputs[list(indices)] if isinstance(inputs, Tensor) else [inputs[p] for p in indices],
            references=tuple(self.references[index] for index in indices),
            difficulty=None if difficulty is None else tuple(difficulty[index] for index in indices),
            keys=None if self.keys is None else tuple(self.keys[index] for index in indices),
        )


def _pictures(texts: str, features: str) -> Callable[[Path], Task]:
    def read(folder: Path) -> Task:
        described = read_described_lines(folder / f"{texts}.jsonl.gz")
        ids = tuple(each.image for each in described)
        projection = read_projection(folder / "captions" / "features.projection.npz")
        known = [each.difficulty for each in described if each.difficulty is not None]
        seen = read_features(folder / f"{features}.features.npz", projection)
        return Task(
            name=Path(texts).name,
            ids=ids,
            inputs=seen.of(ids),
            keys=seen.keys_of(ids),
            references=tuple(each.texts for each in described),
            difficulty=tuple(known) if len(known) == len(ids) else None,
        )

    return read


def _translation(name: str) -> Callable[[Path], Task]:
    def read(folder: Path) -> Task:
        pairs = read_pair_lines(folder / "translation" / f"{name}.jsonl.gz")
        return Task(
            name=name,
            ids=tuple(map(str, range(len(pairs)))),
            inputs=[pair.source for pair in pairs],
            references=tuple(tuple(map(normalised, pair.targets)) for pair in pairs),
        )

    return read


def _part(read: Callable[[Path], Task], name: str, chosen: Callable[[int], bool]) -> Callable[[Path], Task]:
    def read_part(folder: Path) -> Task:
        whole = read(folder)
        return replace(whole.only([index for index in range(len(whole.ids)) if chosen(index)]), name=name)

    return read_part


_PASCAL = _pictures("captions/pascal50s", "captions/pascal50s")

TASKS: dict[str, Callable[[Path], Task]] = {
    **{
        f"coco.{part}": _pictures(f"captions/coco.{part}", f"captions/coco.{part}")
        for part in ("valid", "test")
    },
    "pascal50s": _PASCAL,
    # As in the paper, 200 of the 1,000 are for choosing settings. It does not say which: here, every fifth.
    "pascal50s.valid": _part(_PASCAL, "pascal50s.valid", lambda index: index % 5 == 0),
    "pascal50s.test": _part(_PASCAL, "pascal50s.test", lambda index: index % 5 != 0),
    **{f"vqg.{part}": _pictures(f"questions/vqg.{part}", "questions/vqg") for part in ("val", "test")},
    **{f"tatoeba.{part}": _translation(f"tatoeba.{part}") for part in ("valid", "test")},
    **{f"newstest{year}": _translation(f"newstest{year}") for year in (2012, 2013, 2014)},
    "multi30k.val": _translation("multi30k.val"),
    "multi30k.test": _translation("multi30k.test_2016_flickr"),
}


def read_task(name: str, folder: Callable[[], Path], *, scored: bool = True) -> Task:
    """Return a task by its name, whose data are in the folder, or from a .jsonl or .txt file.

    If outputs are scored, either all lines of a .jsonl file need references, or none may have any.
    """
    if name in TASKS:
        return TASKS[name](folder())
    path = _check_file(name)
    return _plain(path) if is_plain_text(path) else _own(path, scored)


def has_references(name: str) -> bool:
    """Return whether a task has references. All tasks with names have; a plain text file has none."""
    if name in TASKS:
        return True
    path = _check_file(name)
    if is_plain_text(path):
        return False
    return any("references" in entry for _, entry in read_json_objects(path, _LINE))


def _check_file(name: str) -> Path:
    """Return the path of a file of inputs. Raise if it is none by its name."""
    if not is_task_file(name):
        raise ArgumentError(
            f"there is no task {name!r}: there are {', '.join(TASKS)}, or give a .jsonl or .txt file"
        )
    return Path(name)


def is_task_file(name: str | Path) -> bool:
    """Tell whether this is the name of a file of inputs, which gzip may have compressed."""
    return _unzipped(name).suffix in (_JSON, _TEXT)


def is_plain_text(name: str | Path) -> bool:
    """Tell whether this is the name of a text file with an input a line."""
    return _unzipped(name).suffix == _TEXT


def task_stem(name: str | Path) -> str:
    """Return a name for the task in a file.

    >>> task_stem("data/mine.jsonl.gz"), task_stem("newstest2013")
    ('mine', 'newstest2013')
    """
    return _unzipped(name).stem if is_task_file(name) else Path(name).name


def _unzipped(name: str | Path) -> Path:
    return Path(str(name).removesuffix(".gz"))


def _own(path: Path, scored: bool) -> Task:
    """Read lines of `{"input": text, "references": [text, ...]}`.

    They may have an "id", and a "difficulty" by which to split. Pictures have their path under "image"
    instead of an "input". A user's model may take inputs that are no texts.
    """
    entries = list(read_json_objects(path, _LINE))
    for where, entry in entries:
        _check_input(entry, where)
        if "references" in entry:
            _check_references(entry["references"], where)
        if ("image" in entry) != ("image" in entries[0][1]):
            raise ArgumentError(f'{where} is not as the first: give all an "image", or all an "input"')
    if scored:
        _check_all_or_none(entries)
    ids = tuple(id_of(entry, where.line_index) for where, entry in entries)
    check_once(ids, path)
    found = [entry for _, entry in entries]
    return Task(
        name=task_stem(path),
        ids=ids,
        inputs=[path.parent / entry["image"] if "image" in entry else entry["input"] for entry in found],
        references=tuple(tuple(entry.get("references", ())) for entry in found),
        difficulty=_difficulties(entries),
        pictures="image" in found[0],
    )


def _plain(path: Path) -> Task:
    """Read a text file with an input a line."""
    lines = read_plain_lines(path)
    return Task(
        name=task_stem(path),
        ids=tuple(lines),
        inputs=list(lines.values()),
        references=((),) * len(lines),
        folder=path.parent,
    )


def read_plain_lines(path: Path) -> dict[str, str]:
    """Return the lines of a text file that are not blank, by their ids: the numbers of lines, from 0."""
    found = {str(number): line.strip() for number, line in enumerate(read_lines(path)) if line.strip()}
    if not found:
        raise ArgumentError(f"{path} is empty: give one input a line")
    return found


def check_once(ids: Sequence[str], path: Path) -> None:
    """Raise if an id is there twice."""
    twice = next((each for each, count in Counter(ids).items() if count > 1), None)
    if twice is not None:
        raise ArgumentError(f"{path} has the id {twice!r} twice: give each input its own")


def _check_input(entry: Mapping[str, Any], where: str) -> None:
    key = "image" if "image" in entry else "input"
    given = entry.get(key)
    if given is None or (isinstance(given, str) and not given.strip()):
        raise ArgumentError(f'{where} has nothing under "{key}"')
    if key == "image" and not isinstance(given, str):
        raise ArgumentError(f'{where} has no path under "image"')


def _check_all_or_none(entries: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Raise if some lines have references and others have none."""
    bare = [where for where, entry in entries if "references" not in entry]
    if bare and len(bare) < len(entries):
        raise ArgumentError(
            f'{bare[0]} has no "references", and other lines have some: give references to all, or to none'
        )


def _check_references(references: Any, where: str) -> None:
    if not isinstance(references, list) or not all(isinstance(each, str) for each in references):
        raise ArgumentError(f'{where} has no list of texts under "references"')
    if not references:
        raise ArgumentError(
            f'{where} has no references: give one at least, or leave "references" out of all lines'
        )
    if not all(each.strip() for each in references):
        raise ArgumentError(f"{where} has an empty reference: leave it out")


def _difficulties(entries: Sequence[tuple[str, Mapping[str, Any]]]) -> tuple[float, ...] | None:
    known = [entry["difficulty"] for _, entry in entries if "difficulty" in entry]
    if not known:
        return None
    for where, entry in entries:
        value = entry.get("difficulty")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ArgumentError(f'{where} has no number under "difficulty": give all of them, or none')
    return tuple(map(float, known))
