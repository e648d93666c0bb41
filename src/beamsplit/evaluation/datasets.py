"""A picture and what was said or asked about it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from beamsplit.checks import is_whole, shown
from beamsplit.errors import ArgumentError

__all__ = ["Described", "picture", "picture_of_file"]


@dataclass(frozen=True, slots=True)
class Described:
    """A picture's id and its captions or questions."""

    image: str
    texts: tuple[str, ...]
    difficulty: float | None = None
    """How hard people found it to search the picture, where the file tells."""


def picture(value: Any, key: str, where: str) -> str:
    """An id as a string: some files have numbers, some names."""
    if is_whole(value):
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise ArgumentError(f"{where}: {key} must be a number or a name, not {shown(value)}")
    return value.strip()


# COCO numbers its pictures and writes them in twelve digits, in 2014 after the name of the split.
_COCO = re.compile(r"(?:COCO_\w+_)?(\d{12})")


def picture_of_file(name: str) -> str:
    """The id of the picture in a file or at an address.

    >>> picture_of_file("http://mscoco.org/images/COCO_train2014_000000318556.jpg")
    '318556'
    >>> picture_of_file("2008_006488.jpg"), picture_of_file("318556")
    ('2008_006488', '318556')
    """
    last = re.split(r"[/\\]", name.strip())[-1]
    stem = re.sub(r"\.(jpe?g|png|gif|bmp|tiff?|webp)$", "", last, flags=re.IGNORECASE)
    numbered = _COCO.fullmatch(stem)
    return str(int(numbered[1])) if numbered else stem
