"use strict";
(() => {
  const page = document.getElementById("page");
  const data = JSON.parse(document.getElementById("data").textContent);
  const plots = [];

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
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const table = (head, rows) => make("div", { class: "scroll" }, make("table", {},
    make("thead", {}, make("tr", {}, ...head.map((text) => make("th", { scope: "col" }, text)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((cell) => (cell instanceof Node ? make("td", {}, cell) : make("td", {}, String(cell)))))))));
  const asTable = (head, columns) => {
    const details = make("details", {}, make("summary", {}, "data as a table"));
    details.addEventListener("toggle", () => { // only made if it is looked at
      if (details.open && details.children.length === 1)
        details.append(table(head, columns[0].map((_, i) => columns.map((column) => (column[i] == null ? "-" : String(column[i]))))));
    });
    return details;
  };

  // ---- Plots ----

  const save = (plot, name) => {
    const button = make("button", { type: "button" }, "save PNG");
    button.onclick = () => {
      const link = make("a", { href: plot.ctx.canvas.toDataURL("image/png"), download: name + ".png" });
      link.click();
    };
    return button;
  };
  const drawPlot = (section, { title, x, y, columns, series, log, marks = [], bands }) => {
    const box = make("div", { role: "img", "aria-label": title });
    section.append(make("h2", {}, title), box);
    const axis = (label, more) => ({ label, stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") }, labelSize: 18, ...more });
    const whole = [1, 2, 5].map((n) => [n, n * 10, n * 100, n * 1e3, n * 1e4, n * 1e5, n * 1e6]).flat().sort((a, b) => a - b);
    const drawMarks = (u) => {
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
    const plot = new uPlot({
      width: Math.max(280, section.clientWidth), height: 230,
      scales: { x: { time: false }, y: log ? { distr: 3 } : { range: (u, low, high) => [0, (high || 1) * 1.05] } },
      axes: [axis(x, { incrs: whole, size: 30 }), axis(y, { size: 55 })], hooks: { draw: [drawMarks] }, bands,
      series: [{ label: x }, ...series.map((one, i) => ({ stroke: colour(one.colour || "--s" + (i % 5)), width: 1.5, points: { show: columns[0].length < 3 }, ...one.more, label: one.label }))],
    }, columns, box);
    plots.push([plot, section]);
    section.append(save(plot, title), asTable([x, ...series.map((one) => one.label)], columns));
  };
  addEventListener("resize", () => plots.forEach(([plot, section]) => plot.setSize({ width: Math.max(280, section.clientWidth), height: 230 })));

  // ---- What a run has ----

  const parse = (run) => {
    try {
      run.summary = JSON.parse(run.summary_text);
    } catch (e) {
      run.summary = {};
      run.notes.push(run.summary_text == null ? "there is no summary.json: the run did not end, or it is no folder of results"
        : "summary.json is damaged: " + e.message);
    }
    run.shoal = run.summary.shoal || {};
    run.metric = run.summary.metric || {};
    run.phases = (run.shoal.phases || []).filter((phase) => phase && phase.kind !== "eval");
    run.audits = run.phases.map((phase) => phase.audit || {});
  };
  const mean = (list) => (list.length ? list.reduce((a, b) => a + b, 0) / list.length : NaN);
  const cached = (run) => mean(run.audits.map((audit) => audit.cached_share).filter(isNumber)) * 100;
  const lost = (phase) => {
    const t = phase.time || {};
    const parts = [t.compute_planned_seconds, t.woken_late_seconds, t.waiting_for_data_seconds, t.waiting_for_ranks_seconds];
    if (parts.every(isNumber)) return parts;
    if (!isNumber(phase.seconds) || !isNumber(phase.au_percentage)) return null;
    const wait = (phase.wait_share || 0) * phase.seconds;
    const planned = Math.min(phase.au_planned_percentage ?? phase.au_percentage, phase.au_percentage) / 100 * phase.seconds;
    const late = Math.max(0, phase.au_percentage / 100 * phase.seconds - planned);
    return [planned, late, wait, Math.max(0, phase.seconds - planned - late - wait)];
  };
  const METRICS = [
    ["AU %", (run) => run.metric.train_au_mean_percentage, 2],
    ["AU deviation", (run) => run.metric.train_au_stdev_percentage, 2],
    ["samples/s", (run) => run.metric.train_throughput_mean_samples_per_second, 1],
    ["MiB/s", (run) => run.metric.train_io_mean_MB_per_second, 1],
    ["first batch s", (run) => run.shoal.seconds_to_first_batch, 2],
    ["p50 ms", (run) => mean(run.phases.map((phase) => phase.latency_us?.total?.p50 / 1000).filter(isNumber)), 2],
    ["p99 ms", (run) => mean(run.phases.map((phase) => phase.latency_us?.total?.p99 / 1000).filter(isNumber)), 2],
    ["from page cache %", cached, 1],
    ["CPU us per sample", (run) => mean(run.phases.map((phase) => phase.cpu_us_per_sample).filter(isNumber)), 1],
    ["memory MB", (run) => (run.shoal.memory_per_node || []).reduce((a, node) => Math.max(a, node.pss_bytes / 1e6), 0) || NaN, 1],
  ];

  // ---- Sections ----

  const tile = (name, value, below, verdict = "") => make("li", { class: verdict }, make("span", {}, name), make("b", {}, value), make("span", {}, below));
  const drawTiles = (run) => {
    const au = run.metric.train_au_mean_percentage, bar = run.shoal.au_bar_percentage;
    const once = run.audits.length > 0 && run.audits.every((audit) => audit.exactly_once);
    const share = cached(run), node = (run.shoal.memory_per_node || [])[0] || {};
    return make("ul", { class: "tiles" },
      tile("AU", show(au, 2) + " %", isNumber(bar) ? "bar " + show(bar) + " %" : "no bar", isNumber(bar) && isNumber(au) ? (au >= bar ? "good" : "bad") : ""),
      tile("throughput", show(run.metric.train_throughput_mean_samples_per_second) + "/s", show(run.metric.train_io_mean_MB_per_second) + " MiB/s"),
      tile("first batch", show(run.shoal.seconds_to_first_batch, 2) + " s", "after the start"),
      tile("audit", run.audits.length ? (once ? "once" : "NOT once") : "-", show(run.audits.reduce((a, audit) => a + (audit.samples || 0), 0), 0) + " samples", run.audits.length ? (once ? "good" : "bad") : ""),
      tile("from the page cache", isNumber(share) ? show(share) + " %" : "-", run.shoal.direct ? "O_DIRECT" : share > 5 ? "not a storage figure" : "", share > 5 ? "bad" : ""),
      tile("memory", bytes(node.pss_bytes), show(run.shoal.memory_per_node?.length, 0) + " node(s), " + show(run.shoal.ranks, 0) + " ranks"));
  };
  const verdictOf = (run) => {
    const au = run.metric.train_au_mean_percentage, bar = run.shoal.au_bar_percentage;
    if (!isNumber(au)) return ["This run has no result.", "bad"];
    const sums = [0, 0, 0, 0];
    run.phases.map(lost).filter(Boolean).forEach((part) => part.forEach((x, i) => (sums[i] += x)));
    const total = sums.reduce((a, b) => a + b, 0), share = sums.map((x) => (100 * x) / (total || 1));
    const parts = ["", "waking late (this machine was busy)", "waiting for data (storage-bound)", "waiting for other ranks"];
    const worst = share.indexOf(Math.max(...share.slice(1)), 1);
    const because = share[worst] > 1 ? " The largest loss: " + show(share[worst]) + " % " + parts[worst] + "." : " Nothing was lost to speak of.";
    const meets = !isNumber(bar) ? "" : au >= bar ? ", meets the bar of " + show(bar) + " %." : ", misses the bar of " + show(bar) + " %.";
    return ["AU " + show(au, 2) + " %" + meets + because, !isNumber(bar) || au >= bar ? "good" : "bad"];
  };
  const PARTS = [["compute as planned", "--compute"], ["woken late", "--late"], ["waiting for data", "--data"], ["waiting for other ranks, other", "--peers"]];
  const drawTime = (run) => {
    const rows = run.phases.map((phase) => [phase, lost(phase)]).filter(([, parts]) => parts);
    if (!rows.length) return null;
    const section = make("section", {}, make("h2", {}, "Where the time went, by epoch"));
    for (const [phase, parts] of rows.slice(0, 50)) {
      const total = parts.reduce((a, b) => a + b, 0) || 1;
      section.append(make("div", { class: "barrow" }, make("span", {}, "epoch " + phase.epoch), make("div", { class: "bar" }, ...parts.map((part, i) => {
        const share = (100 * part) / total;
        return make("i", { style: `width:${share}%;background:var(${PARTS[i][1]})`, title: PARTS[i][0] + " " + show(share) + " %" }, share > 7 ? show(share) + " %" : "");
      }))));
    }
    section.append(make("ul", { class: "legend" }, ...PARTS.map(([name, c]) => make("li", {}, make("i", { style: `background:var(${c})` }), name))),
      asTable(["epoch", ...PARTS.map(([name]) => name + ", s")], [rows.map(([phase]) => phase.epoch), ...PARTS.map((_, i) => rows.map(([, parts]) => parts[i].toFixed(3)))]));
    return section;
  };
  const stepColumns = (run) => {
    const x = [], rate = [], waitMean = [], waitMax = [], worst = [], marks = [];
    let before = 0;
    for (const epoch of run.steps.epochs) {
      const phase = run.phases.find((one) => one.epoch === epoch.epoch) || {};
      const perStep = (phase.audit?.samples ?? NaN) / (phase.steps || NaN);
      epoch.step_seconds.forEach((seconds, i) => {
        x.push(before + i * epoch.width);
        rate.push(seconds > 0 && isNumber(perStep) ? perStep / seconds : null);
        waitMean.push(epoch.wait_mean_ms[i] || null);
        waitMax.push(epoch.wait_max_ms[i] || null);
        worst.push(epoch.worst_rank[i]);
      });
      before += epoch.step_seconds.length * epoch.width;
      marks.push(before);
    }
    return { x, rate, waitMean, waitMax, worst, marks: marks.slice(0, -1) };
  };
  const drawHeat = (run) => {
    const rows = run.steps.heat_ms;
    if (rows.length < 2 || !rows[0].length) return null;
    const section = make("section", {}, make("h2", {}, "Which rank waited, and when"));
    const canvas = make("canvas", { class: "heat", width: rows[0].length, height: rows.length, role: "img",
      "aria-label": "wait of each rank by step", style: `height:${Math.max(60, Math.min(400, rows.length * 14))}px` });
    const context = canvas.getContext("2d");
    rows.forEach((row, y) => row.forEach((ms, x) => {
      const heat = Math.min(1, Math.max(0, (Math.log10(Math.max(ms, 0.001)) + 2) / 4)); // 0.01 ms to 100 ms
      context.fillStyle = `rgba(214,69,65,${heat})`;
      context.fillRect(x, y, 1, 1);
    }));
    section.append(canvas, make("p", { class: "dim" }, `${show(run.steps.ranks, 0)} ranks from top to bottom, steps of all epochs from left to right; pale: 0.01 ms or less, red: 100 ms or more`));
    return section;
  };
  const drawEpochs = (run) => make("section", {}, make("h2", {}, "Epochs"), table(
    ["epoch", "steps", "seconds", "AU %", "samples/s", "MB/s", "p50 ms", "p99 ms", "cached %", "queue", "CPU us", "audit"],
    run.phases.map((p) => [p.epoch, show(p.steps, 0), show(p.seconds, 2), show(p.au_percentage, 2), show(p.throughput_samples_per_second),
      show(p.measured_bytes_per_second / 1e6), show(p.latency_us?.total?.p50 / 1000, 2), show(p.latency_us?.total?.p99 / 1000, 2),
      p.audit?.cached_share == null ? "-" : show(100 * p.audit.cached_share), show(p.queue_depth, 1), show(p.cpu_us_per_sample),
      p.audit?.exactly_once ? "once" : "NOT once"])));
  const drawStalls = (run) => {
    const worst = [];
    for (const epoch of run.steps.epochs)
      epoch.wait_max_ms.forEach((ms, i) => worst.push([ms, epoch.epoch, i * epoch.width, epoch.worst_rank[i], epoch.wait_mean_ms[i]]));
    worst.sort((a, b) => b[0] - a[0]);
    const section = make("section", {}, make("h2", {}, "The longest waits"), table(["wait ms", "epoch", "step", "rank", "mean of all ranks then, ms"],
      worst.slice(0, 10).map(([ms, epoch, step, rank, all]) => [show(ms, 2), epoch, step, rank, show(all, 3)])));
    for (const phase of run.phases.slice(0, 20))
      if (phase.slowest?.sample_file)
        section.append(make("p", { class: "dim" }, `epoch ${phase.epoch}: slowest sample ${phase.slowest.sample} '${phase.slowest.sample_file}', ${show(phase.slowest.sample_seconds, 3)} s on rank ${phase.slowest.sample_rank}`));
    return section;
  };

  const drawRun = (run) => {
    const s = run.summary, [words, kind] = verdictOf(run);
    page.append(make("div", { class: "run" }, make("h1", {}, `${run.shoal.workload || "results"}: ${run.name}`),
      make("p", {}, [s.hostname, `${show(s.num_accelerators, 0)} accelerators`, `${show(s.num_files_train, 0)} files`, `engine ${run.shoal.engine || "-"}`, s.start, `shoal ${run.shoal.version || "-"}`].filter(Boolean).join(", ")),
      make("p", { class: "verdict " + kind }, words)));
    if (run.shoal.partial) page.append(make("p", { class: "bad" }, "This run ended early: " + (run.shoal.why_partial || "")));
    for (const note of run.notes) page.append(make("p", { class: "bad" }, note));
    if (!run.phases.length && !run.steps.epochs.length) return;
    page.append(drawTiles(run));
    const grid = make("div", { class: "grid" });
    page.append(grid);
    const add = (section) => section && grid.append(section);
    add(drawTime(run));
    if (run.steps.epochs.length) {
      const c = stepColumns(run);
      for (const plot of [
        { title: "Throughput by step", x: "step", y: "samples/s", columns: [c.x, c.rate], series: [{ label: "samples/s" }], marks: c.marks },
        { title: "Waiting for data by step", x: "step", y: "ms", log: true, columns: [c.x, c.waitMax, c.waitMean], marks: c.marks, bands: [{ series: [1, 2], fill: "rgba(120,140,170,.25)" }],
          series: [{ label: "slowest rank" }, { label: "mean" }] }]) {
        const section = make("section");
        grid.append(section);
        drawPlot(section, plot);
      }
    }
    if (run.phases.length > 1 && run.phases[0].latency_us) {
      const section = make("section");
      grid.append(section);
      drawPlot(section, { title: "Latency of samples by epoch", x: "epoch", y: "ms", log: true,
        columns: [run.phases.map((p) => p.epoch), ...["p50", "p90", "p99", "p99.9"].map((q) => run.phases.map((p) => p.latency_us?.total?.[q] / 1000 || null))],
        series: ["p50", "p90", "p99", "p99.9"].map((label) => ({ label, more: { points: { show: true } } })) });
    }
    add(drawHeat(run));
    add(drawStalls(run));
    page.append(drawEpochs(run));
  };

  // ---- Runs side by side ----

  const drawComparison = (runs) => {
    const base = runs[0];
    const cell = (run, of, digits) => {
      const value = of(run), first = of(base);
      if (run === base || !isNumber(value) || !isNumber(first) || first === 0) return show(value, digits);
      const change = (100 * (value - first)) / Math.abs(first);
      return `${show(value, digits)} (${change >= 0 ? "+" : ""}${show(change)} %)`;
    };
    page.append(make("h1", {}, `${runs.length} runs side by side`),
      make("section", {}, table(["", ...runs.map((run) => run.name)], METRICS.map(([name, of, digits]) => [name, ...runs.map((run) => cell(run, of, digits))]))));
    const grid = make("div", { class: "grid" });
    page.append(grid);
    const epochs = [...new Set(runs.flatMap((run) => run.phases.map((p) => p.epoch)))].sort((a, b) => a - b);
    for (const [title, y, of] of [["AU by epoch, all runs", "%", (p) => p.au_percentage], ["Throughput by epoch, all runs", "samples/s", (p) => p.throughput_samples_per_second]]) {
      const section = make("section");
      grid.append(section);
      drawPlot(section, { title, x: "epoch", y, columns: [epochs, ...runs.map((run) => epochs.map((e) => of(run.phases.find((p) => p.epoch === e) || {}) ?? null))],
        series: runs.map((run) => ({ label: run.name, more: { points: { show: true } } })) });
    }
    const lines = (run) => (run.config_text || "").split("\n");
    for (const run of runs.slice(1)) {
      const before = new Set(lines(base)), after = new Set(lines(run));
      const diff = [...lines(base).filter((line) => !after.has(line)).map((line) => make("div", { class: "del" }, "- " + line)),
        ...lines(run).filter((line) => !before.has(line)).map((line) => make("div", { class: "add" }, "+ " + line))];
      page.append(make("section", {}, make("h2", {}, `Configuration: ${base.name} and ${run.name}`), diff.length ? make("pre", {}, ...diff) : make("p", { class: "dim" }, "no differences")));
    }
  };

  data.runs.forEach(parse);
  page.replaceChildren();
  if (data.runs.length > 1) drawComparison(data.runs);
  data.runs.forEach(drawRun);
  document.title = "Shoal: " + data.runs.map((run) => run.name).join(", ");
  page.append(make("p", { class: "dim" }, `Made by shoal ${data.version} on ${data.made}. The data of this page is in it as JSON (element "data").`));
  document.body.dataset.ready = "1";
})();
