"""`ModelConfig`: the checked, frozen settings of a task model."""

from __future__ import annotations

import dataclasses
import difflib
from typing import Any

__all__ = ["ModelConfig"]


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """Base of the families' configurations: plain JSON types, checked when made, unknown keys refused."""

    @classmethod
    def from_dict(cls, values: dict[str, Any]):
        """A configuration from JSON values.

        Raises:
            ValueError: an unknown or a missing key, or a value out of range.
        """
        fields = {one.name: one for one in dataclasses.fields(cls)}
        for key in values:
            if key not in fields:
                near = difflib.get_close_matches(key, fields, n=1)
                hint = f" Did you mean {near[0]!r}?" if near else ""
                raise ValueError(f"Unknown key {key!r} in {cls.__name__}. Expected {', '.join(sorted(fields))}.{hint}")
        missing = [
            name
            for name, one in fields.items()
            if name not in values and one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING
        ]
        if missing:
            raise ValueError(f"{cls.__name__} lacks {', '.join(missing)}. Add the missing keys.")
        return cls(**values)

    @property
    def least_parameters(self) -> int:
        """A number of weights that no model of these settings gets below: a file that holds fewer is refused unread."""
        return 0

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def check_int(self, name: str, low: int):
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < low:
            raise ValueError(f"`{name}` must be an int >= {low}. Received {value!r}.")

    def check_share(self, name: str):
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
            raise ValueError(f"`{name}` must be a number in [0, 1). Received {value!r}.")

    def check_bool(self, name: str):
        value = getattr(self, name)
        if not isinstance(value, bool):
            raise ValueError(f"`{name}` must be true or false. Received {value!r}.")

    def check_choice(self, name: str, choices):
        value = getattr(self, name)
        if value not in choices:
            raise ValueError(f"`{name}` must be one of {', '.join(map(repr, choices))}. Received {value!r}.")
