"""What the scripts share: a client that does not wait between batches, and patience for what it sends."""

import base64
import json
import os
import time
import unittest
import urllib.parse
import urllib.request
from importlib.metadata import version

from langfuse import Langfuse

PATIENCE_SECONDS = 300


def major():
    """The client's major version."""
    return int(version("langfuse").split(".")[0])


def rest(path):
    """What the server answers, without a client between."""
    keys = f"{os.environ['LANGFUSE_PUBLIC_KEY']}:{os.environ['LANGFUSE_SECRET_KEY']}"
    request = urllib.request.Request(os.environ["LANGFUSE_BASE_URL"] + "/api/public" + path)
    request.add_header("Authorization", "Basic " + base64.b64encode(keys.encode()).decode())
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def eventually(ask):
    """Asks again and again, a bounded time, until the answer is there and true."""
    last = None
    for _ in range(PATIENCE_SECONDS * 20):
        try:
            last = ask()
            if last:
                return last
        except Exception as error:  # not there yet
            last = error
        time.sleep(0.05)
    raise AssertionError(f"it did not come true; last: {last!r}")


def observations(name, n):
    """The observations of this name, when there are as many."""
    condition = json.dumps([{"type": "string", "column": "name", "operator": "=", "value": name}])
    fields = "core,basic,time,io,metadata,model,usage,prompt,metrics,trace_context"
    path = "/v2/observations?" + urllib.parse.urlencode({"filter": condition, "fields": fields, "limit": 100})
    return eventually(lambda: (found := rest(path)["data"]) and len(found) == n and found)


class ClientTest(unittest.TestCase):
    """A client for all tests of a class."""

    @classmethod
    def setUpClass(cls):
        cls.client = Langfuse(flush_interval=0.1)

    @classmethod
    def tearDownClass(cls):
        cls.client.shutdown()

    def name(self, text=""):
        """A name that no other test uses."""
        return f"{self.id()}/{text}" if text else self.id()

    def raises_status(self, status, call):
        """The server refuses the call with this status."""
        with self.assertRaises(Exception) as caught:
            call()
        self.assertEqual(getattr(caught.exception, "status_code", None), status, caught.exception)
        return caught.exception
