"""Read pictures' captions and questions, from any of these files.

.jsonl  {"image": id, "captions" or "questions": [...], "difficulty": number, if known} on each line
.json   COCO's captions_*.json, or Karpathy's dataset_*.json, which has splits
.mat    PASCAL-50S, as released with CIDEr (Vedantam et al. 2015): pascal50S.mat
.csv    VQG (Mostafazadeh et al. 2016): coco_train_all.csv and its siblings

Any may be gzipped.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from beamsplit import extras
from beamsplit.checks import short_repr
from beamsplit.errors import ArgumentError
from beamsplit.evaluation.datasets import (
    Described,
    check_list,
    field_of,
    join_names,
    picture_id,
    read_described_lines,
    stripped_texts,
)
from beamsplit.files import AnyPath, check_extension, parse_json, read_bytes, read_text

__all__ = ["picture_of_file", "read_described"]

Rows: TypeAlias = Iterator[tuple[str | None, Described]]
"""Pictures, each with its split where the file has splits."""


def read_described(path: AnyPath, *, split: str | Sequence[str] | None = None) -> list[Described]:
    """Return pictures with their captions or questions, from a file in any of the formats above.

    `split` picks one or several of a file that has them: "test", or ("train", "restval").

    Blank texts are left out. So are pictures without texts, unless the file has their difficulty.
    """
    rows = FORMATS[check_extension(path, FORMATS)](path)
    complete = [(part, row) for part, row in rows if row.is_complete]
    if not complete:
        raise ArgumentError(f"{path}: no picture with a text in it")
    return [row for _, row in complete] if split is None else _of_split(path, complete, split)


def _of_split(
    path: AnyPath, rows: list[tuple[str | None, Described]], split: str | Sequence[str]
) -> list[Described]:
    wanted = {split} if isinstance(split, str) else set(split)
    present = sorted({part for part, _ in rows if part is not None})
    if not present:
        raise ArgumentError(f"{path}: has no splits, leave out split={short_repr(split)}")
    if not wanted or not wanted <= set(present):
        raise ArgumentError(f"{path}: no split {short_repr(split)} (it has: {join_names(present)})")
    return [row for part, row in rows if part in wanted]


def _json_lines(path: AnyPath) -> Rows:
    for row in read_described_lines(path):
        yield None, row


def _json(path: AnyPath) -> Rows:
    found = parse_json(read_text(path), str(path))
    for key, read in JSON_FORMATS.items():
        if isinstance(found, dict) and key in found:
            return read(check_list(found[key], key, str(path)), path, found)
    raise ArgumentError(f"{path}: neither COCO's captions (no 'annotations') nor Karpathy's (no 'images')")


def _coco(annotations: list[Any], path: AnyPath, whole: dict[str, Any]) -> Rows:
    """Yield the pictures under the names of their files, if the file has these: COCO's have an id in them."""
    named = {
        str(image["id"]): picture_of_file(image["file_name"])
        for image in whole.get("images", ())
        if isinstance(image, dict) and "id" in image and isinstance(image.get("file_name"), str)
    }
    gathered: dict[str, list[Any]] = {}
    for index, row in enumerate(annotations):
        where = f"{path}, annotations[{index}]"
        caption = stripped_texts([field_of(row, "caption", where)], "caption", where)
        image = picture_id(field_of(row, "image_id", where), "image_id", where)
        gathered.setdefault(named.get(image, image), []).extend(caption)
    for image, captions in gathered.items():
        yield None, Described(image, tuple(captions))


def _karpathy(images: list[Any], path: AnyPath, _: dict[str, Any]) -> Rows:
    for index, row in enumerate(images):
        where = f"{path}, images[{index}]"
        sentences = check_list(field_of(row, "sentences", where), "sentences", where)
        said = stripped_texts([_sentence(each, where) for each in sentences], "sentences", where)
        yield str(field_of(row, "split", where)), Described(_karpathy_picture(row, where), said)


def _sentence(sentence: Any, where: str) -> Any:
    if isinstance(sentence, dict) and "raw" not in sentence and "tokens" in sentence:
        return " ".join(stripped_texts(sentence["tokens"], "tokens", where))
    return field_of(sentence, "raw", f"{where}, sentences")


