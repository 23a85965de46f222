"""The configuration of an evaluator: its JSON Schema from a dataclass or TypedDict, and back again."""

from __future__ import annotations

import dataclasses
import enum
import functools
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, Union

from .errors import InvalidConfig

_EMPTY: dict[str, Any] = {"type": "object", "additionalProperties": False}
_PLAIN: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    type(None): {"type": "null"},
    Any: {},
    object: {},
    dict: {"type": "object"},
    list: {"type": "array"},
}


def field(
    default: Any = dataclasses.MISSING,
    *,
    title: str | None = None,
    description: str | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
    exclusive_minimum: float | None = None,
    exclusive_maximum: float | None = None,
    min_length: int | None = None,
    max_length: int | None = None,
    pattern: str | None = None,
    min_items: int | None = None,
    max_items: int | None = None,
    unique_items: bool | None = None,
    format: str | None = None,
    examples: list[Any] | None = None,
) -> Any:
    """A field of a configuration, with keywords of its JSON Schema."""
    keywords = {
        "title": title,
        "description": description,
        "minimum": minimum,
        "maximum": maximum,
        "exclusiveMinimum": exclusive_minimum,
        "exclusiveMaximum": exclusive_maximum,
        "minLength": min_length,
        "maxLength": max_length,
        "pattern": pattern,
        "minItems": min_items,
        "maxItems": max_items,
        "uniqueItems": unique_items,
        "format": format,
        "examples": examples,
    }
    metadata = {"perpend_plugin": {name: value for name, value in keywords.items() if value is not None}}
    if isinstance(default, (list, dict, set)):
        # Each configuration has its own list.
        return dataclasses.field(default_factory=lambda: type(default)(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def schema_of(config: Any) -> dict[str, Any]:
    """The JSON Schema of a configuration type; a mapping is the schema itself."""
    if config is None:
        return dict(_EMPTY)
    if isinstance(config, Mapping):
        return dict(config)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_schema(config, str(config))}


def typed(config: Any, value: dict[str, Any]) -> Any:
    """The configuration as the type of the evaluator."""
    if config is None or isinstance(config, Mapping):
        return value
    return _typed(config, value, "config")


def checked(kind: Any, value: dict[str, Any]) -> Any:
    """An unchecked value as the type. `ValueError` names the invalid member."""
    if kind is None or isinstance(kind, Mapping):
        return value
    problem = _problem(_schema(kind, str(kind)), value, "")
    if problem:
        raise ValueError(problem)
    return _typed(kind, value, "the value")


#: The types of JSON Schema in Python.
_IS: dict[str, Any] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "null": lambda value: value is None,
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def _problem(schema: Mapping[str, Any], value: Any, at: str) -> str | None:
    """The first violation of a schema of this module. Unknown members are allowed."""
    where = at or "the value"
    if "anyOf" in schema and all(_problem(one, value, at) for one in schema["anyOf"]):
        return f"{where} has an invalid type"
    type_names = schema.get("type", [])
    kinds = [type_names] if isinstance(type_names, str) else type_names
    if kinds and not any(_IS[kind](value) for kind in kinds):
        return f"{where} must be of type {' or '.join(kinds)}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{where} must be one of {schema['enum']}"
    if isinstance(value, dict):
        missing = [name for name in schema.get("required", []) if name not in value]
        if missing:
            return f"{(at + '.' if at else '') + missing[0]} is missing"
        others = schema.get("additionalProperties")
        parts = [
            (schema.get("properties", {}).get(name, others if isinstance(others, dict) else {}), part, name)
            for name, part in value.items()
        ]
    elif isinstance(value, list):
        firsts, others = schema.get("prefixItems", []), schema.get("items") or {}
        if len(value) < len(firsts):
            return f"{where} must have {len(firsts)} elements, got {len(value)}"
        kinds_of = [*firsts, *([others] * (len(value) - len(firsts)))]
        parts = [(one, part, str(index)) for index, (one, part) in enumerate(zip(kinds_of, value))]
    else:
        return _bound_missed(schema, value, where)
    found = (_problem(one, part, f"{at}.{name}" if at else name) for one, part, name in parts)
    return next((problem for problem in found if problem), None)


def _bound_missed(schema: Mapping[str, Any], value: Any, where: str) -> str | None:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if value < schema.get("minimum", value):
            return f"{where} must be at least {schema['minimum']}, got {value}"
        if schema.get("maximum", value) < value:
            return f"{where} must be at most {schema['maximum']}, got {value}"
    return None


def _schema(kind: Any, at: str) -> dict[str, Any]:
    if kind in _PLAIN:
        return dict(_PLAIN[kind])
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        return _union(arguments, at)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (list, set, frozenset):
        unique = {} if origin is list else {"uniqueItems": True}
        return {"type": "array", "items": _schema(arguments[0], at), **unique}
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return {"type": "array", "items": _schema(arguments[0], at)}
        items = [_schema(argument, at) for argument in arguments]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "items": False}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(arguments[1], at)}
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {"enum": [member.value for member in kind]}
    if dataclasses.is_dataclass(kind):
        return _dataclass_schema(kind)
    if typing.is_typeddict(kind):
        return _typed_dict_schema(kind)
    raise TypeError(
        f"{at}: no JSON Schema for {kind!r}; use str, int, float, bool, list, dict, Literal, Optional, an"
        " Enum, a dataclass or a TypedDict"
    )


