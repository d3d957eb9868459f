// Plots: lines over time or steps, maps of rows and columns as colours, stacked bars. Each is a figure with its data as a
// table and as JSON, and can be saved as PNG and SVG.

let plots = []; // what is drawn: { plot, section }, for the width of the window and for the end
const PAPER = { width: 330, height: 190 };
let onPaper = false;
const LINES = ["--s0", "--s1", "--s2", "--s3", "--s4", "--s5"];
const DASHES = [[], [7, 4], [2, 3]];

const sizeOf = (section) => (onPaper ? PAPER : { width: Math.max(240, section.clientWidth), height: 230 });
const lineColour = (one, i) => one.colour || LINES[i % LINES.length];
const lineDash = (one, i) => one.dash || DASHES[Math.floor(i / LINES.length) % DASHES.length];

// ---- Around a plot ----

// @head and @columns: the data. @more: further things to save.
const frame = (title, head, columns, words, ...more) => {
  const values = () => Array.from(columns[0], (_, i) => columns.map((column) => (column[i] == null ? "-" : String(column[i]))));
  const json = () => "data:application/json," + encodeURIComponent(JSON.stringify({ title, columns: Object.fromEntries(head.map((name, i) => [name, Array.from(columns[i])])) }));
  const box = make("figure", {}, make("figcaption", {}, make("h4", {}, title)));
  const tail = [words && make("p", { class: "dim" }, words), make("div", { class: "tools" }, make("span", { class: "dim" }, "save"), ...more, saveAs("JSON", title, json),
    disclose("table", () => table(title, head, values())))].filter(Boolean);
  return { box, tail };
};

// ---- Axes ----

const TIME = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400, 604800];
const WHOLE = [1, 2, 5].flatMap((n) => [0, 1, 2, 3, 4, 5, 6, 7, 8].map((power) => n * 10 ** power)).sort((a, b) => a - b);
// Seconds below two minutes; minutes, hours beyond.
const HOUR = 3660; // a little more, for what takes an hour
const timeLabel = (seconds, all) => (all <= 120 ? show(seconds, 1) : all < HOUR ? `${Math.floor(seconds / 60)}:${two(seconds % 60)}` : `${Math.floor(seconds / 3600)}:${two((seconds / 60) % 60)}` + (all < 7200 && seconds % 60 ? `:${two(seconds % 60)}` : ""));
const timeUnit = (all) => (all <= 120 ? "seconds" : all < HOUR ? "min:s" : "h:min");
const axisOf = (label, more) => ({ label, stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), size: 5 }, labelSize: 18, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif", ...more });
const xAxis = ({ x, columns, logX, real, splits }) => {
  const all = columns[0][columns[0].length - 1] || 0;
  if (x === "time") return axisOf(timeUnit(all), { incrs: TIME, size: 30, values: (u, values) => values.map((v) => timeLabel(v, all)) });
  return axisOf(x, { size: 30, ...(splits ? { splits: () => splits } : {}), ...(real || logX ? {} : { incrs: WHOLE }), values: (u, values) => values.map((v) => (v == null ? "" : short(v))) });
};
const xValue = ({ x, columns }, v) => (x === "time" ? `${timeLabel(v, columns[0][columns[0].length - 1])}${columns[0][columns[0].length - 1] <= 120 ? " s" : ""}` : `${x} ${show(v, 3)}`);

// ---- Saving ----

