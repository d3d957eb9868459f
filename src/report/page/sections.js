// One result: its verdict, tiles, plots and tables.

const tile = (name, value, below, status = "") => make("li", { class: status }, make("span", {}, name), make("b", {}, value), make("span", {}, below || "\u00a0"));
const tilesOf = (...tiles) => make("ul", { class: "tiles" }, ...tiles.filter(Boolean));
const SIGNS = { good: "\u2713", warn: "!", bad: "\u2717", "": "i" };
const MEANINGS = { good: "good: ", warn: "caution: ", bad: "bad: ", "": "" };
const sign = (status) => [make("span", { class: "sign", "aria-hidden": "true" }, SIGNS[status]), make("span", { class: "unseen" }, MEANINGS[status])];
const drawVerdict = ({ status, words, checks }) => make("div", { class: `verdict ${status}` }, make("p", { class: "headline" }, ...sign(status), words),
  make("ul", { class: "checks" }, ...checks.map((check) => make("li", { class: check.status }, ...sign(check.status), make("b", {}, check.name), " ", make("span", {}, check.words)))));

// ---- Tiles ----

const tilesOfRun = (run) => {
  const au = utilisation(run), bar = barOf(run), node = listOf(run.shoal.memory_per_node).map(objectOf)[0], official = isNumber(run.metric.train_au_mean_percentage);
  const p50 = mean(numbers(run.phases.map((p) => p.latency_us?.total?.p50 / 1000))), p99 = mean(numbers(run.phases.map((p) => p.latency_us?.total?.p99 / 1000)));
  const memory = numbers(timeColumn(run, "memory_bytes")).pop();
  return tilesOf(
    isNumber(au) && tile(official ? "AU" : "AU, about", `${show(au, 2)} %`, official && isNumber(bar) ? `the bar is ${show(bar)} %` : official ? "no bar" : "up to the end of the record", official && isNumber(bar) ? (au >= bar ? "good" : "bad") : ""),
    tile("throughput", `${figure(rateOf(run))}/s`, `samples; ${bytes(byteRateOf(run))}/s`),
    isNumber(p50) ? tile("latency p50", milliseconds(p50), `p99 ${milliseconds(p99)}${run.phases.length > 1 ? "; means of the epochs" : ""}`) : isNumber(overTime(run, "p50_ms")) && tile("latency p50", milliseconds(overTime(run, "p50_ms")), `p99 ${milliseconds(overTime(run, "p99_ms"))}`),
    isNumber(run.shoal.seconds_to_first_batch) && tile("first batch", duration(run.shoal.seconds_to_first_batch), "after the start"),
    isNumber(cpuShare(run)) && tile("client's processors", `${show(cpuShare(run), cpuShare(run) < 10 ? 1 : 0)} % busy`, `${figure(overTime(run, "cpu_cores"))} of ${show(coresOf(run), 0)} cores`, cpuShare(run) > BUSY ? "warn" : ""),
    node ? tile("memory", bytes(node.pss_bytes), `${plural(node.ranks, "rank")} on ${node.host}`) : isNumber(memory) && tile("memory", bytes(memory), plural(run.time.ranks, "rank")));
};
const tilesOfRead = (run) => {
  const r = run.read, nr = listOf(r.repeats).length, spread = nr > 1 && r.spread?.samples_per_second;
  return tilesOf(tile("throughput", `${show(rateOf(run), 0)}/s`, spread ? `median; ${show(spread.lowest, 0)} to ${show(spread.highest, 0)} in ${plural(nr, "repeat")}` : "samples"),
    isNumber(byteRateOf(run)) && tile("bandwidth", `${bytes(byteRateOf(run))}/s`, `${bytes(r.bytes)} in ${duration(r.seconds)}`),
    isNumber(r.latency_us?.p50) && tile("latency p50", milliseconds(r.latency_us.p50 / 1000), `p99 ${milliseconds(r.latency_us.p99 / 1000)}, longest ${milliseconds(r.latency_us.max / 1000)}`),
    isNumber(r.first_batch_seconds) && tile("first batch", duration(r.first_batch_seconds), "after the start"),
    isNumber(r.cpu_us_per_sample) && tile("CPU per sample", `${show(r.cpu_us_per_sample, 1)} us`, isNumber(cpuShare(run)) ? `processors ${show(cpuShare(run), 0)} % busy` : plural(r.ranks, "rank"), cpuShare(run) > BUSY ? "warn" : ""));
};
const tilesOfListing = (run) => {
  const l = run.listing, rate = run.kind === "index" ? l.names_per_second : (l.written || l.good) / l.seconds;
  const lost = (l.unreadable || 0) + (l.vanished || 0) + (l.missing || 0) + (l.damaged || 0);
  return tilesOf(tile("files", show(l.files, 0), run.kind === "index" ? plural(l.directories, "directory", "directories") : `${show(l.written, 0)} written`),
    tile("rate", `${show(rate, 0)}/s`, l.bytes_written ? `${bytes(l.bytes_written / l.seconds)}/s` : "on average"),
    tile("time", duration(l.seconds), l.sync_seconds ? `${duration(l.sync_seconds)} of it to sync` : ""),
    l.requests && tile("requests", show(l.requests.sent, 0), `${show(l.requests.retries, 0)} retried, ${show(l.requests.throttled, 0)} throttled`),
    tile("left out", show(lost, 0), "unreadable, vanished, missing or damaged", lost ? "bad" : ""));
};
// How long nothing was done; of note if it is much longer than what came before took.
const tileOfIdle = (run) => {
  const n = run.now, pace = 1 / overTime(run, "steps_per_second"), long = n.idle_seconds > 2 && !(n.idle_seconds < 10 * pace);
  return isNumber(n.idle_seconds) && tile(n.epochs ? "last step" : "last progress", `${duration(n.idle_seconds)} ago`, long ? "nothing has come since" : isNumber(pace) ? `one takes ${duration(pace)}` : "", long ? "warn" : "");
};
const tilesOfLive = (run) => {
  const n = run.now, memory = numbers(timeColumn(run, "memory_bytes")).pop(), bar = n.au_bar_percentage;
  return tilesOf(tile("time left", duration(n.eta_seconds), isNumber(n.share) ? `${show(100 * n.share)} % done` : `${show(n.done, 0)} ${n.what || "done"}`),
    tile(n.what === "names" || n.what === "files" ? n.what : "throughput", `${show(n.samples_per_second, 0)}/s`, isNumber(n.bytes_per_second) && n.bytes_per_second > 0 ? `${bytes(n.bytes_per_second)}/s` : ""),
    n.epochs && tile("AU so far", isNumber(n.au_percentage) ? `${show(n.au_percentage, 1)} %` : "-", isNumber(bar) ? `the bar is ${show(bar)} %` : "no bar", isNumber(n.au_percentage) && isNumber(bar) ? (n.au_percentage >= bar ? "good" : "bad") : ""),
    n.epochs && tile("epoch", `${n.epoch} of ${n.epochs}`, `step ${show(n.step, 0)} of ${show(n.steps, 0)}${n.evaluation ? ", evaluation" : ""}`),
    n.epochs && tile("slowest rank", `rank ${n.slowest_rank}`, `waited ${milliseconds(1000 * n.slowest_seconds)} in the last step`),
    tileOfIdle(run),
    tile("errors", show(n.errors, 0), n.samples ? `${show(n.samples, 0)} samples, ${bytes(n.sample_bytes)}` : "", n.errors ? "bad" : ""),
    isNumber(memory) && tile("memory", bytes(memory), plural(n.ranks, "rank")));
};

