"""One of everything that the API keeps, so that the fuzzer meets what exists too."""

import base64
import hashlib
import json
import os
import sys
import urllib.error
import urllib.request

NOW = "2026-01-02T03:04:05.678Z"


def ask(method, path, body=None, keys="LANGFUSE"):
    """What the server answers; a refusal ends the run."""
    keys = f"{os.environ[keys + '_PUBLIC_KEY']}:{os.environ[keys + '_SECRET_KEY']}"
    request = urllib.request.Request(os.environ["LANGFUSE_BASE_URL"] + path, method=method)
    request.add_header("authorization", "Basic " + base64.b64encode(keys.encode()).decode())
    request.add_header("content-type", "application/json")
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(request, data, timeout=300) as answer:
            text = answer.read()
            return json.loads(text) if text else None
    except urllib.error.HTTPError as error:
        sys.exit(f"{method} {path}: {error.code} {error.read().decode()}")


def event(kind, **body):
    return {"id": f"event {kind} {body['id']}", "type": kind, "timestamp": NOW, "body": body}


def telemetry():
    """A trace of two steps with a score, in a session."""
    events = [
        event("trace-create", id="trace", name="chat", userId="ann", sessionId="session", tags=["t"]),
        event("span-create", id="span", traceId="trace", name="retrieve", startTime=NOW, input={"q": 1}),
        event("generation-create", id="generation", traceId="trace", parentObservationId="span", name="answer",
              model="gpt-4o", startTime=NOW, endTime=NOW, usageDetails={"input": 3, "output": 4}),
        event("score-create", id="score", traceId="trace", name="ok", value=1),
    ]
    response = ask("POST", "/api/public/ingestion", {"batch": events})
    assert response["errors"] == [], response
    return {"traceId": "trace", "observationId": "generation", "sessionId": "session", "scoreId": "score"}


def datasets():
    public = "/api/public/"
    ask("POST", public + "v2/datasets", {"name": "folder/data"})
    item = ask("POST", public + "dataset-items", {"datasetName": "folder/data", "input": {"q": 1}})
    link = {"runName": "run", "datasetItemId": item["id"], "traceId": "trace"}
    run = ask("POST", public + "dataset-run-items", link)
    return {
        "datasetName": "folder/data",
        "datasetId": item["datasetId"],
        "datasetItemId": item["id"],
        "runName": "run",
        "datasetRunId": run["datasetRunId"],
        "experimentId": run["datasetRunId"],
    }


def teamwork(project):
    public = "/api/public/"
    config = ask("POST", public + "score-configs", {"name": "ok", "dataType": "BOOLEAN"})
    queue = ask("POST", public + "annotation-queues", {"name": "queue", "scoreConfigIds": [config["id"]]})
    item = ask("POST", f"{public}annotation-queues/{queue['id']}/items", {"objectId": "trace", "objectType": "TRACE"})
    about = {"projectId": project, "objectType": "TRACE", "objectId": "trace"}
    comment = ask("POST", public + "comments", about | {"content": "well"})
    model = ask("POST", public + "models", {"modelName": "m", "matchPattern": "^m$", "unit": "TOKENS", "inputPrice": 1})
    connection = ask("PUT", public + "llm-connections", {"provider": "p", "adapter": "openai", "secretKey": "sk-1234567890"})
    ask("POST", public + "v2/prompts", {"name": "folder/prompt", "prompt": "Hi {{x}}", "labels": ["production"]})
    content = b"a picture"
    digest = base64.b64encode(hashlib.sha256(content).digest()).decode()
    media = {"traceId": "trace", "field": "input", "contentType": "image/png", "contentLength": len(content)}
    medium = ask("POST", public + "media", media | {"sha256Hash": digest})
    return {
        "configId": config["id"],
        "queueId": queue["id"],
        "itemId": item["id"],
        "commentId": comment["id"],
        "modelId": model["id"],
        "connectionId": connection["id"],
        "promptName": "folder/prompt",
        "version": "1",
        "mediaId": medium["mediaId"],
    }


def evaluation():
    plugin = ask("GET", "/api/v1/plugins?name=perpend/text")["data"][0]
    definition = {"type": "plugin", "plugin": "perpend/text", "evaluator": "length", "config": {"max": 1000}}
    evaluator = ask("POST", "/api/public/v2/evaluators", {"name": "e"} | definition)
    rule = {"name": "r", "enabled": False, "evaluatorAssignments": [{"evaluatorId": evaluator["id"]}]}
    made = ask("POST", "/api/public/v2/evaluation-rules", rule)
    return {"evaluatorId": evaluator["id"], "ruleId": made["id"], "evaluationRuleId": made["id"], "digest": plugin["digest"]}


def dashboards():
    unstable = "/api/public/unstable/"
    shown = {"view": "observations", "dimensions": [], "metrics": [{"measure": "count", "agg": "count"}], "filters": []}
    chart = {"chartType": "NUMBER", "chartConfig": {"type": "NUMBER"}}
    widget = ask("POST", unstable + "dashboard-widgets", {"name": "w", "description": "", **shown, **chart})
    dashboard = ask("POST", unstable + "dashboards", {"name": "d", "description": ""})
    place = {"type": "widget", "id": "place", "widgetId": widget["id"]}
    ask("POST", f"{unstable}dashboards/{dashboard['id']}/placements", place)
    file = {"path": "SKILL.md", "content": "---\nname: skill\ndescription: d\n---\n# Skill"}
    ask("POST", unstable + "skills", {"files": [file]})
    return {"widgetId": widget["id"], "dashboardId": dashboard["id"], "placementId": "place", "skillName": "skill"}


def organization(project):
    """What the key pair of an organization sees, where there is one."""
    if "ORGANIZATION_PUBLIC_KEY" not in os.environ:
        return {}
    person = ask("POST", "/api/public/scim/Users", {"userName": "ann@example.org"}, "ORGANIZATION")
    # Not the pair that the fuzzer uses: its calls rotate this one.
    pair = ask("POST", f"/api/public/projects/{project}/apiKeys", {}, "ORGANIZATION")
    return {"userId": person["id"], "apiKeyId": pair["id"]}


def seed():
    """What exists afterwards: the values that parameters of these names may have."""
    project = ask("GET", "/api/public/projects")["data"][0]["id"]
    known = {"projectId": project, "objectId": "trace", "objectType": "TRACE", "sourceTraceId": "trace"}
    known |= telemetry()
    known |= datasets()
    known |= teamwork(project)
    known |= evaluation()
    known |= dashboards()
    known |= organization(project)
    return known
