"""Numbers of a configuration: what it says, else the default of its model type; absurd ones are refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from instances.json_files import Value

__all__ = ["MOST_LAYERS", "Fields"]

#: Largest width, vocabulary or number of experts, and largest number of layers.
_MOST, MOST_LAYERS = 2**28, 10_000


@dataclass(frozen=True)
class Fields:
    """Fields of a configuration.

    Parameters
    ----------
    given : mapping of str to Value
        Members of the file.
    defaults : mapping
        Of the model type.
    aliases : mapping of str to str
        What the model type calls some fields.
    words : mapping
        What is fixed for the model type; `decoders.toml` explains them.
    whole_file : Value
        For messages.
    """

    given: Mapping[str, Value]
    defaults: Mapping[str, Any]
    aliases: Mapping[str, str]
    words: Mapping[str, Any]
    whole_file: Value
    warnings: list[str] = field(default_factory=list)

    def value(self, name: str) -> Value:
        """The value of a field, null where it is nowhere."""
        names = [
            self.aliases.get(name, name),
            name,
            *(alias for alias, target in self.aliases.items() if target == name),
        ]
        for candidate in names:
            if candidate in self.given:
                return self.given[candidate]
        default = next((self.defaults[candidate] for candidate in names if candidate in self.defaults), None)
        return Value(default, self.whole_file.file, name)

    def has(self, name: str) -> bool:
        """Whether the field has a value."""
        return self.value(name).data is not None

    def whole(self, name: str, least: int = 1, most: int = _MOST) -> int:
        """A whole number in its range."""
        value = self.value(name)
        if value.data is None:
            value.fail("it is missing; add this field, which the model needs.")
        number = value.data if isinstance(value.data, float) and value.data.is_integer() else value.whole()
        if not least <= number <= most:
            value.fail(f"the number is {number:.10g}; it must be from {least} to {most}.")
        return int(number)

    def whole_or(self, name: str, default: int, least: int = 1) -> int:
        """A whole number, or the default where there is none."""
        return self.whole(name, least) if self.has(name) else default

    def truth(self, name: str) -> bool:
        """True or false; false where nothing is said."""
        value = self.value(name)
        return False if value.data is None else value.truth()

    def word(self, name: str) -> Any:
        """A word of the model type."""
        return self.words.get(name)

    def says(self, name: str) -> bool:
        """A word that is true, false, or the field that decides."""
        word = self.words.get(name, False)
        return word if isinstance(word, bool) else self.truth(word)
