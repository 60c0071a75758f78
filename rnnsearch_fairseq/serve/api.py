"""The JSON API: ``/api/model``, ``/api/translate`` and ``/api/translate/stream``."""

import contextlib
from collections.abc import AsyncIterable, AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Request

from rnnsearch_fairseq.serve.messages import Answer, Model, Partial, Problem, TranslationRequest
from rnnsearch_fairseq.serve.scheduler import PendingRequest

BUSY = "the server is busy; please try again in a moment"
TRY_AGAIN = {"Retry-After": "1"}
REFUSALS: dict[int | str, dict[str, Any]] = {
    413: {"model": Problem, "description": "The request is too large"},
    422: {"model": Problem, "description": "The request differs from this description"},
    503: {"model": Problem, "description": "Busy, or out of time: try again after the seconds in Retry-After"},
}
router = APIRouter(prefix="/api")


async def submit(message: TranslationRequest, request: Request) -> AsyncIterator[PendingRequest]:
    """Put a request into the queue; it is abandoned when its client has the answer or has left."""
    pending = PendingRequest(message)
    if not request.app.state.scheduler.submit(pending):
        raise HTTPException(503, BUSY, TRY_AGAIN)
    try:
        yield pending
    finally:
        pending.abandoned = True


async def wait_for_answer(pending: PendingRequest, request: Request) -> Answer:
    """Wait for the results of a request, while its client does."""
    async for news in pending.progress():
        if isinstance(news, Answer):
            return news
        if isinstance(news, Problem):
            raise HTTPException(503, news.error, TRY_AGAIN)
        if await request.is_disconnected():
            break
    raise HTTPException(503, "the connection was closed")


Submitted = Annotated[PendingRequest, Depends(submit)]
submitted = contextlib.asynccontextmanager(submit)


@router.get("/model")
async def describe_model(request: Request) -> Model:
    """The model, and what a request may hold."""
    return request.app.state.model


@router.post("/translate", responses=REFUSALS)
async def translate(pending: Submitted, request: Request) -> Answer:
    """Each sentence gets a translation, or an error with its number, from 1."""
    return await wait_for_answer(pending, request)


@router.post("/translate/stream", responses=REFUSALS)
async def stream(pending: Submitted) -> AsyncIterable[Partial | Answer | Problem]:
    """Unfinished translations, then the answer or an error, as JSON lines."""
    async for news in pending.progress():
        if news is not None:
            yield news
