"""Language models, called through the host. The evaluator declares a slot; it has no access to the name, the address or
the key of the model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import host
from .errors import InvalidConfig, ModelError
from .schema import checked, schema_of

ROLES = ("system", "user", "assistant", "tool")
CACHE_MODES = ("standard", "refresh", "bypass")
TOOL_CHOICES = ("auto", "required", "none")


@dataclass(frozen=True)
class Image:
    """A stored image: the id of the medium in the project. The host loads it."""

    id: str


@dataclass(frozen=True)
class Audio:
    """Stored audio."""

    id: str


@dataclass(frozen=True)
class File:
    """A stored file of another kind."""

    id: str


@dataclass(frozen=True)
class ToolResult:
    """The result of a tool call; in messages of the role `tool`."""

    call_id: str
    #: The output for the model.
    content: str
    #: True when the tool failed; `content` is the reason.
    is_error: bool = False


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool by the model."""

    #: The identifier that the result refers to.
    id: str
    name: str
    #: The text of a JSON object, written by a model: it may violate the schema of the tool or be invalid JSON.
    arguments: str = "{}"

    def read(self, kind: Any = None) -> Any:
        """The arguments, as `kind` if the tool has a type, otherwise as a dict. Raises `ValueError` for invalid arguments;
        the error is suitable as the content of `failed`."""
        try:
            value = json.loads(self.arguments.strip() or "{}")
            if not isinstance(value, dict):
                raise TypeError("they must be a JSON object")
            return checked(kind, value)
        except (InvalidConfig, RecursionError, TypeError, ValueError) as why:
            raise ValueError(f"invalid arguments of {self.name}: {why}") from None

    def result(self, content: Any) -> ToolResult:
        """The result of the tool: text, or a value that the model reads as JSON."""
        return ToolResult(self.id, _text(content))

    def failed(self, why: Any) -> ToolResult:
        """The result of a failed tool."""
        return ToolResult(self.id, str(why), is_error=True)


#: A part of a message.
Part = str | Image | Audio | File | ToolCall | ToolResult
_PARTS = (str, Image, Audio, File, ToolCall, ToolResult)


@dataclass
class Message:
    """A message of a conversation."""

    #: One of `ROLES`.
    role: str
    #: A text, a part, or a list of parts; any other value becomes JSON text.
    content: Any

    @property
    def parts(self) -> list[Part]:
        """The content as parts."""
        content = list(self.content) if isinstance(self.content, Iterator) else self.content
        if isinstance(content, _PARTS):
            return [content]
        # A list without parts is a value, such as the input of an item.
        if isinstance(content, (list, tuple)) and any(isinstance(one, _PARTS[1:]) for one in content):
            return [one if isinstance(one, _PARTS) else _text(one) for one in content]
        return [_text(content)]

    @property
    def text(self) -> str:
        """The texts, separated by an empty line."""
        return "\n\n".join(part for part in self.parts if isinstance(part, str))


#: `Message`, `("user", "text")`, `{"role": "user", "content": "text"}`, or only the text of a user.
MessageLike = Message | tuple[str, Any] | Mapping[str, Any] | str


@dataclass
class Tool:
    """A function of the evaluator that the model may call."""

    #: 1 to 64 of letters, digits, `_` and `-`, unique in the request.
    name: str
    #: The description for the model: when and how to use the tool.
    description: str
    #: The parameters: a dataclass, a TypedDict or the JSON Schema of an object; None for no parameters.
    parameters: Any = None

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        return schema_of(self.parameters)


@dataclass
class Request:
    """One chat completion, for `complete_all`."""

    messages: Sequence[MessageLike] | str
    #: A declared slot; None means the first chat slot.
    slot: str | None = None
    #: JSON Schema of the answer; `Completion.structured` satisfies it.
    schema: Mapping[str, Any] | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    seed: int | None = None
    stop: Sequence[str] = ()
    #: Request log-probabilities with this many alternatives per token.
    top_logprobs: int | None = None
    #: `standard`, `refresh` or `bypass`.
    cache: str = "standard"
    #: Provider-specific settings, merged into the request.
    extra: Mapping[str, Any] | None = None
    #: The tools that the model may call. The evaluator executes them and sends another request with the results.
    tools: Sequence[Tool] = ()
    #: `auto`, `required`, `none`, or the tool that the model must call.
    tool_choice: str | Tool = "auto"

    def conversation(self) -> list[Message]:
        """The messages in normal form."""
        messages = [self.messages] if isinstance(self.messages, (str, Message)) else self.messages
        return [_message(message) for message in messages]

    def pairs(self) -> list[tuple[str, str]]:
        """The messages as (role, text)."""
        return [(message.role, message.text) for message in self.conversation()]


