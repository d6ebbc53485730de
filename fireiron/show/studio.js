"use strict";
const $ = (id) => document.getElementById(id);
const data = JSON.parse($("data").textContent);
const lines = [...document.querySelectorAll("[data-line]")];
const rows = [...document.querySelectorAll("[data-row]")];
const remarks = [...document.querySelectorAll("[data-of]")];

// Light or dark: the page around this one, else the system, until the button is pressed.
const root = document.documentElement;
const system = window.matchMedia("(prefers-color-scheme: dark)");
let around = null, chosen = false;
try { around = window.parent.document.body; } catch { /* a page of another origin tells nothing */ }
function follow() {
  const scheme = around?.dataset.mdColorScheme;
  if (!chosen) root.dataset.theme = (scheme ? scheme === "slate" : system.matches) ? "dark" : "light";
}
follow();
system.addEventListener("change", follow);
if (around && around !== document.body) {
  new MutationObserver(follow).observe(around, { attributes: true, attributeFilter: ["data-md-color-scheme"] });
}
$("theme").addEventListener("click", () => {
  chosen = true;
  root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
});

// Links and the lines that they made.
const inside = (ranges, line) => ranges.some(([first, last]) => first <= line && line <= last);
const size = (ranges) => ranges.reduce((sum, [first, last]) => sum + last - first + 1, 0);
function light(row) {
  rows.forEach((each, i) => each.classList.toggle("lit", i === row));
  const ranges = row >= 0 ? data.rows[row] : [];
  lines.forEach((each, i) => each.classList.toggle("lit", inside(ranges, i + 1)));
}
// A line lies in the code of all links around it: the one with the fewest lines made it.
function rowOf(line) {
  let best = -1;
  data.rows.forEach((ranges, i) => {
    if (inside(ranges, line) && (best < 0 || size(ranges) <= size(data.rows[best]))) best = i;
  });
  return best;
}
function reveal(element, box) {
  if (element && box) box.scrollTop = element.offsetTop - box.offsetTop - box.clientHeight / 3;
}
const code = document.querySelector("#cuda ol");
const list = document.querySelector("#links > ol");
// Above the kernel stand wrappers of instructions, which belong to no link.
reveal(lines[Math.min(...data.rows.flat().map(([first]) => first)) - 1], code);
function show(row) {
  light(row);
  if (row >= 0 && data.rows[row].length) reveal(lines[data.rows[row][0][0] - 1], code);
}
rows.forEach((each, i) => {
  each.addEventListener("mouseenter", () => light(i));
  each.addEventListener("mouseleave", () => light(-1));
  each.addEventListener("click", () => show(i));
  each.addEventListener("focus", () => show(i));
});
lines.forEach((each, i) => {
  each.addEventListener("mouseenter", () => light(rowOf(i + 1)));
  each.addEventListener("mouseleave", () => light(-1));
  each.addEventListener("click", () => reveal(rows[rowOf(i + 1)], list));
});
remarks.forEach((each) => {
  const row = Number(each.dataset.of);
  const go = () => { show(row); reveal(rows[row], list); };
  each.addEventListener("mouseenter", () => light(row));
  each.addEventListener("mouseleave", () => light(-1));
  each.addEventListener("click", go);
  each.addEventListener("focus", go);
});

// Steps of a block.
const slider = $("slider");
let tile = 0, copy = 0;
const text = (value) => value === null ? "–" : String(value);
function cells(name, content) {
  const element = document.createElement(name);
  element.textContent = content;
  return element;
}
function paint(value, most) {
  if (value === null || !most) return "";
  const part = Math.round(Math.min(1, Math.abs(value) / most) * 100);
  return `color-mix(in srgb, var(--${value < 0 ? "low" : "high"}) ${part}%, var(--ground))`;
}
function grid(at) {
  if (!data.tiles.length) return;
  const one = data.tiles[tile], state = data.frames[at].state[tile];
  const before = at > 0 ? data.frames[at - 1].state[tile] : -1;
  $("tile").textContent = one.title + (one.clipped ? `; ${one.clipped}` : "");
  const box = $("grid");
  box.textContent = "";
  if (state < 0) { box.textContent = "nothing is there yet"; return; }
  const now = one.states[state][copy], old = before < 0 ? null : one.states[before][copy];
  const most = Math.max(0, ...now.flat().filter((x) => x !== null).map(Math.abs));
  const table = document.createElement("table"), top = document.createElement("tr");
  top.append(cells("th", ""));
  now[0].forEach((_, j) => top.append(cells("th", j)));
  table.append(top);
  now.forEach((row, i) => {
    const line = document.createElement("tr");
    line.append(cells("th", i));
    row.forEach((value, j) => {
      const cell = cells("td", text(value));
      if (value === null) cell.className = "none";
      else if (old && old[i][j] !== value) cell.className = "new";
      cell.style.background = paint(value, most);
      const owner = one.owners.length ? one.owners[copy][i][j] : -1;
      const said = `${one.name}[${i}, ${j}] = ${text(value)}${owner < 0 ? "" : `, held by thread ${owner}`}`;
      cell.title = said;
      cell.addEventListener("mouseenter", () => { $("cell").textContent = said; });
      line.append(cell);
    });
    table.append(line);
  });
  box.append(table);
}
function step(at, scroll) {
  const frame = data.frames[at];
  $("at").textContent = `${at + 1} / ${data.frames.length}`;
  $("said").textContent = frame.said;
  $("did").replaceChildren(...frame.did.map((title) => cells("li", title)));
  lines.forEach((each, i) => each.classList.toggle("ran", inside(frame.lines, i + 1)));
  if (scroll && frame.lines.length) reveal(lines[frame.lines[0][0] - 1], code);
  grid(at);
}
function choose(number) {
  tile = number;
  copy = 0;
  document.querySelectorAll("[data-tile]").forEach((each, i) => each.setAttribute("aria-selected", String(i === tile)));
  const select = $("copy"), names = data.tiles[tile].copies;
  select.replaceChildren(...names.map((name, i) => { const option = cells("option", name); option.value = i; return option; }));
  select.hidden = names.length < 2;
  grid(Number(slider.value));
}
if (slider) {
  const move = (by) => {
    slider.value = Math.max(0, Math.min(Number(slider.max), Number(slider.value) + by));
    step(Number(slider.value), true);
  };
  slider.addEventListener("input", () => step(Number(slider.value), true));
  $("back").addEventListener("click", () => move(-1));
  $("on").addEventListener("click", () => move(1));
  document.querySelectorAll("[data-tile]").forEach((each, i) => each.addEventListener("click", () => choose(i)));
  if (data.tiles.length) {
    $("copy").addEventListener("change", (event) => { copy = Number(event.target.value); grid(Number(slider.value)); });
    choose(0);
  }
  step(0, false);
}
