"""A policy for one run: fields that `--set FIELD=VALUE` replaces, read as text and checked like those in the file."""

import re
from collections.abc import Mapping
from typing import TypeVar, get_origin

from pydantic import BaseModel, ValidationError

from opsguard_defs.settings.problems import nearest, problems_of
from resources.errors import ConfigurationError

PolicyModel = TypeVar("PolicyModel", bound=BaseModel)


def override_policy(policy: PolicyModel, overrides: Mapping[str, str]) -> PolicyModel:
    """Lists are separated by commas. Raises `ConfigurationError` naming every field that will not do."""
    model = type(policy)
    fields = model.model_fields
    unknown = [f"{field}: unknown field; {nearest(field, list(fields))}" for field in overrides if field not in fields]
    values = {field: _read(text, fields[field].annotation) for field, text in overrides.items() if field in fields}
    try:
        made = model(**{**policy.model_dump(), **values})
    except ValidationError as error:
        raise ConfigurationError("\n".join(f"--set {problem}" for problem in [*unknown, *problems_of(error, model)])) from None
    if unknown:
        raise ConfigurationError("\n".join(f"--set {problem}" for problem in unknown))
    return made


def _read(text: str, annotation: object) -> object:
    """Whole numbers, truths and lists by their annotation; what cannot be read stays text, which the model then refuses."""
    if annotation is int and re.fullmatch(r"-?[0-9]{1,12}", text):
        return int(text)
    if annotation is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    if get_origin(annotation) is tuple:
        return tuple(item.strip() for item in text.split(","))
    return text
