"""Sizes and ages in the words of notes: exact, short, and the same everywhere."""

from datetime import timedelta


def duration(span: timedelta) -> str:
    """`6 h 12 min`, `3 d 4 h`, `45 s`; negative spans are shown as their length."""
    seconds = abs(int(span.total_seconds()))
    if seconds < 60:
        return f"{seconds} s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    if minutes < 60:
        return f"{minutes} min"
    if days < 1:
        return f"{hours} h {minutes % 60} min" if minutes % 60 else f"{hours} h"
    return f"{days} d {hours % 24} h" if hours % 24 else f"{days} d"


def size(size_bytes: int | None) -> str:
    """`1,234 bytes`, or `unknown size`: never zero for unknown."""
    match size_bytes:
        case None:
            return "unknown size"
        case 1:
            return "1 byte"
        case _:
            return f"{size_bytes:,} bytes"


def count(number: int, one: str, many: str = "") -> str:
    """`1 feed`, `3 feeds`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
