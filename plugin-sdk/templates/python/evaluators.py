"""A Perpend plug-in with one evaluator."""

from dataclasses import dataclass

import perpend_plugin

perpend_plugin.plugin("example/{{name}}", version="0.1.0", description="Checks on the length of an output")


# The configuration. The server validates it against its JSON Schema, which `perpend plugin show` prints.
@dataclass
class MaxLength:
    max_chars: int = perpend_plugin.field(80, minimum=0, description="The maximum number of characters that passes.")
    trim: bool = perpend_plugin.field(False, description="Ignore white space at both ends.")


# `needs` lists the parts of the item that the evaluator reads; others are not loaded.
@perpend_plugin.evaluator(
    "max-length",
    title="Maximum length",
    needs=["output"],
    scores=[perpend_plugin.boolean("within_limit", "true when the output is not too long")],
)
def max_length(item: perpend_plugin.Item, config: MaxLength) -> perpend_plugin.Score:
    """Passes when the output is not too long."""
    output = item.text()  # an absent output is invalid input, not a score of 0
    length = len(output.strip() if config.trim else output)
    return perpend_plugin.Score(
        "within_limit",
        length <= config.max_chars,
        comment=f"{length} of {config.max_chars} characters",
    )
