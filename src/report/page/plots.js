// Plots: lines over time or steps, maps of rows and columns as colours, stacked bars. Each is a figure with its data as a
// table and as JSON, and can be saved as PNG and SVG.

let plots = []; // what is drawn: { plot, section }, for the width of the window and for the end
const PAPER = { width: 330, height: 190 };
let onPaper = false;
let level = 2; // of the headings of parts: no level is left out, so that the headings are a table of contents for screen readers
const LINES = ["--s0", "--s1", "--s2", "--s3", "--s4", "--s5"];
const DASHES = [[], [7, 4], [2, 3]];

const sizeOf = (section) => (onPaper ? PAPER : { width: Math.max(240, section.clientWidth), height: 230 });
const lineColour = (one, i) => one.colour || LINES[i % LINES.length];
const lineDash = (one, i) => one.dash || DASHES[Math.floor(i / LINES.length) % DASHES.length];

// ---- Around a plot ----

// @head and @columns: the data. @saved: further things to save; @below: what belongs right below the plot.
const frame = (title, head, columns, words, saved, below = []) => {
  const values = () => Array.from(columns[0], (_, i) => columns.map((column) => (column[i] == null ? "-" : String(column[i]))));
  const json = () => "data:application/json," + encodeURIComponent(JSON.stringify({ title, columns: Object.fromEntries(head.map((name, i) => [name, Array.from(columns[i])])) }));
  const box = make("figure", {}, make("figcaption", {}, make(`h${level + 1}`, { class: "name" }, title)));
  const tail = [...below, words && make("p", { class: "dim" }, words), make("div", { class: "tools" }, make("span", { class: "dim" }, "save"), ...saved, saveAs("JSON", title, json),
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
const xAxis = ({ x, columns, logX, real, splits, splitNames }) => {
  const all = columns[0][columns[0].length - 1] || 0;
  if (x === "time") return axisOf(timeUnit(all), { incrs: TIME, size: 30, values: (u, values) => values.map((v) => timeLabel(v, all)) });
  return axisOf(x, { size: 30, ...(splits || logX ? { splits: splits ? () => splits : (u, i, low, high) => logTicks(low, high), filter: (u, all) => all } : {}), ...(real || logX ? {} : { incrs: WHOLE }), values: (u, values) => values.map((v, i) => (v == null ? "" : splitNames ? splitNames[i] : short(v))) });
};
const xValue = ({ x, columns, splits, splitNames }, v) => (splits && splitNames ? splitNames[splits.reduce((near, split, i) => (Math.abs(split - v) < Math.abs(splits[near] - v) ? i : near), 0)] : x === "time" ? `${timeLabel(v, columns[0][columns[0].length - 1])}${columns[0][columns[0].length - 1] <= 120 ? " s" : ""}` : `${x} ${show(v, 3)}`);

// ---- Shapes: what is drawn beside the lines, in values of the axes ----

// { kind: "path", points, colour, dash }, { kind: "bar", from, to, colour }, { kind: "ring", at, colour } and
// { kind: "words", at, words, colour }, whose words go where no others are.
const placeWords = (shapes, px, py, size) => {
  const taken = [], placed = [];
  for (const { at, words, colour: stroke } of shapes.filter((one) => one.kind === "words")) {
    const w = 0.62 * size * words.length + 2, h = 1.1 * size, [x, y] = [px(at[0]), py(at[1])];
    const spots = [[x - w - 0.6 * size, y - h - 2], [x + 0.6 * size, y + 2], [x - w - 0.6 * size, y + 2], [x + 0.6 * size, y - h - 2]];
    const free = spots.find(([left, top]) => !taken.some((one) => left < one.left + one.w && one.left < left + w && top < one.top + one.h && one.top < top + h));
    if (!free) continue;
    taken.push({ left: free[0], top: free[1], w, h });
    placed.push({ x: free[0], y: free[1] + 0.85 * h, words, stroke });
  }
  return placed;
};
const paintShapes = (shapes) => (u) => {
  const c = u.ctx, scale = devicePixelRatio, px = (x) => u.valToPos(x, "x", true), py = (y) => u.valToPos(y, "y", true);
  c.save();
  for (const one of shapes) {
    c.strokeStyle = colour(one.colour);
    c.setLineDash((one.dash || []).map((v) => v * scale));
    c.lineWidth = (one.kind === "ring" ? 2 : one.kind === "bar" ? 1 : 1.6) * scale;
    c.beginPath();
    if (one.kind === "path") one.points.forEach(([x, y]) => c.lineTo(px(x), py(y)));
    if (one.kind === "bar") [one.from, one.to].forEach(([x, y]) => c.lineTo(px(x), py(y)));
    if (one.kind === "ring") c.arc(px(one.at[0]), py(one.at[1]), 8 * scale, 0, 7);
    c.stroke();
  }
  c.font = `${11 * scale}px system-ui, sans-serif`;
  c.textAlign = "left";
  for (const { x, y, words, stroke } of placeWords(shapes, px, py, 11 * scale)) {
    c.fillStyle = colour(stroke);
    c.fillText(words, x, y);
  }
  c.restore();
};
const PRINTED = { "--s0": "#1f6fb2", "--s1": "#c2570c", "--s2": "#1b7f5c", "--s3": "#8e44ad", "--s4": "#5d687c", "--s5": "#b5177d", "--good": "#176b3a", "--warn": "#8a5300", "--data": "#c93a35", "--compute": "#2e7d4f", "--late": "#8fd3a7", "--peers": "#9aa5b8" }; // those of page.css on paper
const shapesAsSvg = (shapes, px, py, text) => shapes.map((one) => {
  const stroke = `stroke="${PRINTED[one.colour]}"`, dash = (one.dash || []).length ? ` stroke-dasharray="${one.dash.join(" ")}"` : "";
  if (one.kind === "path") return `<path d="${one.points.map(([x, y], i) => `${i ? "L" : "M"}${px(x)} ${py(y)}`).join("")}" fill="none" ${stroke} stroke-width="1.5"${dash}/>`;
  if (one.kind === "bar") return `<line x1="${px(one.from[0])}" y1="${py(one.from[1])}" x2="${px(one.to[0])}" y2="${py(one.to[1])}" ${stroke}/>`;
  return one.kind === "ring" ? `<circle cx="${px(one.at[0])}" cy="${py(one.at[1])}" r="8" fill="none" ${stroke} stroke-width="2"/>` : "";
}).join("") + placeWords(shapes, (x) => +px(x), (y) => +py(y), 11).map(({ x, y, words, stroke }) => text(x.toFixed(1), y.toFixed(1), words, "start", `font-size="11" fill="${PRINTED[stroke]}"`)).join("");

// ---- Saving ----

// The plot with its title and the names of its lines on the background of the page. @names: [name, colour, opacity].
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
  for (const [name, stroke, opacity] of names) {
    c.fillStyle = stroke;
    c.globalAlpha = opacity ?? 1;
    c.fillRect(at, canvas.height - (opacity == null ? 16 : 19) * scale, 14 * scale, (opacity == null ? 3 : 10) * scale);
    c.globalAlpha = 1;
    c.fillStyle = colour("--fg");
    c.fillText(name, at + 18 * scale, canvas.height - 10 * scale);
    at += 18 * scale + c.measureText(name).width + 16 * scale;
  }
  return canvas.toDataURL("image/png");
};
const svgUrl = (svg) => "data:image/svg+xml," + encodeURIComponent(svg);
const svgAsPng = async (svg) => {
  const image = make("img", { src: svgUrl(svg) });
  await image.decode();
  const canvas = make("canvas", { width: 2 * image.width, height: 2 * image.height });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/png");
};
const niceTicks = (low, high) => {
  const rough = (high - low || 1) / 6, power = 10 ** Math.floor(Math.log10(rough)), step = [1, 2, 5, 10].find((n) => n * power >= rough) * power;
  const ticks = [];
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-9; v += step) ticks.push(+v.toPrecision(12));
  return ticks;
};
// Powers of ten; of less than three of them also what is twice and five times as much.
const logTicks = (low, high) => {
  const ticks = [], steps = high < 1000 * low ? [1, 2, 5] : [1];
  for (let p = Math.floor(Math.log10(low)); 10 ** p <= high; p++) ticks.push(...steps.map((step) => +(step * 10 ** p).toPrecision(3)).filter((v) => v >= low * 0.999999 && v <= high * 1.000001));
  return ticks.length > 1 ? ticks : [low, high].map((v) => +v.toPrecision(3));
};
const escaped = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/[\u0000-\u0008\u000b-\u001f]/g, "?");
const svgText = (x, y, words, anchor, more = "") => `<text x="${x}" y="${y}" text-anchor="${anchor}" ${more}>${escaped(words)}</text>`;
const svgOf = (w, h, title, body) => `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${w} ${h}" width="${w}" height="${h}" font-family="system-ui, sans-serif" font-size="12"><rect width="${w}" height="${h}" fill="#fff"/>${svgText(12, 18, title, "start", 'font-weight="600" font-size="14"')}${body}</svg>`;
// What both kinds of drawings share: a place for each value, the axes, the title. @body: what is drawn, given the places.
const svgFrame = (title, plotted, [x0, x1], [y0, y1], body) => {
  const w = 760, h = 320, left = 74, right = 14, top = 48, bottom = 46, { logX, log } = plotted;
  const of = (isLog) => (isLog ? Math.log10 : (v) => v);
  const place = (v, low, high, isLog, from, to) => from + ((of(isLog)(v) - of(isLog)(low)) / (of(isLog)(high) - of(isLog)(low) || 1)) * (to - from);
  const px = (v) => place(v, x0, x1, logX, left, w - right).toFixed(1), py = (v) => (plotted.down ? place(v, y0, y1, log, top, h - bottom) : place(v, y0, y1, log, h - bottom, top)).toFixed(1);
  const whole = plotted.x !== "time" && !plotted.real && !logX, splits = plotted.splits || (logX ? logTicks : niceTicks)(x0, x1).filter((v) => !whole || Number.isInteger(v));
  const xs = splits.map((v, i) => `<line x1="${px(v)}" x2="${px(v)}" y1="${top}" y2="${h - bottom}" stroke="#e3e6ec"/>` + svgText(px(v), h - bottom + 16, plotted.x === "time" ? timeLabel(v, x1) : plotted.splitNames ? plotted.splitNames[i] : short(v), "middle"));
  const ys = (log ? logTicks : niceTicks)(y0, y1).map((v) => `<line x1="${left}" x2="${w - right}" y1="${py(v)}" y2="${py(v)}" stroke="#e3e6ec"/>` + svgText(left - 6, +py(v) + 4, short(v), "end"));
  const marks = (plotted.marks || []).filter((mark) => mark >= x0 && mark <= x1).map((mark) => `<line x1="${px(mark)}" x2="${px(mark)}" y1="${top}" y2="${h - bottom}" stroke="#566074" stroke-dasharray="3 4"/>`);
  return svgOf(w, h, title, `${xs.join("")}${ys.join("")}${marks.join("")}${body(px, py, { left, top, w, h })}` +
    `${svgText((w + left) / 2, h - 8, plotted.x === "time" ? timeUnit(x1) : plotted.x, "middle")}<text transform="translate(14 ${(h - bottom + top) / 2}) rotate(-90)" text-anchor="middle">${escaped(plotted.y)}</text>`);
};
const linesAsSvg = (title, plotted) => {
  const { columns, series, log } = plotted, all = columns.slice(1).filter((_, i) => !series[i].unseen).flatMap(numbers).filter((v) => !log || v > 0);
  const low = log ? least(all) : 0, high = (most(all.concat(log ? [] : [0])) || 1) * (log ? 1 : 1.05);
  return svgFrame(title, plotted, plotted.xRange || [columns[0][0], columns[0][columns[0].length - 1]], plotted.range || [low, high], (px, py, { left, top }) => series.map((one, i) => {
    if (one.unseen) return "";
    const stroke = PRINTED[lineColour(one, i)], dash = lineDash(one, i).join(" "), dots = [];
    let d = "", gap = true;
    Array.from(columns[0]).forEach((at, k) => {
      const v = columns[i + 1][k];
      if (!isNumber(v) || (log && v <= 0)) { gap = gap || !one.span; return; }
      const from = one.step && k > 0 ? `${px(columns[0][k - 1])} ${py(v)}L` : ""; // a value reaches back to the place before
      d += `${gap ? "M" : "L"}${from}${px(at)} ${py(v)}`;
      gap = false;
      if (one.points) dots.push(`<circle cx="${px(at)}" cy="${py(v)}" r="3" fill="${stroke}"/>`);
    });
    return (one.bare ? "" : `<path d="${d}" fill="none" stroke="${stroke}" stroke-width="1.5"${dash ? ` stroke-dasharray="${dash}"` : ""}/>`) + dots.join("") + svgText(left + (i % 5) * 134, top - 8 - 14 * (i >= 5), one.label, "start", `fill="${stroke}"`);
  }).join("") + shapesAsSvg(plotted.shapes || [], px, py, svgText));
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
const tellAt = (plotted, i) => `${plotted.names ? plotted.names[i] + ", " : ""}${xValue(plotted, plotted.columns[0][i])}: ` + plotted.series.map((one, k) => [one.label, plotted.columns[k + 1][i]]).filter(([, v]) => v != null).map(([label, v]) => `${label} ${show(v, 3)}`).join(", ");
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
const lineOf = (plotted) => (one, i) => ({ ...(one.bare ? { paths: () => null } : {}), stroke: one.unseen ? "transparent" : colour(lineColour(one, i)), dash: lineDash(one, i), width: 1.6, spanGaps: one.span,
  points: one.points || plotted.columns[0].length < 3 ? { show: true, size: 6, fill: one.unseen ? "transparent" : colour(lineColour(one, i)) } : { show: false }, ...one.more, label: one.label, ...(one.unseen ? { class: "atcursor" } : {}),
  value: (u, v, at, k) => (k != null ? show(v, 3) : one.unseen || plotted.real ? "" : `mean ${figure(mean(numbers(plotted.columns[at])))}`) });
const drawLines = (section, plotted) => {
  const { title, columns, series, marks = [], markNames = [], bands, names: pointNames, nameHead } = plotted;
  const box = make("div", { class: "plot", role: "img", tabindex: "0", "aria-label": summaryOf(plotted) }), status = make("p", { class: "unseen", role: "status" });
  const names = () => series.map((one, i) => [one.label, colour(lineColour(one, i)), null, one.unseen]).filter((one) => !one[3]);
  let plot;
  const { box: figureBox, tail } = frame(title, [...(pointNames ? [nameHead] : []), plotted.x === "time" ? "seconds" : plotted.x, ...series.map((one) => one.label)], [...(pointNames ? [pointNames] : []), ...columns], plotted.words,
    [saveAs("PNG", title, () => asPng(plot, `${title} (${plotted.y})`, names())), saveAs("SVG", title, () => svgUrl(linesAsSvg(title, plotted)))]);
  figureBox.append(box, status, ...tail);
  section.append(figureBox);
  plot = new uPlot({
    ...sizeOf(section), cursor: cursorOf(plotted), bands, legend: { live: true, show: series.length > 0, markers: { width: 2, dash: (u, i) => (i && lineDash(series[i - 1], i - 1).length ? "dashed" : "solid") } },
    scales: { x: { time: false, distr: plotted.logX ? 3 : 1, ...(plotted.xRange ? { range: wholeRange(plotted) } : {}) }, y: yScale(plotted) },
    axes: [xAxis(plotted), axisOf(plotted.y, { size: 52, values: (u, values) => values.map((v) => (v == null ? "" : short(v))) })],
    padding: [markNames.length ? 18 : 8, 22, 0, 0],
    hooks: { draw: [inLines(marks, markNames), paintShapes(plotted.shapes || [])], setLegend: [(u) => u.root.classList.toggle("pointed", u.cursor.idx != null)] },
    series: [{ label: "", value: (u, v, at, i) => (v == null ? "" : `at ${pointNames && i != null ? pointNames[i] + ", " : ""}${xValue(plotted, v)}`) }, ...series.map(lineOf(plotted))],
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

const cellsOf = (map) => map.rows.flatMap((row, r) => Array.from(row, (value, i) => ({ r, i, heat: value == null ? 0 : Math.min(1, map.strength(value)) }))).filter((cell) => cell.heat > 0);
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
const strengthOf = (map, value) => Math.max(0, Math.min(1, map.strength(value)));
const mapAsSvg = (map, plotted, cells) => {
  const fill = PRINTED[map.colour || "--s0"];
  return svgFrame(map.title, plotted, [map.edges[0], map.edges[map.edges.length - 1]], plotted.range, (px, py, { left, top }) => cells.map(({ r, i, heat }) => {
    const [a, b] = map.bounds[r].map((v) => +py(v)), from = +px(map.edges[i]);
    return `<rect x="${from}" y="${Math.min(a, b)}" width="${(px(map.edges[i + 1]) - from + 0.3).toFixed(1)}" height="${(Math.abs(a - b) + 0.3).toFixed(1)}" fill="${fill}" fill-opacity="${heat.toFixed(2)}"/>`;
  }).join("") + map.scale.map((value, i) => `<rect x="${left + 110 * i}" y="${top - 18}" width="12" height="12" stroke="#d9dee7" fill="${fill}" fill-opacity="${strengthOf(map, value).toFixed(2)}"/>` + svgText(left + 110 * i + 17, top - 8, map.valueWords(value), "start")).join(""));
};
// What each strength of the colour stands for.
const scaleOf = (map) => make("ul", { class: "legend scale" }, ...map.scale.map((value) => make("li", {}, make("i", {}, make("i", { style: `background:var(${map.colour || "--s0"});opacity:${strengthOf(map, value).toFixed(2)}` })), map.valueWords(value))));
// Tells the value below the cursor, and that of the cell to which the arrow keys go.
const walkMap = (map, plotted, box, told, status, plot) => {
  const words = (r, i) => `${map.rowNames[r]}, ${xValue(plotted, map.edges[i])}: ${map.rows[r][i] == null ? "nothing" : map.valueWords(map.rows[r][i])}`;
  const cellAt = (x, y) => [map.bounds.findIndex(([a, b]) => y >= Math.min(a, b) && y < Math.max(a, b)), map.edges.findIndex((edge, i) => x >= edge && x < map.edges[i + 1])];
  let at = null;
  box.addEventListener("mousemove", () => {
    const { left, top } = plot.cursor;
    const [r, i] = left >= 0 && top >= 0 ? cellAt(plot.posToVal(left, "x"), plot.posToVal(top, "y")) : [-1, -1];
    told.textContent = r >= 0 && i >= 0 ? words(r, i) : "\u00a0";
  });
  box.addEventListener("mouseleave", () => { told.textContent = "\u00a0"; });
  box.addEventListener("keydown", (event) => {
    const up = map.down ? -1 : 1, move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], PageUp: [0, -20], PageDown: [0, 20], Home: [0, -1e9], End: [0, 1e9], ArrowUp: [up, 0], ArrowDown: [-up, 0] }[event.key];
    if (!move) return;
    event.preventDefault();
    const limit = (v, nr) => Math.min(nr - 1, Math.max(0, v));
    at = at ? [limit(at[0] + move[0], map.rows.length), limit(at[1] + move[1], map.rows[0].length)] : [map.down ? 0 : map.rows.length - 1, 0];
    const [a, b] = map.bounds[at[0]].map((v) => plot.valToPos(v, "y"));
    plot.setCursor({ left: (plot.valToPos(map.edges[at[1]], "x") + plot.valToPos(map.edges[at[1] + 1], "x")) / 2, top: (a + b) / 2 });
    told.textContent = status.textContent = words(...at);
  });
};
// Rows of values as colours. edges: where the columns begin, and the end; bounds: where each row begins and ends;
// strength: 0 to 1 of a value; rowNames: of each row; scale: values to explain the colours by; valueWords: a value in
// words. down: the first row is on top.
const drawMap = (grid, map) => {
  if (!map.rows.length || !map.rows[0].length) return;
  const cells = cellsOf(map), section = make("div", { class: "cell" }), values = map.bounds.flat(), range = [least(values), most(values)];
  const starts = map.edges.slice(0, -1), seen = numbers(map.rows.flatMap((row) => Array.from(row)));
  const plotted = { ...map, columns: [map.edges, map.edges.map(() => null)], series: [], range };
  const box = make("div", { class: "plot", role: "img", tabindex: "0", "aria-label": `${map.title}, ${map.y}. ${map.words} ${seen.length ? `From ${map.valueWords(least(seen))} to ${map.valueWords(most(seen))}. ` : ""}Arrow keys move over it.` });
  const told = make("p", { class: "told dim", "aria-hidden": "true" }, "\u00a0"), status = make("p", { class: "unseen", role: "status" });
  let plot;
  const { box: figureBox, tail } = frame(map.title, [map.x === "time" ? "seconds" : map.x, ...map.rowNames], [starts, ...map.rows], map.words,
    [saveAs("PNG", map.title, () => asPng(plot, `${map.title} (${map.y})`, map.scale.map((value) => [map.valueWords(value), colour(map.colour || "--s0"), strengthOf(map, value)]))), saveAs("SVG", map.title, () => svgUrl(mapAsSvg(map, plotted, cells)))], [told, scaleOf(map)]);
  figureBox.append(box, status, ...tail);
  grid.append(section);
  section.append(figureBox);
  plot = new uPlot({ ...sizeOf(section), padding: [8, 22, 0, 0], cursor: { ...cursorOf(plotted), y: false }, legend: { show: false },
    scales: { x: { time: false, range: (u, low, high) => [low, high] }, y: { distr: map.log ? 3 : 1, dir: map.down ? -1 : 1, range: () => range } },
    axes: [{ ...xAxis(plotted), grid: { show: false } }, axisOf(map.y, { size: 52, grid: { show: false }, ...(map.log ? { splits: (u, i, low, high) => logTicks(low, high), filter: (u, all) => all } : { incrs: WHOLE }), values: (u, v) => v.map((y) => (y == null ? "" : short(y))) })],
    hooks: { drawClear: [drawCells(map, cells)] }, series: [{}, { show: true, stroke: "transparent", points: { show: false } }] }, plotted.columns, box);
  walkMap(map, plotted, box, told, status, plot);
  plots.push({ plot, section });
};

// ---- Bars ----

const barsAsSvg = (title, parts, rows) => {
  const left = 90, w = 760, h = 60 + 26 * rows.length;
  const bar = ([name, values], k) => {
    const all = sum(values) || 1, y = 34 + 26 * k;
    let x = left;
    return svgText(left - 8, y + 15, name, "end") + values.map((v, i) => {
      const width = ((w - left - 14) * v) / all, from = x;
      x += width;
      return `<rect x="${from.toFixed(1)}" y="${y}" width="${width.toFixed(1)}" height="20" fill="${PRINTED[parts[i][1]]}"/>` + (v / all > 0.09 ? svgText((from + width / 2).toFixed(1), y + 14, `${show((100 * v) / all)} %`, "middle", `fill="${parts[i][2] ? "#1b2230" : "#fff"}"`) : "");
    }).join("");
  };
  return svgOf(w, h, title, rows.map(bar).join("") + parts.map(([name, c], i) => `<rect x="${12 + 185 * i}" y="${h - 20}" width="10" height="10" fill="${PRINTED[c]}"/>` + svgText(12 + 185 * i + 15, h - 11, name, "start", 'font-size="11"')).join(""));
};
// One row per entry of @rows: [name, parts]; @parts: [name, colour] of each part.
const drawBars = (grid, title, unit, parts, rows, most_ = 50) => {
  const columns = [rows.map(([name]) => name), ...parts.map((_, i) => rows.map(([, values]) => +values[i].toFixed(3)))];
  const svg = () => barsAsSvg(title, parts, rows.slice(0, most_));
  const { box, tail } = frame(title, ["", ...parts.map(([name]) => `${name}, ${unit}`)], columns, rows.length > most_ ? `The first ${most_} of ${rows.length}; the table has all.` : "",
    [saveAs("PNG", title, () => svgAsPng(svg())), saveAs("SVG", title, () => svgUrl(svg()))]);
  const bar = ([name, values]) => {
    const share = values.map((v) => (100 * v) / (sum(values) || 1));
    const words = `${name}: ` + parts.map(([part], i) => `${part} ${show(share[i])} %`).join(", ");
    return make("div", { class: "barrow", role: "img", "aria-label": words, title: words }, make("span", {}, name),
      make("div", { class: "bar" }, ...share.map((x, i) => make("i", { style: `width:${x}%;background:var(${parts[i][1]})`, class: parts[i][2] }, x > 9 ? show(x) + " %" : ""))));
  };
  box.append(...rows.slice(0, most_).map(bar), make("ul", { class: "legend" }, ...parts.map(([name, c]) => make("li", {}, make("i", { style: `background:var(${c})` }), name))), ...tail);
  grid.append(make("div", { class: "cell" }, box));
};