// The plot with its title and the names of its lines on the background of the page.
const asPng = (plot, title, names) => {
  const source = plot.ctx.canvas, scale = devicePixelRatio, canvas = make("canvas", { width: source.width, height: source.height + 54 * scale });
  const c = canvas.getContext("2d");
  c.fillStyle = colour("--bg");
  c.fillRect(0, 0, canvas.width, canvas.height);
  c.fillStyle = colour("--fg");
  c.font = `600 ${14 * scale}px system-ui, sans-serif`;
  c.fillText(title, 8 * scale, 20 * scale);
  c.drawImage(source, 0, 28 * scale);
  c.font = `${12 * scale}px system-ui, sans-serif`;
  let at = 60 * scale;
  for (const [name, stroke] of names) {
    c.fillStyle = stroke;
    c.fillRect(at, canvas.height - 16 * scale, 14 * scale, 3 * scale);
    c.fillStyle = colour("--fg");
    c.fillText(name, at + 18 * scale, canvas.height - 10 * scale);
    at += 18 * scale + c.measureText(name).width + 16 * scale;
  }
  return canvas.toDataURL("image/png");
};
const niceTicks = (low, high) => {
  const rough = (high - low || 1) / 5, power = 10 ** Math.floor(Math.log10(rough)), step = [1, 2, 5, 10].find((n) => n * power >= rough) * power;
  const ticks = [];
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-9; v += step) ticks.push(+v.toPrecision(12));
  return ticks;
};
const logTicks = (low, high) => {
  const ticks = [];
  for (let p = Math.ceil(Math.log10(low) - 1e-9); 10 ** p <= high * 1.000001; p++) ticks.push(10 ** p);
  return ticks.length > 1 ? ticks : [low, high];
};
// What both kinds of drawings share: a place for each value, the axes, the title. @body: what is drawn, given the places.
const svgFrame = (title, plotted, [x0, x1], [y0, y1], body) => {
  const w = 760, h = 320, left = 74, right = 14, top = 48, bottom = 46, { logX, log } = plotted;
  const of = (isLog) => (isLog ? Math.log10 : (v) => v);
  const place = (v, low, high, isLog, from, to) => from + ((of(isLog)(v) - of(isLog)(low)) / (of(isLog)(high) - of(isLog)(low) || 1)) * (to - from);
  const px = (v) => place(v, x0, x1, logX, left, w - right).toFixed(1), py = (v) => (plotted.down ? place(v, y0, y1, log, top, h - bottom) : place(v, y0, y1, log, h - bottom, top)).toFixed(1);
  const escaped = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/[\u0000-\u0008\u000b-\u001f]/g, "?");
  const text = (x, y, words, anchor, more = "") => `<text x="${x}" y="${y}" text-anchor="${anchor}" ${more}>${escaped(words)}</text>`;
  const xs = (logX ? logTicks : niceTicks)(x0, x1).map((v) => `<line x1="${px(v)}" x2="${px(v)}" y1="${top}" y2="${h - bottom}" stroke="#e3e6ec"/>` + text(px(v), h - bottom + 16, plotted.x === "time" ? timeLabel(v, x1) : short(v), "middle"));
  const ys = (log ? logTicks : niceTicks)(y0, y1).map((v) => `<line x1="${left}" x2="${w - right}" y1="${py(v)}" y2="${py(v)}" stroke="#e3e6ec"/>` + text(left - 6, +py(v) + 4, short(v), "end"));
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${w} ${h}" width="${w}" height="${h}" font-family="system-ui, sans-serif" font-size="12"><rect width="${w}" height="${h}" fill="#fff"/>` +
    `${text(12, 18, title, "start", 'font-weight="600" font-size="14"')}${xs.join("")}${ys.join("")}${body(px, py, text, { left, top })}` +
    `${text((w + left) / 2, h - 8, plotted.x === "time" ? timeUnit(x1) : plotted.x, "middle")}<text transform="translate(14 ${(h - bottom + top) / 2}) rotate(-90)" text-anchor="middle">${escaped(plotted.y)}</text></svg>`;
};
const PRINTED = ["#1f6fb2", "#c2570c", "#1b7f5c", "#8e44ad", "#5d687c", "#b5177d"]; // those of LINES on paper
const linesAsSvg = (title, plotted) => {
  const { columns, series, log } = plotted, all = columns.slice(1, series.filter((one) => !one.unseen).length + 1).flatMap(numbers).filter((v) => !log || v > 0);
  const low = log ? least(all) : 0, high = most(all.concat(log ? [] : [0])) || 1;
  return svgFrame(title, plotted, [columns[0][0], columns[0][columns[0].length - 1]], [low, high], (px, py, text, { left, top }) => series.map((one, i) => {
    if (one.unseen) return "";
    let d = "", gap = true;
    Array.from(columns[0]).forEach((at, k) => {
      const v = columns[i + 1][k];
      if (!isNumber(v) || (log && v <= 0)) { gap = gap || !one.span; return; }
      d += `${gap ? "M" : "L"}${px(at)} ${py(v)}`;
      gap = false;
    });
    const stroke = PRINTED[LINES.indexOf(lineColour(one, i))], dash = lineDash(one, i).join(" ");
    return `<path d="${d}" fill="none" stroke="${stroke}" stroke-width="1.5"${dash ? ` stroke-dasharray="${dash}"` : ""}/>` + text(left + (i % 5) * 134, top - 8 - 14 * (i >= 5), one.label, "start", `fill="${stroke}"`);
  }).join(""));
};

