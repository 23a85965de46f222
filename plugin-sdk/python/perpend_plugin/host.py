"""What answers `context`, `log`, `model` and `trace`: the server, a test, or nobody.

`current` is the server's host inside a component (`bindings.py`) and this stand-in everywhere else, so
evaluators run in plain Python too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .errors import ModelError, TraceError

if TYPE_CHECKING:
    from .model import Completion, Request

_NO_MODEL = "nobody answers here: in a test use `perpend_plugin.testing.host(answers=[...])`"
_NO_TRACE = "there is no trace here: in a test use `perpend_plugin.testing.host(traces=...)`"


class Host:
    """Answers nothing that needs a server."""

    def seed(self) -> int:
        return 0

    def run_time(self) -> int:
        return 0

    def log(self, level: str, message: str, fields: str | None) -> None:
        pass

    def complete(self, requests: Sequence[Request]) -> list[Completion | ModelError]:
        return [ModelError("not-granted", _NO_MODEL) for _ in requests]

    def embed(self, slot: str | None, texts: Sequence[str]) -> list[list[float]]:
        raise ModelError("not-granted", _NO_MODEL)

    def get_trace(self, trace_id: str) -> Any:
        raise TraceError("not-granted", _NO_TRACE)

    def list_observations(
        self,
        trace_id: str,
        *,
        parent_id: str | None,
        kinds: Sequence[str],
        name: str | None,
        cursor: str | None,
        limit: int,
    ) -> tuple[list[Any], str | None]:
        raise TraceError("not-granted", _NO_TRACE)

    def read(self, part: str, trace_id: str, observation_id: str) -> Any:
        raise TraceError("not-granted", _NO_TRACE)


#: Who answers now.
current: Host = Host()
