"""Replaces the package openai: the functions that the scorers call, implemented by the models of the host.

No key, address or model name gets in here; which model answers is the evaluator's slot.
"""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import perpend_plugin


class RateLimitError(Exception):
    """Never raised: the host has already retried."""


class _Answer(dict):
    """A response with the methods of the objects of the client."""

    def dict(self) -> _Answer:
        return self


#: The number of requests of each kind in this call.
_asked: dict[str, int] = {}


def _complete(
    *,
    messages: list[dict[str, str]],
    tools: list[dict[str, Any]] | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
    reasoning_effort: str | None = None,
    **_: Any,
) -> _Answer:
    # The only tool of a scorer defines the form of its answer: its parameters are the response schema.
    tool = tools[0]["function"] if tools else None
    schema = tool["parameters"] if tool else None
    question = json.dumps([messages, schema])
    n_before = _asked.get(question, 0)
    _asked[question] = n_before + 1
    answer = perpend_plugin.model.complete(
        messages,
        schema=schema,
        temperature=temperature,
        max_output_tokens=max_tokens,
        # A repeated request needs a new answer, not one from the response cache.
        seed=perpend_plugin.seed() % 2**31 + n_before if n_before else None,
        extra={"reasoning_effort": reasoning_effort} if reasoning_effort else None,
    )
    message: dict[str, Any] = {"role": "assistant", "content": answer.text}
    if tool:
        called = {"name": tool["name"], "arguments": json.dumps(answer.structured, ensure_ascii=False)}
        message["tool_calls"] = [{"id": "call", "type": "function", "function": called}]
    choice = {"index": 0, "message": message, "finish_reason": answer.finish}
    return _Answer(model=answer.model, choices=[choice])


def _embed(*, input: str, **_: Any) -> _Answer:
    [vector] = perpend_plugin.model.embed([input], slot="embedding")
    return _Answer(data=[{"embedding": vector}])


def _not_offered(**_: Any) -> _Answer:
    raise perpend_plugin.Internal("the host answers chat completions and embeddings only")


class OpenAI:
    """The client."""

    def __init__(self, **_: Any) -> None:
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=_complete))
        self.embeddings = SimpleNamespace(create=_embed)
        self.responses = SimpleNamespace(create=_not_offered)
        self.moderations = SimpleNamespace(create=_not_offered)


AsyncOpenAI = OpenAI