// ---- Lines ----

const inLines = (marks, names) => (u) => {
  const c = u.ctx;
  c.save();
  c.strokeStyle = c.fillStyle = colour("--dim");
  c.setLineDash([3, 4]);
  c.textAlign = "left";
  c.lineWidth = devicePixelRatio;
  c.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  marks.forEach((mark, i) => {
    const at = u.valToPos(mark, "x", true);
    if (at < u.bbox.left || at > u.bbox.left + u.bbox.width) return;
    c.beginPath();
    c.moveTo(at, u.bbox.top);
    c.lineTo(at, u.bbox.top + u.bbox.height);
    c.stroke();
    const room = (i + 1 < marks.length ? u.valToPos(marks[i + 1], "x", true) : u.bbox.left + u.bbox.width + 40) - at;
    if (names[i] && c.measureText(names[i]).width < room) c.fillText(names[i], at, u.bbox.top - 5 * devicePixelRatio);
  });
  c.restore();
};
// Says what is at a point, for those who do not see the cursor.
const tellAt = (plotted, i) => `${xValue(plotted, plotted.columns[0][i])}: ` + plotted.series.map((one, k) => [one.label, plotted.columns[k + 1][i]]).filter(([, v]) => v != null).map(([label, v]) => `${label} ${show(v, 3)}`).join(", ");
const summaryOf = (plotted) => `${plotted.title}, ${plotted.y}. ` + plotted.series.map((one, i) => {
  const all = numbers(plotted.columns[i + 1]);
  return all.length ? `${one.label}: ${show(least(all), 3)} to ${show(most(all), 3)}, mean ${show(mean(all), 3)}` : `${one.label}: no values`;
}).join("; ") + ". Arrow keys move along it.";
const walk = (box, plot, plotted, status) => {
  let at = -1;
  box.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -1e9, End: 1e9 }[event.key];
    if (!step) return;
    event.preventDefault();
    at = Math.min(plotted.columns[0].length - 1, Math.max(0, at + step));
    plot.setCursor({ left: plot.valToPos(plotted.columns[0][at], "x"), top: 10 });
    status.textContent = tellAt(plotted, at);
  });
};
// In one run, all plots over time have one cursor.
const cursorOf = (plotted) => (plotted.x === "time" && plotted.group ? { sync: { key: plotted.group, setSeries: false }, drag: { x: true, y: false } } : { drag: { x: true, y: false } });
// More than the data covers, unless part of it was chosen.
const wholeRange = ({ columns: [xs], xRange }) => (u, low, high) => (low <= xs[0] && high >= xs[xs.length - 1] ? xRange : [low, high]);
const yScale = (plotted) => {
  if (plotted.log) return { distr: 3, ...(plotted.range ? { range: () => plotted.range } : {}) };
  return { range: (u, low, high) => plotted.range || [0, (high || 1) * 1.05] };
};
const lineOf = (plotted) => (one, i) => ({ stroke: one.unseen ? "transparent" : colour(lineColour(one, i)), dash: lineDash(one, i), width: 1.6, spanGaps: one.span,
  points: one.points || plotted.columns[0].length < 3 ? { show: true, size: 6 } : { show: false }, ...one.more, label: one.label, ...(one.unseen ? { class: "atcursor" } : {}),
  value: (u, v, at, k) => (k != null ? show(v, 3) : one.unseen || plotted.real ? "" : `mean ${figure(mean(numbers(plotted.columns[at])))}`) });