def _karpathy_picture(row: dict[str, Any], where: str) -> str:
    if "cocoid" in row:
        return picture_id(row["cocoid"], "cocoid", where)
    if "filename" in row:  # says more than imgid, which is only a place in the list
        return picture_of_file(picture_id(row["filename"], "filename", where))
    if "imgid" in row:
        return picture_id(row["imgid"], "imgid", where)
    raise ArgumentError(f"{where}: no 'cocoid', 'filename' or 'imgid' (it has: {join_names(row)})")


def _vqg(path: AnyPath) -> Rows:
    reader = csv.DictReader(io.StringIO(read_text(path), newline=""))
    try:
        _has_columns(reader.fieldnames or (), ("image_id", "questions"), path)
        for row in reader:
            where = f"{path}, line {reader.line_num}"
            image = picture_of_file(picture_id(row["image_id"], "image_id", where))
            if row["questions"] is None:
                raise ArgumentError(f"{where}: no questions, the line has too few columns")
            yield None, Described(image, stripped_texts(row["questions"].split("---"), "questions", where))
    except csv.Error as error:
        raise ArgumentError(f"{path}, line {reader.line_num}: not CSV ({error})") from error


def _has_columns(columns: Sequence[str], needed: Sequence[str], path: AnyPath) -> None:
    for name in needed:
        if name not in columns:
            raise ArgumentError(f"{path}: no column {name!r} (it has: {join_names(columns)})")


# Releases differ in what they call the two fields.
_IMAGE_FIELDS = ("img", "image", "name")
_TEXT_FIELDS = ("sent", "sentences")


def _pascal50s(path: AnyPath) -> Rows:
    variables = _matlab(path)
    for value in variables.values():
        fields = getattr(getattr(value, "dtype", None), "names", None) or ()
        image = next((name for name in _IMAGE_FIELDS if name in fields), None)
        said = next((name for name in _TEXT_FIELDS if name in fields), None)
        if image and said:
            return _records(value.ravel(), image, said, path)
    has = join_names(variables)
    raise ArgumentError(
        f"{path}: no struct with fields img and sent, such as train_sent_final (it has: {has})"
    )


def _matlab(path: AnyPath) -> dict[str, Any]:
    data, scipy_io = read_bytes(path), extras.need("scipy.io", "research.data", "dev")
    try:
        found = scipy_io.loadmat(io.BytesIO(data))
    except Exception as error:  # a broken file may raise anything there
        raise ArgumentError(f"{path}: not a .mat file that can be read ({short_repr(error)})") from error
    return {name: value for name, value in found.items() if not name.startswith("__")}


def _records(records: Any, image: str, said: str, path: AnyPath) -> Rows:
    for index, record in enumerate(records):
        where = f"{path}, picture {index + 1}"
        name = picture_id("".join(_strings(record[image], image, where)), image, where)
        yield (
            None,
            Described(
                picture_of_file(name), stripped_texts(_strings(record[said], said, where), said, where)
            ),
        )


def _strings(value: Any, key: str, where: str) -> list[str]:
    """Return the strings in a cell, which may be nested in further cells."""
    if isinstance(value, str):
        return [str(value)]
    if not hasattr(value, "ravel") or (value.size and value.dtype.kind not in "UO"):
        raise ArgumentError(f"{where}: {key} must be text, not {short_repr(value)}")
    return [string for each in value.ravel() for string in _strings(each, key, where)]


# COCO numbers its pictures and writes them in twelve digits, in 2014 after the name of the split.
_COCO_FILE = re.compile(r"(?:COCO_\w+_)?(\d{12})")


def picture_of_file(name: str) -> str:
    """Return the id of the picture in a file or at an address.

    >>> picture_of_file("http://mscoco.org/images/COCO_train2014_000000318556.jpg")
    '318556'
    >>> picture_of_file("2008_006488.jpg"), picture_of_file("318556")
    ('2008_006488', '318556')
    """
    last = re.split(r"[/\\]", name.strip())[-1]
    stem = re.sub(r"\.(jpe?g|png|gif|bmp|tiff?|webp)$", "", last, flags=re.IGNORECASE)
    numbered = _COCO_FILE.fullmatch(stem)
    return str(int(numbered[1])) if numbered else stem


JSON_FORMATS: dict[str, Callable[[list[Any], AnyPath, dict[str, Any]], Rows]] = {
    "annotations": _coco,  # before "images", which COCO has too
    "images": _karpathy,
}

FORMATS: dict[str, Callable[[AnyPath], Rows]] = {
    ".jsonl": _json_lines,
    ".json": _json,
    ".mat": _pascal50s,
    ".csv": _vqg,
}
