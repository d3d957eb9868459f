// A sweep: latency against throughput, throughput by parameter, and all points.

// Only what is as it should be, so that what draws need not look: another version may have written it.
const spreadOf = (figures) => {
  const { median, lowest, highest } = objectOf(figures);
  return isNumber(median) ? { median, lowest: isNumber(lowest) ? lowest : median, highest: isNumber(highest) ? highest : median } : null;
};
const POINT_FIGURES = ["samples_per_second", "bytes_per_second", "p50_ms", "p99_ms", "cpu_cores", "cached_percent"];
const sweepOf = (raw) => {
  const parameters = listOf(raw.parameters).map(objectOf).map((p) => ({ name: textOf(p.name) || "?", values: listOf(p.values).map(String) }));
  const points = listOf(raw.points).map(objectOf).map((p) => ({ values: objectOf(p.values), runs: p.runs, ceiling: isNumber(p.ceiling) ? p.ceiling : null, ceilings: numbers(listOf(p.ceilings)), knee: p.knee === true,
    client_bound: textOf(p.client_bound), error: textOf(p.error), ...Object.fromEntries(POINT_FIGURES.map((name) => [name, spreadOf(p[name])])) }));
  return { ...raw, parameters, points, knees: listOf(raw.knees).map(objectOf), command: listOf(raw.command).map(String) };
};

const valueOf = (p, { name }) => String(p.values[name] ?? "?");
const pointWords = (sweep, p) => sweep.parameters.map((one) => `${one.name} ${valueOf(p, one)}`).join(", ");
const FROM_CACHE = 50; // per cent of the bytes of a point, from which on it measures memory
const isCached = (p) => p.cached_percent?.median > FROM_CACHE;
const named = (list, of) => `${list.slice(0, 4).map(of).join("; ")}${list.length > 4 ? "; ..." : ""}`;
const sweepVerdict = (sweep) => {
  const done = sweep.points.filter((p) => p.samples_per_second).length, knees = sweep.knees.length, found = sweep.knees.filter((knee) => knee.kind === "found").length;
  const byClient = sweep.knees.filter((knee) => knee.kind === "limited by the client").length, others = sweep.parameters.slice(1);
  const checks = sweep.knees.map((knee) => ({ status: knee.kind === "found" ? "good" : knee.kind === "limited by the client" ? "warn" : "", name: "Knee", words: (others.length ? `with ${others.map(({ name }) => `${name} ${knee[name]}`).join(", ")}: ` : "") + textOf(knee.words) + "." }));
  const client = sweep.points.filter((p) => p.client_bound), cached = sweep.points.filter(isCached), failed = sweep.points.filter((p) => p.error);
  if (client.length) checks.push({ status: "warn", name: "Client-bound points", words: `${client.length} of ${done} measure the client, not the storage (ringed in the plots): ${named(client, (p) => `${pointWords(sweep, p)} (${p.client_bound})`)}.` });
  if (cached.length) checks.push({ status: "warn", name: "Source of the bytes", words: `At ${cached.length} of ${done} points most bytes came from the page cache of this machine, not from the storage: ${named(cached, (p) => `${pointWords(sweep, p)} (${show(p.cached_percent.median, 0)} %)`)}. --drop-cache or --direct measures the storage.` });
  if (sweep.complete === false) checks.push({ status: "bad", name: "Not complete", words: `${show(sweep.jobs_done, 0)} of ${show(sweep.jobs, 0)} measurements were made; the same command with --resume goes on.` });
  if (failed.length) checks.push({ status: "bad", name: "Failed", words: named(failed, (p) => `${pointWords(sweep, p)}: ${p.error}`) });
  const best = most(numbers(sweep.points.map((p) => p.samples_per_second?.median)));
  const what = found > 0 ? (knees > 1 ? `A knee was found on ${found} of ${knees} curves` : "The knee was found") : byClient > 0 ? "The client is the limit, so no knee of the storage was found" : "No knee was found within these values";
  return { status: found ? (cached.length ? "warn" : "good") : byClient ? "warn" : "", words: what + (isNumber(best) ? `; the best point has ${show(best, 0)} samples/s.` : "."), checks };
};