@dataclass
class TokenLogprob:
    """One token of an answer."""

    token: str
    logprob: float
    #: (token, logprob), ordered by descending probability.
    alternatives: list[tuple[str, float]] = field(default_factory=list)


@dataclass
class Distribution:
    """The probabilities of the choices."""

    #: The probability of each choice, in the order of the argument; the sum is 1.
    shares: dict[str, float]
    #: The probability of the first choice minus that of the second.
    margin: float
    #: The total probability of the tokens that begin a choice. Below about 0.9 the shares are not reliable.
    coverage: float


#: The computation of a distribution from (choices, member, byte of the text).
Measure = Callable[[Sequence[str], str | None, int | None], Distribution | None]


@dataclass
class Completion:
    """The answer of a model."""

    #: May be empty when the model calls tools.
    text: str
    #: The parsed answer; None without a schema in the request, or when the model calls tools instead.
    structured: Any = None
    #: `stop`, `length`, `content-filter`, `tool-calls` or `other`.
    finish: str = "stop"
    input_tokens: int = 0
    output_tokens: int = 0
    #: Empty unless requested and supported by the provider.
    logprobs: list[TokenLogprob] = field(default_factory=list)
    #: The model that answered, for comments and metadata.
    model: str = ""
    #: True when no provider was called.
    from_cache: bool = False
    #: The calls of tools, in the order of the model.
    tool_calls: list[ToolCall] = field(default_factory=list)
    #: The implementation of `probabilities`: of the host, or of a test.
    measure: Measure | None = field(default=None, repr=False, compare=False)

    @property
    def message(self) -> Message:
        """The message of the model for the next request of the conversation. A message of the role `tool` with a result
        of each call must follow."""
        return Message("assistant", [*([self.text] if self.text or not self.tool_calls else []), *self.tool_calls])

    def probabilities(
        self, choices: Iterable[str], member: str | None = None, *, offset: int | None = None
    ) -> Distribution | None:
        """The probability of each of the choices, from the log-probabilities of the tokens that distinguish them; the
        request must set `top_logprobs`. None without log-probabilities, and when no choice begins at the place.

        The choice is the whole answer, or the `member` of this name of a JSON object, or begins at the `offset` in
        `text`. Choices are plain text: `yes` and not `"yes"`, `true` for a boolean.
        """
        if self.measure is None:
            return None
        byte = None if offset is None else len(self.text[:offset].encode(errors="replace"))
        return self.measure(list(choices), member, byte)


def complete(messages: Sequence[MessageLike] | str, **settings: Any) -> Completion:
    """Calls a model; the settings are the fields of `Request`. Raises `ModelError`."""
    [answer] = complete_all([Request(messages, **settings)])
    if isinstance(answer, ModelError):
        raise answer
    return answer


def complete_all(requests: Iterable[Request]) -> list[Completion | ModelError]:
    """Sends at most 64 requests concurrently; the answers are in the order of the requests."""
    return host.current.complete(list(requests))


def embed(texts: Iterable[str], *, slot: str | None = None) -> list[list[float]]:
    """One vector per text, in order, at most 256 texts. Raises `ModelError`."""
    return host.current.embed(slot, list(texts))


def _message(message: MessageLike) -> Message:
    if isinstance(message, str):
        return Message("user", message)
    if isinstance(message, Mapping):
        message = Message(message["role"], message["content"])
    elif not isinstance(message, Message):
        message = Message(*message)
    if message.role not in ROLES:
        raise ModelError("invalid-request", f"the role must be one of {', '.join(ROLES)}; got {message.role!r}")
    return message


def _text(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
