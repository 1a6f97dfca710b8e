"""One flat block of described fields in the Launchpad, from one pydantic model: the same bounds and help text everywhere."""

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeVar, get_args, get_origin

import dagster as dg
from pydantic import BaseModel, ValidationError

Model = TypeVar("Model", bound=BaseModel)

_TYPES: Final[Mapping[object, Any]] = {int: int, bool: bool, str: str}


class NotLaunched(Exception):
    """Shown in the Launchpad's error box; no run was created."""


def config_fields(model: type[BaseModel], defaults: BaseModel) -> dict[str, dg.Field]:
    """Dagster's form of the model's fields, with `defaults`' values and the fields' own descriptions. Never null."""
    values = defaults.model_dump(mode="json")
    return {
        name: dg.Field(_type(field.annotation), default_value=values[name], is_required=False, description=field.description)
        for name, field in model.model_fields.items()
    }


def checked(model: type[Model], values: Mapping[str, Any]) -> Model:
    """Raises `NotLaunched` with one line per wrong field. `from None`: the Launchpad shows one short box instead of two."""
    try:
        return model(**values)
    except ValidationError as error:
        wrong = "\n".join(
            f"  {'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors(include_url=False, include_input=False)
        )
        raise NotLaunched(f"Nothing was launched. Please correct:\n{wrong}") from None


def _type(annotation: object) -> Any:
    if get_origin(annotation) is Literal:
        return dg.Noneable(str) if None in get_args(annotation) else str
    if get_origin(annotation) is tuple:
        return [str]
    return _TYPES[annotation]
