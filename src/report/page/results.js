// What the results say: the figures of each kind, what limited it, and the verdict. Draws nothing.

const FROM_MEMORY = 5; // per cent of the bytes, from which on it is no measurement of the storage alone
const BUSY = 80;       // per cent of the client's processors
const IN_ORDER = 5;    // per cent of the time that a run may lose without a word on it

// ---- Reading ----

// NaN and infinity are no JSON, but some write them: null, so that the figures beside them are not lost.
const withoutNaN = (text) => text.replace(/"(?:[^"\\]|\\.)*"|[-+]?\b(?:NaN|nan|Infinity|inf)\b/g, (found) => (found[0] === '"' ? found : "null"));
const parseText = (run, key, words) => {
  if (typeof run[key] !== "string") return null;
  for (const [attempt, text] of [run[key], withoutNaN(run[key])].entries()) {
    try {
      const parsed = JSON.parse(text);
      if (text !== run[key]) run.notes.push(`${words} has values that are no numbers (NaN): these are left out.`);
      if (parsed && typeof parsed === "object" && !Array.isArray(parsed)) return parsed;
      run.notes.push(`${words} is not an object, and left out.`);
      return null;
    } catch (e) {
      if (attempt === 1) run.notes.push(`${words} is damaged, and left out: ${e.message}`);
    }
  }
  return null;
};
const COMMANDS = ["run", "read", "index", "datagen"];
const kindOf = (run, live) => {
  if (live) return run.command;
  if (run.sweep) return "sweep";
  if (run.read) return "read";
  if (run.listing) return run.index_text != null ? "index" : "datagen";
  return run.summary_text == null && COMMANDS.includes(run.begin.command) ? run.begin.command : "run";
};
// Of a command at work: results of the epochs that are over.
const phasesSoFar = (run) => {
  try {
    return JSON.parse(run.phases_text);
  } catch {
    return [];
  }
};
const phaseOf = (phase) => ({ ...phase, epoch: isNumber(phase.epoch) ? phase.epoch : null, start: textOf(phase.start) });
const parse = (run, live) => {
  const sweep = parseText(run, "sweep_text", "sweep.json");
  run.summary = parseText(run, "summary_text", "summary.json") || {};
  run.begin = parseText(run, "begin_text", "begin.json") || {};
  run.read = parseText(run, "read_text", "read.json");
  run.sweep = sweep && sweepOf(sweep);
  run.listing = parseText(run, "index_text", "index.json") || parseText(run, "datagen_text", "datagen.json");
  run.kind = kindOf(run, live);
  run.shoal = objectOf(run.summary.shoal);
  run.metric = objectOf(run.summary.metric);
  run.ended = live || (run.kind === "run" ? run.summary_text != null : run.sweep != null || run.read != null || run.listing != null);
  run.phases = listOf(live ? phasesSoFar(run) : run.shoal.phases).map(objectOf).filter((phase) => phase.kind !== "eval").map(phaseOf);
  run.audits = (run.read ? [run.read.audit] : run.phases.map((phase) => phase.audit)).filter(Boolean).map(objectOf);
  const version = run.shoal.version || (run.read || run.sweep || run.listing || run.begin).version;
  if (version && String(version) !== data.version) run.notes.push(`It was written by shoal ${version}, and this page by ${data.version}: figures that one of them does not know are missing.`);
  if (!run.time) return;
  const width = run.time.width_seconds, nr = (run.time.rank_rates[0] || []).length;
  run.seconds = Array.from({ length: nr }, (_, i) => +(i * width).toPrecision(6));
  run.edges = Array.from({ length: nr + 1 }, (_, i) => +(i * width).toPrecision(6));
};
// Names that tell results apart: paths, if two folders have the same name.
const nameRuns = (runs) => {
  const seen = new Map();
  runs.forEach((run) => seen.set(run.name, (seen.get(run.name) || 0) + 1));
  runs.forEach((run) => { run.title = seen.get(run.name) > 1 && run.folder ? run.folder : run.name; });
};

// ---- Figures ----

