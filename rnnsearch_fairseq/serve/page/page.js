// The form, the requests, and the results.

import { drawAlignment } from "./picture.js";
import { byId, decimals, make, plainText, translationLabel, wordLabel } from "./words.js";

const SURE = [["Sure", 0.8], ["Fairly sure", 0.5], ["Unsure", 0.25], ["Very unsure", 0]];
const NOT_SURE = "Not sure, as words are unknown";
const SECONDS_COPIED = 2;
const NO_ALIGNMENT =
  "This model has no alignment. It is an RNNencdec: it puts the whole sentence into one vector, and writes every word of " +
  "the translation from that vector, without looking at single words of the sentence again.";
const WORDS = "Where the model looked for each word that it wrote: the weights of a row sum to 1. Point at a square, or " +
  "press the arrow keys in the table, for its weight.";
const PHRASES = "The tree joins words into phrases. The model looks at words (squares) and at phrases (round), each below " +
  "its place in the tree.";
const NO_PARSE = "This model reads trees, too, but this sentence has no parse: it looks at words alone.";
const TOUCHED = matchMedia("(pointer: coarse)").matches; // without a keyboard there is no Shift: Enter begins a line
let model = null;
let results = []; // those that are shown
let running = null; // the AbortController of their requests

function languageName(code) {
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(code);
  } catch {
    return code;
  }
}

