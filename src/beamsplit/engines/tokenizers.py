"""Tokenizers of transformers, by name."""

from __future__ import annotations

import importlib.util
import os
import re
from contextlib import suppress
from typing import Any

from beamsplit import checks, extras
from beamsplit.errors import ArgumentError

__all__ = ["has_tokenizer", "load_tokenizer"]

_FILES = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model")


def has_tokenizer(name: str) -> bool:
    """Tell whether a tokenizer of this name may be on this machine."""
    if importlib.util.find_spec("transformers") is None:
        return False
    if os.path.isdir(name):
        return any(os.path.isfile(os.path.join(name, file)) for file in _FILES)
    return re.fullmatch(r"[\w.-]+/[\w.-]+", name) is not None  # among those that were downloaded


def load_tokenizer(name: str, *, here_alone: bool = False) -> tuple[Any, list[int]]:
    """Return a tokenizer, and the end tokens that the model's settings name.

    It is downloaded if need be, unless it is looked for on this machine alone.
    """
    is_path = os.path.isabs(name) or name.startswith((".", "~")) or name.count("/") > 1
    if is_path and not os.path.isdir(name):
        raise ArgumentError(f"the tokenizer {name!r} cannot be loaded: there is no such folder")
    transformers = extras.need("transformers", f"the tokenizer {name!r}", "hf")
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            name, trust_remote_code=False, local_files_only=here_alone
        )
    except Exception as error:
        raise ArgumentError(
            f"the tokenizer {name!r} cannot be loaded: {checks.reason(error)}"[:300]
        ) from error
    ends: Any = None
    with suppress(Exception):  # not every folder has one
        ends = transformers.GenerationConfig.from_pretrained(name, local_files_only=here_alone).eos_token_id
    if ends is None:
        return tokenizer, []
    return tokenizer, [int(end) for end in ends] if isinstance(ends, list) else [int(ends)]
