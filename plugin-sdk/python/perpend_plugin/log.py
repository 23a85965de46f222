"""The log for the operator: at most 200 lines of 8 KiB per call. `print` writes to the same log."""

from __future__ import annotations

import json
from typing import Any

from . import host


def debug(message: str, **fields: Any) -> None:
    """Adds a line of level debug."""
    _line("debug", message, fields)


def info(message: str, **fields: Any) -> None:
    """Adds a line of level info."""
    _line("info", message, fields)


def warn(message: str, **fields: Any) -> None:
    """Adds a line of level warn."""
    _line("warn", message, fields)


def error(message: str, **fields: Any) -> None:
    """Adds a line of level error."""
    _line("error", message, fields)


def _line(level: str, message: str, fields: dict[str, Any]) -> None:
    # Logging never fails: what JSON cannot hold is shown as text.
    text = json.dumps(fields, ensure_ascii=False, default=str) if fields else None
    host.current.log(level, str(message), text)