const timeColumn = (run, name) => (run.time && run.time.columns[name]) || null;
const scaled = (column, factor) => column && column.map((v) => (v == null ? null : +(v * factor).toPrecision(5)));
const overTime = (run, name) => mean(numbers(timeColumn(run, name)));
const cachedShare = (run) => 100 * mean(numbers(run.audits.map((audit) => audit.cached_share)));
const coresOf = (run) => run.shoal.cores || (run.kind === "run" && sum(numbers(run.summary.host_cpu_count))) || (run.read || run.listing || run.begin).cores;
const cpuShare = (run) => (coresOf(run) ? Math.min(100, (100 * overTime(run, "cpu_cores")) / coresOf(run)) : NaN);
// Where the time of a phase went: as planned, woken late, data, other ranks.
const timeParts = (phase) => {
  const t = objectOf(phase.time), parts = [t.compute_planned_seconds, t.woken_late_seconds, t.waiting_for_data_seconds, t.waiting_for_ranks_seconds];
  return parts.every(isNumber) ? parts : null;
};
const timeShares = (run) => {
  const sums = [0, 0, 0, 0];
  run.phases.map(timeParts).filter(Boolean).forEach((parts) => parts.forEach((x, i) => (sums[i] += x)));
  return sum(sums) > 0 ? sums.map((x) => (100 * x) / sum(sums)) : null;
};
const barOf = (run) => run.shoal.au_bar_percentage ?? run.begin.au_bar_percentage;
const utilisation = (run) => run.metric.train_au_mean_percentage ?? 100 * overTime(run, "busy_share");
const rateOf = (run) => run.read?.spread?.samples_per_second?.median ?? run.read?.samples_per_second ?? run.metric.train_throughput_mean_samples_per_second ?? overTime(run, "samples_per_second");
const byteRateOf = (run) => run.read?.spread?.bytes_per_second?.median ?? run.read?.bytes_per_second ?? (run.phases.length ? mean(numbers(run.phases.map((p) => p.measured_bytes_per_second))) : overTime(run, "bytes_per_second"));
// Every figure as a list with one value per repeat or epoch, so that its spread is known. 1: more is better; -1: less is.
// What an older result has only once for all repeats is one value.
const repeats = (run, of) => {
  const each = numbers(listOf(run.read?.repeats).map(objectOf).map(of));
  return each.length ? each : numbers([of({ ...run.read, cached_share: run.read?.audit?.cached_share })]);
};
const METRICS = [
  ["AU, %", 1, (run) => numbers(run.phases.map((p) => p.au_percentage))],
  ["names/s", 1, (run) => numbers(run.kind === "index" ? [run.listing?.names_per_second] : [])],
  ["files/s", 1, (run) => numbers(run.kind === "datagen" ? [run.listing?.written / run.listing?.seconds] : [])],
  ["samples/s", 1, (run) => (run.read ? repeats(run, (r) => r.samples_per_second) : numbers(run.phases.map((p) => p.throughput_samples_per_second)))],
  ["MB/s", 1, (run) => (run.read ? repeats(run, (r) => r.bytes_per_second / 1e6) : numbers(run.phases.map((p) => p.measured_bytes_per_second / 1e6)))],
  ["latency p50, ms", -1, (run) => (run.read ? repeats(run, (r) => r.latency_us?.p50 / 1000) : numbers(run.phases.map((p) => p.latency_us?.total?.p50 / 1000)))],
  ["latency p99, ms", -1, (run) => (run.read ? repeats(run, (r) => r.latency_us?.p99 / 1000) : numbers(run.phases.map((p) => p.latency_us?.total?.p99 / 1000)))],
  ["waiting for data, %", -1, (run) => numbers(run.phases.map((p) => 100 * p.wait_share))],
  ["samples in flight", 0, (run) => numbers(run.phases.map((p) => p.queue_depth))],
  ["from the page cache, %", 0, (run) => (run.read ? repeats(run, (r) => (r.cached_share == null ? NaN : 100 * r.cached_share)) : numbers(run.audits.map((audit) => 100 * audit.cached_share)))],
  ["CPU per sample, us", -1, (run) => (run.read ? repeats(run, (r) => r.cpu_us_per_sample) : numbers(run.phases.map((p) => p.cpu_us_per_sample)))],
  ["first batch, s", -1, (run) => numbers([run.shoal.seconds_to_first_batch ?? run.read?.first_batch_seconds])],
  ["memory per node, MB", -1, (run) => numbers([most(numbers(listOf(run.shoal.memory_per_node).map(objectOf).map((node) => node.pss_bytes / 1e6)))])],
  ["duration, s", 0, (run) => numbers([run.listing?.seconds ?? run.read?.seconds])],
];

