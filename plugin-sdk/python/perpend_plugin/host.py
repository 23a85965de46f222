"""The host behind `context`, `log`, `model`, `trace`, `session` and `run`.

`current` is the host of the server inside a component (`bindings.py`) and this class everywhere else, so that evaluators
run in plain Python too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .errors import ModelError, TraceError

if TYPE_CHECKING:
    from .model import Completion, Request
    from .run import RunInfo, RunItem
    from .session import SessionInfo
    from .trace import Hit, Observation, OutlineEntry, Slice, TraceInfo

_NO_MODEL = "no model is available: in a test use `perpend_plugin.testing.host(answers=[...])`"
_NO_TRACE = "no trace is available: in a test use `perpend_plugin.testing.host(traces=...)`"
_NO_SESSION = "no session is available: in a test use `perpend_plugin.testing.host(sessions=...)`"
_NO_RUN = "no run is available: in a test use `perpend_plugin.testing.host(runs=...)`"


class Host:
    """A host without models, traces, sessions and runs."""

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

    def get_trace(self, trace_id: str) -> TraceInfo:
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
    ) -> tuple[list[Observation], str | None]:
        raise TraceError("not-granted", _NO_TRACE)

    def read(self, part: str, trace_id: str, observation_id: str) -> Any:
        raise TraceError("not-granted", _NO_TRACE)

    def outline(
        self, trace_id: str, *, parent_id: str | None, cursor: str | None, limit: int
    ) -> tuple[list[OutlineEntry], str | None]:
        raise TraceError("not-granted", _NO_TRACE)

    def search(self, trace_id: str, text: str, limit: int) -> list[Hit]:
        raise TraceError("not-granted", _NO_TRACE)

    def read_range(self, trace_id: str, observation_id: str, part: str, offset: int, length: int) -> Slice | None:
        raise TraceError("not-granted", _NO_TRACE)

    def get_session(self, session_id: str) -> SessionInfo:
        raise TraceError("not-granted", _NO_SESSION)

    def list_traces(self, session_id: str, *, cursor: str | None, limit: int) -> tuple[list[TraceInfo], str | None]:
        raise TraceError("not-granted", _NO_SESSION)

    def get_run(self, run_id: str) -> RunInfo:
        raise TraceError("not-granted", _NO_RUN)

    def list_items(self, run_id: str, *, cursor: str | None, limit: int) -> tuple[list[RunItem], str | None]:
        raise TraceError("not-granted", _NO_RUN)


#: The current host.
current: Host = Host()
