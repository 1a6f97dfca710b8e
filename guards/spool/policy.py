"""The policy of one spool watch: one model for settings, run config and the plan. Descriptions are the operator's help text."""

import re
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from guards.canonical import Json


class SpoolPolicy(BaseModel):
    """By which rules entries are judged and targets are chosen."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    deliverable_pattern: str = Field(
        default=r"^[A-Za-z0-9][A-Za-z0-9._-]*\.(csv|edi|dat)$",
        description="A feed's whole name must match this regular expression; a leading dot or dash is never deliverable.",
        min_length=1,
        max_length=500,
    )
    in_progress_suffixes: tuple[str, ...] = Field(
        default=(".part", ".lock", ".tmp", ".writing"),
        description="A name with one of these endings is a writer's marker: the feed of that name is still being written.",
        max_length=50,
    )
    sla_minutes: int = Field(default=60, description="A feed younger than this many minutes is not late yet.", ge=0, le=525_600)
    max_files_per_run: int = Field(
        default=3, description="At most this many feeds are written by one plan, oldest first.", ge=1, le=1000
    )
    max_file_megabytes: int = Field(
        default=64, description="A larger feed is left to a person (1 megabyte is 1,048,576 bytes).", ge=1, le=1_048_576
    )
    listing_limit: int = Field(
        default=100_000,
        description="A listing that reaches this many rows counts as incomplete; it is never cut.",
        ge=1,
        le=10_000_000,
    )
    writer_stuck_minutes: int = Field(
        default=1440, description="A writer's marker older than this many minutes needs a person.", ge=1, le=525_600
    )
    stable_seconds: int = Field(
        default=0,
        description="Look twice, this many seconds apart, before calling a partner's copy short; 0 looks once.",
        ge=0,
        le=600,
    )
    verify_delivered: Literal["size", "checksum"] = Field(
        default="size", description="How a delivered feed is proven in reports: by size, or by reading and hashing both copies."
    )
    archive_delivered: bool = Field(
        default=False,
        description="Also archive feeds that somebody else delivered, once their checksum is proven. Our own are always archived.",
    )
    approval_timeout_minutes: int = Field(
        default=720, description="How long an approval holds unless it says otherwise.", ge=1, le=525_600
    )
    max_parallel_files: int = Field(default=1, description="How many feeds are sent at the same time.", ge=1, le=4)

    @field_validator("deliverable_pattern")
    @classmethod
    def _compiles(cls, value: str) -> str:
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from None
        return value

    @field_validator("in_progress_suffixes", mode="before")
    @classmethod
    def _as_tuple(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value

    @field_validator("in_progress_suffixes")
    @classmethod
    def _not_empty(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value or any(not suffix or len(suffix) > 50 for suffix in value):
            raise ValueError("give one or more endings, each 1 to 50 characters: an empty one would match every name")
        return value

    def as_json(self) -> dict[str, Json]:
        """Canonical: part of the plan digest."""
        return {**self.model_dump(mode="json"), "in_progress_suffixes": list(self.in_progress_suffixes)}