function showProblem(element, error) {
  if (error.name === "AbortError") {
    return; // other results are shown now
  }
  const text = error instanceof TypeError ? "the server cannot be reached; is it running?" : error.message;
  element.textContent = `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
  element.hidden = false;
}

// Requests

async function* jsonLines(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    const lines = (rest + (value || "")).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      yield JSON.parse(line);
    }
    if (done) {
      return;
    }
  }
}

async function post(path, request, signal) {
  const headers = { "Content-Type": "application/json" };
  const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(request), signal });
  if (!response.ok) {
    const { detail } = await response.json().catch(() => ({ detail: `the server answered ${response.status}` }));
    throw new Error(detail);
  }
  return response;
}

async function copy(button, text) {
  const label = button.textContent;
  await navigator.clipboard.writeText(text);
  byId("announcement").textContent = button.textContent = "Copied";
  setTimeout(() => (button.textContent = label), 1000 * SECONDS_COPIED);
}

function copies(button, textOf) {
  button.hidden = !navigator.clipboard; // browsers offer it over TLS and on this machine only
  button.addEventListener("click", () => copy(button, textOf()).catch((error) => showProblem(byId("problem"), error)));
}

// A sentence and its translations

class Result {
  // typed: a sentence and its parse; number: its place among several sentences, from 1, or null.
  constructor(typed, number, signal) {
    Object.assign(this, { typed, signal, sentence: null, translation: null });
    this.article = byId("result").content.firstElementChild.cloneNode(true);
    if (number !== null) {
      const text = make("bdi", { lang: model.source_lang, textContent: typed.sentence });
      this.part("h2").replaceChildren(`${number}. `, text);
    }
    this.part(".translation").lang = model.target_lang;
    this.part(".source").lang = model.source_lang;
    copies(this.part(".copy"), () => this.text);
    this.part(".others").addEventListener("toggle", () => this.findOthers());
    this.part(".alignment").addEventListener("toggle", () => this.draw());
    this.part(".others").hidden = model.beam < 2;
    this.part(".alignment").open = number === null;
  }

  part(selector) {
    return this.article.querySelector(selector);
  }

  get text() {
    return this.translation === null ? "" : plainText(this.translation.text, model.target_lang);
  }

  showPartial(text) {
    this.part(".translation").replaceChildren(...translationLabel({ text }, model.target_lang), " …");
  }

  finish(answer) {
    if (answer.detail) {
      this.part(".translation").hidden = true;
      showProblem(this.part(".problem"), new Error(answer.detail.replace(/\bsentence \d+\b/, "the sentence")));
      return;
    }
    this.sentence = answer;
    this.part(".found").hidden = false;
    if (answer.source.some((word) => word.unknown)) {
      const words = answer.source.slice(0, -1).flatMap((word, index) => [...(index > 0 ? [" "] : []), ...wordLabel(word)]);
      this.part(".source").replaceChildren(...words);
      this.part(".source").hidden = false;
    }
    this.show(answer.translations[0]);
  }

  show(translation) {
    this.translation = translation;
    this.part(".translation").replaceChildren(...translationLabel(translation, model.target_lang));
    const unknown = [...this.sentence.source, ...translation.words].some((word) => word.unknown);
    this.part(".legend").hidden = !unknown;
    const each = Math.exp(meanLogprob(translation));
    const [words] = unknown ? [NOT_SURE] : SURE.find(([, least]) => each >= least);
    this.part(".quality summary").textContent = `${words}: ${percent(translation)} a word`;
    this.part(".quality p").textContent =
      `The model gave the ${translation.words.length} words, end of the sentence included, a probability of ` +
      `${percent(translation)} in the geometric mean. The log-probability of the translation is ` +
      `${decimals(translation.logprob)}.`;
    this.draw();
  }

  // A table of many words is drawn only when it is to be seen.
  draw() {
    if (!this.part(".alignment").open || this.translation === null) {
      return;
    }
    const { phrases } = this.sentence;
    const aligned = Boolean(this.translation.alignment);
    const about = !phrases ? "" : phrases.length > 0 ? PHRASES : NO_PARSE;
    this.part(".explanation").textContent = aligned ? `${WORDS} ${about}` : NO_ALIGNMENT;
    this.part(".readout").hidden = !aligned;
    this.part(".readout").replaceChildren("\u00a0");
    if (aligned) {
      const direction = getComputedStyle(byId("sentence")).direction;
      const show = (...pointed) => this.showWeight(...pointed);
      this.part(".picture").replaceChildren(drawAlignment(this.sentence, this.translation, model, direction, show));
    }
  }

  showWeight(target, source, weight) {
    const [to, from] = [target, source].map((name) => make("bdi", { textContent: name }));
    this.part(".readout").replaceChildren(to, " ← ", from, `: ${weight}`);
  }

  async findOthers() {
    const field = this.part(".others fieldset");
    if (!this.part(".others").open || field.querySelector("input")) {
      return;
    }
    try {
      const response = await post("/api/translate", { ...requestOf([this.typed]), nbest: model.beam }, this.signal);
      const [sentence] = (await response.json()).sentences;
      if (sentence.detail) {
        throw new Error(sentence.detail);
      }
      field.replaceChildren(field.querySelector("legend"), ...this.choices(sentence.translations));
    } catch (error) {
      this.part(".others").open = false;
      showProblem(byId("problem"), error);
    }
  }

  choices(translations) {
    const name = `translation of ${this.typed.sentence}`;
    return translations.map((translation, index) => {
      const choice = make("input", { type: "radio", name, checked: index === 0 });
      choice.addEventListener("change", () => this.show(translation));
      const text = make("bdi", { lang: model.target_lang }, ...translationLabel(translation, model.target_lang));
      const title = `Score ${decimals(translation.score)}`;
      return make("label", {}, choice, text, make("span", { className: "score", title, textContent: percent(translation) }));
    });
  }
}

function meanLogprob({ logprob, words }) {
  return logprob === null ? -Infinity : logprob / words.length;
}

function percent(translation) {
  return `${Math.round(100 * Math.exp(meanLogprob(translation)))}%`;
}

// The form

function linesOf(id) {
  return byId(id).value.split("\n").map((line) => line.replace(/\s+/g, " ").trim());
}

function typedSentences() {
  const sentences = linesOf("sentence").filter(Boolean);
  // The parse of a single sentence may be on several lines.
  const parses = sentences.length > 1 ? linesOf("parse") : [linesOf("parse").join(" ").trim()];
  return sentences.map((sentence, index) => ({ sentence, tree: (model.reads_trees && parses[index]) || null }));
}

function requestOf(typed) {
  return { sentences: typed.map(({ sentence }) => sentence), trees: typed.map(({ tree }) => tree) };
}

async function translate() {
  if (running) {
    running.abort();
  }
  const { signal } = (running = new AbortController());
  byId("problem").hidden = byId("tools").hidden = true;
  byId("announcement").textContent = "";
  byId("results").setAttribute("aria-busy", "false");
  const typed = typedSentences();
  const { characters, translations } = model.limits;
  const long = typed.findIndex(({ sentence }) => sentence.length > characters);
  if (typed.length > translations || long >= 0) {
    const some = `there are ${typed.length} sentences, and at most ${translations} are translated at a time`;
    const one = `sentence ${long + 1} has more than ${characters} characters; split it`;
    byId("results").replaceChildren();
    showProblem(byId("problem"), new Error(long >= 0 ? one : some));
    return;
  }
  results = typed.map((each, index) => new Result(each, typed.length > 1 ? index + 1 : null, signal));
  byId("results").replaceChildren(...results.map((result) => result.article));
  if (results.length === 0) {
    return;
  }
  byId("results").setAttribute("aria-busy", "true");
  try {
    const response = await post("/api/translate/stream", requestOf(typed), signal);
    for await (const line of jsonLines(response.body)) {
      if (line.detail) {
        throw new Error(line.detail);
      } else if (line.sentences) {
        line.sentences.forEach((answer, index) => results[index].finish(answer));
      } else {
        results[line.sentence].showPartial(line.text);
      }
    }
    byId("announcement").textContent = results.map((result) => result.text).join(" ");
    byId("copy-all").hidden = results.length < 2 || !navigator.clipboard;
    byId("tools").hidden = false;
  } catch (error) {
    if (signal.aborted) {
      return;
    }
    byId("results").replaceChildren();
    showProblem(byId("problem"), error);
  }
  byId("results").setAttribute("aria-busy", "false");
}

// Links: the part of the address after #, which browsers do not send to the server, holds what is typed.

function address() {
  const typed = new URLSearchParams({ sentence: byId("sentence").value });
  if (byId("parse").value) {
    typed.set("parse", byId("parse").value);
  }
  return `#${typed}`;
}

