// The picture of an alignment: a table of weights with the target words as rows. Its columns are the source words; with a
// parse, each phrase has a column, too, between the words of its left and of its right part, and the tree is drawn above.

import { decimals, forEars, make, wordLabel, written } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const SLIGHT = 0.05; // no number is shown in a square of less
const MIDDLING = 0.47; // from here on black is read better than white, where squares brighten with the weight,
const STRONG = 0.79; // and white better than black, where they darken

// The tree

// Arranges the phrases [start, end) of a binary tree, which are in pre-order: a phrase, its left part, its right part.
// Returns for each: its column, its height above the words, and the columns and heights of its two parts.
function arrange(spans) {
  const nodes = new Map(); // by span
  const wordAt = (position) => ({ column: 2 * position, height: 0 });
  for (let number = spans.length - 1; number >= 0; number -= 1) {
    const [start, end] = spans[number];
    const [nextStart, nextEnd] = spans[number + 1] || [];
    const split = nextStart === start && nextEnd < end ? nextEnd : start + 1;
    const parts = [nodes.get(`${start} ${split}`) || wordAt(start), nodes.get(`${split} ${end}`) || wordAt(split)];
    const height = 1 + Math.max(parts[0].height, parts[1].height);
    nodes.set(`${start} ${end}`, { column: 2 * split - 1, height, parts });
  }
  return spans.map(([start, end]) => nodes.get(`${start} ${end}`));
}

function drawTree(nodes, columns) {
  const levels = nodes[0].height + 1;
  const [x, y] = [({ column }) => column + 0.5, ({ height }) => levels - height];
  const drawing = document.createElementNS(SVG, "svg");
  drawing.setAttribute("viewBox", `0 0.5 ${columns} ${levels - 0.5}`);
  drawing.setAttribute("preserveAspectRatio", "none");
  const draw = (name, node, path) => {
    const line = document.createElementNS(SVG, "path");
    line.setAttribute("class", name);
    line.setAttribute("d", `M ${x(node)} ${y(node)} ${path}`);
    drawing.append(line);
  };
  for (const node of nodes) {
    draw("down", node, `V ${levels}`);
    for (const part of node.parts) {
      draw("edge", node, `H ${x(part)} V ${y(part)}`);
    }
  }
  for (const node of nodes) {
    draw("node", node, "h 0");
  }
  const cell = make("td", { className: "tree", colSpan: columns }, drawing);
  cell.style.setProperty("--levels", String(levels));
  const row = make("tr", {}, make("td"), cell);
  row.setAttribute("aria-hidden", "true");
  return row;
}

// The columns, from left to right: the label of each, and where its weights are.
function columnsOf(sentence, nodes, language) {
  const words = sentence.source.map((word, place) => ({ place, label: wordLabel(word), kind: "word" }));
  const columns = nodes.length > 0 ? words.slice(0, nodes.length + 1).flatMap((word) => [word, null]).slice(0, -1) : [];
  nodes.forEach(({ column }, place) => {
    const text = sentence.source.slice(...sentence.phrases[place]).map((word) => word.text);
    const phrase = `“${written(text.join(" "), language)}”`;
    columns[column] = { place, label: [forEars(phrase)], title: phrase, kind: "phrase" };
  });
  return [...columns, ...words.slice((columns.length + 1) / 2)];
}

// The table

function header(scope, lang, { label, kind = "word", title = "" }) {
  return make("th", { scope, className: kind, title }, make("bdi", { lang }, ...label));
}

function square(weight, kind) {
  const cell = make("td", { className: `weight ${kind}`, tabIndex: -1, textContent: decimals(weight) });
  cell.style.setProperty("--weight", String(weight));
  cell.classList.toggle("middling", weight >= MIDDLING);
  cell.classList.toggle("strong", weight >= STRONG);
  cell.classList.toggle("slight", weight < SLIGHT);
  return cell;
}

// Draws a translation's alignment. show(target, source, weight) is called with what is pointed at.
export function drawAlignment(sentence, translation, model, direction, show) {
  const nodes = arrange(sentence.phrases || []);
  const columns = columnsOf(sentence, nodes, model.source_lang);
  const what = nodes.length > 0 ? "source word and phrase" : "source word";
  const table = make("table", { dir: direction });
  table.setAttribute("role", "grid");
  table.style.setProperty("--columns", String(columns.length));
  const names = columns.map((column) => header("col", model.source_lang, column));
  const head = make("thead", {}, make("tr", { className: "names" }, make("td"), ...names));
  if (nodes.length > 0) {
    head.prepend(drawTree(nodes, columns.length));
  }
  const rows = translation.words.map((word, row) => {
    const weights = { word: translation.alignment[row], phrase: (translation.phrase_alignment || [])[row] };
    const squares = columns.map(({ place, kind }) => square(weights[kind][place], kind));
    return make("tr", {}, header("row", model.target_lang, { label: wordLabel(word) }), ...squares);
  });
  const caption = make("caption", { className: "for-ears", textContent: `Weight of each ${what} for each target word` });
  table.append(caption, head, make("tbody", {}, ...rows));
  table.querySelector(".weight").tabIndex = 0;
  table.addEventListener("keydown", moveInTable);
  for (const event of ["mouseover", "focusin", "click"]) {
    table.addEventListener(event, ({ target }) => {
      const cell = target.closest(".weight");
      if (cell) {
        const source = names[cell.cellIndex - 1].textContent;
        show(cell.parentElement.cells[0].textContent, source, cell.textContent);
      }
    });
  }
  return make("div", { className: "scroll" }, table);
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
