"""Why there is no score. Raise one of these; any other exception becomes `Internal`."""

from __future__ import annotations

import os
from types import TracebackType


class EvalError(Exception):
    """Base of the errors that the contract knows. `case` is the name the host sees."""

    case = "internal"

    @property
    def message(self) -> str:
        """The text for people."""
        return str(self)


class InvalidConfig(EvalError):
    """The configuration passed its schema and still cannot be used. The evaluator is flagged."""

    case = "invalid-config"


class InvalidInput(EvalError):
    """A needed part of the item is absent or has a wrong shape."""

    case = "invalid-input"


class NotApplicable(EvalError):
    """There is nothing to measure for this item: recorded as skipped, never as a failure or as 0."""

    case = "not-applicable"


class Upstream(EvalError):
    """A call to the host failed and the evaluator cannot go on without it."""

    case = "upstream"


class Transient(EvalError):
    """Another attempt may work."""

    case = "transient"


class Internal(EvalError):
    """Anything else. Not retried."""

    case = "internal"


class ModelError(Upstream):
    """A model call failed. `kind` is the case of the contract, such as `rate-limited`; `detail` what was said."""

    def __init__(self, kind: str, message: str = "") -> None:
        super().__init__(f"{kind}: {message}" if message else kind)
        self.kind = kind
        self.detail = message


class TraceError(Upstream):
    """Reading the recorded execution failed. `kind` is the case of the contract; `detail` what was said."""

    def __init__(self, kind: str, message: str = "") -> None:
        super().__init__(f"{kind}: {message}" if message else kind)
        self.kind = kind
        self.detail = message


def explained(error: BaseException) -> EvalError:
    """The error as the contract has it; foreign exceptions get their type and line."""
    if isinstance(error, EvalError):
        return error
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    where = _innermost(error)
    if where:
        text = f"{text} ({where})"
    if isinstance(error, ImportError):
        text += (
            "; a plug-in has no files when it runs: import it at the top level of a module, so that it"
            " is loaded while the plug-in is built"
        )
    return Internal(text)


#: The folder of this package, as its frames have it: an author's project may be below a folder of any name.
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
