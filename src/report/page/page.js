"use strict";
(() => {
  const page = document.getElementById("page");
  let data = JSON.parse(document.getElementById("data").textContent);
  let plots = [];

  // ---- Small things ----

  const make = (tag, attributes = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children.map((child) => (typeof child === "number" ? String(child) : child)));
    return node;
  };
  const isNumber = (x) => typeof x === "number" && Number.isFinite(x);
  const show = (x, digits = 1) => (isNumber(x) ? x.toLocaleString("en", { maximumFractionDigits: digits }) : "-");
  const bytes = (x) => {
    if (!isNumber(x)) return "-";
    const unit = ["B", "KB", "MB", "GB", "TB"];
    let i = 0;
    for (; x >= 1000 && i < unit.length - 1; i++) x /= 1000;
    return show(x) + " " + unit[i];
  };
  const mean = (list) => (list.length ? list.reduce((a, b) => a + b, 0) / list.length : NaN);
  const variance = (list) => (list.length > 1 ? list.reduce((a, x) => a + (x - mean(list)) ** 2, 0) / (list.length - 1) : 0);
  const numbers = (list) => (list || []).filter(isNumber);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const cellOf = (cell, row) => (cell instanceof Node ? make(row ? "th" : "td", row ? { scope: "row" } : {}, cell) : make(row ? "th" : "td", row ? { scope: "row" } : {}, String(cell)));
  const table = (head, rows) => make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "table: " + head.filter(Boolean).join(", ") }, make("table", {},
    make("thead", {}, make("tr", {}, ...head.map((text) => make("th", { scope: "col" }, text)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((cell, i) => cellOf(cell, i === 0)))))));
  const saveAs = (words, name, url) => {
    const button = make("button", { type: "button" }, words);
    button.onclick = () => make("a", { href: url(), download: name.replace(/[^a-z0-9]+/gi, "-") + (words.endsWith("PNG") ? ".png" : words.endsWith("SVG") ? ".svg" : ".json") }).click();
    return button;
  };
  // The data of a plot: as a table, which is only made if it is looked at, and as JSON.
  const dataOf = (title, head, columns) => {
    const details = make("details", {}, make("summary", {}, "data as a table"));
    details.addEventListener("toggle", () => {
      if (details.open && details.children.length === 1)
        details.append(table(head, Array.from(columns[0], (_, i) => columns.map((column) => (column[i] == null ? "-" : String(column[i]))))));
    });
    const json = () => "data:application/json," + encodeURIComponent(JSON.stringify({ title, columns: Object.fromEntries(head.map((name, i) => [name, Array.from(columns[i])])) }));
    return [saveAs("save JSON", title, json), details];
  };

  // ---- Plots ----

  const HEIGHT = 230;
  const widthOf = (section) => Math.max(280, section.clientWidth);
  const summaryOf = (title, series, columns) => title + ". " + series.map((one, i) => {
    const all = numbers(Array.from(columns[i + 1]));
    return all.length ? `${one.label}: ${show(Math.min(...all), 3)} to ${show(Math.max(...all), 3)}, mean ${show(mean(all), 3)}` : `${one.label}: no values`;
  }).join("; ") + ". Arrow keys move along it.";
  // The same data as a drawing that scales: axes, lines and their names.
  const asSvg = (title, { x, y, columns, series, log }) => {
    const w = 720, h = 300, left = 70, right = 12, top = 30, bottom = 44;
    const all = columns.slice(1).flatMap((column) => numbers(Array.from(column))).filter((v) => !log || v > 0);
    const [x0, x1] = [columns[0][0], columns[0][columns[0].length - 1]];
    const f = log ? Math.log10 : (v) => v;
    const y0 = log ? f(Math.min(...all)) : 0, y1 = f(Math.max(...all, log ? 1e-9 : 0)) || 1;
    const px = (v) => left + ((v - x0) / (x1 - x0 || 1)) * (w - left - right), py = (v) => h - bottom - ((f(v) - y0) / (y1 - y0 || 1)) * (h - top - bottom);
    const text = (at, down, words, anchor) => `<text x="${at}" y="${down}" text-anchor="${anchor}" font-size="12">${String(words).replace(/&/g, "&amp;").replace(/</g, "&lt;")}</text>`;
    const colours = ["#1f6fb2", "#d2691e", "#2e8b57", "#8e44ad", "#7f8c8d"];
    const lines = series.map((one, i) => {
      let d = "", gap = true;
      columns[0].forEach((at, k) => {
        const v = columns[i + 1][k];
        if (!isNumber(v) || (log && v <= 0)) { gap = true; return; }
        d += `${gap ? "M" : "L"}${px(at).toFixed(1)} ${py(v).toFixed(1)}`;
        gap = false;
      });
      return `<path d="${d}" fill="none" stroke="${colours[i % 5]}" stroke-width="1.5"/>` + text(left + 8 + i * 120, top - 4, one.label, "start").replace("<text", `<text fill="${colours[i % 5]}"`);
    });
    const ticks = [0, 0.25, 0.5, 0.75, 1].map((part) => {
      const v = y0 + part * (y1 - y0), at = h - bottom - part * (h - top - bottom);
      return `<line x1="${left}" x2="${w - right}" y1="${at}" y2="${at}" stroke="#ddd"/>` + text(left - 6, at + 4, show(log ? 10 ** v : v, 3), "end") + text(left + part * (w - left - right), h - bottom + 16, show(x0 + part * (x1 - x0), 1), "middle");
    });
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${w}" height="${h}" font-family="sans-serif"><rect width="${w}" height="${h}" fill="#fff"/>${text(left, 14, `${title} (${y})`, "start")}${ticks.join("")}${text((w + left) / 2, h - 8, x, "middle")}${lines.join("")}</svg>`;
  };
  const drawMarks = (marks) => (u) => {
    u.ctx.save();
    u.ctx.strokeStyle = colour("--dim");
    u.ctx.setLineDash([4, 4]);
    for (const mark of marks) {
      const at = u.valToPos(mark, "x", true);
      u.ctx.beginPath();
      u.ctx.moveTo(at, u.bbox.top);
      u.ctx.lineTo(at, u.bbox.top + u.bbox.height);
      u.ctx.stroke();
    }
    u.ctx.restore();
  };
  const WHOLE = [1, 2, 5].map((n) => [n, n * 10, n * 100, n * 1e3, n * 1e4, n * 1e5, n * 1e6]).flat().sort((a, b) => a - b);
  const drawPlot = (section, plotted) => {
    const { title, x, y, columns, series, log, marks = [], bands, real } = plotted;
    const box = make("div", { role: "img", tabindex: "0", "aria-label": summaryOf(title, series, columns) });
    section.append(make("h3", {}, title), box);
    const axis = (label, more) => ({ label, stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") }, labelSize: 18, ...more });
    const short = (u, values) => values.map((v) => (v == null ? "" : Math.abs(v) >= 1e9 ? show(v / 1e9, 2) + "G" : Math.abs(v) >= 1e6 ? show(v / 1e6, 2) + "M" : Math.abs(v) >= 1e4 ? show(v / 1e3, 1) + "k" : show(v, 3)));
    const plot = new uPlot({
      width: widthOf(section), height: HEIGHT,
      scales: { x: { time: false, distr: plotted.logX ? 3 : 1 }, y: log ? { distr: 3 } : { range: (u, low, high) => [0, (high || 1) * 1.05] } },
      axes: [axis(x, { ...(real ? {} : { incrs: WHOLE }), size: 30, ...(plotted.logX ? { values: short } : {}) }), axis(y, { size: 55, values: short })], hooks: { draw: [drawMarks(marks), ...(plotted.draw || [])] }, bands,
      series: [{ label: x }, ...series.map((one, i) => ({ stroke: colour(one.colour || "--s" + (i % 5)), width: 1.5, points: { show: columns[0].length < 3 }, value: (u, v) => show(v, 3), spanGaps: one.span, ...one.more, label: one.label }))],
    }, columns, box);
    let at = 0;
    box.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, Home: -1e9, End: 1e9 }[event.key];
      if (!step) return;
      event.preventDefault();
      at = Math.min(columns[0].length - 1, Math.max(0, at + step));
      plot.setCursor({ left: plot.valToPos(columns[0][at], "x"), top: 10 });
    });
    plots.push([plot, section]);
    if (plotted.words) section.append(make("p", { class: "dim" }, plotted.words));
    const head = [x, ...series.map((one) => one.label)];
    section.append(saveAs("save PNG", title, () => plot.ctx.canvas.toDataURL("image/png")),
      saveAs("save SVG", title, () => "data:image/svg+xml," + encodeURIComponent(asSvg(title, plotted))), ...dataOf(title, head, columns));
  };
  addEventListener("resize", () => plots.forEach(([plot, section]) => plot.setSize({ width: widthOf(section), height: HEIGHT })));
  const plotIn = (grid, plotted) => {
    if (!plotted.columns[0].length) return;
    const section = make("section");
    grid.append(section);
    drawPlot(section, plotted);
  };
  // Rows of numbers as colours; @strength gives 0 to 1.
  const drawHeat = (grid, { title, rows, strength, rowLabel, firstRow, lastRow, left, right, words, rgb = "214,69,65" }) => {
    if (!rows.length || !rows[0].length) return;
    const canvas = make("canvas", { class: "heat", width: rows[0].length, height: rows.length, role: "img", "aria-label": `${title}. ${words}`,
      style: `height:${Math.max(60, Math.min(260, rows.length * 12))}px` });
    const context = canvas.getContext("2d");
    rows.forEach((row, y) => row.forEach((value, x) => {
      const heat = strength(value);
      if (!(heat > 0)) return;
      context.fillStyle = `rgba(${rgb},${Math.min(1, heat)})`;
      context.fillRect(x, y, 1, 1);
    }));
    grid.append(make("section", {}, make("h3", {}, title),
      make("div", { class: "heatbox" }, make("div", { class: "heaty dim" }, make("span", {}, firstRow), make("span", {}, lastRow)), canvas,
        make("span", {}), make("div", { class: "heatx dim" }, make("span", {}, left), make("span", {}, right))),
      make("p", { class: "dim" }, words), saveAs("save PNG", title, () => canvas.toDataURL("image/png")),
      ...dataOf(title, ["", ...rows.map((_, i) => rowLabel(i))], [rows[0].map((_, i) => i), ...rows])));
  };

  // ---- What the results have ----

  const parseText = (run, key, words) => {
    if (run[key] == null) return null;
    try {
      return JSON.parse(run[key]);
    } catch (e) {
      run.notes.push(words + " is damaged: " + e.message);
      return null;
    }
  };
  const parse = (run) => {
    run.summary = parseText(run, "summary_text", "summary.json") || {};
    run.read = parseText(run, "read_text", "read.json");
    run.sweep = parseText(run, "sweep_text", "sweep.json");
    run.listing = parseText(run, "index_text", "index.json") || parseText(run, "datagen_text", "datagen.json");
    run.kind = data.live ? run.command : run.sweep ? "sweep" : run.read ? "read" : run.listing ? (run.index_text != null ? "index" : "datagen") : "run";
    if (run.kind === "run" && run.summary_text == null && !data.live) run.notes.push("there is no summary.json: the run ended early, or it is still going on. Shown is what there is.");
    run.shoal = run.summary.shoal || {};
    run.metric = run.summary.metric || {};
    run.phases = (run.shoal.phases || []).filter((phase) => phase && phase.kind !== "eval");
    run.audits = run.phases.map((phase) => phase.audit || {});
    if (run.time) run.seconds = run.time.rank_rates.length ? run.time.rank_rates[0].map((_, i) => +(i * run.time.width_seconds).toPrecision(6)) : [];
  };
  const cached = (run) => numbers(run.audits.map((audit) => audit.cached_share)).map((x) => 100 * x);
  const lost = (phase) => {
    const t = phase.time || {};
    const parts = [t.compute_planned_seconds, t.woken_late_seconds, t.waiting_for_data_seconds, t.waiting_for_ranks_seconds];
    return parts.every(isNumber) ? parts : null;
  };
  const timeColumn = (run, name) => (run.time && run.time.columns[name]) || null;
  // Every figure as a list with one value per repeat or epoch, so that its spread is known.
  const METRICS = [
    ["names/s", (run) => numbers(run.kind === "index" ? [run.listing?.names_per_second] : []), 0],
    ["files/s", (run) => numbers(run.kind === "datagen" ? [run.listing?.written / run.listing?.seconds] : []), 1],
    ["seconds", (run) => numbers([run.listing?.seconds]), 2],
    ["AU %", (run) => numbers(run.phases.map((p) => p.au_percentage)), 2],
    ["samples/s", (run) => (run.read ? numbers((run.read.repeats || []).map((r) => r.samples_per_second)) : numbers(run.phases.map((p) => p.throughput_samples_per_second))), 1],
    ["MB/s", (run) => (run.read ? numbers((run.read.repeats || []).map((r) => r.bytes_per_second / 1e6)) : numbers(run.phases.map((p) => p.measured_bytes_per_second / 1e6))), 1],
    ["p50 ms", (run) => numbers(run.read ? [run.read.latency_us?.p50 / 1000] : run.phases.map((p) => p.latency_us?.total?.p50 / 1000)), 3],
    ["p99 ms", (run) => numbers(run.read ? [run.read.latency_us?.p99 / 1000] : run.phases.map((p) => p.latency_us?.total?.p99 / 1000)), 3],
    ["queue depth", (run) => numbers(run.phases.map((p) => p.queue_depth)), 1],
    ["from page cache %", (run) => (run.read ? numbers([100 * run.read.audit?.cached_share]) : cached(run)), 1],
    ["CPU us per sample", (run) => (run.read ? numbers([run.read.cpu_us_per_sample]) : numbers(run.phases.map((p) => p.cpu_us_per_sample))), 1],
    ["first batch s", (run) => numbers([run.shoal.seconds_to_first_batch ?? run.read?.first_batch_seconds]), 3],
    ["memory MB", (run) => numbers([(run.shoal.memory_per_node || []).reduce((a, node) => Math.max(a, node.pss_bytes / 1e6), 0) || NaN]), 1],
  ];

  // ---- Sections of a run ----

  const tile = (name, value, below, verdict = "") => make("li", { class: verdict }, make("span", {}, name), make("b", {}, value), make("span", {}, below));
  const drawTiles = (run) => {
    const au = run.metric.train_au_mean_percentage, bar = run.shoal.au_bar_percentage;
    const once = run.audits.length > 0 && run.audits.every((audit) => audit.exactly_once);
    const share = mean(cached(run)), node = (run.shoal.memory_per_node || [])[0] || {};
    const rate = timeColumn(run, "samples_per_second"), now = rate ? mean(numbers(rate)) : NaN;
    return make("ul", { class: "tiles" },
      tile("AU", show(au, 2) + " %", isNumber(bar) ? "bar " + show(bar) + " %" : "no bar", isNumber(bar) && isNumber(au) ? (au >= bar ? "good" : "bad") : ""),
      tile("throughput", show(run.metric.train_throughput_mean_samples_per_second ?? now) + "/s", show(run.metric.train_io_mean_MB_per_second) + " MiB/s"),
      tile("first batch", show(run.shoal.seconds_to_first_batch, 2) + " s", "after the start"),
      tile("audit", run.audits.length ? (once ? "once" : "NOT once") : "-", show(run.audits.reduce((a, audit) => a + (audit.samples || 0), 0), 0) + " samples", run.audits.length ? (once ? "good" : "bad") : ""),
      tile("from the page cache", isNumber(share) ? show(share) + " %" : "-", run.shoal.direct ? "O_DIRECT" : share > 5 ? "not a storage figure" : "", share > 5 ? "bad" : ""),
      tile("limited by", limitOf(run)[0], isNumber(cpuShare(run)) ? `client's processors ${show(cpuShare(run), 0)} % busy` : ""),
      tile("memory", bytes(node.pss_bytes), show(run.shoal.memory_per_node?.length, 0) + " node(s), " + show(run.shoal.ranks, 0) + " ranks"));
  };
  const drawReadTiles = (run) => {
    const r = run.read;
    return make("ul", { class: "tiles" },
      tile("throughput", show(r.samples_per_second) + "/s", bytes(r.bytes_per_second) + "/s"),
      tile("latency p50", show(r.latency_us?.p50 / 1000, 3) + " ms", `p99 ${show(r.latency_us?.p99 / 1000, 3)} ms`),
      tile("first batch", show(r.first_batch_seconds, 3) + " s", "after the start"),
      tile("audit", r.audit?.exactly_once ? "once" : "NOT once", show(r.samples, 0) + " samples", r.audit?.exactly_once ? "good" : "bad"),
      tile("from the page cache", r.audit?.cached_share == null ? "-" : show(100 * r.audit.cached_share) + " %", r.engine || ""),
      tile("CPU", show(r.cpu_us_per_sample, 2) + " us", "per sample, " + show(r.ranks, 0) + " rank(s)"),
      tile("limited by", limitOf(run)[0], isNumber(cpuShare(run)) ? `client's processors ${show(cpuShare(run), 0)} % busy` : ""),
      tile("errors", show(r.errors, 0), "samples that could not be read", r.errors ? "bad" : ""));
  };
  const drawListingTiles = (run) => {
    const l = run.listing, rate = run.kind === "index" ? l.names_per_second : (l.written || l.good) / l.seconds;
    return make("ul", { class: "tiles" },
      tile(run.kind === "index" ? "names" : "files", show(l.files, 0), run.kind === "index" ? show(l.directories, 0) + " directories" : show(l.written, 0) + " written"),
      tile("rate", show(rate, 0) + "/s", l.bytes_written ? bytes(l.bytes_written / l.seconds) + "/s" : "on average"),
      tile("time", show(l.seconds, 2) + " s", l.sync_seconds ? `${show(l.sync_seconds, 2)} s of it to sync` : ""),
      ...(l.requests ? [tile("requests", show(l.requests.sent, 0), `${show(l.requests.retries, 0)} retried, ${show(l.requests.throttled, 0)} throttled`)] : []),
      tile("left out", show((l.unreadable || 0) + (l.vanished || 0) + (l.missing || 0) + (l.damaged || 0), 0), "unreadable, vanished, missing or damaged", l.unreadable || l.damaged ? "bad" : ""));
  };
  const clock = (seconds) => (isNumber(seconds) ? `${Math.floor(seconds / 3600)}:${String(Math.floor(seconds / 60) % 60).padStart(2, "0")}:${String(Math.floor(seconds) % 60).padStart(2, "0")}` : "-");
  const drawLiveTiles = (run) => {
    const n = run.now, memory = timeColumn(run, "memory_bytes"), last = memory && numbers(memory).pop();
    return make("ul", { class: "tiles" },
      tile("time left", clock(n.eta_seconds), isNumber(n.share) ? show(100 * n.share) + " % done" : show(n.done, 0) + " " + (n.what || "done")),
      tile(n.what === "names" || n.what === "files" ? n.what : "throughput", show(n.samples_per_second, 0) + "/s", bytes(n.bytes_per_second) + "/s"),
      ...(n.epochs ? [tile("AU so far", show(n.au_percentage, 1) + " %", isNumber(n.au_bar_percentage) ? "bar " + show(n.au_bar_percentage) + " %" : "no bar", isNumber(n.au_percentage) && isNumber(n.au_bar_percentage) ? (n.au_percentage >= n.au_bar_percentage ? "good" : "bad") : ""),
        tile("epoch", `${n.epoch} of ${n.epochs}`, `step ${show(n.step, 0)} of ${show(n.steps, 0)}${n.evaluation ? ", evaluation" : ""}`),
        tile("slowest rank", "rank " + n.slowest_rank, show(1000 * n.slowest_seconds, 2) + " ms waited in the last step")] : []),
      tile("errors", show(n.errors, 0), show(n.samples, 0) + " samples, " + bytes(n.sample_bytes), n.errors ? "bad" : ""),
      tile("memory", bytes(last), show(n.ranks, 0) + " rank(s)"));
  };
  const coresOf = (run) => (run.kind === "run" ? (run.summary.host_cpu_count || []).reduce((a, b) => a + b, 0) : (run.read || run.listing || {}).cores);
  const cpuShare = (run) => {
    const cores = coresOf(run), used = mean(numbers(timeColumn(run, "cpu_cores")));
    return cores && isNumber(used) ? Math.min(100, (100 * used) / cores) : NaN;
  };
  const BUSY = 80;
  // What held it up: [one word, why].
  const limitOf = (run) => {
    const cpu = cpuShare(run), busy = isNumber(cpu) ? `the client's processors were ${show(cpu, 0)} % busy` : "how busy the client was is not known";
    if (run.kind !== "run") {
      const depth = mean(numbers(timeColumn(run, "queue_depth"))), used = mean(numbers(timeColumn(run, "cpu_cores")));
      if (/^null/.test((run.read || {}).data || "")) return ["client", "the null store makes the bytes: this is what the client itself can do"];
      if (cpu > BUSY) return ["client", busy];
      if (used / (run.read?.ranks || 1) > 0.9 && run.read?.engine === "uring") return ["client", "each rank used a whole processor"];
      if (run.read?.audit?.cached_share > 0.5) return ["memory", `${show(100 * run.read.audit.cached_share, 0)} % came from the page cache; ${busy}`];
      return ["storage", busy + (isNumber(depth) ? `, with ${show(depth)} samples in flight` : "")];
    }
    const sums = [0, 0, 0, 0];
    run.phases.map(lost).filter(Boolean).forEach((part) => part.forEach((x, i) => (sums[i] += x)));
    const total = sums.reduce((a, b) => a + b, 0), share = sums.map((x) => (100 * x) / (total || 1));
    const worst = share.indexOf(Math.max(...share.slice(1)), 1), much = show(share[worst]) + " % of the time ";
    if (!total) return ["-", ""];
    if (share[worst] <= 1) return ["compute", `${show(share[0])} % of the time was compute as planned`];
    if (worst === 1) return ["client", much + "was lost by waking late: this machine was busy"];
    if (worst === 2) return [cpu > BUSY ? "client" : mean(cached(run)) > 50 ? "memory" : "storage", much + "was spent waiting for data, while " + busy + (mean(cached(run)) > 50 ? ", and most of it came from the page cache" : "")];
    const slow = run.phases.map((p) => p.slowest || {}).filter((p) => isNumber(p.rank_wait_seconds)).sort((x, y) => y.rank_wait_seconds - x.rank_wait_seconds)[0];
    return share[2] > 1 ? ["storage", much + "was spent waiting for other ranks, which waited for data" + (slow ? `: most of all rank ${slow.rank}` : "")]
      : ["client", much + "was spent waiting for other ranks that were late without waiting for data: their machines were busy"];
  };
  const verdictOf = (run) => {
    const au = run.metric.train_au_mean_percentage, bar = run.shoal.au_bar_percentage;
    if (!isNumber(au)) return ["This run has no result.", "bad"];
    const [limit, why] = limitOf(run);
    const meets = !isNumber(bar) ? "." : au >= bar ? ", meets the bar of " + show(bar) + " %." : ", misses the bar of " + show(bar) + " %.";
    const reason = run.shoal.not_a_success_because ? " Not a success: " + run.shoal.not_a_success_because + "." : "";
    return ["AU " + show(au, 2) + " %" + meets + (why ? ` It is ${limit}-bound: ${why}.` : "") + reason, (!isNumber(bar) || au >= bar) && !reason ? "good" : "bad"];
  };
  const PARTS = [["compute as planned", "--compute"], ["woken late", "--late"], ["waiting for data", "--data"], ["waiting for other ranks, other", "--peers"]];
  const drawTime = (run) => {
    const rows = run.phases.map((phase) => [phase, lost(phase)]).filter(([, parts]) => parts);
    if (!rows.length) return null;
    const section = make("section", {}, make("h3", {}, "Where the time went, by epoch"));
    for (const [phase, parts] of rows.slice(0, 50)) {
      const total = parts.reduce((a, b) => a + b, 0) || 1;
      const words = `epoch ${phase.epoch}: ` + parts.map((part, i) => `${PARTS[i][0]} ${show((100 * part) / total)} %`).join(", ");
      section.append(make("div", { class: "barrow", role: "img", "aria-label": words }, make("span", {}, "epoch " + phase.epoch), make("div", { class: "bar" }, ...parts.map((part, i) => {
        const share = (100 * part) / total;
        return make("i", { style: `width:${share}%;background:var(${PARTS[i][1]})`, title: PARTS[i][0] + " " + show(share) + " %" }, share > 9 ? show(share) + " %" : "");
      }))));
    }
    section.append(make("ul", { class: "legend" }, ...PARTS.map(([name, c]) => make("li", {}, make("i", { style: `background:var(${c})` }), name))),
      ...dataOf("where the time went", ["epoch", ...PARTS.map(([name]) => name + ", s")], [rows.map(([phase]) => phase.epoch), ...PARTS.map((_, i) => rows.map(([, parts]) => parts[i].toFixed(3)))]));
    return section;
  };
  const stepColumns = (run) => {
    const x = [], share = [], waitMean = [], waitMax = [], marks = [];
    let before = 0;
    for (const epoch of run.steps.epochs) {
      epoch.step_seconds.forEach((seconds, i) => {
        x.push(before + i * epoch.width);
        share.push(seconds > 0 ? +Math.min(100, epoch.wait_mean_ms[i] / seconds / 10).toPrecision(4) : null);
        waitMean.push(epoch.wait_mean_ms[i] || null);
        waitMax.push(epoch.wait_max_ms[i] || null);
      });
      before += epoch.step_seconds.length * epoch.width;
      marks.push(before);
    }
    return { x, share, waitMean, waitMax, marks: marks.slice(0, -1) };
  };
  const oneInterval = (run) => table(["", "mean"], Object.entries(run.time.columns).filter(([, v]) => isNumber(v[0])).map(([k, v]) => [k.replaceAll("_", " "), show(v[0], 3)]));
  // The rank that delivered least, and in how many intervals it was the slowest.
  const slowestWords = (t) => {
    const often = new Map(), at = t.columns.slowest_rank.filter((v) => v != null);
    at.forEach((rank) => often.set(rank, (often.get(rank) || 0) + 1));
    const [rank, times] = [...often].sort((a, b) => b[1] - a[1])[0] || [];
    if (rank == null) return "";
    const rates = t.ranks === t.rank_rates.length ? t.rank_rates.map((row) => mean(numbers(row))) : null, all = rates && mean(rates);
    return `Most often the slowest: rank ${rank}, in ${times} of ${at.length} intervals` + (all ? `; it delivered ${show((100 * (rates[rank] - all)) / all)} % against the mean of all ranks.` : ".");
  };
  const drawOverTime = (grid, run) => {
    const t = run.time, x = run.seconds, c = (name) => t.columns[name], several = t.ranks > 1;
    const simple = (title, y, list) => list.some(([, values]) => values) && plotIn(grid, { title, x: "seconds", y,
      columns: [x, ...list.filter(([, values]) => values).map(([, values]) => values)], series: list.filter(([, values]) => values).map(([label]) => ({ label })) });
    const what = run.kind === "datagen" ? "files/s" : "samples/s";
    simple("Throughput over time", what, [[what, c("samples_per_second")]]);
    if (several && c("rank_low")) plotIn(grid, { title: "Throughput of ranks over time", x: "seconds", y: "samples/s per rank", bands: [{ series: [1, 3], fill: "rgba(120,140,170,.25)" }],
      words: slowestWords(t),
      columns: [x, c("rank_high"), c("samples_per_second").map((v) => (v == null ? null : +(v / t.ranks).toPrecision(4))), c("rank_low"), c("slowest_rank").map((v) => v)],
      series: [{ label: "fastest rank" }, { label: "mean" }, { label: "slowest rank" }, { label: "which is rank", more: { scale: "rank", stroke: "transparent", value: (u, v) => (v == null ? "-" : String(v)) } }] });
    simple("Bytes over time", "MB/s", [["MB/s", c("bytes_per_second")?.map((v) => (v == null ? null : v / 1e6))]]);
    if (c("busy_share")) simple("AU and waiting for data over time", "%", [["AU", c("busy_share")?.map((v) => (v == null ? null : 100 * v))], ["waiting for data", c("wait_share")?.map((v) => (v == null ? null : 100 * v))]]);
    const quantiles = ["p50", "p90", "p99", "p99.9"].filter((q) => c(q + "_ms"));
    if (quantiles.length) plotIn(grid, { title: "Latency over time", x: "seconds", y: "ms", log: true, columns: [x, ...quantiles.map((q) => c(q + "_ms"))], series: quantiles.map((label) => ({ label })) });
    const place = (i) => { const us = 2 ** ((t.latency_first_place + i) / 2); return us < 1000 ? show(us, 0) + " us" : us < 1e6 ? show(us / 1000) + " ms" : show(us / 1e6) + " s"; };
    const counts = t.latency_counts, most = Math.max(0, ...counts.flat());
    drawHeat(grid, { title: "Latencies, a heat map", rows: [...counts].reverse(), rowLabel: (i) => "up to " + place(counts.length - 1 - i), firstRow: place(counts.length - 1), lastRow: place(0), left: "0 s", right: show(x.length * t.width_seconds) + " s",
      strength: (n) => (n > 0 ? 0.1 + (0.9 * Math.log1p(n)) / Math.log1p(most) : 0), rgb: "31,111,178", words: "Time from left to right, latency from bottom to top; the darker, the more samples." });
    if (counts.length) plotIn(grid, { title: "Histogram of latencies", x: "ms", y: "samples", real: true, logX: true,
      columns: [counts.map((_, i) => 2 ** ((t.latency_first_place + i) / 2) / 1000), counts.map((row) => Math.round(row.reduce((a, b) => a + b, 0)))],
      series: [{ label: "samples", more: { paths: uPlot.paths.stepped({ align: -1 }), fill: "rgba(31,111,178,.25)" } }] });
    simple("Queue depth", "samples in flight", [["in flight, all ranks", c("queue_depth")]]);
    simple("Processors that the client used", "cores", [["cores", c("cpu_cores")]]);
    simple("Memory", "MB", [["resident, all ranks", c("memory_bytes")?.map((v) => (v == null ? null : v / 1e6))]]);
    simple("Requests", "per second", [["requests", c("requests_per_second")], ["retries", c("retries_per_second")], ["throttled", c("throttled_per_second")]]);
    simple("Samples that could not be read", "per second", [["errors", c("errors_per_second")]]);
    simple("Listing", "names/s", [["names/s", c("names_per_second")]]);
    if (several) {
      const top = Math.max(0, ...t.rank_rates.flat());
      drawHeat(grid, { title: "Throughput by rank", rows: t.rank_rates, rowLabel: (i) => "rank " + i, firstRow: "rank 0", lastRow: "rank " + (t.ranks - 1), left: "0 s", right: show(x.length * t.width_seconds) + " s",
        strength: (v) => (top ? v / top : 0), rgb: "46,139,87", words: `${show(t.ranks, 0)} ranks from top to bottom; the paler, the slower.` + (t.ranks > t.rank_rates.length ? ` Each of the ${t.rank_rates.length} rows is the mean of neighbouring ranks.` : "") });
    }
  };
  // What the other ranks did while one waited for a sample.
  const othersThen = (run, stall) => {
    const t = run.time, all = timeColumn(run, "samples_per_second");
    if (!all || t.ranks < 2 || t.ranks !== t.rank_rates.length) return "-";
    const from = Math.floor(stall.at_seconds / t.width_seconds), to = Math.floor((stall.at_seconds + stall.ms / 1000) / t.width_seconds);
    const others = (i) => (all[i] - t.rank_rates[stall.rank][i]) / (t.ranks - 1), then = [];
    for (let i = from; i <= to && i < all.length; i++) if (all[i] != null) then.push(others(i));
    const usual = mean(all.map((v, i) => (v == null ? NaN : others(i))).filter(isNumber));
    return then.length ? `${show(mean(then))}/s each, usually ${show(usual)}/s` : "-";
  };
  const drawStalls = (run) => {
    const stalls = run.time?.stalls || [];
    if (stalls.length)
      return make("section", { class: "wide" }, make("h3", {}, "The slowest samples"), table(["took ms", "at s", "epoch", "rank", "sample", "file", "the other ranks then"],
        stalls.map((s) => [show(s.ms, 2), show(s.at_seconds, 2), s.epoch, s.rank, s.sample, make("span", { class: "name", title: s.file }, s.file), othersThen(run, s)])),
        make("p", { class: "dim" }, "At most one per rank and interval of the time series."));
    const worst = [];
    for (const epoch of run.steps.epochs)
      epoch.wait_max_ms.forEach((ms, i) => worst.push([ms, epoch.epoch, i * epoch.width, epoch.worst_rank[i], epoch.wait_mean_ms[i]]));
    worst.sort((a, b) => b[0] - a[0]);
    if (!worst.length) return null;
    return make("section", {}, make("h3", {}, "The longest waits"), table(["wait ms", "epoch", "step", "rank", "mean of all ranks then, ms"],
      worst.slice(0, 10).map(([ms, epoch, step, rank, all]) => [show(ms, 2), epoch, step, rank, show(all, 3)])));
  };
  const drawEpochs = (run) => make("section", {}, make("h3", {}, "Epochs"), table(
    ["epoch", "steps", "seconds", "AU %", "samples/s", "MB/s", "p50 ms", "p99 ms", "cached %", "queue", "CPU us", "audit"],
    run.phases.map((p) => [p.epoch, show(p.steps, 0), show(p.seconds, 2), show(p.au_percentage, 2), show(p.throughput_samples_per_second),
      show(p.measured_bytes_per_second / 1e6), show(p.latency_us?.total?.p50 / 1000, 2), show(p.latency_us?.total?.p99 / 1000, 2),
      p.audit?.cached_share == null ? "-" : show(100 * p.audit.cached_share), show(p.queue_depth, 1), show(p.cpu_us_per_sample),
      p.audit?.exactly_once ? "once" : "NOT once"])));

  // ---- One run ----

  const drawHead = (run) => {
    const s = run.summary;
    if (run.now) return [make("h2", {}, `${run.command}: ${run.name}`), make("p", { class: "verdict good" }, "At work. ", pauseButton()), make("p", {}, `shoal ${data.version}, as of ${data.made}`)];
    if (run.kind === "run") {
      const [words, kind] = verdictOf(run);
      return [make("h2", {}, `${run.shoal.workload || "results"}: ${run.name}`),
        make("p", {}, [s.hostname, s.num_accelerators && `${show(s.num_accelerators, 0)} accelerators`, s.num_files_train && `${show(s.num_files_train, 0)} files`, run.shoal.engine && `engine ${run.shoal.engine}`, s.start, run.shoal.version && `shoal ${run.shoal.version}`].filter(Boolean).join(", ")),
        make("p", { class: "verdict " + kind }, words)];
    }
    const facts = run.read || run.listing || {};
    return [make("h2", {}, `${run.kind}: ${run.name}`), make("p", {}, [facts.source, facts.catalog && "catalog " + facts.catalog, facts.data && "data " + facts.data, facts.hostname, facts.ended, facts.version && "shoal " + facts.version].filter(Boolean).join(", ")),
      ...(run.kind === "sweep" || (!run.read && !run.listing) ? [] : [make("p", { class: "verdict " + (run.read && !run.read.audit?.exactly_once ? "bad" : "good") }, (run.read ? (run.read.audit?.exactly_once ? "Every sample that was read came once. " : "NOT every sample came exactly once. ") : "") + `It is ${limitOf(run)[0]}-bound: ${limitOf(run)[1]}.`)]),
      ...(facts.interrupted ? [make("p", { class: "bad" }, "It was interrupted: these figures are of the part that was done.")] : [])];
  };
  const facts = (of) => Object.entries(of).filter(([, v]) => typeof v !== "object" && v !== 0 && v !== "").map(([k, v]) => [k.replaceAll("_", " "), typeof v === "number" ? show(v, 3) : String(v)]);
  const drawRun = (run) => {
    page.append(make("div", { class: "run" }, ...drawHead(run)));
    if (run.shoal.partial) page.append(make("p", { class: "bad" }, "This run ended early: " + (run.shoal.why_partial || "")));
    for (const note of run.notes) page.append(make("p", { class: "bad" }, note));
    if (run.kind === "sweep") { drawSweep(run); return; }
    if (run.now) page.append(drawLiveTiles(run));
    else if (run.read) page.append(drawReadTiles(run));
    else if (run.kind === "run" && (run.phases.length || run.time)) page.append(drawTiles(run));
    if (run.listing) page.append(drawListingTiles(run), make("details", {}, make("summary", {}, "all figures"), table(["", ""], facts(run.listing))));
    if (run.read) page.append(make("details", {}, make("summary", {}, "all figures"), table(["", ""], facts(run.read))));
    const grid = make("div", { class: "grid" });
    page.append(grid);
    const add = (section) => section && grid.append(section);
    add(drawTime(run));
    if (run.phases.length > 1) plotIn(grid, { title: "AU by epoch", x: "epoch", y: "%", columns: [run.phases.map((p) => p.epoch), run.phases.map((p) => p.au_percentage ?? null)], series: [{ label: "AU", more: { points: { show: true } } }] });
    if (run.time && run.seconds.length > 1) drawOverTime(grid, run);
    else if (run.time) add(make("section", {}, make("h3", {}, "Over time"), make("p", { class: "dim" }, data.live ? "Figures come after the first seconds." : "It took less than two seconds, which makes one interval: there is no course to draw."), oneInterval(run)));
    if (run.steps.epochs.length) {
      const c = stepColumns(run);
      if (run.kind === "run") plotIn(grid, { title: "Share of each step spent waiting for data", x: "step", y: "%", columns: [c.x, c.share], series: [{ label: "waiting" }], marks: c.marks });
      plotIn(grid, { title: "Waiting for data by step", x: "step", y: "ms", log: true, columns: [c.x, c.waitMax, c.waitMean], marks: c.marks, bands: [{ series: [1, 2], fill: "rgba(120,140,170,.25)" }],
        series: [{ label: "slowest rank" }, { label: "mean" }] });
      if (run.steps.heat_ms.length > 1) drawHeat(grid, { title: "Which rank waited, and when", rows: run.steps.heat_ms, rowLabel: (i) => "rank " + i, firstRow: "rank 0", lastRow: "rank " + (run.steps.ranks - 1), left: "first step", right: "last step",
        strength: (ms) => (Math.log10(Math.max(ms, 0.001)) + 2) / 4, words: "Pale: 0.01 ms or less, red: 100 ms or more." });
    }
    add(drawStalls(run));
    if (run.phases.length) page.append(drawEpochs(run));
  };

  // ---- A sweep ----

  const drawSweep = (run) => {
    const s = run.sweep, names = s.parameters.map((p) => p.name), points = s.points.filter((p) => p.samples_per_second);
    const valuesOf = (p) => names.map((name) => `${name} ${p.values[name]}`).join(", ");
    const knee = s.points.filter((p) => p.knee);
    page.append(make("p", { class: "verdict good" }, knee.length ? "Knee: " + knee.map((p) => `${valuesOf(p)} with ${show(p.samples_per_second.median)} samples/s at ${show(p.p50_ms?.median, 3)} ms`).join("; ") + "." : "No knee was found: throughput does not level off within these values."));
    if (s.points.some((p) => p.client_bound)) page.append(make("p", { class: "bad" }, "At points marked 'client' the client was the limit, not the storage."));
    if (!s.complete) page.append(make("p", { class: "bad" }, `The sweep is not complete: ${points.length} of ${s.points.length} points were measured.`));
    const grid = make("div", { class: "grid" });
    page.append(grid);
    const sorted = [...points].filter((p) => p.p50_ms).sort((a, b) => a.samples_per_second.median - b.samples_per_second.median);
    const rings = (u) => {
      u.ctx.save();
      sorted.forEach((p, i) => {
        if (!p.knee && !p.client_bound) return;
        u.ctx.beginPath();
        u.ctx.lineWidth = 2 * devicePixelRatio;
        u.ctx.strokeStyle = colour(p.knee ? "--good" : "--bad");
        u.ctx.arc(u.valToPos(u.data[0][i], "x", true), u.valToPos(u.data[1][i], "y", true), 7 * devicePixelRatio, 0, 7);
        u.ctx.stroke();
      });
      u.ctx.restore();
    };
    if (sorted.length) plotIn(grid, { title: "Latency against throughput", x: "samples/s", y: "ms", log: true, real: true, draw: [rings],
      columns: [sorted.map((p) => p.samples_per_second.median), sorted.map((p) => p.p50_ms.median), sorted.map((p) => p.p99_ms?.median ?? null)], series: [{ label: "p50", more: { points: { show: true } } }, { label: "p99", more: { points: { show: true } } }] });
    const first = s.parameters[0], second = s.parameters[1], numeric = (v) => (isNumber(+v) ? +v : null);
    const xs = first.values.map((v, i) => numeric(v) ?? i), rows = second ? second.values : [null];
    const find = (a, b) => points.find((p) => p.values[first.name] === a && (b == null || p.values[second.name] === b));
    const curve = (of) => rows.map((b) => first.values.map((a) => { const p = find(a, b); return p ? of(p) : null; }));
    plotIn(grid, { title: `Throughput by ${first.name}`, x: first.name, y: "samples/s", real: true, log: Math.max(...points.map((p) => p.ceiling ?? 0)) > 5 * Math.max(...points.map((p) => p.samples_per_second.median)), logX: xs.every((v) => v > 0) && xs[xs.length - 1] > 20 * xs[0], marks: knee.map((p) => numeric(p.values[first.name])).filter((v) => v != null),
      columns: [xs, ...curve((p) => p.samples_per_second.median), ...(points.some((p) => p.ceiling) ? curve((p) => p.ceiling ?? null) : [])],
      series: [...rows.map((b) => ({ label: b == null ? "median" : `${second.name} ${b}`, more: { points: { show: true } } })), ...(points.some((p) => p.ceiling) ? rows.map((b) => ({ label: "client's own limit" + (b == null ? "" : `, ${second.name} ${b}`), colour: "--peers", more: { dash: [5, 5] } })) : [])] });
    page.append(make("section", {}, make("h3", {}, "Points"), table([...names, "runs", "samples/s", "lowest", "highest", "MB/s", "p50 ms", "p99 ms", "CPU cores", "client's limit", ""],
      s.points.map((p) => [...names.map((name) => p.values[name]), show(p.runs, 0), show(p.samples_per_second?.median), show(p.samples_per_second?.lowest), show(p.samples_per_second?.highest), show(p.bytes_per_second?.median / 1e6),
        show(p.p50_ms?.median, 3), show(p.p99_ms?.median, 3), show(p.cpu_cores?.median, 2), show(p.ceiling), [p.knee ? "knee" : "", p.client_bound ? "client: " + p.client_bound : "", p.error || ""].filter(Boolean).join(", ")]))));
  };

  // ---- Runs side by side ----

  const drawComparison = (runs) => {
    const base = runs[0];
    // The difference of the means with twice its standard error, if there are repeats to tell it from.
    const cell = (run, of, digits) => {
      const values = of(run), first = of(base), m = mean(values), m0 = mean(first);
      if (run === base || !isNumber(m) || !isNumber(m0) || m0 === 0) return show(m, digits) + (values.length > 1 ? ` ± ${show(Math.sqrt(variance(values)), digits)}` : "");
      const change = (100 * (m - m0)) / Math.abs(m0), known = values.length > 1 && first.length > 1;
      const spread = (200 * Math.sqrt(variance(values) / values.length + variance(first) / first.length)) / Math.abs(m0);
      return `${show(m, digits)} (${change >= 0 ? "+" : ""}${show(change)} %${known ? ` ± ${show(spread)}` : ""}${known && Math.abs(change) <= spread ? ", within the spread" : ""})`;
    };
    page.append(make("h2", {}, `${runs.length} runs side by side`),
      make("section", {}, !METRICS.some(([, of]) => runs.some((run) => of(run).length)) ? "" : table(["", ...runs.map((run) => run.name)], METRICS.filter(([, of]) => runs.some((run) => of(run).length)).map(([name, of, digits]) => [name, ...runs.map((run) => cell(run, of, digits))])),
        make("p", { class: "dim" }, `Differences from ${base.name}, in per cent, with twice their standard error over epochs or repeats.`)));
    const grid = make("div", { class: "grid" });
    page.append(grid);
    const timed = runs.filter((run) => run.time && run.seconds.length);
    for (const [title, y, name, log] of [["Throughput over time, all runs", "samples/s", "samples_per_second"], ["Latency p99 over time, all runs", "ms", "p99_ms", true], ["Processors of the client, all runs", "cores", "cpu_cores"]]) {
      const with_ = timed.filter((run) => timeColumn(run, name));
      if (with_.length > 1) plotIn(grid, { title, x: "seconds", y, log, columns: uPlot.join(with_.map((run) => [run.seconds, timeColumn(run, name)])), series: with_.map((run) => ({ label: run.name, span: true })) });
    }
    const epochs = [...new Set(runs.flatMap((run) => run.phases.map((p) => p.epoch)))].sort((a, b) => a - b);
    for (const [title, y, of] of [["AU by epoch, all runs", "%", (p) => p.au_percentage], ["Throughput by epoch, all runs", "samples/s", (p) => p.throughput_samples_per_second]])
      plotIn(grid, { title, x: "epoch", y, columns: [epochs, ...runs.map((run) => epochs.map((e) => of(run.phases.find((p) => p.epoch === e) || {}) ?? null))],
        series: runs.map((run) => ({ label: run.name, more: { points: { show: true } } })) });
    for (const run of runs.slice(1)) {
      const diff = lineDiff(configOf(base), configOf(run)).map(([sign, line]) => make("div", { class: sign === "-" ? "del" : "add" }, sign + " " + line));
      page.append(make("section", {}, make("h3", {}, `Configuration: ${base.name} and ${run.name}`), diff.length ? make("pre", { tabindex: "0" }, ...diff) : make("p", { class: "dim" }, "no differences")));
    }
  };
  // What it was told to do: config.yaml, or the settings among the figures of other commands.
  const SETTINGS = ["command", "what", "source", "catalog", "digest", "data", "workload", "format", "files", "epoch", "batch", "in_flight", "direct", "engine", "ranks", "threads", "hostname", "version"];
  const configOf = (run) => (run.config_text ? run.config_text.split("\n").filter(Boolean) : SETTINGS.filter((key) => (run.read || run.listing || {})[key] != null).map((key) => `${key}: ${(run.read || run.listing)[key]}`));
  // The lines that only one of two texts has, in their order: by the longest common subsequence.
  const lineDiff = (a, b) => {
    if (a.length * b.length > 4e6) return [...a.map((line) => ["-", line]), ...b.map((line) => ["+", line])];
    const n = b.length + 1, same = new Uint16Array((a.length + 1) * n), diff = [];
    for (let i = a.length - 1; i >= 0; i--)
      for (let k = b.length - 1; k >= 0; k--) same[i * n + k] = a[i] === b[k] ? same[(i + 1) * n + k + 1] + 1 : Math.max(same[(i + 1) * n + k], same[i * n + k + 1]);
    for (let i = 0, k = 0; i < a.length || k < b.length; ) {
      if (i < a.length && k < b.length && a[i] === b[k]) { i++; k++; }
      else if (k === b.length || (i < a.length && same[(i + 1) * n + k] >= same[i * n + k + 1])) diff.push(["-", a[i++]]);
      else diff.push(["+", b[k++]]);
    }
    return diff;
  };

  // ---- The page ----

  const render = () => {
    plots.forEach(([plot]) => plot.destroy());
    plots = [];
    page.replaceChildren(make("h1", {}, data.live ? "Shoal: live" : "Shoal report"));
    if (data.runs.length > 1) drawComparison(data.runs);
    data.runs.forEach(drawRun);
    document.title = "Shoal: " + data.runs.map((run) => run.name).join(", ");
    page.append(make("p", { class: "dim" }, `Made by shoal ${data.version} on ${data.made}. The data of this page is in it as JSON (element "data").`));
    document.body.dataset.ready = "1";
  };
  let paused = false;
  const pauseButton = () => {
    const button = make("button", { type: "button", "aria-pressed": String(paused) }, paused ? "go on" : "pause");
    button.onclick = () => { paused = !paused; button.textContent = paused ? "go on" : "pause"; button.setAttribute("aria-pressed", String(paused)); };
    return button;
  };
  const begin = () => { data.runs.forEach(parse); render(); };
  begin();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", render);
  // Paper is white.
  addEventListener("beforeprint", () => { document.documentElement.dataset.theme = "light"; render(); });
  addEventListener("afterprint", () => { delete document.documentElement.dataset.theme; render(); });
  if (data.live) {
    // Not while somebody reads a table or walks along a plot; less often if it takes long, here or there.
    const inUse = () => paused || document.querySelector("details[open]") || document.activeElement?.closest("main [tabindex]");
    const refresh = () => {
      const began = performance.now();
      if (inUse()) { setTimeout(refresh, 1000); return; }
      fetch("data.json").then((answer) => answer.json()).then((now) => {
        const at = scrollY;
        data = now;
        begin();
        scrollTo(0, at);
        setTimeout(refresh, Math.max(2000, 20 * (performance.now() - began)));
      }).catch(() => page.prepend(make("p", { class: "bad", role: "status" }, "The command has ended, or cannot be reached any more: this is the last that was seen.")));
    };
    setTimeout(refresh, 2000);
  }
})();