def _union(arguments: tuple[Any, ...], at: str) -> dict[str, Any]:
    schemas = [_schema(argument, at) for argument in arguments]
    if all(set(schema) == {"type"} for schema in schemas):
        return {"type": [schema["type"] for schema in schemas]}
    return {"anyOf": schemas}


def _dataclass_schema(kind: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for member in dataclasses.fields(kind):
        if not member.init:
            continue
        schema = _schema(hints[member.name], f"{kind.__name__}.{member.name}")
        schema.update(member.metadata.get("perpend_plugin", {}))
        if member.default is not dataclasses.MISSING:
            schema["default"] = _plain(member.default)
        elif member.default_factory is not dataclasses.MISSING:
            schema["default"] = _plain(member.default_factory())
        else:
            required.append(member.name)
        properties[member.name] = schema
    return _object(properties, required)


def _typed_dict_schema(kind: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    properties = {name: _schema(hint, f"{kind.__name__}.{name}") for name, hint in hints.items()}
    return _object(properties, [name for name in hints if name in kind.__required_keys__])


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return {**schema, "additionalProperties": False}


def _plain(value: Any) -> Any:
    """A default as JSON."""
    if isinstance(value, enum.Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        members = dataclasses.fields(value)
        return {member.name: _plain(getattr(value, member.name)) for member in members}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(element) for element in value]
    if isinstance(value, dict):
        return {name: _plain(element) for name, element in value.items()}
    return value


def _typed(kind: Any, value: Any, at: str) -> Any:
    """Restores the types of a value that satisfies the schema."""
    if dataclasses.is_dataclass(kind):
        plan = _plan(kind)
        given = {
            name: part if plan[name] is None else _typed(plan[name], part, f"{at}.{name}")
            for name, part in value.items()
            if name in plan
        }
        try:
            return kind(**given)
        except (TypeError, ValueError) as error:
            raise InvalidConfig(f"{at}: {error}") from error
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if origin in (list, set, frozenset):
        return origin(_typed(arguments[0], part, f"{at}[{i}]") for i, part in enumerate(value))
    if origin is tuple:
        kinds = [arguments[0]] * len(value) if arguments[1:] == (Ellipsis,) else arguments
        return tuple(_typed(one, part, f"{at}[{i}]") for i, (one, part) in enumerate(zip(kinds, value)))
    if origin is dict:
        return {name: _typed(arguments[1], part, f"{at}.{name}") for name, part in value.items()}
    if origin in (Union, types.UnionType):
        return _typed_union(arguments, value, at)
    return value


@functools.cache
def _plan(kind: Any) -> dict[str, Any]:
    """The members of a dataclass and the types to restore; None for JSON values."""
    hints = typing.get_type_hints(kind)
    members = [member.name for member in dataclasses.fields(kind) if member.init]
    return {name: None if hints[name] in (str, int, bool, Any) else hints[name] for name in members}


def _typed_union(kinds: tuple[Any, ...], value: Any, at: str) -> Any:
    if value is None or any(kind is type(value) for kind in kinds):
        return value
    for kind in kinds:
        try:
            return _typed(kind, value, at)
        except (InvalidConfig, AttributeError, TypeError, ValueError):
            continue
    return value
