"""Owners of a watch, in the two forms that Dagster shows: a team or an e-mail address."""

import re
from typing import Annotated

from pydantic import BeforeValidator

_TEAM = re.compile(r"team:[A-Za-z0-9_-]{1,100}")
_ADDRESS = re.compile(r"[A-Za-z0-9._%+-]{1,100}@[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63}){1,8}")


def _owners(value: object) -> object:
    if not isinstance(value, list | tuple):
        raise ValueError('must be a list, for example ["team:data-platform"]')  # noqa: TRY004 - pydantic reports ValueError only
    for owner in value:
        if not isinstance(owner, str) or not (_TEAM.fullmatch(owner) or _ADDRESS.fullmatch(owner)):
            raise ValueError('each owner must be "team:name" (letters, digits, - and _) or an e-mail address')
    return tuple(value)


Owners = Annotated[tuple[str, ...], BeforeValidator(_owners)]