function submit() {
  if (address() !== location.hash) {
    history.pushState(null, "", address());
  }
  translate();
}

function followLink() {
  const typed = new URLSearchParams(location.hash.slice(1));
  byId("sentence").value = typed.get("sentence") || "";
  byId("parse").value = typed.get("parse") || "";
  byId("parse-field").open = Boolean(byId("parse").value);
  translate();
}

function showModel() {
  const { source_lang: source, target_lang: target, limits } = model;
  byId("languages").textContent = `${languageName(source)} to ${languageName(target)}`;
  document.title = `Translate ${languageName(source)} to ${languageName(target)}`;
  byId("sentence").lang = source;
  byId("announcement").lang = target;
  byId("sentence").maxLength = limits.characters * limits.translations;
  const keys = TOUCHED ? "" : "Enter translates; Shift and Enter begin a new line. ";
  byId("hint").textContent = `${keys}A sentence has at most ${limits.words} words.`;
  byId("parse-field").hidden = !model.reads_trees;
  byId("examples").hidden = model.examples.length === 0;
  for (const example of model.examples) {
    const button = make("button", { type: "button", className: "quiet", lang: source, textContent: example });
    button.addEventListener("click", () => {
      [byId("sentence").value, byId("parse").value] = [example, ""];
      submit();
    });
    byId("examples").append(button);
  }
}

async function start() {
  try {
    model = await (await fetch("/api/model")).json();
  } catch (error) {
    showProblem(byId("problem"), error);
    return;
  }
  showModel();
  byId("form").addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  byId("sentence").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing && !TOUCHED) {
      event.preventDefault();
      byId("form").requestSubmit();
    }
  });
  copies(byId("copy-all"), () => results.map((result) => result.text).join("\n"));
  copies(byId("copy-link"), () => location.href);
  window.addEventListener("popstate", followLink);
  if (location.hash) {
    followLink();
  }
}

start();
