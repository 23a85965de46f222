"""A small server on loopback that speaks the part of the OpenAI API which the tests use.

It knows one thing: the capital of France. Given tools, it first asks to call the first of them; a question
about nothing is an error.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MODEL = "gpt-4o-2024-08-06"
ANSWER = "The capital is Paris."
# With what it calls the tools of the tests, by their names.
ARGUMENTS = {
    "capital": {"country": "France"},
    "select_choice": {"reasons": "They name the same city.", "choice": "C"},
}
USAGE = {
    "prompt_tokens": 12,
    "completion_tokens": 5,
    "total_tokens": 17,
    "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens_details": {"reasoning_tokens": 0},
}


class Stub:
    """Runs while the block does."""

    def __enter__(self):
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        self.base_url = f"http://127.0.0.1:{self.server.server_port}/v1"
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        answers = {"/v1/chat/completions": chat, "/v1/embeddings": embeddings, "/v1/responses": response}
        status, answer = answers[self.path](request)
        if isinstance(answer, list):
            lines = "".join(f"data: {json.dumps(event)}\n\n" for event in answer) + "data: [DONE]\n\n"
            self.send(status, "text/event-stream", lines)
        else:
            self.send(status, "application/json", json.dumps(answer))

    def send(self, status, content_type, text):
        body = text.encode()
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def chat(request):
    messages = request["messages"]
    if "nothing" in str(messages[-1]["content"]):
        return 400, {"error": {"message": "no messages were sent", "type": "invalid_request_error", "code": None}}
    head = {"id": "chatcmpl-1", "created": 1_700_000_000, "model": MODEL}
    message = {"role": "assistant", "content": ANSWER}
    reason = "stop"
    if request.get("tools") and messages[-1]["role"] == "user":
        name = request["tools"][0]["function"]["name"]
        function = {"name": name, "arguments": json.dumps(ARGUMENTS[name])}
        call = {"id": "call_1", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        reason = "tool_calls"
    if not request.get("stream"):
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return 200, head | {"object": "chat.completion", "choices": [choice], "usage": USAGE}
    chunk = lambda delta, reason=None: head | {
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
    }
    chunks = [chunk({"role": "assistant", "content": ""})]
    chunks += [chunk({"content": word}) for word in ANSWER.split(" ")[0:1] + [f" {w}" for w in ANSWER.split(" ")[1:]]]
    chunks.append(chunk({}, "stop"))
    if (request.get("stream_options") or {}).get("include_usage"):
        chunks.append(head | {"object": "chat.completion.chunk", "choices": [], "usage": USAGE})
    return 200, chunks


def embeddings(request):
    texts = request["input"] if isinstance(request["input"], list) else [request["input"]]
    data = [{"object": "embedding", "index": n, "embedding": [0.5, -0.5]} for n in range(len(texts))]
    usage = {"prompt_tokens": 8, "total_tokens": 8}
    return 200, {"object": "list", "model": "text-embedding-3-small", "data": data, "usage": usage}


def response(request):
    text = {"type": "output_text", "text": ANSWER, "annotations": []}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [text]}
    usage = {
        "input_tokens": 12,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 17,
    }
    return 200, {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "completed",
        "model": MODEL,
        "output": [message],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage,
    }
