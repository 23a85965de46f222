"""What the fuzzer does here beyond its own habits: it names things that exist, and knows our errors."""

import atexit
import collections
import ipaddress
import json
import os
import re
import threading
from pathlib import Path

import schemathesis

KNOWN = json.loads(os.environ["FUZZER_KNOWN"])
ERRORS = Path(__file__).resolve().parents[3] / "docs" / "errors.md"

SCIM_ERROR = "urn:ietf:params:scim:api:messages:2.0:Error"


def documented_errors():
    """The codes that each status has, in our own API and in the one we share."""
    own, public = collections.defaultdict(set), collections.defaultdict(set)
    for code, status, shared in re.findall(r"^\| `(\w+)` \| (\d+) \| `(\w+)` \|", ERRORS.read_text(), re.MULTILINE):
        own[int(status)].add(code)
        public[int(status)].add(shared)
    assert own, "docs/errors.md has no table"
    return own, public


OWN, PUBLIC = documented_errors()
calls = collections.Counter()
succeeded = set()
# The server limits wrong credentials by address, so each call comes from another one, behind a proxy.
addresses = iter(ipaddress.ip_network("10.0.0.0/8"))
lock = threading.Lock()


def existing(name):
    """The value with which a parameter of this name is about something that exists."""
    # An `id` without a further word is that of a dataset item.
    return KNOWN.get("datasetItemId" if name == "id" else name)


@schemathesis.serializer("application/x-protobuf", "application/protobuf")
def protobuf(context, value):
    """Random bytes as bodies of OTLP, which accepts more than JSON; they are rarely a valid message."""
    value = getattr(value, "data", value)
    return value if isinstance(value, bytes) else str(value).encode(errors="ignore")


@schemathesis.hook
def before_call(context, case, kwargs):
    """Every second call of an operation is about something that exists; what exists is not deleted."""
    with lock:
        case.headers["X-Forwarded-For"] = str(next(addresses))
    named = {name: existing(name) for name in case.path_parameters or {} if existing(name) is not None}
    if case.operation.method.upper() == "DELETE":
        for name, value in named.items():
            if case.path_parameters[name] == value:
                case.path_parameters[name] = "none"
        return
    with lock:
        calls[case.operation.label] += 1
        if calls[case.operation.label] % 2:
            return
    for name, value in named.items():
        case.path_parameters[name] = value
    for place in (case.query, case.body):
        if isinstance(place, dict):
            place.update({name: KNOWN[name] for name in place if name in KNOWN})


@schemathesis.hook
def after_call(context, case, response):
    if response.status_code < 300:
        succeeded.add(case.operation.label)


@schemathesis.check
def documented_answer(ctx, response, case):
    """A success is named by the operation itself; a refusal has a status and a code of docs/errors.md."""
    status = response.status_code
    if case.method == "OPTIONS":  # what browsers ask before they call
        return
    if str(status) in case.operation.definition.raw["responses"]:
        return
    documented = OWN if case.operation.path.startswith("/api/v1/") else PUBLIC
    if status not in documented:
        raise AssertionError(f"{status} is documented nowhere")
    problem = response.json()
    # RFC 7644 says how the errors of its resources look.
    if case.operation.path.startswith("/api/public/scim/"):
        if problem.get("status") != str(status) or SCIM_ERROR not in problem["schemas"]:
            raise AssertionError("this is no SCIM error")
        return
    code = problem.get("code")
    if code not in documented[status]:
        raise AssertionError(f"the code {code!r} is not documented for {status}")


@atexit.register
def tell():
    Path(os.environ["FUZZER_SUCCEEDED"]).write_text(json.dumps(sorted(succeeded)))
