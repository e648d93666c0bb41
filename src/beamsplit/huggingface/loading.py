"""Loading of transformers models and their tokenizers by name."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.huggingface.chat import check_template_arguments, has_template
from beamsplit.huggingface.model import TransformersModel, from_transformers

__all__ = ["load"]


def load(
    name: str | os.PathLike[str],
    *,
    device: str | None = None,
    dtype: torch.dtype | None = None,
    chat_template_kwargs: Mapping[str, Any] | None = None,
) -> TransformersModel:
    """Load a text model and its tokenizer for `decode`, from a folder, from the hub or from a FILE.gguf.

    `device` is a name such as "cuda". `dtype` is by default the type that the weights are stored in.
    `chat_template_kwargs` are arguments of a chat model's template, such as `{"enable_thinking": False}`. For
    models that need more, such as pictures or code of their own, use `from_transformers`.
    """
    _check(name, device, dtype)
    check_template_arguments(chat_template_kwargs)
    name = os.fspath(name)
    source = _source(name)
    with _one_line(_refusal(name)):
        config = transformers.AutoConfig.from_pretrained(**source)
    tokenizer = _tokenizer(name, source, config)  # before the weights, which may take long
    model = _model(name, source, config, dtype or "auto")
    made = from_transformers(model.to(device).eval(), tokenizer, chat_template_kwargs=chat_template_kwargs)
    made.origin = _digest(model, tokenizer, chat_template_kwargs or {})
    return made


def _check(name: object, device: str | None, dtype: object) -> None:
    if not isinstance(name, str | os.PathLike):
        raise ArgumentError(
            f"a model is loaded by its folder, its name or its file, not by {checks.short_repr(name)}"
        )
    if dtype is not None and not isinstance(dtype, torch.dtype):
        raise ArgumentError(f"dtype must be one such as torch.bfloat16, not {checks.short_repr(dtype)}")
    checks.check_device(device)


def _source(name: str) -> dict[str, Any]:
    """Return the arguments with which `from_pretrained` finds the model."""
    path = Path(name)
    # Otherwise transformers asks on the terminal whether to run a model's own code.
    safe = {"trust_remote_code": False}
    if path.suffix.lower() == ".gguf":
        _check_gguf(path)
        # An absolute path: for a bare name, transformers prefers a file in the current folder.
        file = str(path.absolute())
        return {"pretrained_model_name_or_path": str(path.parent), "gguf_file": file, **safe}
    if path.is_file():
        raise ArgumentError(f"{name} is a file: give the folder that it is in, or a FILE.gguf")
    if not os.path.isdir(name) and not re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)?", name):
        raise ArgumentError(
            f"there is no folder {name!r}: give one with a model of transformers, a name on the hub, or a "
            "FILE.gguf"
        )
    if os.path.isdir(name) and not (path / "config.json").is_file():  # transformers would guess
        raise ArgumentError(f"{name} holds no model of transformers: it has no config.json")
    return {"pretrained_model_name_or_path": name, **safe}


def _check_gguf(path: Path) -> None:
    if not path.is_file():
        raise ArgumentError(f"there is no file {path}")
    missing = [package for package in ("gguf", "accelerate") if importlib.util.find_spec(package) is None]
    if missing:
        raise ArgumentError(f"{path} needs {' and '.join(missing)}: pip install {' '.join(missing)}")


def _tokenizer(name: str, source: dict[str, Any], config: Any) -> Any:
    with _one_line(f"{name} has no tokenizer that can be loaded (tokenizer.save_pretrained puts one there)"):
        tokenizer = transformers.AutoTokenizer.from_pretrained(**source, config=config)
        added = {*tokenizer.added_tokens_encoder, *tokenizer.all_special_tokens}
        # Without files, transformers 5 makes a tokenizer without words (T5's has the space).
        if len(set(tokenizer.get_vocab()) - added) < 2:
            raise ValueError("its files are missing")
        return tokenizer


def _model(name: str, source: dict[str, Any], config: Any, dtype: torch.dtype | str) -> Any:
    kind = (
        transformers.AutoModelForSeq2SeqLM if config.is_encoder_decoder else transformers.AutoModelForCausalLM
    )
    with _one_line(_refusal(name)):
        model, found = kind.from_pretrained(**source, config=config, dtype=dtype, output_loading_info=True)
    missing = sorted(found["missing_keys"])
    if missing:  # transformers would draw random numbers for them
        raise ArgumentError(
            f"{name} lacks {len(missing)} of the weights of {type(model).__name__}, such as {missing[0]}: "
            "give a model that was trained to write text"
        )
    return model


def _digest(model: Any, tokenizer: Any, template_arguments: Mapping[str, Any]) -> str:
    """Return a hash of the vocabulary, the settings and the chat template."""
    fast = getattr(tokenizer, "backend_tokenizer", None)
    words = json.dumps(sorted(tokenizer.get_vocab().items())) if fast is None else fast.to_str()
    settings = [model.config.to_json_string(), model.generation_config.to_json_string()]
    # Only if there is one, since caches know models by this.
    template = [json.dumps(tokenizer.chat_template, sort_keys=True)] if has_template(tokenizer) else []
    template += [repr(sorted(template_arguments.items()))] if template_arguments else []
    return hashlib.sha256("\n".join([words, *settings, *template]).encode()).hexdigest()[:16]


def _refusal(name: str) -> str:
    if os.path.exists(name):
        return f"{name} cannot be loaded by transformers"
    return f"{name!r} is no folder, and cannot be loaded from the hub"


@contextmanager
def _one_line(refusal: str) -> Iterator[None]:
    """Turn any exception into one line: broken files make transformers raise nearly anything."""
    try:
        yield
    except Exception as error:
        raise ArgumentError(f"{refusal}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """Return the message in one short line: some errors list all classes of transformers."""
    reason = " ".join(str(error).split()) or type(error).__name__
    if "trust_remote_code" in reason:
        return "it brings code of its own: load it with trust_remote_code=True, for from_transformers"
    return reason if len(reason) <= 200 else reason[:197] + "..."
