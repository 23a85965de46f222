"""Requests and answers of models, in the words of the generated bindings. Loaded only inside a component.

Both are resources there, which is nobody's business but this module's: a request is made when it is sent, and of an
answer all is taken at once. An answer is kept in the host only where there is more to ask of it.
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


def request(model: Any, wanted: Request) -> Any:
    """The request as the host takes it; `ModelError` where it has no room for a value."""
    messages = [_message(model, message) for message in wanted.conversation()]
    tools = [model.Tool(tool.name, tool.description, _json(tool.schema())) for tool in wanted.tools]
    choice = _choice(model, wanted.tool_choice)
    cache = _named(wanted.cache, CACHE_MODES, "cache")
    made = model.Request(messages)
    if wanted.slot is not None:
        made.set_slot(wanted.slot)
    if wanted.schema is not None:
        made.set_response_schema(_json(wanted.schema))
    if wanted.temperature is not None:
        made.set_temperature(float(wanted.temperature))
    if wanted.top_p is not None:
        made.set_top_p(float(wanted.top_p))
    if wanted.max_output_tokens is not None:
        made.set_max_output_tokens(_whole(wanted.max_output_tokens, 32, "max_output_tokens"))
    if wanted.seed is not None:
        made.set_seed(_whole(wanted.seed, 64, "seed"))
    if wanted.stop:
        made.set_stop(list(wanted.stop))
    if wanted.top_logprobs is not None:
        made.set_top_logprobs(_whole(wanted.top_logprobs, 8, "top_logprobs"))
    if cache != "standard":
        made.set_cache(getattr(model.CacheMode, cache.upper()))
    if wanted.extra is not None:
        made.set_extra(_json(wanted.extra))
    if tools or wanted.tool_choice != "auto":
        made.set_tools(tools, choice)
    return made


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
        raise ModelError("invalid-request", f"{what} {value!r} is none of {', '.join(names)}")
    return value


def _whole(value: int, bits: int, what: str) -> int:
    if not 0 <= value < 1 << bits:
        raise ModelError("invalid-request", f"{what} is {value}, 0 to {(1 << bits) - 1} are possible")
    return int(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def completion(model: Any, held: Any) -> Completion:
    """The answer in the words of the SDK."""
    structured, usage, logprobs = held.structured(), held.usage(), held.logprobs()
    answer = Completion(
        text=held.text(),
        structured=None if structured is None else json.loads(structured),
        finish=held.finish().name.lower().replace("_", "-"),
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        logprobs=[
            TokenLogprob(one.token, one.logprob, [(other.token, other.logprob) for other in one.alternatives])
            for one in logprobs
        ],
        model=held.model(),
        from_cache=held.from_cache(),
        tool_calls=[ToolCall(call.id, call.name, call.arguments) for call in held.tool_calls()],
    )
    if logprobs:
        answer.measure = _measure(model, held)
    else:
        held.__exit__(None, None, None)
    return answer


def _measure(model: Any, held: Any) -> Measure:
    def measure(choices: Sequence[str], member: str | None, byte: int | None) -> Distribution | None:
        place = model.Place_Whole()
        if member is not None:
            place = model.Place_Member(member)
        elif byte is not None:
            place = model.Place_Offset(byte)
        found = held.probabilities(choices, place)
        if found is None:
            return None
        return Distribution({one.choice: one.probability for one in found.shares}, found.margin, found.coverage)

    return measure
