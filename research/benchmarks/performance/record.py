"""Keep figures in one JSON file: every row is written as soon as it is measured.

{"parts": {"llama": {"machine": {...}, "rows": [{"key": ..., ...}], "left_out": [...], "complete": true}}}

A run that is cut off keeps what it has, and a later run adds to it. A row that is measured again replaces the
old one. A part that is measured on another machine, or in other sizes, starts anew.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from beamsplit.errors import ArgumentError

__all__ = ["Record", "machine", "read"]

Part = dict[str, Any]


class Record:
    """The figures of a file, and how they get there."""

    def __init__(self, path: Path, machine: Mapping[str, Any]) -> None:
        self.path = path
        self._machine = dict(machine)
        self._parts: dict[str, Part] = read(path)["parts"] if path.exists() else {}

    def begin(self, part: str) -> None:
        """Open a part: keep its rows if they are of the same machine, and drop them otherwise."""
        old = self._parts.get(part, {})
        same = old.get("machine") == self._machine
        self._parts[part] = {
            "machine": self._machine,
            "complete": False,
            "left_out": [],
            "rows": old["rows"] if same else [],
        }
        self._write()

    def add(self, part: str, row: Mapping[str, Any]) -> None:
        """Add a row, in the place of the one with the same key if there is one."""
        rows = self._parts[part]["rows"]
        places = [place for place, each in enumerate(rows) if each["key"] == row["key"]]
        if places:
            rows[places[0]] = dict(row)
        else:
            rows.append(dict(row))
        self._write()

    def leave_out(self, part: str, line: str) -> None:
        """Note what was not measured, and why."""
        self._parts[part]["left_out"].append(line)
        self._write()

    def complete(self, part: str) -> None:
        """Note that a part was measured to its end."""
        self._parts[part]["complete"] = True
        self._write()

    def _write(self) -> None:
        """Write the file as a whole: whoever is killed meanwhile leaves the old one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.path.with_name(self.path.name + ".part")
        unfinished.write_text(json.dumps({"parts": self._parts}, indent=1) + "\n", encoding="utf-8")
        os.replace(unfinished, self.path)


def read(path: Path) -> Any:
    """Return the figures of a file; raise if it holds none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ArgumentError(f"{path} is no JSON ({error}): give another --out, or remove it") from error
    if not isinstance(found, dict) or not isinstance(found.get("parts"), dict):
        raise ArgumentError(f"{path} holds no figures of this program: give another --out")
    return found


def machine(device: str, *, tiny: bool) -> dict[str, Any]:
    """Return what figures depend on besides the code."""
    return {
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": _version("transformers"),
        "triton": _version("triton"),
        "tiny": tiny,
    }


def code() -> str:
    """Return the commit that is measured, with a mark if files have changed since."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    try:
        found = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.strip()


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    """Return the processor's name as Linux tells it, or what Python knows of it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
