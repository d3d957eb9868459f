"use strict";
// Elements, numbers as text, statistics. What is in here knows nothing of results.

const make = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) if (value != null) node.setAttribute(key, value);
  node.append(...children.filter((child) => child != null && child !== "").map((child) => (child instanceof Node ? child : String(child))));
  return node;
};
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const slug = (text) => text.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") || "data";

// ---- Numbers ----

const isNumber = (x) => typeof x === "number" && Number.isFinite(x);
const numbers = (list) => Array.from(list && typeof list === "object" ? list : []).filter(isNumber);
const listOf = (x) => (Array.isArray(x) ? x : []);
const objectOf = (x) => (x && typeof x === "object" && !Array.isArray(x) ? x : {});
const textOf = (x) => (typeof x === "string" ? x : "");
const sum = (list) => list.reduce((a, b) => a + b, 0);
const mean = (list) => (list.length ? sum(list) / list.length : NaN);
const variance = (list) => (list.length > 1 ? sum(list.map((x) => (x - mean(list)) ** 2)) / (list.length - 1) : 0);
// Not Math.min(...list): that has a limit on its arguments.
const least = (list) => list.reduce((a, b) => Math.min(a, b), Infinity);
const most = (list) => list.reduce((a, b) => Math.max(a, b), -Infinity);

// Student's t for 95 % two-sided, by degrees of freedom.
const T95 = [[1, 12.71], [2, 4.3], [3, 3.18], [4, 2.78], [5, 2.57], [6, 2.45], [7, 2.36], [8, 2.31], [10, 2.23], [15, 2.13], [30, 2.04], [Infinity, 1.96]];
// The difference of two means in per cent of the first, and the half width of its 95 % interval (Welch); NaN if there is
// only one value on a side.
const difference = (first, second) => {
  const [m0, m1] = [mean(first), mean(second)], [a, b] = [variance(first) / first.length, variance(second) / second.length];
  if (!isNumber(m0) || !isNumber(m1) || m0 === 0) return { change: NaN, spread: NaN };
  const change = (100 * (m1 - m0)) / Math.abs(m0);
  if (first.length < 2 || second.length < 2) return { change, spread: NaN };
  const freedom = a + b > 0 ? (a + b) ** 2 / (a ** 2 / (first.length - 1) + b ** 2 / (second.length - 1)) : 1;
  const t = [...T95].reverse().find(([df]) => df <= freedom + 1e-9) || T95[0];
  return { change, spread: (100 * t[1] * Math.sqrt(a + b)) / Math.abs(m0) };
};

// ---- Numbers as text ----

const show = (x, digits = 1) => (isNumber(x) ? x.toLocaleString("en", { maximumFractionDigits: digits }) : "-");
// Three or four significant digits, whatever the size.
const figure = (x) => (isNumber(x) ? show(x, Math.abs(x) >= 1000 ? 0 : Math.abs(x) >= 100 ? 1 : Math.abs(x) >= 1 ? 2 : 4) : "-");
const signed = (x, digits = 1) => {
  const words = show(Math.abs(x), digits);
  return (words === "0" ? "" : x > 0 ? "+" : "\u2212") + words;
};
const plural = (n, one, many = one + "s") => `${show(n, 0)} ${n === 1 ? one : many}`;
const bytes = (x) => {
  if (!isNumber(x)) return "-";
  const units = ["B", "KB", "MB", "GB", "TB", "PB"];
  let i = 0;
  for (; Math.abs(x) >= 1000 && i < units.length - 1; i++) x /= 1000;
  return `${show(x, x < 10 && i > 0 ? 2 : x < 100 && i > 0 ? 1 : 0)} ${units[i]}`;
};
const two = (n) => String(Math.floor(n)).padStart(2, "0");
// 12.5 s, 4:05 min, 1:02:03 h
const duration = (seconds) => {
  if (!isNumber(seconds)) return "-";
  if (seconds > 0 && seconds < 0.1) return milliseconds(1000 * seconds);
  if (seconds < 120) return `${show(seconds, seconds < 10 ? 2 : 1)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}:${two(seconds % 60)} min`;
  return `${Math.floor(seconds / 3600)}:${two((seconds / 60) % 60)}:${two(seconds % 60)} h`;
};
const milliseconds = (ms) => (!isNumber(ms) ? "-" : ms < 1 ? `${show(1000 * ms, ms < 0.01 ? 1 : 0)} us` : ms < 1000 ? `${show(ms, ms < 10 ? 2 : 1)} ms` : `${show(ms / 1000, 2)} s`);
// The label of an axis, short.
const short = (v) => {
  for (const [size, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]]) if (Math.abs(v) >= size) return show(v / (size === 1e4 ? 1e3 : size), 2) + unit;
  return show(v, Math.abs(v) < 0.01 ? 6 : 3);
};

// ---- Tables, files to save ----

const cellOf = (cell, isHead) => {
  const [words, attributes] = Array.isArray(cell) ? cell : [cell, {}];
  return make(isHead ? "th" : "td", { ...(isHead ? { scope: "row" } : {}), ...attributes }, words);
};
// A cell is text, an element, or [text or element, attributes]. The box scrolls; so it takes the focus. Heads are
// aligned as the cells below them are.
const classOf = (cell) => (Array.isArray(cell) ? (cell[1].class || "").split(" ").find((name) => name === "words" || name === "name") : null);
const table = (caption, head, rows) => make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, make("table", {},
  make("caption", { class: "unseen" }, caption),
  make("thead", {}, make("tr", {}, ...head.map((text, i) => (text ? make("th", { scope: "col", class: rows.length ? classOf(rows[0][i]) : null }, text) : make("td"))))),
  make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((cell, i) => cellOf(cell, i === 0)))))));

const saveAs = (kind, title, url) => {
  const button = make("button", { type: "button", "aria-label": `save '${title}' as ${kind}` }, kind);
  button.onclick = async () => make("a", { href: await url(), download: `${slug(title)}.${kind.toLowerCase()}` }).click();
  return button;
};
// A disclosure whose content is made when it is opened first.
const disclose = (words, content, attributes = {}) => {
  const details = make("details", attributes, make("summary", {}, words));
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) details.append(content());
  });
  return details;
};
