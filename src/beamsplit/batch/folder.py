"""The folder of a job: results, the manifest that says what they are of, and what a run needs to go on.

    part-00000.jsonl ...   results of the shards, in the order of the inputs
    _errors.jsonl          lines that could not be decoded, if there are any
    _manifest.json         inputs, settings, versions, counts; "complete" tells whether all is there
    _beamsplit/            while it is not: reports of shards that are done, files that are being written

Programs that read a folder of files, such as Spark, pass over names that begin with "_".
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from beamsplit.batch.outputs import FORMATS
from beamsplit.batch.plan import Plan, Shard
from beamsplit.batch.storage import Folder, open_folder
from beamsplit.batch.task import DONE, ShardReport
from beamsplit.errors import ArgumentError
from beamsplit.jobs.resuming import difference

__all__ = ["ERRORS", "MANIFEST", "JobFolder"]

MANIFEST = "_manifest.json"
ERRORS = "_errors.jsonl"
_OWN = "_beamsplit"
_PART = re.compile(rf"part-\d{{5,}}({'|'.join(re.escape(each) for each in FORMATS.values())})")
_TEMPORARY = f"{_OWN}/tmp"
_COUNTS = ("rows", "lists", "errors", "short", "repetitive")
_OF_SHARD = ("name", "rows", "errors", "size", "sha256")
_AT_ONCE = 500  # reports that are read together
_INSTEAD = "another --out, or --force"


class JobFolder:
    """The folder of a job. One run at a time writes to it."""

    unit = "a shard was done; nothing is kept (a smaller --shard-size is done sooner)"
    """What a run that has kept nothing says."""

    def __init__(self, url: str) -> None:
        self.run = uuid.uuid4().hex
        """Tells this run from others."""
        self._folder: Folder = open_folder(url, self.run)
        self.url = self._folder.url
        self.replaces = False
        """Whether this run was told to start over."""
        self._earlier: dict[str, Any] = {}
        """The manifest of the run that is to be gone on with, if there is one."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is kept."""
        return not self._folder.names(DONE) and not any(map(_PART.fullmatch, self._folder.names()))

    @contextmanager
    def locked(self, force: bool) -> Iterator[None]:
        """Keep other runs out for the length of a block. Raise if other results are there, or all of them.

        By `force`, what is there is replaced, when `begin` is called: until then much may be refused.
        """
        self._refuse_foreign()
        if not force and _OWN not in self._folder.names():
            self._refuse_complete()
        self._folder.make()
        with self._folder.locked():
            try:
                if not force:
                    self._refuse_complete()  # again: another run may have ended since
                self.replaces = force
                self._earlier = {} if force else self._manifest()
                self._folder.remove(_TEMPORARY)  # of runs that have ended
                self._folder.make()
                yield
            finally:
                self._leave()

    def _leave(self) -> None:
        """Remove what only a run needs, if none will go on."""
        manifest = self._manifest()
        if manifest.get("complete") or (not manifest and self.is_empty):
            self._folder.remove(_OWN)
            self._folder.remove_empty()

    def _refuse_foreign(self) -> None:
        known = {MANIFEST, ERRORS, _OWN}
        names = [name for name in self._folder.names() if not name.startswith(".")]
        foreign = [name for name in names if name not in known and not _PART.fullmatch(name)]
        parts = [name for name in names if _PART.fullmatch(name)]
        if not foreign and parts and MANIFEST not in names and _OWN not in names:
            foreign = parts
        if foreign:
            raise ArgumentError(
                f"{self.url} holds {foreign[0]}, which is of no such job: give an empty folder or a new one"
            )

    def _refuse_complete(self) -> None:
        if self._manifest().get("complete"):
            raise ArgumentError(f"{self.url} is complete already: give {_INSTEAD}")

    def _clear(self) -> None:
        """Remove what an earlier run has left; its manifest first, so that nobody trusts the rest."""
        names = self._folder.names()
        for name in (MANIFEST, ERRORS, *filter(_PART.fullmatch, names), DONE):
            self._folder.remove(name)

    # Manifests

    def _manifest(self) -> dict[str, Any]:
        """Return the manifest; an empty one if there is none that can be read."""
        if MANIFEST not in self._folder.names():
            return {}
        content = self._folder.read([MANIFEST])[0]
        try:
            found = json.loads(content)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def known_plan(self) -> Plan | None:
        """Return the plan of the run that is to be gone on with."""
        try:
            return Plan.from_json(self._earlier["plan"])
        except (KeyError, TypeError, ValueError):
            return None

    def known_batch_size(self) -> int | None:
        """Return how many inputs that run decoded at once."""
        found = self._earlier.get("batch_size")
        return found if isinstance(found, int) else None

    def begin(
        self, plan: Plan, settings: Mapping[str, Any], versions: Mapping[str, str], batch_size: int
    ) -> dict[str, Any]:
        """Write the manifest of a job that begins; of one that goes on, check that it is the same job."""
        before = self._earlier
        now = json.loads(json.dumps({"settings": settings, "inputs": plan.fingerprint}))
        if "settings" in before:
            earlier = {key: before.get(key) for key in now}
            if earlier != now:
                raise ArgumentError(
                    f"{self.url} was begun with {_what_differs(earlier, now)}: give those, {_INSTEAD}"
                )
        elif not self.replaces and not self.is_empty:
            raise ArgumentError(
                f"{self.url} has results, and no manifest of what they are of: give {_INSTEAD}"
            )
        self._folder.claim()
        if self.replaces:
            self._clear()
        seen = before.get("versions", [])
        manifest = {
            "format": 1,
            "complete": False,
            **now,
            "batch_size": batch_size,
            "versions": seen if versions in seen else [*seen, dict(versions)],
            "plan": plan.to_json(),
        }
        self._write(MANIFEST, _as_json(manifest))
        return manifest

    # Reports

    def reports(self, shards: Sequence[Shard]) -> dict[int, ShardReport]:
        """Return the reports of shards whose results are there, by the numbers of the shards."""
        names = [name for name in self._folder.names(DONE) if name.endswith(".json")]
        sizes = self._folder.sizes() if names else {}
        found: dict[int, ShardReport] = {}
        for begin in range(0, len(names), _AT_ONCE):
            for content in self._folder.read([f"{DONE}/{each}" for each in names[begin : begin + _AT_ONCE]]):
                report = _report(content)
                if report is not None and _is_whole(report, shards, sizes):
                    found[report.index] = report.without_faults()
        return found

    def finish(self, reports: Mapping[int, ShardReport], manifest: Mapping[str, Any]) -> None:
        """Put the errors together, and say in the manifest that all is there."""
        ordered = [reports[index] for index in sorted(reports)]
        self._check_there(ordered)
        self.write_errors(reports)
        counts = {name: sum(getattr(report, name) for report in ordered) for name in _COUNTS}
        shards = [{name: getattr(each, name) for name in _OF_SHARD} for each in ordered]
        content = {key: value for key, value in manifest.items() if key != "plan"}
        self._write(MANIFEST, _as_json({**content, "complete": True, "counts": counts, "shards": shards}))

    def _check_there(self, reports: Sequence[ShardReport]) -> None:
        """Raise if another program has changed results meanwhile."""
        sizes = self._folder.sizes()
        changed = next((each.name for each in reports if sizes.get(each.name) != each.size), None)
        if changed is not None:
            raise ArgumentError(
                f"{self.url}/{changed} was removed or changed by another program: "
                "the same command decodes it again"
            )

    def write_errors(self, reports: Mapping[int, ShardReport]) -> None:
        """Write the lines that could not be decoded into one file, if there are any."""
        names = [each.name.partition(".")[0] for _, each in sorted(reports.items()) if each.errors]
        if not names:
            return
        with self._folder.writing(ERRORS) as path, path.open("w", encoding="utf-8") as file:
            for name in names:
                content = self._folder.read([f"{DONE}/{name}.json"])[0]
                file.writelines(f"{_line(fault)}\n" for fault in json.loads(content)["faults"])

    def _write(self, name: str, content: bytes) -> None:
        with self._folder.writing(name) as path:
            path.write_bytes(content)


