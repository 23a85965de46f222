"""The errors of evaluators. Any other exception becomes `Internal`."""

from __future__ import annotations

import os
from types import TracebackType


class EvalError(Exception):
    """The base class. `case` is the name in the contract."""

    case = "internal"

    @property
    def message(self) -> str:
        """The text for users."""
        return str(self)


class InvalidConfig(EvalError):
    """The configuration satisfies its schema and is invalid nevertheless. The evaluator is flagged."""

    case = "invalid-config"


class InvalidInput(EvalError):
    """A needed part of the item is absent or has an invalid shape."""

    case = "invalid-input"


class NotApplicable(EvalError):
    """There is nothing to measure for this item: recorded as skipped, not as a failure or 0."""

    case = "not-applicable"


class Upstream(EvalError):
    """A call to the host failed and the evaluator cannot continue without it."""

    case = "upstream"


class Transient(EvalError):
    """A transient failure: another attempt may succeed."""

    case = "transient"


class Internal(EvalError):
    """Any other failure. Not retried."""

    case = "internal"


class ModelError(Upstream):
    """A model call failed. `kind` is the case of the contract, such as `rate-limited`; `detail` the message."""

    def __init__(self, kind: str, message: str = "") -> None:
        super().__init__(f"{kind}: {message}" if message else kind)
        self.kind = kind
        self.detail = message


class TraceError(Upstream):
    """Reading the recorded execution failed. `kind` is the case of the contract; `detail` the message."""

    def __init__(self, kind: str, message: str = "") -> None:
        super().__init__(f"{kind}: {message}" if message else kind)
        self.kind = kind
        self.detail = message


def explained(error: BaseException) -> EvalError:
    """The error for the contract; the message of other exceptions has their type and line."""
    if isinstance(error, EvalError):
        return error
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    where = _innermost(error)
    if where:
        text = f"{text} ({where})"
    if isinstance(error, ImportError):
        text += (
            "; a plug-in has no files at run time: import the module at the top level of a module, so that it"
            " is loaded while the plug-in is built"
        )
    return Internal(text)


#: The folder of this package, as in the file names of its frames.
_PACKAGE = os.path.dirname(explained.__code__.co_filename)


def _innermost(error: BaseException) -> str:
    """`file.py, line 3, in function`: the innermost frame outside this package."""
    found = ""
    step: TracebackType | None = error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        if os.path.dirname(code.co_filename) != _PACKAGE:
            name = os.path.basename(code.co_filename)
            found = f"{name}, line {step.tb_lineno}, in {code.co_name}"
        step = step.tb_next
    return found