// ---- Plots ----

// To 1, 2 or 5 times a power of ten, where an axis has a label.
const roundTo = (v, pick) => pick([1, 2, 5, 10].map((n) => n * 10 ** Math.floor(Math.log10(v))));
const roundDown = (v) => roundTo(v, (steps) => steps.filter((one) => one <= v * 1.0001).pop());
const roundUp = (v) => roundTo(v, (steps) => steps.find((one) => one >= v * 0.9999));

// The points of each value of the second parameter, in the order of the first one's values. A curve has its colour in all
// plots, whatever points it has.
const curvesOf = (sweep) => {
  const [first, second] = sweep.parameters, keys = second ? second.values : [""];
  return keys.map((key, i) => ({ label: second ? `${second.name} ${key}` : "", colour: LINES[i % LINES.length],
    points: first.values.map((value) => sweep.points.find((p) => valueOf(p, first) === value && (!second || valueOf(p, second) === key)) || null) }));
};
const ringsOf = (places) => places.filter(([p]) => p.knee || p.client_bound).map(([p, at]) => ({ kind: "ring", at, colour: p.knee ? "--good" : "--warn" }));
const RINGS = "Green rings: knees. Amber rings: the client was the limit. Thin bars: lowest to highest of the repeats.";
const drawLatencyAgainstThroughput = (grid, sweep, curves) => {
  const [first] = sweep.parameters, shapes = [], rows = new Map(), series = [];
  for (const [name, quantile, dash] of [["p50_ms", "p50", []], ["p99_ms", "p99", [6, 4]]])
    for (const curve of curves) {
      const there = curve.points.filter((p) => p?.samples_per_second && p[name]?.median > 0), places = there.map((p) => [p, [p.samples_per_second.median, p[name].median]]);
      shapes.push({ kind: "path", points: places.map(([, at]) => at), colour: curve.colour, dash }, ...(name === "p50_ms" ? ringsOf(places) : []));
      for (const [p, at] of places) {
        const { lowest, highest } = p.samples_per_second;
        if (name === "p50_ms") shapes.push({ kind: "bar", from: [lowest, at[1]], to: [highest, at[1]], colour: curve.colour }, { kind: "bar", from: [at[0], p[name].lowest], to: [at[0], p[name].highest], colour: curve.colour },
          { kind: "words", at, words: valueOf(p, first), colour: curve.colour });
        if (!rows.has(p)) rows.set(p, { x: at[0], words: pointWords(sweep, p), ys: [] });
        rows.get(p).ys[series.length] = at[1];
      }
      series.push({ label: [quantile, curve.label].filter(Boolean).join(", "), bare: true, points: true, colour: curve.colour, dash });
    }
  const sorted = [...rows.values()].sort((a, b) => a.x - b.x);
  if (!sorted.length) return;
  const ends = shapes.flatMap((one) => (one.kind === "bar" ? [one.from, one.to] : one.points || [])), ys = numbers(ends.map(([, y]) => y)).filter((y) => y > 0);
  plotIn(grid, { title: "Latency against throughput", x: "samples/s", y: "ms", log: true, real: true, shapes, series, xRange: [0, 1.08 * most(ends.map(([x]) => x))], range: [roundDown(least(ys) / 1.2), roundUp(1.2 * most(ys))],
    names: sorted.map((row) => row.words), nameHead: "point", words: `Each curve goes through its points in the order of ${first.name}, whose value is beside them. ${RINGS}`,
    columns: [sorted.map((row) => row.x), ...series.map((_, i) => sorted.map((row) => row.ys[i] ?? null))] });
};
const numeric = (v) => (v !== "" && isNumber(+v) ? +v : null);
const drawByParameter = (grid, sweep, curves) => {
  const [first] = sweep.parameters, isScale = first.values.every((v) => numeric(v) != null), xs = first.values.map((v, i) => (isScale ? numeric(v) : i)), order = xs.map((_, i) => i).sort((a, b) => xs[a] - xs[b]);
  const sorted = order.map((i) => xs[i]), low = sorted[0], high = sorted[sorted.length - 1], logX = isScale && low > 0 && high > 20 * low;
  const points = sweep.points.filter((p) => p.samples_per_second), best = most(points.map((p) => p.samples_per_second.highest)), ceilings = numbers(points.map((p) => p.ceiling)), far = most(ceilings) > 20 * best;
  const column = (curve, of) => order.map((i) => (curve.points[i] ? of(curve.points[i]) ?? null : null)), shapes = [];
  for (const curve of curves) {
    const places = order.map((i) => [curve.points[i], [xs[i], curve.points[i]?.samples_per_second?.median]]).filter(([p]) => p?.samples_per_second);
    shapes.push(...ringsOf(places), ...places.map(([p, [x]]) => ({ kind: "bar", from: [x, p.samples_per_second.lowest], to: [x, p.samples_per_second.highest], colour: curve.colour })));
  }
  const limits = ceilings.length && !far ? curves : [];
  plotIn(grid, { title: `Throughput by ${first.name}`, x: isScale ? first.name : `${first.name}: ${first.values.join(", ")}`, y: "samples/s", real: true, logX, xRange: logX ? [low / 1.2, high * 1.2] : [low - 0.04 * (high - low || 1), high + 0.04 * (high - low || 1)], shapes,
    ...(sorted.length <= 16 ? { splits: sorted } : {}), splitNames: isScale ? null : order.map((i) => first.values[i]),
    words: `Medians of the repeats. ${RINGS}` + (ceilings.length && far ? ` What the client could do without storage, ${short(least(ceilings))} to ${short(most(ceilings))} samples/s, is far above and not drawn.` : limits.length ? " Dotted: what the client could do without storage." : ""),
    columns: [sorted, ...curves.map((curve) => column(curve, (p) => p.samples_per_second?.median)), ...limits.map((curve) => column(curve, (p) => p.ceiling))],
    series: [...curves.map((curve) => ({ label: curve.label || "samples/s", points: true, span: true, colour: curve.colour, dash: [] })), ...limits.map((curve) => ({ label: ["client's own limit", curve.label].filter(Boolean).join(", "), span: true, colour: curve.colour, dash: [2, 3] }))] });
};
const markOf = (p) => [p.knee ? "knee" : "", p.client_bound ? "client: " + p.client_bound : "", isCached(p) ? "page cache" : "", p.error].filter(Boolean).join(", ");
const drawPoints = (sweep) => table("points of the sweep", [...sweep.parameters.map((p) => p.name), "runs", "samples/s", "lowest", "highest", "MB/s", "p50, ms", "p99, ms", "cores", "from cache, %", "client's limit", "its lowest", "its highest", "mark"],
  sweep.points.map((p) => [...sweep.parameters.map((one) => valueOf(p, one)), show(p.runs, 0), show(p.samples_per_second?.median), show(p.samples_per_second?.lowest), show(p.samples_per_second?.highest), show(p.bytes_per_second?.median / 1e6),
    figure(p.p50_ms?.median), figure(p.p99_ms?.median), figure(p.cpu_cores?.median), show(p.cached_percent?.median, 0), show(p.ceiling, 0), ...(p.ceilings.length ? [show(least(p.ceilings), 0), show(most(p.ceilings), 0)] : ["-", "-"]), [markOf(p), { class: "words" }]]));
const drawSweep = (parent, run) => {
  const sweep = run.sweep, curves = sweep.parameters.length ? curvesOf(sweep) : [];
  parent.append(make("p", { class: "dim" }, make("code", {}, `shoal ${sweep.command.join(" ")}`), ` on ${plural(sweep.cores || 0, "core")}, ${plural(sweep.repeats || 1, "repeat")} per point in random order`), drawVerdict(sweepVerdict(sweep)));
  subsection(parent, run, "Throughput and latency", (grid) => {
    if (!curves.length) return;
    drawLatencyAgainstThroughput(grid, sweep, curves);
    drawByParameter(grid, sweep, curves);
  });
  if (sweep.points.length) subsection(parent, run, "Points", (grid, section) => section.append(drawPoints(sweep)));
};