// ---- Over time ----

// When each epoch began, in seconds since the start.
const epochMarks = (run) => {
  const began = Date.parse(textOf(run.summary.start) || run.begin.started);
  return run.phases.map((phase) => [(Date.parse(phase.start) - began) / 1000, `epoch ${phase.epoch}`]).filter(([at]) => isNumber(at) && at >= 0);
};
const timed = (run) => ({ x: "time", group: run.id, xRange: [0, run.edges[run.edges.length - 1]], marks: run.marks.map(([at]) => at), markNames: run.marks.map(([, name]) => name) });
const simple = (grid, run, title, y, list, more = {}) => {
  const there = list.filter(([, values]) => values);
  if (there.length) plotIn(grid, { title, y, ...timed(run), columns: [run.seconds, ...there.map(([, values]) => values)], series: there.map(([label, , one]) => ({ label, ...one })), ...more });
};
const laggardWords = (run) => {
  const t = run.time, slow = laggard(t);
  if (t.ranks !== t.rank_rates.length) return `The band reaches from the slowest to the fastest of ${show(t.ranks, 0)} ranks; point at it to see which one was slowest.`;
  return slow ? `Rank ${slow.rank} delivered ${show(slow.percent)} % less than the mean of all ranks.` : "The band reaches from the slowest to the fastest rank. Over the whole time no rank was slower than the others by 0.5 % or more.";
};
// Of each row of a map by rank: where it begins and ends, and its name. Many ranks are rows of neighbours.
const rankRows = (t) => {
  const nr = t.rank_rates.length, first = (i) => Math.ceil((i * t.ranks) / nr);
  return { y: "rank", down: true, bounds: t.rank_rates.map((_, i) => [first(i) - 0.5, first(i + 1) - 0.5]), rowNames: t.rank_rates.map((_, i) => (nr === t.ranks ? `rank ${i}` : `ranks ${first(i)} to ${first(i + 1) - 1}`)),
    more: nr < t.ranks ? ` Each of the ${nr} rows is the mean of neighbouring ranks.` : "" };
};
const BAND = [{ series: [1, 3], fill: "rgba(120,140,170,.25)" }];
const drawRankRates = (grid, run) => {
  const t = run.time, c = (name) => t.columns[name], slow = laggard(t), top = most([0, ...t.rank_rates.flatMap(numbers)]), rows = rankRows(t);
  plotIn(grid, { title: "Ranks: slowest, mean, fastest", y: "samples/s per rank", ...timed(run), bands: BAND, words: laggardWords(run),
    columns: [run.seconds, c("rank_high"), scaled(c("samples_per_second"), 1 / t.ranks), c("rank_low"), ...(slow ? [t.rank_rates[slow.rank]] : []), c("slowest_rank")],
    series: [{ label: "fastest" }, { label: "mean", colour: "--s4" }, { label: "slowest", colour: "--s2" }, ...(slow ? [{ label: `rank ${slow.rank}`, colour: "--s1", dash: [4, 3] }] : []), { label: "slowest is rank", unseen: true, more: { scale: "rank" } }] });
  drawMap(grid, { title: "Throughput of each rank", ...timed(run), ...rows, rows: t.rank_rates, edges: run.edges, colour: "--s2",
    strength: (v) => (top ? v / top : 0), scale: [0, top / 4, top / 2, top], valueWords: (v) => `${figure(v)} samples/s`, words: `The fainter the colour, the slower.${rows.more}` });
};
// Of ranks that meet after every step: see straggler().
const drawRankTimes = (grid, run) => {
  const t = run.time, c = (name) => t.columns[name] || [], shares = t.rank_busy_shares, held = straggler(run), rows = rankRows(t), name = (v) => `${show(100 * v)} %`;
  const low = Math.max(0, Math.min(0.9, least(shares.flatMap(numbers)) - 0.02)), busy = c("last_rank").map((_, i) => +(100 * ((c("busy_share")[i] ?? 0) + (c("wait_share")[i] ?? 0))).toPrecision(4));
  const words = held && held.percent >= HELD ? `${stragglerWords(held)}.` : `no rank held up the others for ${HELD} % of their time.`;
  plotIn(grid, { title: "Ranks: who held up the others", y: "% of the time busy", ...timed(run), bands: [{ series: [1, 2], fill: "rgba(120,140,170,.25)" }], words: words[0].toUpperCase() + words.slice(1),
    columns: [run.seconds, scaled(c("last_busy_share"), 100), busy, c("last_rank")],
    series: [{ label: "busiest rank", colour: "--s1" }, { label: "mean", colour: "--s4" }, { label: "busiest is rank", unseen: true, more: { scale: "rank" } }] });
  drawMap(grid, { title: "How long each rank was busy itself", ...timed(run), ...rows, rows: shares, edges: run.edges, colour: "--s1", strength: (v) => (v - low) / (1 - low), scale: [low, low + (1 - low) / 2, 1], valueWords: name,
    words: `With compute or waiting for data. All ranks wait for the one with the strongest colour.${rows.more}` });
};
const drawRanks = (grid, run) => {
  const t = run.time;
  if (t.ranks < 2 || !t.columns.rank_high) return;
  if (t.rank_busy_shares) drawRankTimes(grid, run);
  if (!t.rank_busy_shares || laggard(t)) drawRankRates(grid, run);
};
const drawThroughput = (grid, run) => {
  const c = (name) => run.time.columns[name], what = run.kind === "datagen" ? "files/s" : "samples/s";
  simple(grid, run, run.kind === "datagen" ? "Files written" : "Samples", what, [[what, c("samples_per_second")]]);
  simple(grid, run, "Bytes", "MB/s", [["MB/s", scaled(c("bytes_per_second"), 1e-6)]]);
  simple(grid, run, "Listing", "names/s", [["names/s", c("names_per_second")]]);
  drawRanks(grid, run);
};
const drawUse = (grid, run) => {
  const c = (name) => run.time.columns[name];
  if (c("busy_share")) simple(grid, run, "AU and waiting for data", "% of the time", [["AU", scaled(c("busy_share"), 100)], ["waiting for data", scaled(c("wait_share"), 100), { colour: "--s1" }]]);
};
// Place i of the histogram holds latencies up to this, in ms.
const latencyAt = (place) => 2 ** (place / 2) / 1000;
const drawLatency = (grid, run) => {
  const t = run.time, quantiles = ["p50", "p90", "p99", "p99.9"].filter((q) => t.columns[q + "_ms"]), counts = t.latency_counts, first = t.latency_first_place;
  if (quantiles.length) plotIn(grid, { title: "Latency: percentiles", y: "ms", log: true, ...timed(run), columns: [run.seconds, ...quantiles.map((q) => t.columns[q + "_ms"])], series: quantiles.map((label) => ({ label })), words: "From counts in two classes per doubling of the latency, so the true value is up to 1.4 times as much, or as little. The figures at the top are exact." });
  const top = most([0, ...counts.flatMap(numbers)]);
  drawMap(grid, { title: "Latency: heat map", y: "ms", log: true, ...timed(run), rows: counts, edges: run.edges, bounds: counts.map((_, i) => [latencyAt(first + i - 1), latencyAt(first + i)]), rowNames: counts.map((_, i) => `up to ${milliseconds(latencyAt(first + i))}`),
    strength: (n) => (n > 0 ? 0.1 + (0.9 * Math.log1p(n)) / Math.log1p(top) : 0), scale: [0, ...[0.25, 0.5, 0.75].map((share) => Math.round(Math.expm1(share * Math.log1p(top)))), top].filter((v, i, all) => v > all[i - 1] || i === 0), valueWords: (n) => plural(Math.round(n), "sample"), words: "The stronger the colour, the more samples (on a log scale)." });
  if (counts.length) plotIn(grid, { title: "Latency: histogram", x: "ms", y: "samples", real: true, logX: true, xRange: [latencyAt(first - 1), latencyAt(first + counts.length - 1)],
    columns: [[latencyAt(first - 1), ...counts.map((_, i) => latencyAt(first + i))], [0, ...counts.map((row) => Math.round(sum(numbers(row))))]],
    series: [{ label: "samples", step: true, more: { paths: uPlot.paths.stepped({ align: -1 }), fill: colour("--s0") + "40" } }] });
};
const drawClient = (grid, run) => {
  const c = (name) => run.time.columns[name];
  const own = run.read || run.begin, room = (run.shoal.in_flight_per_rank ?? own.in_flight) * (run.shoal.ranks ?? own.ranks), cores = coresOf(run);
  simple(grid, run, "Queue depth", "samples in flight", [["in flight, all ranks", c("queue_depth")]], isNumber(room) ? { words: `At most ${plural(room, "sample")} may be in flight.` } : {});
  simple(grid, run, "Processors of the client", "cores", [["cores in use", c("cpu_cores")]], isNumber(cores) ? { words: `The client has ${plural(cores, "core")}.` } : {});
  simple(grid, run, "Memory", "MB", [["resident, all ranks", scaled(c("memory_bytes"), 1e-6)]], run.time.ranks > 1 ? { words: "Memory that ranks of a node share counts once per rank." } : {});
  simple(grid, run, "Requests", "per second", [["requests", c("requests_per_second")], ["retries", c("retries_per_second")], ["throttled", c("throttled_per_second")]]);
  simple(grid, run, "Samples that could not be read", "per second", [["errors", c("errors_per_second"), { colour: "--s1" }]]);
};
const LABELS = { samples_per_second: "samples/s", bytes_per_second: "bytes/s", rank_low: "slowest rank, samples/s", rank_high: "fastest rank, samples/s", slowest_rank: "slowest rank", steps_per_second: "steps/s", wait_share: "share of the time waiting for data",
  busy_share: "AU, as a share", queue_depth: "samples in flight", cpu_cores: "cores in use", memory_bytes: "memory, bytes", names_per_second: "names/s" };
