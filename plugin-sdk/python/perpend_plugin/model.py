"""Language models, asked through the host. The evaluator declares a slot; which model stands behind it, its
address and its key are never seen here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import host
from .errors import ModelError

#: `("user", "text")`, `{"role": "user", "content": "text"}`, or only the text of a user.
Message = tuple[str, str] | Mapping[str, str] | str

ROLES = ("system", "user", "assistant")
CACHE_MODES = ("standard", "refresh", "bypass")


@dataclass
class Request:
    """One chat completion, for `complete_all`."""

    messages: Sequence[Message] | str
    #: A declared slot; None means the first chat slot.
    slot: str | None = None
    #: JSON Schema of the wanted answer: `Completion.structured` is then checked against it.
    schema: Mapping[str, Any] | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    seed: int | None = None
    stop: Sequence[str] = ()
    #: Ask for log-probabilities with this many alternatives per token.
    top_logprobs: int | None = None
    #: `standard`, `refresh` or `bypass`.
    cache: str = "standard"
    #: Provider-specific settings, merged into the request.
    extra: Mapping[str, Any] | None = None

    def pairs(self) -> list[tuple[str, str]]:
        """The messages as (role, content)."""
        messages = [self.messages] if isinstance(self.messages, str) else self.messages
        return [_pair(message) for message in messages]


@dataclass
class TokenLogprob:
    """One token of an answer."""

    token: str
    logprob: float
    #: (token, logprob), most likely first.
    alternatives: list[tuple[str, float]] = field(default_factory=list)


@dataclass
class Completion:
    """What a model answered."""

    text: str
    #: The parsed answer; None unless the request had a schema.
    structured: Any = None
    #: `stop`, `length`, `content-filter` or `other`.
    finish: str = "stop"
    input_tokens: int = 0
    output_tokens: int = 0
    #: Empty unless asked for and offered.
    logprobs: list[TokenLogprob] = field(default_factory=list)
    #: The model that answered, for rationale and metadata.
    model: str = ""
    #: True when no provider was called.
    from_cache: bool = False


def complete(messages: Sequence[Message] | str, **settings: Any) -> Completion:
    """Asks a model once; takes the fields of `Request`. Raises `ModelError`."""
    [answer] = complete_all([Request(messages, **settings)])
    if isinstance(answer, ModelError):
        raise answer
    return answer


def complete_all(requests: Iterable[Request]) -> list[Completion | ModelError]:
    """Asks many times at once, at most 64; the answers stand in the order of the requests."""
    return host.current.complete(list(requests))


def embed(texts: Iterable[str], *, slot: str | None = None) -> list[list[float]]:
    """One vector per text, in order, at most 256 texts. Raises `ModelError`."""
    return host.current.embed(slot, list(texts))


def _pair(message: Message) -> tuple[str, str]:
    if isinstance(message, str):
        return ("user", message)
    if isinstance(message, Mapping):
        role, content = message["role"], message["content"]
    else:
        role, content = message
    if role not in ROLES:
        raise ModelError("invalid-request", f"the role {role!r} is none of {', '.join(ROLES)}")
    return (role, content if isinstance(content, str) else json.dumps(content, ensure_ascii=False))
