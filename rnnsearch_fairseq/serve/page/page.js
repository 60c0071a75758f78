// The form, the requests, and the results.

import { drawAlignment } from "./picture.js";
import { byId, decimals, joinPieces, make, translationLabel, wordLabel } from "./words.js";

const NO_ALIGNMENT =
  "This model has no alignment. It is an RNNencdec: it puts the whole sentence into one vector, and writes every word of " +
  "the translation from that vector, without looking at single words of the sentence again.";
const WORDS = "Where the model looked for each word that it wrote: the weights of a row sum to 1. Point at a square for its weight.";
const PHRASES = "The tree joins words into phrases. The model looks at words (squares) and at phrases (round), each below " +
  "its place in the tree.";
const NO_PARSE = "This model reads trees, too, but this sentence has no parse: it looks at words alone.";
let model = null;
let running = null; // the AbortController of the requests whose results are shown

function languageName(code) {
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(code.replace("_", "-"));
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

async function post(path, typed, nbest, signal) {
  const request = { sentences: typed.map(({ sentence }) => sentence), trees: typed.map(({ tree }) => tree), nbest };
  const headers = { "Content-Type": "application/json" };
  const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(request), signal });
  if (!response.ok) {
    const { error } = await response.json().catch(() => ({ error: `the server answered ${response.status}` }));
    throw new Error(error);
  }
  return response;
}

// A sentence and its translations

class Result {
  // typed: a sentence and its parse; heading: its number and text among several sentences.
  constructor(typed, heading, signal) {
    Object.assign(this, { typed, signal, sentence: null, translation: null });
    this.article = byId("result").content.firstElementChild.cloneNode(true);
    this.part("h2").textContent = heading || "Translation";
    this.part(".translation").lang = model.target_lang;
    this.part(".source").lang = model.source_lang;
    this.part(".others").addEventListener("toggle", () => this.findOthers());
    this.part(".alignment").addEventListener("toggle", () => this.draw());
    this.part(".others").hidden = model.beam < 2;
    this.part(".alignment").open = !heading;
  }

  part(selector) {
    return this.article.querySelector(selector);
  }

  showPartial(text) {
    this.part(".translation").replaceChildren(...translationLabel({ text }, model.target_lang), " …");
  }

  finish(answer) {
    if (answer.error) {
      this.part(".translation").hidden = true;
      showProblem(this.part(".problem"), new Error(answer.error.replace(/\bsentence \d+\b/, "the sentence")));
      return;
    }
    this.sentence = answer;
    this.part(".found").hidden = false;
    if (answer.source.some(({ unknown }) => unknown)) {
      const words = joinPieces(answer.source.slice(0, -1), model.source_lang).flatMap((word) => [wordLabel(word), " "]);
      this.part(".source").replaceChildren(...words, "(The model does not know the marked words.)");
      this.part(".source").hidden = false;
    }
    this.show(answer.translations[0]);
  }

  show(translation) {
    this.translation = translation;
    this.part(".translation").replaceChildren(...translationLabel(translation, model.target_lang));
    this.part(".probability").textContent =
      `The model gave each word a probability of ${percent(translation)}, in the geometric mean of ` +
      `${translation.words.length}; the log-probability of the translation is ${decimals(translation.logprob)}.`;
    this.draw();
  }

  // A table of many words is drawn only when it is to be seen.
  draw() {
    if (!this.part(".alignment").open || this.translation === null) {
      return;
    }
    const { phrases } = this.sentence;
    if (!this.translation.alignment) {
      this.part(".explanation").textContent = NO_ALIGNMENT;
      return;
    }
    const about = !phrases ? "" : phrases.length > 0 ? PHRASES : NO_PARSE;
    this.part(".explanation").textContent = `${WORDS} ${about}`;
    const { direction } = getComputedStyle(byId("sentence"));
    this.part(".picture").replaceChildren(drawAlignment(this.sentence, this.translation, model, direction));
  }

  async findOthers() {
    const field = this.part(".others fieldset");
    if (!this.part(".others").open || field.children.length > 0) {
      return;
    }
    try {
      const response = await post("/api/translate", [this.typed], model.beam, this.signal);
      const [sentence] = (await response.json()).sentences;
      if (sentence.error) {
        throw new Error(sentence.error);
      }
      field.replaceChildren(...sentence.translations.map((translation, index) => this.choice(translation, index)));
    } catch (error) {
      this.part(".others").open = false;
      showProblem(byId("problem"), error);
    }
  }

  choice(translation, index) {
    const button = make("input", { type: "radio", name: `translation of ${this.typed.sentence}`, checked: index === 0 });
    button.addEventListener("change", () => this.show(translation));
    const text = make("bdi", { lang: model.target_lang }, ...translationLabel(translation, model.target_lang));
    const title = `Score ${decimals(translation.score)}`;
    return make("label", {}, button, text, make("span", { className: "score", title, textContent: percent(translation) }));
  }
}

function percent({ logprob, words }) {
  return `${Math.round(100 * Math.exp(logprob === null ? -Infinity : logprob / words.length))}%`;
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

async function translate() {
  running?.abort();
  const { signal } = (running = new AbortController());
  byId("problem").hidden = true;
  const typed = typedSentences();
  const heading = (sentence, index) => (typed.length > 1 ? `${index + 1}. ${sentence}` : "");
  const results = typed.map((each, index) => new Result(each, heading(each.sentence, index), signal));
  byId("results").replaceChildren(...results.map((result) => result.article));
  byId("results").setAttribute("aria-busy", "true");
  try {
    const response = await post("/api/translate/stream", typed, 1, signal);
    for await (const line of jsonLines(response.body)) {
      if (line.error) {
        throw new Error(line.error);
      } else if (line.sentences) {
        line.sentences.forEach((answer, index) => results[index].finish(answer));
      } else {
        results[line.sentence].showPartial(line.text);
      }
    }
  } catch (error) {
    if (signal.aborted) {
      return;
    }
    byId("results").replaceChildren();
    showProblem(byId("problem"), error);
  }
  byId("results").setAttribute("aria-busy", "false");
}

function showModel() {
  const { source_lang: source, target_lang: target } = model;
  byId("languages").textContent = `${languageName(source)} to ${languageName(target)}`;
  document.title = `Translate ${languageName(source)} to ${languageName(target)}`;
  byId("sentence").lang = source;
  byId("hint").textContent = `Enter translates; Shift and Enter begin a new line. At most ${model.max_translations} ` +
    `sentences of ${model.max_words} words.`;
  byId("parse-field").hidden = !model.reads_trees;
  byId("examples").hidden = model.examples.length === 0;
  for (const example of model.examples) {
    const button = make("button", { type: "button", className: "quiet", lang: source, textContent: example });
    button.addEventListener("click", () => {
      [byId("sentence").value, byId("parse").value] = [example, ""];
      translate();
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
    translate();
  });
  byId("sentence").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      byId("form").requestSubmit();
    }
  });
}

start();
