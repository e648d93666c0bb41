"""Work on fewer items at once where the memory does not do for all of them."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

__all__ = ["halve_until_it_fits", "is_about_memory"]

T = TypeVar("T")
R = TypeVar("R")

# What torch and its libraries say where they raise no error of a kind of its own.
_WORDS = ("can't allocate memory", "not enough memory", "out of memory", "ALLOC_FAILED")


def halve_until_it_fits(
    work: Callable[[Sequence[T]], Sequence[R]],
    items: Sequence[T],
    too_large: Callable[[T, BaseException], R],
) -> list[R]:
    """Do the work for all items at once; where memory runs out, for each half of them, and so on.

    `work` returns a result for each item. `too_large` makes the result of an item for which there is too
    little memory even if it is alone. Results are in the order of the items. Other errors are raised.

    >>> def double(items):
    ...     if len(items) > 2:
    ...         raise MemoryError
    ...     return [2 * item for item in items]
    >>> halve_until_it_fits(double, [1, 2, 3, 4, 5], lambda item, error: None)
    [2, 4, 6, 8, 10]
    """
    if not items:
        return []
    alone: list[R] = []
    try:
        return list(work(items))
    except Exception as error:
        if not is_about_memory(error):
            raise
        if len(items) == 1:
            alone.append(too_large(items[0], error.with_traceback(None)))
    # Only here, since the error keeps alive what the work had in memory.
    _free_caches()
    if alone:
        return alone
    half = len(items) // 2
    parts = items[:half], items[half:]
    return [result for part in parts for result in halve_until_it_fits(work, part, too_large)]


def is_about_memory(error: BaseException) -> bool:
    """Tell whether an error says that there is too little memory, on a GPU or elsewhere.

    >>> is_about_memory(MemoryError()), is_about_memory(RuntimeError("CUDA error: out of memory"))
    (True, True)

    A text that says so is no such error:

    >>> is_about_memory(ValueError("there is no word for 'out of memory'"))
    False
    """
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, RuntimeError) and (_is_of_torch(error) or _says_so(error))


def _is_of_torch(error: RuntimeError) -> bool:
    torch = sys.modules.get("torch")  # whoever has an error of it has imported it
    return torch is not None and isinstance(error, torch.OutOfMemoryError)


def _says_so(error: RuntimeError) -> bool:
    return any(words in str(error) for words in _WORDS)


def _free_caches() -> None:
    """Give back what nobody uses any more, so that others can have it."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
