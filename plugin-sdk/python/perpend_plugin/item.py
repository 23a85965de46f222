"""The item that is scored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .errors import InvalidInput

#: Names of the parts that hold a value, as `needs` spells them.
PARTS = ("input", "output", "expected_output")

#: The payload of a part: whether it is JSON text, and the text.
Raw = tuple[bool, str]


class TraceRef:
    """The reference to the recorded execution of an item."""

    __slots__ = ("observation_id", "trace_id")

    def __init__(self, trace_id: str, observation_id: str | None = None) -> None:
        self.trace_id = trace_id
        #: The observation that is scored; None for the whole trace.
        self.observation_id = observation_id

    def __repr__(self) -> str:
        return f"TraceRef({self.trace_id!r}, {self.observation_id!r})"


class Item:
    """One item. Only the parts in `needs` are present; they are parsed on first access.

    An absent part is None, like the JSON value null; `given` distinguishes them.
    """

    __slots__ = ("_metadata", "_parsed", "_raw", "id", "run", "session", "trace")

    def __init__(
        self,
        id: str = "",
        raw: Mapping[str, Raw] | None = None,
        metadata: str | None = None,
        trace: TraceRef | None = None,
        session: str | None = None,
        run: str | None = None,
    ) -> None:
        #: Unique inside one run. For log lines only: a score must not depend on it.
        self.id = id
        #: The reference to the recorded execution.
        self.trace = trace
        #: The id of the scored session, for `session`.
        self.session = session
        #: The id of the scored run of an experiment, for `run`.
        self.run = run
        self._raw = raw or {}
        self._metadata = metadata
        self._parsed: dict[str, Any] = {}

    @classmethod
    def of(
        cls,
        values: Mapping[str, Any] | None = None,
        *,
        id: str = "item",
        metadata: Mapping[str, Any] | None = None,
        trace: TraceRef | None = None,
        session: str | None = None,
        run: str | None = None,
        **parts: Any,
    ) -> Item:
        """An item from Python values, for tests: `Item.of(output="hello", expected_output="hi")`."""
        given = {**(values or {}), **parts}
        unknown = [name for name in given if name not in PARTS]
        if unknown:
            raise TypeError(f"an item has no part {unknown[0]!r}: {', '.join(PARTS)}, metadata, trace, session, run")
        raw = {name: to_raw(value) for name, value in given.items()}
        text = None if metadata is None else json.dumps(dict(metadata), ensure_ascii=False)
        return cls(id, raw, text, trace, session, run)

    @property
    def input(self) -> Any:
        """The input of the subject."""
        return self._value("input")

    @property
    def output(self) -> Any:
        """The output of the subject."""
        return self._value("output")

    @property
    def expected_output(self) -> Any:
        """The expected output."""
        return self._value("expected_output")

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata; empty when there is none."""
        if "metadata" not in self._parsed:
            self._parsed["metadata"] = json.loads(self._metadata) if self._metadata else {}
        return self._parsed["metadata"]

    def given(self, part: str) -> bool:
        """Whether the data has this part, null included."""
        return self._metadata is not None if part == "metadata" else part in self._raw

    def require(self, part: str) -> Any:
        """The value of a part; `InvalidInput` when the item has none."""
        if not self.given(part):
            raise InvalidInput(f"the item has no {part.replace('_', ' ')}")
        return self.metadata if part == "metadata" else self._value(part)

    def text(self, part: str = "output") -> str:
        """A part as text: strings as they are, anything else as JSON. `InvalidInput` when absent."""
        if part not in self._raw:
            raise InvalidInput(f"the item has no {part.replace('_', ' ')}")
        return self._raw[part][1]

    def size(self) -> int:
        """Bytes of its parts, as they came."""
        texts = [text for _, text in self._raw.values()] + [self._metadata or ""]
        return sum(len(text.encode(errors="replace")) for text in texts)

    def _value(self, part: str) -> Any:
        if part not in self._parsed:
            raw = self._raw.get(part)
            if raw is None:
                return None
            self._parsed[part] = json.loads(raw[1]) if raw[0] else raw[1]
        return self._parsed[part]

    def __repr__(self) -> str:
        return f"Item(id={self.id!r}, parts={sorted(self._raw)})"


def to_raw(value: Any) -> Raw:
    """A Python value as it crosses the boundary."""
    if isinstance(value, str):
        return (False, value)
    return (True, json.dumps(value, ensure_ascii=False, allow_nan=False))
