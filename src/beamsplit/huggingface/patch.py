"""A patch of transformers that makes `generate` take num_beam_groups again."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from transformers import StoppingCriteriaList
from transformers.generation.stopping_criteria import StopStringCriteria
from transformers.generation.utils import GenerationMixin

from beamsplit.errors import ArgumentError
from beamsplit.huggingface.generate import diverse_beam_search

__all__ = ["install", "uninstall"]


_installed: dict[str, Any] = {}  # the original `generate`, and ours


def install() -> None:
    """Patch transformers, so that `generate` and pipelines take num_beam_groups again.

    Replaces `GenerationMixin.generate`, for the whole process: calls that ask for more than one beam group
    go to `diverse_beam_search`, all others to transformers as before. Undo it with `uninstall()`.
    """
    if not _installed:
        _installed["original"] = GenerationMixin.generate
        _installed["ours"] = GenerationMixin.generate = _patched(GenerationMixin.generate)


def uninstall() -> None:
    """Undo `install()`."""
    if not _installed:
        return
    if GenerationMixin.generate is not _installed["ours"]:
        raise ArgumentError(
            "generate has been replaced again since install(): undo that first, or it would be lost"
        )
    GenerationMixin.generate = _installed["original"]
    _installed.clear()


def _patched(generate: Any) -> Any:
    signature = inspect.signature(generate)

    @functools.wraps(generate)
    def generate_in_groups(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = dict(signature.bind(self, *args, **kwargs).arguments)
        given |= given.pop("kwargs", {})
        if given.get("custom_generate") is not None or not _asks_for_groups(self, given):
            return generate(self, *args, **kwargs)
        del given["self"]
        return generate(self, **_prepared(given), custom_generate=diverse_beam_search)

    return generate_in_groups


def _asks_for_groups(model: Any, given: dict[str, Any]) -> bool:
    """Tell whether a call asks for more than one group, by itself, its generation config or the model's."""

    def setting(name: str) -> Any:
        for source in (given, vars(given.get("generation_config") or object), vars(model.generation_config)):
            if source.get(name) is not None:
                return source[name]
        return 1

    return bool(setting("num_beam_groups") != 1 and setting("num_beams") != 1)


def _prepared(given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call in the form that `generate` passes on to a decoding loop."""
    given = {
        name: value for name, value in given.items() if name not in ("custom_generate", "trust_remote_code")
    }
    for name, way_out in _NOT_PASSED_ON.items():
        if given.pop(name, None):
            raise ArgumentError(f"{name} does not reach a search in groups: {way_out}")
    if given.get("stop_strings") is not None and given.get("tokenizer") is not None:
        criterion = StopStringCriteria(given.pop("tokenizer"), given.pop("stop_strings"))
        given["stopping_criteria"] = StoppingCriteriaList(
            [*(given.get("stopping_criteria") or []), criterion]
        )
    return given


_NOT_PASSED_ON = {
    "streamer": "give on_step=, a function that gets every step's lists",
    "assistant_model": "leave it out",
    "synced_gpus": "gather the model's weights first, or use a model that is not sharded",
}
