"""What a person fills in to apply a plan: one flat block, defaults that cannot write."""

from collections.abc import Mapping
from typing import Any

import dagster as dg
from pydantic import BaseModel, ConfigDict, Field

from assets.config_fields import NotLaunched, checked, config_fields
from assets.site import Site


class ApplyConfig(BaseModel):
    """Write exactly the targets of one approved plan.

    No `dg.Config`: that reads `{env: NAME}` in a text field, and would put a secret of the server on a receipt.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    approved_plan: str = Field(
        default="",
        description="Digest of the plan you approve: 12 or more hex digits, from the plan asset.",
        pattern=r"^(?:[0-9a-f]{12,64})?$",
    )
    approved_by: str = Field(
        default="",
        description="Your name or e-mail. It goes on the receipt; a claim, nobody checks it. Leave it empty to apply a plan "
        "that was approved already.",
        max_length=120,
    )
    approval_comment: str = Field(default="", description="Why, for the record (optional).", max_length=500)
    auto_remediate: bool = Field(default=False, description="Second key: must be on as well for anything to be written.")
    dry_run: bool = Field(default=True, description="On: look, do not touch. Off: this run may write.")


def apply_mapping(graph: str, site: Site) -> dg.ConfigMapping:
    """Job level, so that the Launchpad shows one block with every field's help at once. Bad values create no run."""

    def config_of(values: Mapping[str, Any]) -> Mapping[str, Any]:
        config = checked(ApplyConfig, values)
        if not config.dry_run and config.auto_remediate and not config.approved_plan:
            raise NotLaunched(
                "Nothing was launched. approved_plan is empty: put the plan's digest between the quotes, 12 digits or more."
            )
        if config.approved_by and not site.approve_in_ui:
            raise NotLaunched(
                "Nothing was launched. Decisions are accepted from the command line only (approve_in_ui = false): "
                "`opsguard approve DIGEST --by YOU`, then leave approved_by empty here."
            )
        if config.approved_by and not (config.approved_by.isprintable() and config.approved_by.strip()):
            raise NotLaunched("Nothing was launched. approved_by must be printable, on one line.")
        writes = not config.dry_run and config.auto_remediate
        if writes and not config.approved_by and site.is_approved is not None and not site.is_approved(config.approved_plan):
            raise NotLaunched(
                "Nothing was launched. approved_by is empty: put your name or e-mail between the quotes"
                f"{', or' if site.approve_in_ui else '. The command line decides here:'} "
                f"`opsguard approve {config.approved_plan[:12]} --by YOU`."
            )
        return {"ops": {graph: {"ops": {"authorise": {"config": config.model_dump()}}}}}

    return dg.ConfigMapping(config_schema=config_fields(ApplyConfig, ApplyConfig()), config_fn=config_of)
