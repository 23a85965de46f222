"""Operations of the OpenAPI document, with models that are generated from it. `mypy --strict` checks this file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar
from uuid import uuid4

import httpx
from models import (
    Dataset,
    DatasetInput,
    DatasetItem,
    ItemInput,
    ListOfExecution,
    ListOfJobState,
    Projects,
    ResponseWithScoreId,
    ScoreInput,
    TraceInput,
)
from pydantic import BaseModel

Model = TypeVar("Model", bound=BaseModel)


@dataclass
class Results:
    """Values that the operations returned."""

    project: str
    dataset: str
    item_input: object
    score_id: str
    jobs: list[str]
    n_executions: int


def operations(client: httpx.Client) -> Results:
    """Calls operations and validates each response against its model."""

    def get(path: str, model: type[Model]) -> Model:
        return model.model_validate_json(client.get(path).raise_for_status().content)

    def post(path: str, body: BaseModel, model: type[Model]) -> Model:
        content = body.model_dump_json(exclude_unset=True)
        headers = {"content-type": "application/json"}
        response = client.post(path, content=content, headers=headers).raise_for_status()
        return model.model_validate_json(response.content)

    projects = get("/api/public/projects", Projects)
    name = f"models/{uuid4()}"
    dataset = post("/api/public/v2/datasets", DatasetInput(name=name), Dataset)
    item = post(
        "/api/public/dataset-items",
        ItemInput(datasetName=name, input={"question": "Where is my parcel?"}),
        DatasetItem,
    )
    trace = TraceInput(id=str(uuid4()), name="generated models")
    trace_body = trace.model_dump_json(exclude_unset=True)
    client.post(
        "/api/public/traces", content=trace_body, headers={"content-type": "application/json"}
    ).raise_for_status()
    score = post(
        "/api/public/scores",
        ScoreInput(traceId=trace.id, name="liked", value=0.5),
        ResponseWithScoreId,
    )
    jobs = get("/api/v1/jobs", ListOfJobState)
    executions = get(f"/api/v1/executions?traceId={trace.id}", ListOfExecution)
    return Results(
        project=projects.data[0].name,
        dataset=dataset.name,
        item_input=item.input.model_dump(),
        score_id=score.id.root,
        jobs=[job.name for job in jobs.data],
        n_executions=len(executions.data),
    )