// ---- The slowest rank ----

// The rank that delivered least against the mean, or null if none was behind.
const laggard = (t) => {
  if (!t || t.ranks < 2 || t.ranks !== t.rank_rates.length) return null;
  const rates = t.rank_rates.map((row) => mean(numbers(row))), all = mean(numbers(rates)), low = least(numbers(rates));
  return low < 0.995 * all ? { rank: rates.indexOf(low), percent: (100 * (all - low)) / all } : null;
};
// All ranks of a run meet after every step, so their rates are equal. The others wait for the one that is busy longest
// itself, with data or compute: of the rank for which they waited longest, how long, when most, and how much of it is because
// it waited for data. Null if the ranks did not meet.
const straggler = (run) => {
  const column = (name) => timeColumn(run, name) || [], last = column("last_rank"), each = new Map(), width = run.time?.width_seconds;
  let all = 0;
  last.forEach((rank, i) => {
    const wait = column("wait_share")[i] ?? 0, held = (column("last_busy_share")[i] - wait - (column("busy_share")[i] ?? 0)) * width;
    all += width;
    if (!isNumber(rank) || !(held > 0)) return;
    const one = each.get(rank) || { rank, seconds: 0, data: 0, most: 0, at: 0 };
    one.seconds += held;
    one.data += Math.max(0, column("last_wait_share")[i] - wait) * width;
    if (held > one.most) Object.assign(one, { most: held, at: i * width });
    each.set(rank, one);
  });
  const [first] = [...each.values()].sort((a, b) => b.seconds - a.seconds);
  const others = run.time ? run.time.ranks / (run.time.ranks - 1) : 1; // the mean has the rank itself, too
  return first ? { ...first, seconds: first.seconds * others, data: first.data * others, percent: (100 * first.seconds * others) / all } : null;
};
const HELD = 1; // per cent of the time: less is not worth a name
const stragglerWords = ({ rank, seconds, percent, data, at }) => `the others waited ${duration(seconds)} for rank ${rank}, ${show(percent)} % of their time, longest around ${timeLabel(at, at)}${at < 120 ? " s" : ""}, because ` +
  (data > seconds / 2 ? "it waited longer for data" : "its compute took longer: its machine was busy, or the process was stopped");

// ---- What limited it ----