const drawOneInterval = (run) => [make("p", { class: "dim" }, data.live ? "Plots over time come after the first two seconds." : "It took less than two seconds, which is one interval of the time series: there is nothing to draw over time."),
  table("means over the whole time", ["", "mean"], Object.entries(run.time.columns).filter(([k, v]) => isNumber(v[0]) && (k !== "slowest_rank" || run.time.ranks > 1)).map(([k, v]) => [LABELS[k] || k.replaceAll("_", " "), figure(v[0])]))];

// ---- Steps and epochs ----

const PARTS = [["compute as planned", "--compute"], ["woken late", "--late", "onpale"], ["waiting for data", "--data"], ["waiting for other ranks, other", "--peers", "onpale"]];
const drawWhereTimeWent = (grid, run) => {
  const rows = run.phases.map((phase) => [`epoch ${phase.epoch}`, timeParts(phase)]).filter(([, parts]) => parts);
  if (rows.length) drawBars(grid, "Where the time went", "s", PARTS, rows);
};
const stepColumns = (run) => {
  const x = [], share = [], waitMean = [], waitMax = [], marks = [];
  let before = 0;
  for (const epoch of run.steps.epochs) {
    marks.push([before, `epoch ${epoch.epoch}`]);
    epoch.step_seconds.forEach((seconds, i) => {
      x.push(before + i * epoch.width);
      share.push(seconds > 0 ? +Math.min(100, epoch.wait_mean_ms[i] / seconds / 10).toPrecision(4) : null);
      waitMean.push(epoch.wait_mean_ms[i] || null);
      waitMax.push(epoch.wait_max_ms[i] || null);
    });
    before += epoch.step_seconds.length * epoch.width;
  }
  return { x, share, waitMean, waitMax, marks: marks.slice(1), end: before };
};
const drawSteps = (grid, run) => {
  const c = stepColumns(run), at = { x: "step", marks: c.marks.map(([mark]) => mark), markNames: c.marks.map(([, name]) => name) };
  if (run.kind === "run") plotIn(grid, { title: "Share of each step spent waiting", y: "% of the step", ...at, columns: [c.x, c.share], series: [{ label: "waiting for data", colour: "--s1" }] });
  plotIn(grid, { title: "Waiting in each step", y: "ms", log: true, ...at, ...(run.steps.ranks > 1 ? { columns: [c.x, c.waitMax, c.waitMean], bands: [{ series: [1, 2], fill: "rgba(120,140,170,.25)" }], series: [{ label: "slowest rank", colour: "--s1" }, { label: "mean", colour: "--s0" }] }
    : { columns: [c.x, c.waitMax], series: [{ label: "waiting for data", colour: "--s1" }] }) });
  const rows = run.steps.heat_ms, ranks = run.steps.ranks, first = (i) => Math.ceil((i * ranks) / rows.length);
  if (rows.length < 2) return;
  const top = most(rows.flatMap(numbers)) || 1;
  drawMap(grid, { title: "Which rank waited, and when", x: "step", y: "rank", rows, edges: [...c.x, c.end], bounds: rows.map((_, i) => [first(i) - 0.5, first(i + 1) - 0.5]), down: true, colour: "--data",
    rowNames: rows.map((_, i) => (rows.length === ranks ? `rank ${i}` : `ranks ${first(i)} to ${first(i + 1) - 1}`)), valueWords: milliseconds, ...(run.kind === "run" ? { strength: (ms) => (Math.log10(Math.max(ms, 0.001)) + 2) / 4, scale: [0.01, 0.1, 1, 10, 100], words: "Faint: a wait of 0.01 ms or less. Full red: 100 ms or more." }
      : { strength: (ms) => ms / top, scale: [0, top / 4, top / 2, top], words: "The stronger the colour, the longer the wait for a batch." }) });
};
const drawEpochs = (run) => table("epochs", ["epoch", "steps", "time", "AU, %", "samples/s", "MB/s", "p50, ms", "p99, ms", "from cache, %", "in flight", "CPU, us", "samples"],
  run.phases.map((p) => [show(p.epoch, 0), show(p.steps, 0) + (p.steps < p.steps_due ? ` of ${show(p.steps_due, 0)}` : ""), duration(p.seconds), show(p.au_percentage, 2), show(p.throughput_samples_per_second),
    show(p.measured_bytes_per_second / 1e6), figure(p.latency_us?.total?.p50 / 1000), figure(p.latency_us?.total?.p99 / 1000), p.audit?.cached_share == null ? "-" : show(100 * p.audit.cached_share), figure(p.queue_depth), show(p.cpu_us_per_sample),
    p.audit?.exactly_once ? "each once" : p.audit?.exactly_once === false ? ["NOT once", { class: "bad" }] : "not proven"]));

