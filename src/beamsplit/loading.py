"""Load a model by its name: one of ours, one of the user's own, or one of transformers."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from beamsplit import checks, extras
from beamsplit.errors import ArgumentError
from beamsplit.model import StepModel
from beamsplit.models import Complexity
from beamsplit.models.loading import NAMES, load

__all__ = ["load_model", "warn_of_code"]

_OWN = "FILE.py:NAME or package.module:NAME"


def load_model(
    name: str, device: str | None = None, chat_template_kwargs: Mapping[str, Any] | None = None
) -> StepModel:
    """Load a model by its name. Arguments of a chat template are for models of transformers.

    en-fr, captioner, FILE.safetensors       one that comes with the package, or that you trained
    FILE.py:NAME, package.module:NAME        your own: a `StepModel`, or a function that returns one
    FOLDER, FILE.gguf, a name on the hub     one of transformers

    Your own runs the code of its file. The others run no code of theirs.
    """
    if _is_ours(name):
        return _moved(_ours(name), name, device)
    if _is_own(name):
        return _moved(_own(name), name, device)
    if name.endswith(".py"):
        raise ArgumentError(f"{name} may hold many things: give {name}:NAME, the model's name in it")
    extras.need("transformers", f"the model {name!r}", "hf")
    from beamsplit import huggingface

    return huggingface.load(name, device=device, chat_template_kwargs=chat_template_kwargs)


# Ours


def _is_ours(name: str) -> bool:
    suffix = Path(name).suffix
    if name in NAMES or suffix == ".safetensors":
        return True
    if suffix in (".gguf", ".py"):
        return False
    return os.path.isfile(name) or _is_slip(name)


def _is_slip(name: str) -> bool:
    """Return whether one of ours may be meant: `load` says so then, and nobody waits for the hub."""
    is_word = "/" not in name and ":" not in name and not os.path.isdir(name)
    return is_word and bool(checks.nearest(name, NAMES, ""))


def _ours(name: str) -> StepModel:
    model = load(name)
    if isinstance(model, Complexity):
        others = ", ".join(each for each in NAMES if each != "complexity")
        raise ArgumentError(f"{name} scores pictures and writes nothing to decode: give one such as {others}")
    return model


# The user's own


def warn_of_code(name: object, source: object) -> None:
    """Warn of a model's name that stands in a file, `source`, if to load it is to run code.

    The file may be somebody else's, and who starts it has not read it.
    """
    if isinstance(name, str) and _is_own(name) and not _is_ours(name):
        code = name.rpartition(":")[0]
        warnings.warn(
            f"warning: {source} names the model {name}, and to load it is to run the code of {code}",
            stacklevel=3,
        )


def _is_own(name: str) -> bool:
    return ":" in name and not os.path.exists(name)


def _own(name: str) -> StepModel:
    source, _, attribute = name.rpartition(":")
    with _explained(name):
        module = _module(source, name)
    if not hasattr(module, attribute):
        hint = checks.nearest(attribute, vars(module), "give the name of a StepModel in it")
        raise ArgumentError(f"{source} has no {attribute!r}: {hint}")
    found = getattr(module, attribute)
    if isinstance(found, type) or (callable(found) and not isinstance(found, StepModel)):
        with _explained(name):
            found = found()
    missing = [verb for verb in ("start", "step", "select") if not callable(getattr(found, verb, None))]
    if missing:
        raise ArgumentError(
            f"{name} is a {type(found).__name__} without {', '.join(missing)}: "
            "name a StepModel, or a function without arguments that returns one"
        )
    model: StepModel = found
    return model


def _module(source: str, name: str) -> ModuleType:
    # As for `python -m`, and for good: a model may import more when it is called.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    if source.endswith(".py"):
        return _module_of_file(Path(source))
    absent = ArgumentError(f"there is no module {source!r} for {name!r}: give {_OWN}")
    if not all(part.isidentifier() for part in source.split(".")):
        raise absent
    try:
        return importlib.import_module(source)
    except ModuleNotFoundError as error:
        if f"{source}.".startswith(f"{error.name}."):
            raise absent from error
        raise  # it needs another one


def _module_of_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ArgumentError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(f"_own_{path.stem}", path)  # hides no other module
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turn whatever the code of others raises into one line, with the cause."""
    try:
        yield
    except ArgumentError:
        raise
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ArgumentError(f"{name} cannot be loaded: {reason}"[:300]) from error


# Devices


def _moved(model: StepModel, name: str, device: str | None) -> StepModel:
    if device is None:
        return model
    module: Any = model if isinstance(model, nn.Module) else getattr(model, "module", None)
    if not isinstance(module, nn.Module):
        raise ArgumentError(
            f"{name} is a {type(model).__name__}, which only its own code can move to a device: leave device "
            "out"
        )
    checks.check_device(device)
    module.to(device)
    return model