const busyWords = (run) => (isNumber(cpuShare(run)) ? `the client's processors were ${show(cpuShare(run), 0)} % busy` : "how busy the client was is not known");
const limitOfReading = (run) => {
  const r = run.read || run.begin, depth = overTime(run, "queue_depth"), ranks = r.ranks || 1;
  if (/^null\b/.test(r.data || "") && !/delay|bandwidth|at_once/.test(r.data)) return ["the client", "the null store makes the bytes, so this is what the client itself can do"];
  if (!isNumber(cpuShare(run)) || run.listing?.seconds < 0.5) return ["not known", "it ended before there was anything to measure the client by"];
  if (cpuShare(run) > BUSY) return ["the client", busyWords(run)];
  if (overTime(run, "cpu_cores") / ranks > 0.9 && r.engine === "uring" && Number(objectOf(r.settings).threads) === 1) return ["the client", "each rank kept one processor busy; more ranks or --threads use more"];
  if (r.audit?.cached_share > 0.5) return ["memory", `${show(100 * r.audit.cached_share, 0)} % came from the page cache; ${busyWords(run)}`];
  const room = r.in_flight * ranks, full = depth > 0.9 * room ? "; all that may be in flight were, so see by 'shoal sweep --vary in-flight' whether more of them gain anything" : "";
  return ["the storage", busyWords(run) + (isNumber(depth) && depth > 0 ? `, with ${show(depth)}${isNumber(room) ? ` of ${show(room, 0)}` : ""} samples in flight${full}` : "")];
};
const slowestRank = (run) => run.phases.map((p) => objectOf(p.slowest)).filter((p) => isNumber(p.rank_wait_seconds)).sort((a, b) => b.rank_wait_seconds - a.rank_wait_seconds)[0];
const limitOfData = (run, much) => {
  const depth = overTime(run, "queue_depth"), room = run.shoal.in_flight_per_rank * run.shoal.ranks;
  if (cpuShare(run) > BUSY) return ["the client", `${much} was spent waiting for data, while ${busyWords(run)}`];
  const full = depth > 0.8 * room ? `; all ${show(room, 0)} reads that may be in flight were, so more reader.read_threads may help` : "";
  return [cachedShare(run) > 50 ? "memory" : "the storage", `${much} was spent waiting for data, while ${busyWords(run)}` + (cachedShare(run) > 50 ? ", and most of it came from the page cache" : full)];
};
// [what, why]
const limitOf = (run) => {
  if (run.kind !== "run") return limitOfReading(run);
  const shares = timeShares(run);
  if (!shares) return ["not known", "there is no record of where the time went"];
  const worst = shares.indexOf(most(shares.slice(1)), 1), much = `${show(shares[worst])} % of the time`;
  if (shares[worst] <= IN_ORDER) return ["the accelerators", `${show(shares[0])} % of the time was compute as planned, so data came fast enough`];
  if (worst === 1) return ["the client", `${much} was lost because this machine woke sleepers late: it is too busy to simulate these accelerators`];
  if (worst === 2) return limitOfData(run, much);
  const slow = slowestRank(run), held = straggler(run), waited = `${much} was spent waiting for other ranks`;
  if (held && held.percent >= shares[3] / 2) return [held.data > held.seconds / 2 ? "the storage" : "the client", `${waited}; ${stragglerWords(held)}`];
  return shares[2] > 1 ? ["the storage", `${waited}, which waited for data` + (slow ? `; rank ${slow.rank} waited most` : "")]
    : ["the client", `${waited}, which were late without waiting for data: their machines were busy`];
};

// ---- The verdict: what a reader must know before any figure ----