const drawLines = (section, plotted) => {
  const { title, columns, series, marks = [], markNames = [], bands } = plotted;
  const box = make("div", { class: "plot", role: "img", tabindex: "0", "aria-label": summaryOf(plotted) }), status = make("p", { class: "unseen", role: "status" });
  const names = () => series.filter((one) => !one.unseen).map((one, i) => [one.label, colour(lineColour(one, i))]);
  let plot;
  const { box: figureBox, tail } = frame(title, [plotted.x === "time" ? "seconds" : plotted.x, ...series.map((one) => one.label)], columns, plotted.words,
    saveAs("PNG", title, () => asPng(plot, `${title} (${plotted.y})`, names())), saveAs("SVG", title, () => "data:image/svg+xml," + encodeURIComponent(linesAsSvg(title, plotted))));
  figureBox.append(box, status, ...tail);
  section.append(figureBox);
  plot = new uPlot({
    ...sizeOf(section), cursor: cursorOf(plotted), bands, legend: { live: true, show: series.length > 0 },
    scales: { x: { time: false, distr: plotted.logX ? 3 : 1, ...(plotted.xRange ? { range: wholeRange(plotted) } : {}) }, y: yScale(plotted) },
    axes: [xAxis(plotted), axisOf(plotted.y, { size: 52, values: (u, values) => values.map((v) => (v == null ? "" : short(v))) })],
    padding: [markNames.length ? 18 : 8, 22, 0, 0],
    hooks: { draw: [inLines(marks, markNames), ...(plotted.draw || [])], setLegend: [(u) => u.root.classList.toggle("pointed", u.cursor.idx != null)] },
    series: [{ label: "", value: (u, v) => (v == null ? "" : `at ${xValue(plotted, v)}`) }, ...series.map(lineOf(plotted))],
  }, columns, box);
  walk(box, plot, plotted, status);
  plots.push({ plot, section });
};
// Nothing, if there is nothing to draw.
const plotIn = (grid, plotted) => {
  if (!plotted.columns[0].length || !plotted.columns.slice(1).some((column) => numbers(column).length)) return;
  const section = make("div", { class: "cell" });
  grid.append(section);
  drawLines(section, plotted);
};
addEventListener("resize", () => plots.forEach(({ plot, section }) => plot.setSize(sizeOf(section))));

// ---- Maps ----

