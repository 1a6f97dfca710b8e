"""Five cron fields, checked by a closed grammar so that a bad schedule is refused with the settings and not at 05:30."""

import re

_FIELDS = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of month", 1, 31, ()),
    ("month", 1, 12, ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")),
    ("day of week", 0, 7, ("sun", "mon", "tue", "wed", "thu", "fri", "sat")),
)
_ITEM = re.compile(r"(?P<low>\*|[a-z]{3}|[0-9]{1,2})(-(?P<high>[a-z]{3}|[0-9]{1,2}))?(/(?P<step>[0-9]{1,2}))?")


def check_cron(text: str) -> str:
    """Returns the text with single blanks. Raises `ValueError`."""
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise ValueError('give five cron fields (minute, hour, day, month, weekday; UTC), for example "30 5 * * *"')
    for field, (name, low, high, names) in zip(fields, _FIELDS, strict=True):
        for item in field.lower().split(","):
            if not _allowed(item, low, high, names):
                raise ValueError(f'{name} must be *, a number from {low} to {high}, a range or a step, for example "*/15"')
    return " ".join(fields)


def _allowed(item: str, low: int, high: int, names: tuple[str, ...]) -> bool:
    found = _ITEM.fullmatch(item)
    if found is None or (found["low"] == "*" and found["high"]) or found["step"] in {"0", "00"}:
        return False
    ends = [_number(end, low, names) for end in (found["low"], found["high"]) if end and end != "*"]
    numbers = [end for end in ends if end is not None]
    return len(numbers) == len(ends) and all(low <= number <= high for number in numbers) and numbers == sorted(numbers)


def _number(text: str, low: int, names: tuple[str, ...]) -> int | None:
    if text.isdigit():
        return int(text)
    return names.index(text) + low if text in names else None
