"""Requests to models and their answers as types of the generated bindings. Loaded only inside a component.

Both are resources of the contract, which only this module uses: a request is created when it is sent, and an answer is
read at once. The host keeps an answer only if it has log-probabilities.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from .errors import ModelError
from .model import (
    CACHE_MODES,
    TOOL_CHOICES,
    Audio,
    Completion,
    Distribution,
    File,
    Image,
    Measure,
    Message,
    Part,
    Request,
    TokenLogprob,
    Tool,
    ToolCall,
)


def request(model: Any, settings: Request) -> Any:
    """The request for the host. Raises `ModelError` for a value out of range."""
    messages = [_message(model, message) for message in settings.conversation()]
    tools = [model.Tool(tool.name, tool.description, _json(tool.schema())) for tool in settings.tools]
    choice = _choice(model, settings.tool_choice)
    cache = _named(settings.cache, CACHE_MODES, "cache")
    resource = model.Request(messages)
    if settings.slot is not None:
        resource.set_slot(settings.slot)
    if settings.schema is not None:
        resource.set_response_schema(_json(settings.schema))
    if settings.temperature is not None:
        resource.set_temperature(float(settings.temperature))
    if settings.top_p is not None:
        resource.set_top_p(float(settings.top_p))
    if settings.max_output_tokens is not None:
        resource.set_max_output_tokens(_whole(settings.max_output_tokens, 32, "max_output_tokens"))
    if settings.seed is not None:
        resource.set_seed(_whole(settings.seed, 64, "seed"))
    if settings.stop:
        resource.set_stop(list(settings.stop))
    if settings.top_logprobs is not None:
        resource.set_top_logprobs(_whole(settings.top_logprobs, 8, "top_logprobs"))
    if cache != "standard":
        resource.set_cache(getattr(model.CacheMode, cache.upper()))
    if settings.extra is not None:
        resource.set_extra(_json(settings.extra))
    if tools or settings.tool_choice != "auto":
        resource.set_tools(tools, choice)
    return resource


def _message(model: Any, message: Message) -> Any:
    parts = [_part(model, part) for part in message.parts]
    return model.Message(role=getattr(model.Role, message.role.upper()), parts=parts)


def _part(model: Any, part: Part) -> Any:
    if isinstance(part, str):
        return model.Part_Text(part)
    if isinstance(part, Image):
        return model.Part_Image(part.id)
    if isinstance(part, Audio):
        return model.Part_Audio(part.id)
    if isinstance(part, File):
        return model.Part_File(part.id)
    if isinstance(part, ToolCall):
        return model.Part_ToolCall(model.ToolCall(part.id, part.name, part.arguments))
    return model.Part_ToolResult(model.ToolResult(part.call_id, part.content, part.is_error))


def _choice(model: Any, choice: str | Tool) -> Any:
    if isinstance(choice, Tool):
        return model.ToolChoice_Named(choice.name)
    cases = (model.ToolChoice_Auto, model.ToolChoice_Required, model.ToolChoice_None_)
    return dict(zip(TOOL_CHOICES, cases))[_named(choice, TOOL_CHOICES, "tool_choice")]()


def _named(value: str, names: Sequence[str], what: str) -> str:
    if value not in names:
        raise ModelError("invalid-request", f"{what} must be one of {', '.join(names)}; got {value!r}")
    return value


def _whole(value: int, bits: int, what: str) -> int:
    if not 0 <= value < 1 << bits:
        raise ModelError("invalid-request", f"{what} must be between 0 and {(1 << bits) - 1}, got {value}")
    return int(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def completion(model: Any, resource: Any) -> Completion:
    """The answer as a type of the SDK."""
    structured, usage, logprobs = resource.structured(), resource.usage(), resource.logprobs()
    answer = Completion(
        text=resource.text(),
        structured=None if structured is None else json.loads(structured),
        finish=resource.finish().name.lower().replace("_", "-"),
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        logprobs=[
            TokenLogprob(one.token, one.logprob, [(other.token, other.logprob) for other in one.alternatives])
            for one in logprobs
        ],
        model=resource.model(),
        from_cache=resource.from_cache(),
        tool_calls=[ToolCall(call.id, call.name, call.arguments) for call in resource.tool_calls()],
    )
    if logprobs:
        answer.measure = _measure(model, resource)
    else:
        resource.__exit__(None, None, None)
    return answer


def _measure(model: Any, resource: Any) -> Measure:
    def measure(choices: Sequence[str], member: str | None, byte: int | None) -> Distribution | None:
        place = model.Place_Whole()
        if member is not None:
            place = model.Place_Member(member)
        elif byte is not None:
            place = model.Place_Offset(byte)
        found = resource.probabilities(choices, place)
        if found is None:
            return None
        return Distribution({one.choice: one.probability for one in found.shares}, found.margin, found.coverage)

    return measure
