"""The policy of one delivery watch: one model for settings, run config and the plan. Descriptions are the operator's help text."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from guards.canonical import Json

MessageKind = Literal["daily", "weekly", "monthly", "cutoff", "reminder"]


class DeliveryPolicy(BaseModel):
    """By which rules slots are judged and targets are chosen."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    max_messages_per_run: int = Field(
        default=500, description="At most this many messages are sent by one plan, the longest due first.", ge=1, le=5_000
    )
    known_failure_kinds: tuple[MessageKind, ...] = Field(
        default=("reminder",),
        description="Kinds of which a provider's proven no is believed: a person may then allow another attempt. "
        "For the others every failure is doubt.",
        max_length=5,
    )
    only_standing: bool = Field(
        default=False, description="Plan only what a live standing approval covers; the rest is reported and waits."
    )
    look_back_days: int = Field(
        default=2,
        description="Report every slot whose window closed in the last so many days. What was missed or is in doubt is reported longer: "
        "back to when the oldest window that is still open began.",
        ge=0,
        le=31,
    )
    look_ahead_hours: int = Field(
        default=24, description="Report slots that become due within so many hours as not_yet; 0 reports none.", ge=0, le=744
    )
    approval_timeout_minutes: int = Field(
        default=720, description="How long an approval holds unless it says otherwise.", ge=1, le=525_600
    )

    @field_validator("known_failure_kinds", mode="before")
    @classmethod
    def _as_tuple(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value

    @field_validator("known_failure_kinds")
    @classmethod
    def _in_one_order(cls, value: tuple[MessageKind, ...]) -> tuple[MessageKind, ...]:
        return tuple(sorted(set(value)))

    def as_json(self) -> dict[str, Json]:
        """Canonical: part of the plan digest."""
        return {**self.model_dump(mode="json"), "known_failure_kinds": list(self.known_failure_kinds)}