// ---- Stalls ----

// What each rank that was not part of a stall did meanwhile.
const othersThen = (run, stall) => {
  const rate = stall.others_per_second, usual = stall.others_usually;
  if (!isNumber(rate)) return stall.ranks === run.time.ranks ? "all ranks stalled" : "-";
  const change = usual ? 100 * (rate / usual - 1) : 0;
  return `${figure(rate)} samples/s each, ${Math.abs(change) < 5 ? "as usual" : `${show(Math.abs(change), 0)} % ${change < 0 ? "less" : "more"} than usual`}` + (isNumber(stall.others_wait_share) && stall.others_wait_share > 0 ? `, waiting ${show(Math.min(100, 100 * stall.others_wait_share), 0)} % of the time` : "");
};
// On the clock, and since the start.
const clockAt = (run, seconds) => {
  const at = new Date(run.time.started_ms + 1000 * seconds), day = seconds > 86400 ? `${at.toISOString().slice(0, 10)} ` : "";
  return run.time.started_ms ? `${day}${at.toISOString().slice(11, 23)}` : "-";
};
const sinceStart = (seconds) => (seconds < 120 ? `${show(seconds, 3)} s` : `${duration(Math.floor(seconds)).replace(/ \w+$/, "")}.${String(Math.floor((seconds % 1) * 1000)).padStart(3, "0")} ${seconds < 3600 ? "min" : "h"}`);
const whoStalled = (run, s) => (s.ranks > 1 ? `${s.rank} and ${plural(s.ranks - 1, "other")}` : show(s.rank, 0));
const drawStalls = (run) => {
  const stalls = run.time?.stalls || [], several = run.time?.ranks > 1;
  if (stalls.length)
    return [table("the slowest samples", ["took", "rank waited", "at, UTC", "after", "epoch", several ? "ranks" : "rank", "sample", "file", ...(several ? ["the other ranks then"] : [])],
      stalls.map((s) => [milliseconds(s.ms), milliseconds(s.wait_ms), clockAt(run, s.at_seconds), sinceStart(s.at_seconds), show(s.epoch, 0), whoStalled(run, s), String(s.sample), [s.file, { class: "name" }], ...(several ? [[othersThen(run, s), { class: "words" }]] : [])])),
    make("p", { class: "dim" }, "Slow samples at the same time are one row, with the slowest of them. The rank waited: its longest wait for a batch around then; far less than the sample took means that it was read ahead in time. The time series keeps the slowest sample of each rank and interval, so of several slow ones at once only the worst is here. --trace records more.")];
  const worst = run.steps.epochs.flatMap((epoch) => epoch.wait_max_ms.map((ms, i) => [ms, epoch.epoch, i * epoch.width, epoch.worst_rank[i], epoch.wait_mean_ms[i]])).sort((a, b) => b[0] - a[0]);
  return worst.length ? [table("the longest waits", ["waited", "epoch", "step", "rank", "mean of all ranks then"], worst.slice(0, 10).map(([ms, epoch, step, rank, all]) => [milliseconds(ms), show(epoch, 0), show(step, 0), show(rank, 0), milliseconds(all)]))] : [];
};