def _is_whole(report: ShardReport, shards: Sequence[Shard], sizes: Mapping[str, int]) -> bool:
    return (
        report.index < len(shards)
        and report.rows == shards[report.index].rows
        and sizes.get(report.name) == report.size
    )


def _report(content: bytes) -> ShardReport | None:
    try:
        return ShardReport.from_json(content)
    except (ValueError, TypeError):  # what a computer that lost its power has left
        return None


def _line(content: Any) -> str:
    text = json.dumps(content, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a pair of surrogates
        return json.dumps(content)
    return text


def _as_json(content: Any) -> bytes:
    return f"{_line(content)}\n".encode()


def _what_differs(before: dict[str, Any], now: dict[str, Any]) -> str:
    if before["settings"] != now["settings"]:
        return f"other settings ({difference(before['settings'], now['settings'])})"
    known = {each["file"]: each for each in before["inputs"]}
    for each in now["inputs"]:
        if each["file"] not in known:
            return f"other inputs ({each['file']} is new)"
        if each != known[each["file"]]:
            return f"other inputs ({each['file']} has changed)"
    if len(now["inputs"]) != len(known):
        gone = next(name for name in known if name not in {each["file"] for each in now["inputs"]})
        return f"other inputs ({gone} is gone)"
    return "other inputs (their order)"
