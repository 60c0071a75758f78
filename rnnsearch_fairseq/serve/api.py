"""The JSON API: ``/api/model``, ``/api/translate`` and ``/api/translate/stream``."""

import contextlib
from collections.abc import AsyncIterable, AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Request

from rnnsearch_fairseq.serve.messages import Answer, Model, Partial, Problem, TranslationRequest
from rnnsearch_fairseq.serve.worker import PendingRequest

REFUSAL = {"model": Problem, "description": "Why the request is refused; 503: busy, please try again in a moment"}
router = APIRouter(prefix="/api", responses={"default": REFUSAL})


async def submit(message: TranslationRequest, request: Request) -> AsyncIterator[PendingRequest]:
    """Put a request into the queue, and abandon it when its client has the answer or has left."""
    pending = PendingRequest(message)
    if not request.app.state.worker.submit(pending):
        raise HTTPException(503, "the server is busy; please try again in a moment", {"Retry-After": "1"})
    try:
        yield pending
    finally:
        pending.abandoned = True


submitted = contextlib.asynccontextmanager(submit)
Submitted = Annotated[PendingRequest, Depends(submit)]


async def wait_for_answer(pending: PendingRequest, request: Request) -> Answer:
    """Wait for the answer to a request as long as its client waits."""
    async for news in pending.progress():
        if isinstance(news, Answer):
            return news
        if await request.is_disconnected():
            break
    raise HTTPException(503, "the connection was closed")


@router.get("/model")
async def describe_model(request: Request) -> Model:
    """The model, and what a request may hold."""
    return request.app.state.model


@router.post("/translate")
async def translate(pending: Submitted, request: Request) -> Answer:
    """Each sentence gets its translations, or an error."""
    return await wait_for_answer(pending, request)


@router.post("/translate/stream")
async def stream(pending: Submitted) -> AsyncIterable[Partial | Answer]:
    """Unfinished translations, then the answer, as JSON lines."""
    async for news in pending.progress():
        if news is not None:
            yield news
