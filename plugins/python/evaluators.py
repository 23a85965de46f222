"""The built-in plug-in `perpend/python`: evaluators from source.

The source is the configuration. It is compiled and run in a fresh interpreter for every item; the host limits time and
memory.
"""

from __future__ import annotations

import sys
import types
from dataclasses import dataclass

import perpend_plugin

import contract
import modules

MAX_SOURCE_BYTES = 256 << 10
MAX_PAYLOAD_BYTES = 5_500_000
MAX_RESULT_BYTES = 256 << 10
#: The name of the source in error texts.
FILE = "evaluator.py"
NO_FUNCTION = "INVALID_SOURCE: the source must define a function evaluate(ctx)"

perpend_plugin.plugin(
    "perpend/python",
    version="0.1.0",
    description="Evaluators in Python, as source text with a function evaluate(ctx).",
)


@dataclass
class Source:
    source: str = perpend_plugin.field(
        title="Source",
        min_length=1,
        description="Python with a function evaluate(ctx) that returns EvaluationResult(scores=[Score(...)]).",
    )


def compiled(source: str) -> types.CodeType:
    """The compiled source. Raises `InvalidConfig` with the line of a syntax error."""
    n_bytes = len(source.encode(errors="replace"))
    if MAX_SOURCE_BYTES < n_bytes:
        raise perpend_plugin.InvalidConfig(f"SOURCE_TOO_LARGE: {n_bytes} bytes, the limit is {MAX_SOURCE_BYTES}")
    try:
        return compile(source, FILE, "exec", dont_inherit=True)
    except SyntaxError as error:
        where = f" (line {error.lineno}, column {error.offset})" if error.lineno else ""
        raise perpend_plugin.InvalidConfig(f"INVALID_SOURCE: {type(error).__name__}: {error.msg}{where}") from None
    except (ValueError, RecursionError) as error:
        raise perpend_plugin.InvalidConfig(f"INVALID_SOURCE: {type(error).__name__}: {error}") from None


def check(config: Source) -> list[perpend_plugin.Problem]:
    """The problems of a source that can be detected without running it."""
    try:
        code = compiled(config.source)
    except perpend_plugin.InvalidConfig as error:
        return [perpend_plugin.Problem(error.message, "/source")]
    if "evaluate" not in code.co_names:
        return [perpend_plugin.Problem(NO_FUNCTION, "/source")]
    return []


@perpend_plugin.evaluator(
    "code",
    title="Python source",
    description=(
        "Runs evaluate(ctx) of the source. ctx.observation has input, output, metadata and tool_calls; in an "
        "experiment ctx.experiment has item_expected_output and item_metadata. It returns "
        "EvaluationResult(scores=[Score(name, value, data_type, comment, config_id, metadata)])."
    ),
    needs=["input", "output", "expected_output", "metadata"],
    dynamic_scores=True,
    check=check,
)
def run(item: perpend_plugin.Item, config: Source) -> list[perpend_plugin.Score]:
    code = compiled(config.source)
    n_bytes = len(config.source) + item.size()
    if MAX_PAYLOAD_BYTES < n_bytes:
        raise perpend_plugin.InvalidInput(f"PAYLOAD_TOO_LARGE: {n_bytes} bytes, the limit is {MAX_PAYLOAD_BYTES}")
    result = _called(code, contract.context(item))
    scores = contract.scores(result)
    n_bytes = sum(_size(score) for score in scores)
    if MAX_RESULT_BYTES < n_bytes:
        raise perpend_plugin.Internal(f"RESULT_TOO_LARGE: {n_bytes} bytes, the limit is {MAX_RESULT_BYTES}")
    return scores


def _called(code: types.CodeType, context: contract.EvaluationContext) -> object:
    # A real module: dataclasses and pickle look up modules by name.
    module = types.ModuleType("evaluator")
    module.__file__ = FILE
    module.__dict__.update({one.__name__: one for one in contract.INJECTED})
    sys.modules["evaluator"] = module
    try:
        exec(code, module.__dict__)
        evaluate = module.__dict__.get("evaluate")
        if not callable(evaluate):
            raise perpend_plugin.InvalidConfig(NO_FUNCTION)
        return evaluate(context)
    except (perpend_plugin.EvalError, MemoryError):
        raise
    except BaseException as error:
        raise perpend_plugin.Internal(f"USER_CODE_ERROR: {_message(error)}") from None


def _message(error: BaseException) -> str:
    """`ValueError: text (line 3, in evaluate)`: the innermost line of the source."""
    try:
        text = str(error)
    except BaseException:
        text = "the text of the error cannot be computed"
    name = type(error).__name__
    text = f"{name}: {text}" if text else name
    step, found = error.__traceback__, ""
    while step is not None:
        code = step.tb_frame.f_code
        if code.co_filename == FILE:
            where = "" if code.co_name == "<module>" else f", in {code.co_name}"
            found = f" (line {step.tb_lineno}{where})"
        step = step.tb_next
    return text + found


def _size(score: perpend_plugin.Score) -> int:
    value = score.value if isinstance(score.value, str) else ""
    texts = (score.name, value, score.comment or "", score.metadata_json() or "")
    return sum(len(text.encode(errors="replace")) for text in texts)


_SAMPLE = '''
import json
import re

def evaluate(ctx: EvaluationContext) -> EvaluationResult:
    text = ctx.observation.output if isinstance(ctx.observation.output, str) else json.dumps(ctx.observation.output)
    n = len(re.findall(r"\\w+", text.casefold()))
    return EvaluationResult(scores=[Score(name="words", value=n, data_type="NUMERIC", metadata={"n": n})])
'''

modules.load()
# Enough runs for the interpreter to specialize the code before the image is taken, including failures.
for source in [_SAMPLE] * 64 + ["def evaluate(ctx:", "def evaluate(ctx):\n    return 1 / 0"] * 8:
    try:
        run(
            perpend_plugin.Item.of(output="Two words.", input={"a": 1}, expected_output="x", metadata={}),
            Source(source),
        )
    except perpend_plugin.EvalError:
        pass
del sys.modules["evaluator"]
perpend_plugin.when_built(modules.close)