// ---- All of it ----

const factsOf = (run) => {
  const s = run.summary, own = run.read || run.listing || run.begin, engine = run.shoal.engine || own.engine, detail = run.shoal.engine_detail || own.engine_detail;
  const when = textOf(s.start || own.ended || own.started).slice(0, 19).replace("T", " "), accelerators = s.num_accelerators || run.begin.accelerators;
  return [s.hostname || own.hostname, accelerators && plural(accelerators, "accelerator"), (run.shoal.ranks || own.ranks || run.time?.ranks) && plural(run.shoal.ranks || own.ranks || run.time.ranks, "rank"),
    s.num_files_train ? plural(s.num_files_train, "file") : own.files && plural(own.files, "file"), run.shoal.data || own.data || own.source, engine && (detail ? `${engine} (${detail})` : engine), when, (run.shoal.version || own.version) && `shoal ${run.shoal.version || own.version}`].filter(Boolean);
};
const titleOf = (run) => `${run.kind === "run" ? run.shoal.workload || run.begin.workload || "run" : run.kind} \u2013 ${run.title}`;
// What goes wrong in one part must not take the others with it.
const guarded = (parent, name, draw) => {
  try {
    draw();
  } catch (e) {
    parent.append(make("p", { class: "note" }, ...sign("warn"), `${name} cannot be drawn, because the result is not as this version writes it (${e.message}).`));
  }
};
// A section with a heading; nothing if @draw leaves it empty.
const subsection = (parent, run, name, draw) => {
  level = run.within ? 3 : 2; // below the heading of the page, or of one of several results
  const id = `${run.id}-${slug(name)}`, section = make("section", { "aria-labelledby": id }, make(`h${level}`, { class: "part", id, tabindex: "-1" }, name)), grid = make("div", { class: "grid" });
  section.append(grid);
  parent.append(section);
  guarded(section, name, () => draw(grid, section));
  if (!grid.children.length) grid.remove();
  if (section.children.length === 1) section.remove();
  else run.parts.push([name, id]);
};
const drawPlots = (parent, run) => {
  const courses = run.time && run.seconds.length > 1, over = (draw) => (grid) => courses && draw(grid, run);
  run.marks = epochMarks(run);
  subsection(parent, run, "Throughput", (grid, section) => {
    over(drawThroughput)(grid);
    if (run.time && !courses) section.append(...drawOneInterval(run));
  });
  subsection(parent, run, "Utilisation and waiting", (grid) => {
    drawWhereTimeWent(grid, run);
    if (run.phases.length > 1) plotIn(grid, { title: "AU by epoch", x: "epoch", y: "%", columns: [run.phases.map((p) => p.epoch), run.phases.map((p) => p.au_percentage ?? null)], series: [{ label: "AU", points: true }] });
    over(drawUse)(grid);
    if (run.steps.epochs.length) drawSteps(grid, run);
  });
  subsection(parent, run, "Latency of samples", over(drawLatency));
  subsection(parent, run, "Client and requests", over(drawClient));
  subsection(parent, run, "Stalls: the slowest samples", (grid, section) => section.append(...drawStalls(run)));
  if (run.phases.length) subsection(parent, run, "Epochs", (grid, section) => section.append(drawEpochs(run)));
  const settings = [...settingsOf(run)];
  if (settings.length) subsection(parent, run, "Configuration", (grid, section) => section.append(disclose(plural(settings.length, "setting"), () => table("configuration", ["", "value"], settings.map(([name, value]) => [name, [value, { class: "words" }]])))));
  const own = run.read || run.listing, facts = Object.entries(own || {}).filter(([, v]) => typeof v !== "object" && v !== "").map(([k, v]) => [k.replaceAll("_", " "), typeof v === "number" ? show(v, 3) : String(v)]);
  if (own) subsection(parent, run, "All figures", (grid, section) => section.append(disclose(plural(facts.length, "figure"), () => table("all figures", ["", "value"], facts))));
};
const drawTop = (parent, run) => {
  parent.append(make("p", { class: "facts" }, ...factsOf(run).flatMap((fact, i) => (i ? [make("span", { class: "dim", "aria-hidden": "true" }, " \u00b7 "), fact] : [fact]))));
  if (run.now) parent.append(make("p", { class: "headline" }, "At work. ", pauseButton()));
  else if (run.kind !== "sweep") guarded(parent, "The verdict", () => parent.append(drawVerdict(verdictOf(run))));
  const notes = [...run.notes, ...(run.shoal.no_series_because ? [`There is no time series: ${run.shoal.no_series_because}.`] : [])];
  for (const note of notes) parent.append(make("p", { class: "note" }, ...sign("warn"), note));
  const tiles = run.now ? tilesOfLive : run.read ? tilesOfRead : run.listing ? tilesOfListing : run.kind === "run" && (run.phases.length || run.time) ? tilesOfRun : null;
  if (tiles) guarded(parent, "The figures", () => parent.append(tiles(run)));
};
