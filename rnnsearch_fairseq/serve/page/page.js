"use strict";

const UNKNOWN = "<unk>";
const END = "</s>";
const SLIGHT = 0.05; // no number is shown in a square of less
const MIDDLING = 0.47; // from here on black is read better than white, where squares brighten with the weight,
const STRONG = 0.79; // and white better than black, where they darken
const byId = (id) => document.getElementById(id);
let model = null;
let running = null; // the AbortController of the request under way
let asked = null; // the request that was answered

// Elements. All text of others comes in by textContent.

function make(name, properties = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

function forEars(text) {
  return make("span", { className: "for-ears", textContent: text });
}

function clear(element, ...children) {
  element.replaceChildren(...children);
}

function languageName(code) {
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(code);
  } catch {
    return code;
  }
}

function decimals(number, digits = 2) {
  return number === null ? "−∞" : number.toFixed(digits).replace("-", "−");
}

function wordLabel(word) {
  if (word.text === END) {
    return [make("span", { textContent: "end", title: "end of the sentence" })];
  }
  if (!word.unknown) {
    return [word.text];
  }
  const text = word.text === UNKNOWN ? "unknown" : word.text;
  const mark = make("mark", { className: "unknown", textContent: text, title: "The model does not know this word" });
  return word.text === UNKNOWN ? [mark] : [mark, forEars(" (unknown)")];
}

// A translation, with its unknown words marked.

function markUnknown(text) {
  return text.split(UNKNOWN).flatMap((part, index) => {
    const unknown = { text: UNKNOWN, unknown: true };
    return index === 0 ? [part] : [...wordLabel(unknown), part];
  });
}

function plain(text) {
  return text.replaceAll(UNKNOWN, "unknown word");
}

// The heat map: a table whose squares the arrow keys go through.

function heatMap(caption, columns, rows, weights) {
  const name = (scope, label) => make("th", { scope }, make("bdi", {}, ...label()));
  const head = make("tr", {}, make("td"), ...columns.map((label) => name("col", label)));
  const body = rows.map((label, row) => {
    const squares = weights[row].map((weight) => square(weight));
    return make("tr", {}, name("row", label), ...squares);
  });
  const table = make("table", {}, make("caption", { className: "for-ears", textContent: caption }));
  table.append(make("thead", {}, head), make("tbody", {}, ...body));
  table.setAttribute("role", "grid");
  const first = table.querySelector(".weight");
  if (first) {
    first.tabIndex = 0;
  }
  table.addEventListener("keydown", moveInTable);
  for (const event of ["mouseover", "focusin", "click"]) {
    table.addEventListener(event, (happened) => showWeight(happened.target.closest(".weight")));
  }
  return table;
}

function square(weight) {
  const cell = make("td", { className: "weight", tabIndex: -1, textContent: decimals(weight) });
  cell.style.setProperty("--weight", String(weight));
  cell.classList.toggle("middling", weight >= MIDDLING);
  cell.classList.toggle("strong", weight >= STRONG);
  cell.classList.toggle("slight", weight < SLIGHT);
  return cell;
}

function namesOf(cell) {
  const row = cell.parentElement;
  const head = cell.closest("table").tHead.rows[0];
  return [row.cells[0], head.cells[cell.cellIndex]].map((name) => name.textContent);
}

function showWeight(cell) {
  if (!cell) {
    return;
  }
  const [target, source] = namesOf(cell);
  cell.title = `${target} ← ${source}: ${cell.textContent}`;
  clear(byId("readout"), make("bdi", { textContent: target }), " ← ", make("bdi", { textContent: source }));
  byId("readout").append(`: ${cell.textContent}`);
}

function moveInTable(event) {
  const cell = event.target.closest(".weight");
  if (!cell || event.ctrlKey || event.altKey || event.metaKey) {
    return;
  }
  const rows = cell.closest("tbody").rows;
  const forward = getComputedStyle(cell).direction === "rtl" ? -1 : 1;
  const places = {
    ArrowRight: [0, forward],
    ArrowLeft: [0, -forward],
    ArrowDown: [1, 0],
    ArrowUp: [-1, 0],
    Home: [0, 1 - cell.cellIndex],
    End: [0, cell.parentElement.cells.length - 1 - cell.cellIndex],
  };
  const step = places[event.key];
  if (!step) {
    return;
  }
  event.preventDefault();
  const row = rows[cell.parentElement.sectionRowIndex + step[0]];
  const next = row && row.cells[cell.cellIndex + step[1]];
  if (next && next.classList.contains("weight")) {
    cell.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }
}

