"""Secrets of a `[[watch]]` block: never from the file, always from the environment, one variable per field unless the block names another."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def secret_variable(guard: str, watch: str, field: str) -> str:
    """`OPSGUARD_SPOOL_ACME_SOURCE_PASSWORD` for guard `spool`, watch `acme` and field `source_password`."""
    return f"OPSGUARD_{guard}_{watch}_{field}".upper().replace("-", "_")


@dataclass(frozen=True, slots=True)
class SecretKey:
    """`table` is the path of the table that it stands in, () for the block itself. `variable` holds it unless `<field>_env` names another."""

    field: str
    variable: str
    table: tuple[str, ...] = ()
    may_stand_in_file: bool = False
    """Often no secret, such as an address: read from the environment only when `<field>_env` asks for that."""

    @property
    def path(self) -> str:
        return ".".join((*self.table, self.field))


def with_secrets(
    block: Mapping[str, Any], keys: Iterable[SecretKey], environ: Mapping[str, str]
) -> tuple[dict[str, Any], list[str]]:
    """The block with its secrets from `environ`, and what is wrong, in sentences that never repeat a value."""
    made, problems = _copied(block), []
    for key in keys:
        table = _table(made, key.table)
        if table is None:
            continue
        named = table.get(f"{key.field}_env") or ("" if key.may_stand_in_file else key.variable)
        if key.field in table and not (key.may_stand_in_file and not named):
            del table[key.field]
            problems.append(_in_file(key))
        if not named or not (isinstance(named, str) and _VARIABLE.fullmatch(named)):
            if f"{key.field}_env" in table and table[f"{key.field}_env"] != "":
                problems.append(f"{key.path}_env: must be the name of an environment variable (not the secret itself)")
                del table[f"{key.field}_env"]
            continue
        value = environ.get(named, "")
        if is_one_line(value):
            table[key.field] = value
        else:
            problems.append(f"the environment variable {named} holds a control character or a line break")
    return made, problems


def is_one_line(value: str) -> bool:
    """A line break in a password would be a second command to an FTP server."""
    return not any(ord(character) < 32 or ord(character) == 127 for character in value)


def from_environment(environ: Mapping[str, str], named: str) -> str:
    """Raises `ValueError` without the value."""
    value = environ.get(named, "")
    if not is_one_line(value):
        raise ValueError(f"the environment variable {named} holds a control character or a line break")
    return value


def _in_file(key: SecretKey) -> str:
    if key.may_stand_in_file:
        return f"{key.path}: stands in the file and is named by {key.field}_env as well: keep one of the two"
    return (
        f"{key.path}: a secret does not belong in this file; set {key.variable} in the environment, "
        f"or name another variable by {key.field}_env"
    )


def _copied(value: Any) -> Any:
    """Tables are changed in place: the file's own stay as they are."""
    return {name: _copied(one) for name, one in value.items()} if isinstance(value, Mapping) else value


def _table(block: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any] | None:
    current: Any = block
    for part in path:
        current = current.get(part) if isinstance(current, dict) else None
    return current if isinstance(current, dict) else None
