// Results side by side: figures with their differences, the same axes, and how their configurations differ.

// Below the value its difference from @base: in per cent, or in points if the figure itself is in per cent;
// with its 95 % interval if there are repeats to tell it from.
const LEAST = 1; // per cent: a smaller difference does not matter, as in 'shoal compare'
const LEAST_POINTS = 0.1; // of figures that are in per cent themselves: twice nearly nothing is nothing
const compared = (base, run, [name, better, of]) => {
  const values = of(run), { change, spread } = difference(of(base), values), inPercent = name.endsWith("%"), factor = inPercent ? Math.abs(mean(of(base))) / 100 : 1;
  const sure = isNumber(spread) && Math.abs(change) > spread, matters = Math.abs(change) >= LEAST && (!inPercent || Math.abs(change * factor) >= LEAST_POINTS);
  return { values, change: change * factor, spread: spread * factor, unit: inPercent ? "points" : "%", judged: sure && matters && better ? (change * better > 0 ? "better" : "worse") : "", why: !sure ? "within the spread" : !matters ? "too small to matter" : "" };
};
const changeWords = ({ change, unit }) => `${signed(change, Math.abs(change) < 1 ? 2 : 1)} ${unit}`;
const comparedCell = (base, run, metric) => {
  const one = compared(base, run, metric), { values, change, spread, judged, why } = one, m = mean(values), deviation = values.length > 1 ? ` \u00b1 ${figure(Math.sqrt(variance(values)))}` : "";
  if (!isNumber(m)) return "-";
  const value = `${figure(m)}${deviation}`, verdict = judged || why ? `, ${judged || why}` : "";
  if (run === base || !isNumber(change)) return value;
  const words = change === 0 ? "the same" : changeWords(one) + (isNumber(spread) ? ` \u00b1 ${show(spread, Math.abs(change) < 1 ? 2 : 1)}${verdict}` : "");
  return make("span", {}, value, make("br"), make("small", { class: { better: "good", worse: "bad" }[judged] || "dim" }, words));
};
const baseOf = (runs, run) => runs.find((one) => one.kind === run.kind);
// In which figures it is better or worse than the first result, for certain.
const comparedWords = (runs, run) => {
  const base = baseOf(runs, run), all = METRICS.map((metric) => [metric[0].replace(/, .*/, ""), compared(base, run, metric)]), tested = all.filter(([, one]) => isNumber(one.spread));
  const list = (judged) => all.filter(([, one]) => one.judged === judged).map(([name, one]) => `${name} ${changeWords(one)}`).join(", ");
  const words = ["worse", "better"].filter((judged) => list(judged)).map((judged) => `${judged}: ${list(judged)}`).join("; ");
  return run === base ? "-" : words || (tested.length ? "no difference beyond the spread" : "too few values to tell");
};
const comparedFigures = (runs) => {
  const there = METRICS.filter(([, , of]) => runs.filter((run) => of(run).length).length > 0);
  if (!there.length) return [];
  const sameKind = runs.every((run) => run.kind === runs[0].kind);
  return [table("figures of all results", ["", ...runs.map((run) => run.title)], there.map((metric) => [metric[0], ...runs.map((run) => comparedCell(baseOf(runs, run), run, metric))])),
    make("p", { class: "dim" }, `Mean \u00b1 standard deviation (of a sample) over epochs or repeats. Below it the difference from ${sameKind ? runs[0].title : "the first result of the same command"} with its 95 % interval (Welch's t); a single value has none. Differences of less than ${LEAST} % do not count. 'shoal compare' tests two results for use in scripts, and corrects for testing several figures at once.`)];
};
// Each value as a point, with the mean: whether the spread of two results overlaps is seen at once.
const brief = (title) => (title.length > 16 ? `${title.slice(0, 7)}\u2026${title.slice(-8)}` : title);
const comparedSpreads = (grid, runs) => {
  const xs = runs.map((_, i) => i), at = (i, k, nr) => i + (nr > 1 ? 0.4 * (k / (nr - 1) - 0.5) : 0);
  for (const [name, , of] of METRICS.filter(([one]) => ["AU, %", "samples/s", "latency p99, ms", "names/s", "files/s"].includes(one))) {
    const lists = runs.map(of), all = lists.flat(), margin = (most(all) - least(all)) * 0.1 || Math.abs(most(all)) * 0.1 || 1, low = Math.max(0, least(all) - margin), [what, unit] = name.includes(", ") ? name.split(", ") : ["", name];
    if (lists.filter((list) => list.length).length < 2 || !lists.some((list) => list.length > 1)) continue;
    const shapes = lists.flatMap((list, i) => (list.length ? [{ kind: "path", points: [[i - 0.3, mean(list)], [i + 0.3, mean(list)]], colour: LINES[i % LINES.length] }] : []));
    const points = lists.flatMap((list, i) => list.map((value, k) => ({ i, value, x: at(i, k, list.length), words: `${runs[i].title}, value ${k + 1}` })));
    plotIn(grid, { title: `Spread: ${what || unit}`, x: "result", y: unit, real: true, shapes, xRange: [-0.5, runs.length - 0.5], range: [low, most(all) + margin], splits: xs, splitNames: runs.map((run) => brief(run.title)),
      names: points.map((point) => point.words), nameHead: "value of", words: `A point per epoch or repeat; a line at the mean.${low > 0 ? " The axis does not begin at 0." : ""}`,
      columns: [points.map((point) => point.x), ...runs.map((_, i) => points.map((point) => (point.i === i ? point.value : null)))], series: runs.map((run) => ({ label: run.title, bare: true, points: true, dash: [] })) });
  }
};
const comparedVerdicts = (runs) => {
  const alike = runs.some((run) => baseOf(runs, run) !== run), first = runs.every((run) => run.kind === runs[0].kind) ? runs[0].title : "the first of its kind";
  return table("verdicts", ["result", "what", "verdict", "limited by", ...(alike ? [`against ${first}`] : [])], runs.map((run) => {
    const { status, words } = run.kind === "sweep" ? { status: "", words: "a sweep" } : verdictOf(run);
    return [make("a", { href: `#${run.id}` }, run.title), [run.kind === "run" ? run.shoal.workload || run.begin.workload || "run" : run.kind, { class: "words" }], [make("span", {}, ...sign(status), words), { class: `words verdictcell ${status}` }],
      [run.kind === "sweep" || (run.kind === "run" && !timeShares(run)) ? "-" : limitOf(run)[0], { class: "words" }], ...(alike ? [[run.kind === "sweep" ? "-" : comparedWords(runs, run), { class: "words" }]] : [])];
  }));
};
const comparedCourses = (grid, runs) => {
  const withTime = runs.filter((run) => run.time && run.seconds.length > 1);
  for (const [title, y, name, factor, log] of [["Samples over time", "samples/s", "samples_per_second", 1], ["Bytes over time", "MB/s", "bytes_per_second", 1e-6], ["Latency p50 over time", "ms", "p50_ms", 1, true], ["Latency p99 over time", "ms", "p99_ms", 1, true], ["Processors of the client over time", "cores", "cpu_cores", 1], ["Queue depth over time", "samples in flight", "queue_depth", 1]]) {
    const there = withTime.filter((run) => timeColumn(run, name));
    if (there.length > 1) plotIn(grid, { title, x: "time", group: "all", y, log, columns: uPlot.join(there.map((run) => [run.seconds, scaled(timeColumn(run, name), factor)])), series: there.map((run) => ({ label: run.title, span: true })) });
  }
};
const comparedEpochs = (grid, runs) => {
  const there = runs.filter((run) => run.phases.length > 1), epochs = [...new Set(there.flatMap((run) => run.phases.map((p) => p.epoch)))].sort((a, b) => a - b);
  for (const [title, y, of] of [["AU by epoch", "%", (p) => p.au_percentage], ["Throughput by epoch", "samples/s", (p) => p.throughput_samples_per_second]])
    if (there.length > 1) plotIn(grid, { title, x: "epoch", y, columns: [epochs, ...there.map((run) => epochs.map((e) => of(run.phases.find((p) => p.epoch === e) || {}) ?? null))], series: there.map((run) => ({ label: run.title, points: true })) });
};
// Latencies of whole runs as shares, so that runs of different length can be compared.
const comparedLatencies = (grid, runs) => {
  const there = runs.filter((run) => run.time?.latency_counts.length);
  if (there.length < 2) return;
  const first = least(there.map((run) => run.time.latency_first_place)) - 1, last = most(there.map((run) => run.time.latency_first_place + run.time.latency_counts.length - 1));
  const places = Array.from({ length: last - first + 1 }, (_, i) => first + i);
  plotIn(grid, { title: "Latency: share of samples that took at most", x: "ms", y: "% of the samples", real: true, logX: true, columns: [places.map(latencyAt), ...there.map((run) => {
    const counts = run.time.latency_counts.map((row) => sum(numbers(row))), all = sum(counts);
    return places.map((place) => +((100 * sum(counts.slice(0, Math.max(0, place - run.time.latency_first_place + 1)))) / all).toPrecision(5));
  })], series: there.map((run) => ({ label: run.title })) });
};
const settingsTable = (runs, words) => {
  const maps = runs.map(settingsOf), names = [...new Set(maps.flatMap((map) => [...map.keys()]))];
  const differing = names.filter((name) => new Set(maps.map((map) => map.get(name))).size > 1);
  if (!differing.length) return make("p", {}, `All settings${words} are the same.`);
  const cell = (name, map, i) => {
    const value = map.get(name), base = maps[0].get(name);
    if (value === undefined) return [i === 0 ? "-" : make("del", {}, "not set"), { class: "words" }];
    return [i === 0 ? (maps.some((other) => other.get(name) === undefined) || runs.length === 2 ? make("del", {}, value) : value) : value === base ? make("span", { class: "dim" }, "same") : make("ins", {}, value), { class: "words" }];
  };
  return make("div", {}, table("configuration differences", ["setting", ...runs.map((run) => run.title)], differing.map((name) => [name, ...maps.map((map, i) => cell(name, map, i))])),
    make("p", { class: "dim" }, `${plural(differing.length, "setting")} of ${show(names.length, 0)}${words} differ from those of ${runs[0].title}.`));
};
// Of results of the same command: other commands have other settings.
const comparedSettings = (runs) => {
  const kinds = [...new Set(runs.map((run) => run.kind))].map((kind) => [kind, runs.filter((run) => run.kind === kind)]).filter(([kind, same]) => same.length > 1 && kind !== "sweep");
  if (!kinds.length) return [make("p", {}, "These results are of different commands, whose settings cannot be compared.")];
  return kinds.map(([kind, same]) => settingsTable(same, same.length < runs.length ? ` of ${kind}` : ""));
};
const drawComparison = (parent, runs) => {
  const all = { id: "all", parts: [] };
  guarded(parent, "The table of verdicts", () => parent.append(comparedVerdicts(runs)));
  subsection(parent, all, "Figures", (grid, section) => {
    comparedSpreads(grid, runs);
    section.append(...comparedFigures(runs));
  });
  subsection(parent, all, "On the same axes", (grid) => {
    comparedCourses(grid, runs);
    comparedEpochs(grid, runs);
    comparedLatencies(grid, runs);
  });
  subsection(parent, all, "Configuration differences", (grid, section) => section.append(...comparedSettings(runs)));
};
