"""What can go wrong, as a tree.

BeamsplitError
├── ArgumentError       a setting is out of range, or two settings exclude each other
├── EngineError         a serving engine does not answer, or not with what it was asked for
├── ModelError          the model broke the `StepModel` contract
└── TermError           a diversity term returned something that is not a penalty

Each is also a `ValueError`, so code that does not know this package can catch it.
"""

from __future__ import annotations

__all__ = ["ArgumentError", "BeamsplitError", "EngineError", "ModelError", "TermError"]


class BeamsplitError(ValueError):
    """Any error that beamsplit raises on purpose."""


class ArgumentError(BeamsplitError):
    """A setting is out of range, or two settings exclude each other."""


class EngineError(BeamsplitError):
    """A serving engine does not answer, or not with what it was asked for."""


class ModelError(BeamsplitError):
    """The model broke the `StepModel` contract."""


class TermError(BeamsplitError):
    """A diversity term returned something that is not a penalty."""