function showAlignment(sentence, translation) {
  const { alignment, phrase_alignment: phraseAlignment, words } = translation;
  byId("alignment").hidden = !alignment;
  clear(byId("readout"), "\u00a0");
  if (!alignment) {
    return;
  }
  const rows = words.map((word) => () => wordLabel(word));
  const columns = sentence.source.map((word) => () => wordLabel(word));
  const direction = getComputedStyle(byId("sentence")).direction;
  const table = heatMap("Weight of each source word for each target word", columns, rows, alignment);
  table.dir = direction;
  clear(byId("word-weights"), table);
  const spans = sentence.phrases || [];
  byId("phrases").hidden = spans.length === 0;
  const phrases = spans.map(([start, end]) => () => {
    const text = sentence.source.slice(start, end).map((word) => word.text);
    return [make("span", { textContent: text.join(" "), title: text.join(" ") })];
  });
  clear(byId("phrase-weights"));
  if (phrases.length > 0) {
    const grid = heatMap("Weight of each source phrase for each target word", phrases, rows, phraseAlignment);
    grid.dir = direction;
    byId("phrase-weights").append(grid);
  }
}

// The answer

function showTranslation(sentence, translation) {
  clear(byId("translation"), ...markUnknown(translation.text));
  const words = translation.words.length;
  const each = translation.logprob === null ? null : translation.logprob / words;
  clear(byId("quality"), `Log-probability ${decimals(translation.logprob)}, ${decimals(each)} a word.`);
  showAlignment(sentence, translation);
}

function showSentence(sentence) {
  const [best] = sentence.translations;
  showTranslation(sentence, best);
  byId("announcement").textContent = plain(best.text);
  byId("others").hidden = model.beam < 2;
}

function showOthers(sentence) {
  const field = byId("nbest");
  clear(field, field.querySelector("legend"));
  sentence.translations.forEach((translation, index) => {
    const choice = make("input", { type: "radio", name: "translation", checked: index === 0 });
    choice.addEventListener("change", () => showTranslation(sentence, translation));
    const text = make("bdi", { lang: model.target_lang }, ...markUnknown(translation.text));
    const score = make("span", { className: "score", textContent: decimals(translation.score) });
    field.append(make("label", {}, choice, text, score));
  });
  field.hidden = false;
  byId("more").hidden = true;
  field.querySelector("input").focus();
}

function showProblem(text) {
  byId("problem").textContent = text;
  byId("problem").hidden = !text;
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
    const { error } = await response.json().catch(() => ({ error: `the server answered ${response.status}` }));
    throw new Error(error);
  }
  return response;
}

function sentenceOf(answer) {
  const [sentence] = answer.sentences;
  if (sentence.error) {
    throw new Error(sentence.error.replace(/^sentence 1\b/, "the sentence"));
  }
  return sentence;
}

function says(error) {
  const text = error instanceof TypeError ? "the server cannot be reached; is it running?" : error.message;
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

async function attempt(work) {
  if (running) {
    running.abort();
  }
  const controller = new AbortController();
  running = controller;
  showProblem("");
  byId("translation").setAttribute("aria-busy", "true");
  try {
    await work(controller.signal);
  } catch (error) {
    if (error.name !== "AbortError") {
      showProblem(says(error));
    }
  } finally {
    if (running === controller) {
      running = null;
      byId("translation").setAttribute("aria-busy", "false");
    }
  }
}

async function translate(signal) {
  asked = { sentences: [byId("sentence").value.replace(/\s+/g, " ").trim()] };
  const parse = byId("parse").value.trim();
  if (model.reads_trees && parse) {
    asked.trees = [parse];
  }
  byId("result").hidden = true;
  for (const id of ["alignment", "others", "nbest"]) {
    byId(id).hidden = true;
  }
  byId("more").hidden = false;
  clear(byId("translation"));
  clear(byId("quality"));
  byId("announcement").textContent = "";
  const response = await post("/api/translate/stream", asked, signal);
  for await (const line of jsonLines(response.body)) {
    byId("result").hidden = false;
    if (line.error) {
      throw new Error(line.error);
    } else if (line.sentences) {
      try {
        showSentence(sentenceOf(line));
      } catch (error) {
        byId("result").hidden = true;
        throw error;
      }
    } else {
      clear(byId("translation"), ...markUnknown(line.text), " …");
    }
  }
}

async function translateOtherwise(signal) {
  const response = await post("/api/translate", { ...asked, nbest: model.beam }, signal);
  showOthers(sentenceOf(await response.json()));
}

async function start() {
  byId("form").addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(translate);
  });
  byId("sentence").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.isComposing) {
      event.preventDefault();
      byId("form").requestSubmit();
    }
  });
  byId("more").addEventListener("click", () => attempt(translateOtherwise));
  await attempt(async (signal) => {
    const response = await fetch("/api/model", { signal });
    model = await response.json();
  });
  if (!model) {
    return;
  }
  const [source, target] = [model.source_lang, model.target_lang];
  clear(byId("languages"), `${languageName(source)} to ${languageName(target)}`);
  document.title = `Translate ${languageName(source)} to ${languageName(target)}`;
  byId("sentence").lang = source;
  byId("translation").lang = byId("announcement").lang = target;
  byId("sentence").maxLength = model.limits.characters;
  clear(byId("hint"), `Enter translates. At most ${model.limits.words} words.`);
  byId("parse-field").hidden = !model.reads_trees;
}

start();
