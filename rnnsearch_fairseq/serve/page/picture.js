// The picture of an alignment: a table of weights with the target words as rows. Its columns are the source words; with a
// parse, each phrase has a column, too, between the words of its left and of its right part, and the tree is drawn above.

import { decimals, joinPieces, make, sum, wordLabel } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const SLIGHT = 0.05; // a square of less shows no number
const STRONG = 0.65; // from here on, the number has the colour of the page's ground

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
    node.parts.forEach((part) => draw("edge", node, `H ${x(part)} V ${y(part)}`));
  }
  nodes.forEach((node) => draw("node", node, "h 0"));
  const cell = make("td", { className: "tree", colSpan: columns }, drawing);
  cell.style.setProperty("--levels", String(levels));
  const row = make("tr", {}, make("td"), cell);
  row.setAttribute("aria-hidden", "true");
  return row;
}

// The columns, from left to right: {kind, label, name, pieces}, where pieces are the places of its weights.
function columnsOf(sentence, nodes, language) {
  const words = joinPieces(sentence.source, sentence.source_unknown, language)
    .map((word) => ({ kind: "word", label: wordLabel(word), name: word.text, pieces: word.pieces }));
  if (nodes.length === 0) {
    return words;
  }
  const columns = [];
  words.forEach((word, place) => (columns[Math.min(2 * place, nodes.length + place)] = word));
  nodes.forEach(({ column }, place) => {
    const text = sentence.source.slice(...sentence.phrases[place]).join(" ");
    columns[column] = { kind: "phrase", label: "", name: `“${text}”`, pieces: [place] };
  });
  return columns;
}

function square(weight, kind, title) {
  const cell = make("td", { className: `weight ${kind}`, title, textContent: weight < SLIGHT ? "" : decimals(weight) });
  cell.style.setProperty("--weight", String(weight));
  cell.classList.toggle("strong", weight >= STRONG);
  return cell;
}

// Draws a translation's alignment. A word of several pieces has the sum of their weights in its column, and the mean of
// their weights in its row.
export function drawAlignment(sentence, translation, model, direction) {
  const nodes = arrange(sentence.phrases || []);
  const columns = columnsOf(sentence, nodes, model.source_lang);
  const weights = { word: translation.weights, phrase: translation.phrase_weights };
  const table = make("table", { dir: direction, ariaLabel: "Weights: target words by source words" });
  table.style.setProperty("--columns", String(columns.length));
  const names = columns.map(({ kind, label, name }) =>
    make("th", { scope: "col", className: kind, title: name, ariaLabel: name }, make("bdi", { lang: model.source_lang }, label)));
  const head = make("thead", {}, make("tr", { className: "names" }, make("td"), ...names));
  if (nodes.length > 0) {
    head.prepend(drawTree(nodes, columns.length));
  }
  const rows = joinPieces(translation.target, translation.target_unknown, model.target_lang).map((word) => {
    const squares = columns.map(({ kind, name, pieces }) => {
      const weight = sum(word.pieces.map((row) => sum(pieces.map((piece) => weights[kind][row][piece])))) / word.pieces.length;
      return square(weight, kind, `${word.text} ← ${name}: ${decimals(weight)}`);
    });
    return make("tr", {}, make("th", { scope: "row" }, make("bdi", { lang: model.target_lang }, wordLabel(word))), ...squares);
  });
  table.append(head, make("tbody", {}, ...rows));
  return make("div", { className: "scroll", tabIndex: 0 }, table);
}