// { status: good, warn, bad or "", name, words }
const checkSource = (run) => {
  const share = cachedShare(run), name = "Source of the bytes", place = textOf(run.read?.data ?? run.begin.data), remote = run.phases.some((p) => p.requests) || /^(s3|gs|az|https?):/.test(place);
  if (run.kind === "index" || run.kind === "datagen") return null;
  if (run.shoal.bytes_made_up || run.begin.bytes_made_up === true || /^null\b/.test(place)) return { status: "bad", name, words: "The null store made them: no storage was measured." };
  if (run.shoal.direct || run.read?.direct || run.begin.direct) return { status: "good", name, words: "Read with O_DIRECT, past the page cache of this machine." };
  if (!isNumber(share)) return remote ? { status: "", name, words: "Read over the network. What the server had in its caches is not known." } : null;
  if (share <= FROM_MEMORY) return { status: "good", name, words: `The storage: ${show(share)} % came from the page cache.` };
  return { status: "warn", name, words: `${show(share)} % came from the page cache of this machine, ${share > 50 ? "so this is not the storage's speed" : "so the storage did less than the figures say"}. --drop-cache or --direct measures the storage.` };
};
const checkAudit = (run) => {
  const name = "Every sample once", samples = sum(numbers(run.audits.map((audit) => audit.samples ?? run.read?.samples)));
  if (run.audits.some((audit) => audit.exactly_once === false)) return { status: "bad", name, words: "No: samples were missing or came more than once." };
  if (!run.audits.length || run.audits.some((audit) => audit.exactly_once == null)) return run.ended && run.kind === "run" ? { status: "warn", name, words: "Not proven for all epochs." } : null;
  const whole = run.audits.every((audit) => audit.covers_whole_epoch ?? audit.whole ?? true);
  return { status: "good", name, words: `Yes: ${samples ? `${plural(samples, "sample")}, ` : ""}none of them missing or repeated${whole ? "" : " in the part of the epochs that was read"}.` };
};
const checkUtilisation = (run) => {
  const au = utilisation(run), bar = barOf(run), name = "Accelerator utilisation (AU)";
  if (run.kind !== "run" || !isNumber(au)) return null;
  if (!isNumber(run.metric.train_au_mean_percentage)) return { status: "", name, words: `About ${show(au)} %, with ${show(100 * overTime(run, "wait_share"))} % of the time spent waiting for data: from the time series up to where it ends; not DLIO's figure.` };
  const planned = numbers(run.phases.map((p) => p.au_planned_percentage)).pop();
  const late = isNumber(planned) && au - planned > 2 ? ` With the planned compute times it is ${show(planned, 1)} %, because this machine woke sleepers late.` : "";
  return { status: !isNumber(bar) ? "" : au >= bar ? "good" : "bad", name, words: `${show(au, 2)} %` + (isNumber(bar) ? `; the bar is ${show(bar)} %.` : "; the workload sets no bar.") + late };
};
const checkErrors = (run) => {
  const errors = objectOf(run.shoal.errors).samples ?? run.read?.errors ?? (run.listing ? (run.listing.unreadable || 0) + (run.listing.vanished || 0) + (run.listing.damaged || 0) : null);
  return errors ? { status: "bad", name: "Errors", words: `${plural(errors, run.listing ? "file" : "sample")} could not be read or written, vanished or had other bytes.` } : null;
};
// Not again, if the ranks are what limited it.
const checkRanks = (run) => {
  const name = "Slowest rank", t = run.time, slow = laggard(t), held = straggler(run), tell = (words) => ({ status: "", name, words });
  if (!t || t.ranks < 2 || (run.kind !== "run" && run.kind !== "read")) return null;
  if (slow) return tell(`Rank ${slow.rank} delivered ${show(slow.percent)} % less than the mean of all ranks.`);
  if (!held || held.percent < HELD) return t.ranks === t.rank_rates.length ? tell(`None: ${held ? `no rank held up the others for ${HELD} % of their time` : "no rank was slower than the others by 0.5 % or more"}.`) : null;
  return run.ended && timeShares(run) && limitOf(run)[1].includes(stragglerWords(held)) ? null : tell(`Rank ${held.rank}: ${stragglerWords(held)}.`);
};
const checkLimit = (run) => {
  if (!run.ended || (run.kind === "run" && !timeShares(run))) return null;
  const [what, why] = limitOf(run);
  const limit = textOf(run.shoal.limit), more = limit ? ` ${limit[0].toUpperCase()}${limit.slice(1)}.` : "";
  return { status: "", name: "Limited by", words: `${what[0].toUpperCase()}${what.slice(1)}: ${why}.${more}` };
};
const headlineOfRun = (run, checks) => {
  const au = run.metric.train_au_mean_percentage, bar = run.shoal.au_bar_percentage, memory = checks.find((check) => check.name === "Source of the bytes");
  if (run.shoal.partial) return ["bad", `This run ended early${run.shoal.why_partial ? `: ${run.shoal.why_partial}` : ""}.`];
  if (!isNumber(au) && !run.phases.length) return ["bad", "This run has no result."];
  if (run.shoal.not_a_success_because) return ["bad", `Not a valid result: ${run.shoal.not_a_success_because}.`];
  if (!isNumber(au)) return ["warn", `This run has no AU${isNumber(bar) ? ", so it neither meets nor misses the bar" : ""}${isNumber(rateOf(run)) ? `; it read ${show(rateOf(run), 0)} samples/s` : ""}.`];
  if (checks.some((check) => check.status === "bad" && check.name !== "Accelerator utilisation (AU)")) return ["bad", "Not a valid result."];
  const met = !isNumber(bar) ? "AU of " + show(au, 2) + " %" : au >= bar ? `Meets the bar with an AU of ${show(au, 2)} %` : `Misses the bar with an AU of ${show(au, 2)} % instead of ${show(bar)} %`;
  if (memory?.status === "warn") return [au >= bar || !isNumber(bar) ? "warn" : "bad", `${met}, but ${cachedShare(run) > 50 ? "the data came from memory, not from" : "not all of the data came from"} the storage.`];
  return [!isNumber(bar) ? "" : au >= bar ? "good" : "bad", met + "."];
};
const repeated = (run) => (run.read.spread && listOf(run.read.repeats).length > 1 ? `: the median of ${run.read.repeats.length} repeats` : "");
const headlineOf = (run, checks) => {
  const worst = ["bad", "warn"].find((status) => checks.some((check) => check.status === status)) || "good", l = run.listing || {};
  const cut = (run.read || l).interrupted === true ? " It was interrupted: these are the figures of what was done." : "";
  if (!run.ended) return ["bad", `This ${run.kind} has no result: it ended early, or is still going on. Shown is what it left.`];
  if (run.kind === "run") return headlineOfRun(run, checks);
  if (run.read) return [cut ? "warn" : worst, `${show(rateOf(run), 0)} samples/s${isNumber(byteRateOf(run)) ? `, ${bytes(byteRateOf(run))}/s` : ""}${repeated(run)}${worst === "warn" ? (cachedShare(run) > 50 ? ", from memory and not from the storage" : ", not all of it from the storage") : worst === "bad" ? ", but not a measurement of storage" : ""}.${cut}`];
  if (run.kind === "index") return [cut ? "warn" : worst, `${plural(l.files, "file")} listed in ${duration(l.seconds)}: ${show(l.names_per_second, 0)} names/s.${cut}`];
  const wrote = l.written ? `${plural(l.written, "file")} written in ${duration(l.seconds)}: ${bytes(l.bytes_written / l.seconds)}/s` : `${plural(l.good || 0, "file")} found as they should be in ${duration(l.seconds)}`;
  return [cut ? "warn" : worst, `${wrote}.${cut}`];
};
const verdictOf = (run) => {
  const checks = [checkUtilisation(run), checkSource(run), checkAudit(run), checkErrors(run), checkLimit(run), checkRanks(run)].filter(Boolean);
  const [status, words] = headlineOf(run, checks);
  return { status, words, checks };
};

