"""Warn where a search samples because some config says so, and not the call.

Many chat models' generation configs, and transformers' pipelines, say do_sample=True. Whoever asks for beam
groups may not expect random outputs.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any

__all__ = ["warn_of_unasked_sampling"]

_warned: set[tuple[str, str]] = set()
_INNER = ("beamsplit", "torch", "transformers")  # packages between a user's call and a decoding loop


def warn_of_unasked_sampling(model: Any) -> None:
    """Warn, once for a kind of model and a reason, if sampling was not asked for in the call."""
    callers, name = list(_frames()), type(model).__name__
    reason = _reason(model, callers)
    if not reason or (name, reason) in _warned:
        return
    _warned.add((name, reason))
    message = (
        f"{name} draws random samples in this search, because {reason} do_sample=True: give do_sample=False "
        "in the call to search with beams, or do_sample=True if you want samples"
    )
    at = next((each for each in callers if _package(each) not in _INNER), callers[-1])  # the user's line
    warnings.warn_explicit(message, UserWarning, at.f_code.co_filename, at.f_lineno)


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _reason(model: Any, callers: list[FrameType]) -> str:
    """Return what sets do_sample=True; nothing if the call does.

    `generate` merges arguments and configs before it calls a decoding loop, and pipelines turn their defaults
    into arguments. Only the variables of these callers still tell what the user gave.
    """
    pipelined = _variables(callers, "transformers.pipelines.base", "forward", "forward_params")
    called = _variables(callers, "transformers.generation.utils", "generate", "kwargs")
    if pipelined is not None:
        given = [pipelined["forward_params"], getattr(pipelined["self"], "_generate_kwargs", {})]
    else:
        given = [] if called is None else [called["kwargs"]]
    if any(map(_says, given)):
        return ""
    if model.generation_config.do_sample:
        return "the model's generation config says"
    return "" if pipelined is None else f"the settings of {type(pipelined['self']).__name__} say"


def _variables(callers: list[FrameType], module: str, function: str, needed: str) -> dict[str, Any] | None:
    """Return the variables of the nearest caller of this name, if it has the one that is needed."""
    for frame in callers:
        if frame.f_code.co_name == function and frame.f_globals.get("__name__") == module:
            found = frame.f_locals
            return dict(found) if isinstance(found.get(needed), Mapping) and "self" in found else None
    return None


def _says(given: Mapping[str, Any]) -> bool:
    """Tell whether these arguments set do_sample, themselves or by a config among them."""
    config = given.get("generation_config")
    return given.get("do_sample") is not None or bool(getattr(config, "do_sample", None))