const cellsOf = (map) => map.rows.flatMap((row, r) => Array.from(row, (value, i) => ({ r, i, heat: Math.min(1, map.strength(value)) }))).filter((cell) => cell.heat > 0);
const drawCells = (map, cells) => (u) => {
  const c = u.ctx;
  c.save();
  c.beginPath();
  c.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
  c.clip();
  c.fillStyle = colour(map.colour || "--s0");
  for (const { r, i, heat } of cells) {
    const left = Math.floor(u.valToPos(map.edges[i], "x", true)), right = Math.floor(u.valToPos(map.edges[i + 1], "x", true));
    const [a, b] = [u.valToPos(map.bounds[r][0], "y", true), u.valToPos(map.bounds[r][1], "y", true)];
    c.globalAlpha = heat;
    c.fillRect(left, Math.floor(Math.min(a, b)), Math.max(1, right - left), Math.max(1, Math.ceil(Math.abs(a - b))));
  }
  c.restore();
};
const mapAsSvg = (map, plotted, cells) => svgFrame(map.title, plotted, [map.edges[0], map.edges[map.edges.length - 1]], plotted.range, (px, py) => cells.map(({ r, i, heat }) => {
  const [a, b] = map.bounds[r].map((v) => +py(v)), left = +px(map.edges[i]);
  return `<rect x="${left}" y="${Math.min(a, b)}" width="${(px(map.edges[i + 1]) - left + 0.3).toFixed(1)}" height="${(Math.abs(a - b) + 0.3).toFixed(1)}" fill="#1f6fb2" fill-opacity="${heat.toFixed(2)}"/>`;
}).join(""));
// Rows of values as colours. edges: where the columns begin, and the end; bounds: where each row begins and ends;
// strength: 0 to 1 of a value; rowNames: of each row. down: the first row is on top.
const drawMap = (grid, map) => {
  if (!map.rows.length || !map.rows[0].length) return;
  const cells = cellsOf(map), section = make("div", { class: "cell" }), values = map.bounds.flat(), range = [least(values), most(values)];
  const starts = map.edges.slice(0, -1);
  const plotted = { ...map, columns: [map.edges, map.edges.map(() => null)], series: [], range };
  const box = make("div", { class: "plot", role: "img", "aria-label": `${map.title}, ${map.y}. ${map.words}` });
  let plot;
  const { box: figureBox, tail } = frame(map.title, [map.x === "time" ? "seconds" : map.x, ...map.rowNames], [starts, ...map.rows], map.words,
    saveAs("PNG", map.title, () => asPng(plot, `${map.title} (${map.y})`, [])), saveAs("SVG", map.title, () => "data:image/svg+xml," + encodeURIComponent(mapAsSvg(map, plotted, cells))));
  figureBox.append(box, ...tail);
  grid.append(section);
  section.append(figureBox);
  plot = new uPlot({ ...sizeOf(section), padding: [8, 22, 0, 0], cursor: { ...cursorOf(plotted), y: false }, legend: { show: false },
    scales: { x: { time: false, range: (u, low, high) => [low, high] }, y: { distr: map.log ? 3 : 1, dir: map.down ? -1 : 1, range: () => range } },
    axes: [{ ...xAxis(plotted), grid: { show: false } }, axisOf(map.y, { size: 52, grid: { show: false }, ...(map.log ? {} : { incrs: WHOLE }), values: (u, v) => v.map((y) => (y == null ? "" : short(y))) })],
    hooks: { drawClear: [drawCells(map, cells)] }, series: [{}, { show: true, stroke: "transparent", points: { show: false } }] }, plotted.columns, box);
  plots.push({ plot, section });
};

// ---- Bars ----

// One row per entry of @rows: [name, parts]; @parts: [name, colour] of each part.
const drawBars = (grid, title, unit, parts, rows, most_ = 50) => {
  const columns = [rows.map(([name]) => name), ...parts.map((_, i) => rows.map(([, values]) => +values[i].toFixed(3)))];
  const { box, tail } = frame(title, ["", ...parts.map(([name]) => `${name}, ${unit}`)], columns, rows.length > most_ ? `The first ${most_} of ${rows.length}; the table has all.` : "");
  const bar = ([name, values]) => {
    const share = values.map((v) => (100 * v) / (sum(values) || 1));
    const words = `${name}: ` + parts.map(([part], i) => `${part} ${show(share[i])} %`).join(", ");
    return make("div", { class: "barrow", role: "img", "aria-label": words, title: words }, make("span", {}, name),
      make("div", { class: "bar" }, ...share.map((x, i) => make("i", { style: `width:${x}%;background:var(${parts[i][1]})`, class: parts[i][2] }, x > 9 ? show(x) + " %" : ""))));
  };
  box.append(...rows.slice(0, most_).map(bar), make("ul", { class: "legend" }, ...parts.map(([name, c]) => make("li", {}, make("i", { style: `background:var(${c})` }), name))), ...tail);
  grid.append(make("div", { class: "cell" }, box));
};
