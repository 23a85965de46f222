"""Language models, asked through the host. The evaluator declares a slot; which model stands behind it, its
address and its key are never seen here."""

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
    """A stored image, by the id of the medium in the project. The host loads it."""

    id: str


@dataclass(frozen=True)
class Audio:
    """A stored sound."""

    id: str


@dataclass(frozen=True)
class File:
    """A stored file of another kind."""

    id: str


@dataclass(frozen=True)
class ToolResult:
    """What came of a tool call; in messages of the role `tool`."""

    call_id: str
    #: What the model is to read.
    content: str
    #: The tool failed, and `content` says why.
    is_error: bool = False


@dataclass(frozen=True)
class ToolCall:
    """The model asks for a tool to be used."""

    #: The result names it.
    id: str
    name: str
    #: The text of a JSON object, written by a model: it need not fit the schema of the tool, nor be JSON.
    arguments: str = "{}"

    def read(self, kind: Any = None) -> Any:
        """The arguments, as `kind` where the tool was made of one, else as a dict. Raises a `ValueError` that
        says what is wrong with them: good as the content of `failed`, so that the model can do better."""
        try:
            value = json.loads(self.arguments.strip() or "{}")
            if not isinstance(value, dict):
                raise TypeError("they are no JSON object")
            return checked(kind, value)
        except (InvalidConfig, RecursionError, TypeError, ValueError) as why:
            raise ValueError(f"the arguments of {self.name} cannot be read: {why}") from None

    def result(self, content: Any) -> ToolResult:
        """What the tool found: text, or a value that the model reads as JSON."""
        return ToolResult(self.id, _text(content))

    def failed(self, why: Any) -> ToolResult:
        """Why the tool found nothing."""
        return ToolResult(self.id, str(why), is_error=True)


#: A piece of a message.
Part = str | Image | Audio | File | ToolCall | ToolResult
_PARTS = (str, Image, Audio, File, ToolCall, ToolResult)


@dataclass
class Message:
    """Something that was said."""

    #: One of `ROLES`.
    role: str
    #: A text, a part, or a list of parts; any other value is said as JSON text.
    content: Any

    @property
    def parts(self) -> list[Part]:
        """The content as parts."""
        content = list(self.content) if isinstance(self.content, Iterator) else self.content
        if isinstance(content, _PARTS):
            return [content]
        # A list without any of them is a value that is asked about, such as an item's input.
        if isinstance(content, (list, tuple)) and any(isinstance(one, _PARTS[1:]) for one in content):
            return [one if isinstance(one, _PARTS) else _text(one) for one in content]
        return [_text(content)]

    @property
    def text(self) -> str:
        """Its texts, an empty line between them."""
        return "\n\n".join(part for part in self.parts if isinstance(part, str))


#: `Message`, `("user", "text")`, `{"role": "user", "content": "text"}`, or only the text of a user.
Said = Message | tuple[str, Any] | Mapping[str, Any] | str


@dataclass
class Tool:
    """A function that the model may ask the evaluator to carry out."""

    #: 1 to 64 of letters, digits, `_` and `-`, unique in the request.
    name: str
    #: Tells the model when and how to use it.
    description: str
    #: What it takes: a dataclass, a TypedDict or the JSON Schema of an object; None for nothing.
    parameters: Any = None

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments."""
        return schema_of(self.parameters)


@dataclass
class Request:
    """One chat completion, for `complete_all`."""

    messages: Sequence[Said] | str
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
    #: What the model may ask for. The evaluator carries it out, and asks again with the results.
    tools: Sequence[Tool] = ()
    #: `auto`, `required`, `none`, or the tool that has to be called.
    tool_choice: str | Tool = "auto"

    def conversation(self) -> list[Message]:
        """What is said, in one form."""
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
    #: (token, logprob), most likely first.
    alternatives: list[tuple[str, float]] = field(default_factory=list)


@dataclass
class Distribution:
    """How probable each choice was."""

    #: Of each choice, in the order they were asked in; they sum up to 1.
    shares: dict[str, float]
    #: How far the most probable choice is ahead of the next one.
    margin: float
    #: The probability of all that was seen to begin a choice. Below about 0.9 the shares say little.
    coverage: float


#: (choices, member, byte of the text) to what the host makes of an answer's log-probabilities.
Measure = Callable[[Sequence[str], str | None, int | None], Distribution | None]


@dataclass
class Completion:
    """What a model answered."""

    #: May be empty when the model calls tools.
    text: str
    #: The parsed answer; None unless the request had a schema, and where the model calls tools instead.
    structured: Any = None
    #: `stop`, `length`, `content-filter`, `tool-calls` or `other`.
    finish: str = "stop"
    input_tokens: int = 0
    output_tokens: int = 0
    #: Empty unless asked for and offered.
    logprobs: list[TokenLogprob] = field(default_factory=list)
    #: The model that answered, for rationale and metadata.
    model: str = ""
    #: True when no provider was called.
    from_cache: bool = False
    #: Tools that the model asks for, in its order.
    tool_calls: list[ToolCall] = field(default_factory=list)
    #: What computes `probabilities`: the host, or a test.
    measure: Measure | None = field(default=None, repr=False, compare=False)

    @property
    def message(self) -> Message:
        """What the model said, for the next request of the conversation; a message of the role `tool` with a
        result of each call follows it."""
        return Message("assistant", [*([self.text] if self.text or not self.tool_calls else []), *self.tool_calls])

    def probabilities(
        self, choices: Iterable[str], member: str | None = None, *, offset: int | None = None
    ) -> Distribution | None:
        """How probable each of the choices was, from the log-probabilities of the tokens that tell them apart; the
        request asked for some with `top_logprobs`. None when there are none, and when no choice was begun.

        The choice is the whole answer, or the `member` of this name of a JSON object, or begins at the `offset` in
        `text`. Choices are plain text: `yes` and not `"yes"`, `true` for a boolean.
        """
        if self.measure is None:
            return None
        byte = None if offset is None else len(self.text[:offset].encode(errors="replace"))
        return self.measure(list(choices), member, byte)


def complete(messages: Sequence[Said] | str, **settings: Any) -> Completion:
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


def _message(message: Said) -> Message:
    if isinstance(message, str):
        return Message("user", message)
    if isinstance(message, Mapping):
        message = Message(message["role"], message["content"])
    elif not isinstance(message, Message):
        message = Message(*message)
    if message.role not in ROLES:
        raise ModelError("invalid-request", f"the role {message.role!r} is none of {', '.join(ROLES)}")
    return message


def _text(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
