"""LibreTranslate's API, which Weblate, OmegaT and others speak: /translate, /detect, /languages and /health."""

import asyncio
import re
from collections.abc import Callable, Sequence
from itertools import chain, islice, pairwise, starmap
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field, model_validator
from starlette.requests import ClientDisconnect
from translate.lang.data import languages

from rnnsearch_fairseq.documents.html import read_html
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.serve.messages import MAX_TRANSLATIONS, Text, Translated, TranslationRequest
from rnnsearch_fairseq.serve.worker import answer
from rnnsearch_fairseq.text.language import language_code
from rnnsearch_fairseq.text.sentences import SENTENCE_END, combine

MAX_CHARACTERS = 250_000  # of a request, times the translations of each text
MAX_TEXTS = 2_000  # of a request, and parts of its texts
MAX_FIELDS = 1_000  # of a form; for multipart forms, this is Starlette's default
MAX_PART = 4_000  # characters of a long text that are translated at a time
EXAMPLE = 'a JSON object, such as {"q": "Hello.", "source": "en", "target": "fr"}'
PART_END = re.compile(rf"\n|{SENTENCE_END.pattern}")
Candidate = tuple[str, list[str]]  # a translation and its faults
Write = Callable[[Sequence[str]], Candidate]  # makes the translation of a text from those of its parts
router = APIRouter()


class TextRequest(BaseModel):
    """Texts, and how to translate them; other fields of LibreTranslate, such as api_key, are ignored."""

    q: Annotated[list[Text], Field(fail_fast=True, max_length=MAX_TEXTS)]
    source: str
    target: str
    format: Literal["text", "html"] = "text"
    alternatives: int = Field(0, ge=0, lt=MAX_TRANSLATIONS)

    @model_validator(mode="after")
    def check_size(self) -> "TextRequest":
        if (characters := sum(map(len, self.q)) * (self.alternatives + 1)) > MAX_CHARACTERS:
            most = f"at most {MAX_CHARACTERS:,} are translated at a time"
            raise ValueError(f"characters times translations are {characters:,}, and {most}; send fewer texts")
        return self


async def read_fields(request: Request) -> dict[str, Any]:
    """Read JSON or a form, without options that are null or empty; what a form has several times is a list."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind == "application/json":
            return _without_empty({**await request.json()})
        if kind == "multipart/form-data":
            form = await request.form()
            fields = {name: form.getlist(name) for name in form}
        else:  # Starlette would read UTF-8 in it as Latin-1. deep-translator writes the fields behind the address.
            form = f"{request.url.query}&{(await request.body()).decode()}"
            fields = parse_qs(form, True, max_num_fields=MAX_FIELDS, errors="strict")
    except (ValueError, TypeError, RecursionError, ClientDisconnect) as error:
        raise InputError(f"the request cannot be read as {kind} ({error}); send {EXAMPLE}, or a form") from error
    return _without_empty({name: values if len(values) > 1 else values[0] for name, values in fields.items()})


def _without_empty(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None and (value != "" or name == "q")}


@router.get("/health")
async def check_health() -> dict[str, str]:
    """Say that the server is up."""
    return {"status": "ok"}


@router.get("/languages")
async def list_languages(request: Request) -> list[dict[str, Any]]:
    """The model's two languages; the first one is translated into the second."""
    source, target = request.app.state.model.source_lang, request.app.state.model.target_lang
    return [
        {"code": code, "name": languages.get(language_code(code), (code,))[0], "targets": targets}
        for code, targets in ((source, [target]), (target, []))
    ]


@router.post("/detect")
async def detect(request: Request) -> list[dict[str, Any]]:
    """The language that the model reads, with no confidence, as no language is detected."""
    return [{"confidence": 0, "language": request.app.state.model.source_lang}]


@router.post("/translate")
async def translate(request: Request) -> dict[str, Any]:
    """Translate texts as LibreTranslate does; ``faults`` names what a translator should check in each translation.

    In a list, a text that cannot be translated stays as it is, and its fault says why.
    """
    fields = await read_fields(request)
    is_single = isinstance(fields.get("q"), str)
    asked = TextRequest.model_validate({**fields, "q": [fields["q"]]} if is_single else fields)
    model = request.app.state.model
    source = model.source_lang if asked.source == "auto" else asked.source
    wanted, offered = (source, asked.target), (model.source_lang, model.target_lang)
    if [*map(language_code, wanted)] != [*map(language_code, offered)]:
        raise InputError(f"{' to '.join(wanted)} is not supported; the model translates {' to '.join(offered)}")
    cut = _cut_html if asked.format == "html" else _cut_text
    # In a thread, so that the event loop goes on.
    texts = await asyncio.to_thread(lambda: [cut(text, model.target_lang) for text in asked.q])
    if (number := sum(len(parts) for parts, _ in texts)) > MAX_TEXTS:
        raise InputError(
            f"the request has {number:,} texts; at most {MAX_TEXTS:,} are translated at a time; send fewer"
        )
    results: dict[str, list[Candidate]] = {}
    parts, size = [*{part: None for parts, _ in texts for part in parts}], MAX_TRANSLATIONS // (asked.alternatives + 1)
    for some in (parts[start : start + size] for start in range(0, len(parts), size)):
        message = TranslationRequest.model_construct(sentences=some, nbest=asked.alternatives + 1)
        for part, result in zip(some, (await answer(message, request)).sentences):
            if isinstance(result, Translated):
                results[part] = [(translation.text, translation.faults) for translation in result.translations]
            elif is_single:
                raise InputError(result.error)
            else:
                results[part] = [(part, [f"is not translated: {result.error}"])]

    def write(parts: Sequence[str], write_text: Write) -> list[Candidate]:
        """The translations of a text, of which no two are equal, and their faults."""
        several = {}
        for chosen in combine([results[part] for part in parts]):
            whole, left_out = write_text([text for text, _ in chosen])
            several[whole] = [*left_out, *chain.from_iterable(faults for _, faults in chosen)]
        return [*several.items()]

    written = await asyncio.to_thread(lambda: [*starmap(write, texts)])
    reply = {"translatedText": [text for (text, _), *_ in written], "faults": [faults for (_, faults), *_ in written]}
    if asked.alternatives:
        reply["alternatives"] = [[text for text, _ in others] for _, *others in written]
    if asked.source == "auto":
        reply["detectedLanguage"] = await detect(request) * len(texts)
    return {name: values[0] for name, values in reply.items()} if is_single else reply


def _cut_text(text: str, language: str) -> tuple[list[str], Write]:
    """The parts of a text, each of whole lines or sentences, and how to join their translations."""
    parts = [""]
    for start, end in pairwise([0, *(match.end() for match in PART_END.finditer(text)), len(text)]):
        if len(parts[-1]) + end - start > MAX_PART:
            parts.append("")
        parts[-1] += text[start:end]
    return parts, lambda translations: ("".join(translations), [])


def _cut_html(text: str, language: str) -> tuple[list[str], Write]:
    """The texts of HTML, and how to write their translations into it; the rest stays as it is."""
    document = read_html(text.encode(), is_page=False)
    parts = [_cut_text(unit.sources[0], language)[0] for unit in document.units]

    def write(translations: Sequence[str]) -> Candidate:
        document.store.changes.clear()
        following = iter(translations)
        left_out = [unit.fill(["".join(islice(following, len(cut)))]) for unit, cut in zip(document.units, parts)]
        return document.write(language).decode(), [*filter(None, left_out)]

    return [*chain.from_iterable(parts)], write
