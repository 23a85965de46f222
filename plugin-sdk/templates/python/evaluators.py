"""A Perpend plug-in with one evaluator."""

from dataclasses import dataclass

import perpend_plugin

perpend_plugin.plugin("example/{{name}}", version="0.1.0", description="Checks on the length of an output")


# Its JSON Schema is what the server checks, and what a person who sets the evaluator up sees.
@dataclass
class MaxLength:
    max_chars: int = perpend_plugin.field(80, minimum=0, description="The largest number of characters that passes.")
    trim: bool = perpend_plugin.field(False, description="Leave white space at both ends out of the count.")


# What `needs` does not name is not loaded: the output is the only part of the item this reads.
@perpend_plugin.evaluator(
    "max-length",
    title="Maximum length",
    needs=["output"],
    scores=[perpend_plugin.boolean("within_limit", "true when the output is not too long")],
)
def max_length(item: perpend_plugin.Item, config: MaxLength) -> perpend_plugin.Score:
    """Passes when the output is not too long."""
    output = item.text()  # absent: the item is reported as bad input, not as 0
    length = len(output.strip() if config.trim else output)
    return perpend_plugin.Score(
        "within_limit",
        length <= config.max_chars,
        comment=f"{length} of {config.max_chars} characters",
    )