// ---- Configuration ----

// The lines of YAML as [path, value], so that each can be compared by itself.
const flatYaml = (text) => {
  const stack = [], flat = [];
  for (const line of text.split("\n")) {
    const [, space, dash, rest] = /^(\s*)((?:- )*)(.*)$/.exec(line), [, key, value] = /^("(?:[^"\\]|\\.)*"|[^:]+?):(?:\s+(.*))?$/.exec(rest) || [null, null, rest];
    if (!rest || rest.startsWith("#")) continue;
    const depth = space.length + dash.length;
    while (stack.length && stack[stack.length - 1].depth >= depth) stack.pop();
    const path = [...stack.map((one) => one.key), ...(key == null ? [] : [key])].join(".");
    if (value == null || value === "") stack.push({ depth, key: key ?? rest });
    else flat.push([path, value]);
  }
  return flat;
};
const SETTINGS = ["version", "engine", "engine_detail", "direct", "page_cache_dropped_before_each_epoch", "ranks", "cores", "in_flight_per_rank", "prefetch_batches", "order", "seed", "data", "catalog_digest", "resumed"];
const FACTS = ["version", "command", "data", "source", "catalog", "digest", "workload", "format", "files", "ranks", "threads", "engine", "hostname", "cores"];
const plain = (value) => (typeof value === "object" && value !== null ? JSON.stringify(value) : String(value));
// What it was told to do, and on what: a map of names to values.
const settingsOf = (run) => {
  const of = (source, names) => names.filter((name) => source[name] != null).map((name) => [name.replaceAll("_", " "), plain(source[name])]), yaml = run.effective_text ?? run.config_text;
  const host = of(run.summary, ["hostname", "num_hosts", "num_accelerators", "num_files_train"]);
  if (textOf(run.summary.host_cpuinfo?.["model name"])) host.push(["processor", run.summary.host_cpuinfo["model name"]]);
  const own = run.read || run.listing || run.begin;
  return new Map([...host, ...of(run.shoal, SETTINGS), ...of(own, FACTS), ...Object.entries(objectOf(own.settings)).map(([name, value]) => [name, plain(value)]), ...(typeof yaml === "string" ? flatYaml(yaml) : [])]);
};
