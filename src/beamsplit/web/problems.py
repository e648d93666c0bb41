"""What goes wrong on the web: one line, and a status code that says whose fault it was."""

from __future__ import annotations

import logging
import traceback
from typing import Any

from fastapi.responses import JSONResponse

from beamsplit.errors import BeamsplitError, ModelError, TermError

__all__ = ["LOG", "Problem", "error_response", "known", "server_stopping", "unknown"]

LOG = logging.getLogger("beamsplit.web")

_LONGEST = 300


class Problem(Exception):  # noqa: N818 (it need not be an error of ours)
    """A request that is not answered, and why."""

    def __init__(self, status: int, line: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(line)
        self.status = status
        self.line = _one_line(line)
        self.headers = headers or {}

    def as_dict(self) -> dict[str, str]:
        return {"error": self.line}


def server_stopping() -> Problem:
    return Problem(503, "the server is stopping: try again later")


def error_response(problem: Problem) -> JSONResponse:
    """The answer that every problem gets, wherever it was found."""
    return JSONResponse(problem.as_dict(), problem.status, problem.headers)


def known(error: Exception) -> Problem:
    """The problem that an exception stands for."""
    match error:
        case Problem():
            return error
        case ModelError() | TermError():
            return Problem(500, str(error))
        case BeamsplitError():
            return Problem(422, _as_seen_here(str(error)))
        case ImportError():
            return Problem(503, str(error))
        case _:
            return unknown(error)


def unknown(error: Exception) -> Problem:
    """A mistake of ours. Its message may quote what someone typed: the log says where it was, no more."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    LOG.error("unexpected %s%s", type(error).__name__, where)
    return Problem(500, f"something went wrong here, a {type(error).__name__}: the server's log says where")


def _as_seen_here(line: str) -> str:
    """Lists of inputs have places; a request has one input."""
    for name, here in (("pictures[0]", "the picture"), ("text 0 ", "the text ")):
        line = line.replace(name, here, 1) if line.startswith(name) else line
    return line


def _one_line(text: Any) -> str:
    """Also where someone sends half letters, which JSON could not be made of."""
    line = " ".join(str(text).split()).encode("utf-8", "backslashreplace").decode()
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."
