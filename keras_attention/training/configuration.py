"""Frozen dataclasses out of plain data: unknown keys and wrong types are refused by their dotted names."""

from __future__ import annotations

import dataclasses
import difflib
import re
import types
import typing
from typing import Any, TypeVar

import yaml

Config = TypeVar("Config")

_FLOAT = re.compile(r"^[-+]?(\d[\d_]*(\.\d*)?|\.\d+)([eE][-+]?\d+)?$")


class _Loader(yaml.SafeLoader):
    """`yaml.SafeLoader` that reads 1e-3 as a number (YAML 1.1 takes it for a string) and refuses a key given twice."""

    def construct_mapping(self, node, deep=False):
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, str) and key in seen:
                raise ValueError(f"The key {key!r} stands twice{key_node.start_mark}. Expected it once; delete one.")
            seen.add(key if isinstance(key, str) else id(key_node))
        return super().construct_mapping(node, deep)


_EXPONENT = re.compile(r"^[-+]?\d[\d_]*(\.\d*)?[eE][-+]?\d+$")
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT, list("-+0123456789"))


def load_yaml(text: str) -> Any:
    """Plain data out of YAML text; reads data, never runs it."""
    return yaml.load(text, Loader=_Loader)


def from_dict(config_class: type[Config], values: Any, where: str = "") -> Config:
    """Builds a dataclass from a dict, nested ones too.

    Args:
        config_class: a dataclass whose fields are bool, int, float, str, dict, `tuple[str, ...]` or dataclasses.
        values: dict of plain data.
        where: str. The dotted name of `values`, for messages.

    Raises:
        ValueError: an unknown key or a value out of range.
        TypeError: a value of the wrong type.
    """
    if not isinstance(values, dict):
        raise TypeError(_wrong_type(where or "recipe", values, "a mapping of names to values"))
    fields = {field.name: field for field in dataclasses.fields(config_class)}
    for key in values:
        if key not in fields:
            raise ValueError(unknown_key(where, key, fields))
    hints = typing.get_type_hints(config_class)
    built = {key: convert(hints[key], value, dotted(where, key)) for key, value in values.items()}
    missing = [
        name
        for name, field in fields.items()
        if name not in built and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise ValueError(f"`{dotted(where, missing[0])}` is missing. Expected a value for it; add the key.")
    return config_class(**built)


def convert(hint: Any, value: Any, where: str) -> Any:
    """The value as its field wants it, or a TypeError that names the field."""
    if dataclasses.is_dataclass(hint):
        return value if isinstance(value, hint) else from_dict(hint, value, where)
    if typing.get_origin(hint) is tuple:
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, list | tuple) or not all(isinstance(item, str) for item in items):
            raise TypeError(_wrong_type(where, value, "a list of strings"))
        return tuple(items)
    if hint is float:
        if isinstance(value, str) and _FLOAT.match(value.strip()):
            value = float(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(_wrong_type(where, value, "a number"))
        return float(value)
    if hint is int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # 1e4 is how people write ten thousand
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(_wrong_type(where, value, "a whole number"))
        return value
    if hint is bool and not isinstance(value, bool):
        raise TypeError(_wrong_type(where, value, "true or false"))
    if hint is str and not isinstance(value, str):
        raise TypeError(_wrong_type(where, value, "text"))
    if (hint is dict or typing.get_origin(hint) is dict) and not isinstance(value, dict):
        raise TypeError(_wrong_type(where, value, "a mapping of names to values"))
    return value


def to_dict(config: Any) -> Any:
    """Plain JSON types of a dataclass; tuples become lists."""
    if dataclasses.is_dataclass(config):
        return {field.name: to_dict(getattr(config, field.name)) for field in dataclasses.fields(config)}
    if isinstance(config, dict):
        return {key: to_dict(value) for key, value in config.items()}
    if isinstance(config, list | tuple):
        return [to_dict(value) for value in config]
    return config


def set_dotted(values: dict, name: str, value: Any, config_class: type, where: str = "") -> None:
    """Sets the value of a dotted name in plain data of `config_class`; below a dict field any key may be set."""
    head, _, rest = name.partition(".")
    hints = typing.get_type_hints(config_class)
    if head not in hints:
        raise ValueError(unknown_key(where, head, hints))
    here = dotted(where, head)
    if not rest:
        values[head] = convert(hints[head], value, here)
    elif dataclasses.is_dataclass(hints[head]):
        set_dotted(values[head], rest, value, hints[head], here)
    elif hints[head] is dict:
        *parents, last = rest.split(".")
        inner = values[head]
        for parent in parents:
            inner = inner.setdefault(parent, {})
            if not isinstance(inner, dict):
                raise ValueError(
                    f"`{here}.{rest}` lies below {inner!r}. Expected a mapping there; set the parent itself."
                )
        inner[last] = value
    else:
        raise ValueError(f"`{here}` is a single value. Received the name {here}.{rest}; set `{here}` itself.")


def dotted(where: str, key: str) -> str:
    return f"{where}.{key}" if where else str(key)


def unknown_key(where: str, key: Any, known: typing.Iterable[str]) -> str:
    known = list(known)
    near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.4)
    hint = f"did you mean `{dotted(where, near[0])}`? " if near else ""
    return f"Unknown key `{dotted(where, key)}`: {hint}Expected one of {', '.join(known)}. Rename or delete it."


def _wrong_type(where: str, value: Any, expected: str) -> str:
    kind = "nothing" if isinstance(value, types.NoneType) else type(value).__name__
    return f"`{where}` is {value!r} ({kind}). Expected {expected}; correct the value."


def check(holds: bool, where: str, value: Any, expected: str) -> None:
    """Raises a ValueError with the three parts unless the condition holds."""
    if not holds:
        raise ValueError(
            f"`{where}` is {value!r}. Expected {expected}; change it in the recipe or with --set {where}=…."
        )
