"""What is wrong with the settings, in sentences: which key, what is allowed, and which key was probably meant."""

import difflib
from collections.abc import Iterable, Sequence
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

_KINDS = {
    "int_type": "a whole number",
    "bool_type": "true or false",
    "string_type": "text between quotes",
    "model_type": "a table such as { key = value }",
    "dict_type": "a table such as { key = value }",
    "tuple_type": "a list such as [ ... ]",
    "list_type": "a list such as [ ... ]",
}


def problems_of(
    error: ValidationError, model: type[BaseModel], *, hidden: Iterable[str] = (), above: Iterable[str] = ()
) -> list[str]:
    """One sentence per problem, each beginning with the key's path. Values given are never repeated: one may be a secret.

    `hidden` are fields that exist but are not keys, such as secrets: never offered as the key that was meant. `above` are keys of the
    whole file: TOML counts what stands below a [[watch]] as part of it, which nobody expects who adds a line at the end.
    """
    return [line for details in error.errors() for line in _sentences(details, model, frozenset(hidden), frozenset(above))]


def nearest(key: str, known: Sequence[str]) -> str:
    """A half sentence with the known key that is most like `key`, or all known ones."""
    close = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"


def _sentences(details: ErrorDetails, model: type[BaseModel], hidden: frozenset[str], above: frozenset[str]) -> list[str]:
    path = _key_path(details["loc"])
    kind = details["type"]
    if kind == "value_error":
        text = str(details.get("ctx", {}).get("error", details["msg"]))
        return text.split("\n") if not path else [f"{path}: {text}"]
    if kind == "extra_forbidden":
        if len(details["loc"]) == 1 and path in above:
            return [f"{path}: this key belongs above the first [[watch]]"]
        owner = _owner(model, details["loc"][:-1]) or model
        known = [name for name in owner.model_fields if name not in hidden]
        return [f"{path}: unknown key; {nearest(str(details['loc'][-1]), known)}"]
    if kind == "missing":
        return [f"{path}: this key is missing; {_allowed(details, model)}"]
    return [f"{path}: must be {_allowed(details, model)}"]


def _key_path(loc: tuple[int | str, ...]) -> str:
    shown = [str(part) for part in loc if not (isinstance(part, str) and ("[" in part or part in {"bool", "str", "int"}))]
    return ".".join(part if part.isprintable() else ascii(part) for part in shown)


def _owner(model: type[BaseModel], loc: tuple[int | str, ...]) -> type[BaseModel] | None:
    """The model that the keys after `loc` belong to."""
    current: Any = model
    for part in loc:
        if get_origin(current) is dict:
            current = get_args(current)[1]
            continue
        field = current.model_fields.get(str(part)) if _is_model(current) else None
        if field is None:
            return None
        current = _table_of(field.annotation)
    return current if _is_model(current) else None


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _table_of(annotation: Any) -> Any:
    """The model of a table that may be absent."""
    parts = get_args(annotation) if get_origin(annotation) in {Union, UnionType} else ()
    return next((part for part in parts if _is_model(part)), annotation)


def _allowed(details: ErrorDetails, model: type[BaseModel]) -> str:
    loc = tuple(part for part in details["loc"] if isinstance(part, str))
    for length in range(len(loc), 0, -1):
        owner = _owner(model, loc[: length - 1])
        field = owner.model_fields.get(loc[length - 1]) if owner else None
        if field is not None:
            return _described(details, field.annotation, field.metadata, field.description or "")
    return _KINDS.get(details["type"], details["msg"].lower())


def _described(details: ErrorDetails, annotation: Any, metadata: list[Any], description: str) -> str:
    bounds = {name: getattr(item, name) for item in metadata for name in ("ge", "le", "max_length") if hasattr(item, name)}
    choices = _choices(annotation)
    kind = details["type"]
    if choices:
        return "one of " + ", ".join(choices)
    if annotation is int:
        return (
            f"a whole number from {bounds['ge']} to {bounds['le']}"
            if {"ge", "le"} <= set(bounds)
            else f"a whole number, {bounds.get('ge', 0)} or more"
        )
    if kind == "missing":
        return description[:1].lower() + description[1:].rstrip(".")
    if kind in {"string_too_long", "string_too_short"}:
        return f"1 to {bounds.get('max_length', 'more')} characters"
    return _KINDS.get(kind, details["msg"].lower())


def _choices(annotation: Any) -> list[str]:
    if get_origin(annotation) is Literal:
        return [f'"{choice}"' for choice in get_args(annotation)]
    if get_origin(annotation) in {Union, UnionType}:
        parts = [_choices(part) or (["true", "false"] if part is bool else []) for part in get_args(annotation)]
        return [choice for part in parts for choice in part]
    return []
