"""The tables of a study, for SQLite and PostgreSQL.

Times are seconds since 1970. A method is "first" or "second"; the study has its name.

A row of `showings` says that an annotator was shown an item. While it has a `slot`, the annotator holds one
of the item's `votes` slots. Constraints of the database ensure that no slot is held twice, that no one votes
twice on an item, and that no one holds two items at once.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    and_,
)

__all__ = ["VERSION", "annotators", "everything", "items", "pictures", "showings", "study"]

VERSION = 1
"""The version of these tables. Studies of other versions are refused."""

everything = MetaData()

study = Table(
    "study",
    everything,
    Column("id", Integer, primary_key=True),
    Column("version", Integer, nullable=False),
    Column("first", Text, nullable=False),
    Column("second", Text, nullable=False),
    Column("question", Text, nullable=False),
    Column("consent", Text, nullable=False),
    Column("votes", Integer, nullable=False),
    Column("share", Integer),  # most items of an annotator; NULL: all
    Column("patience", Double, nullable=False),  # seconds until an item may go to others
    Column("seed", Integer, nullable=False),
    Column("secret", String(64), nullable=False),  # from which the forms' tokens are derived
    Column("admin_token", String(64), nullable=False),
    Column("created", Double, nullable=False),
    CheckConstraint("id = 1", name="one_study"),
)

pictures = Table(
    "study_pictures",
    everything,
    Column("id", Integer, primary_key=True),
    Column("jpeg", LargeBinary, nullable=False),
)

items = Table(
    "study_items",
    everything,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("input", Text, nullable=False),
    Column("picture", ForeignKey("study_pictures.id")),
    Column("first", JSON, nullable=False),  # a list of texts
    Column("second", JSON, nullable=False),
    Column("complexity", Double),
    Column("difficulty", Double),
    Column("answer", String(6)),  # the right method; only attention checks have one
)

annotators = Table(
    "study_annotators",
    everything,
    Column("id", Integer, primary_key=True),  # shown to others as a1, a2, ...
    Column("token", String(64), nullable=False),
    Column("digest", String(64), nullable=False, unique=True),  # what a token is looked up by
    Column("created", Double, nullable=False),
    Column("agreed", Double),
    Column("declined", Double),
)

showings = Table(
    "study_showings",
    everything,
    Column("id", Integer, primary_key=True),
    Column("item", ForeignKey("study_items.id"), nullable=False),
    Column("annotator", ForeignKey("study_annotators.id"), nullable=False),
    Column("slot", Integer),  # 1 to votes; NULL once someone else has it
    Column("left", String(6), nullable=False),
    Column("shown", Double, nullable=False),
    Column("expires", Double, nullable=False),
    Column("choice", String(6)),
    Column("voted", Double),
    UniqueConstraint("item", "slot", name="one_vote_a_slot"),
    UniqueConstraint("item", "annotator", name="shown_once"),
    CheckConstraint("choice IS NULL OR slot IS NOT NULL", name="votes_have_slots"),
)

_open = and_(showings.c.slot.is_not(None), showings.c.choice.is_(None))
Index("one_at_a_time", showings.c.annotator, unique=True, sqlite_where=_open, postgresql_where=_open)
Index("of_annotator", showings.c.annotator)
