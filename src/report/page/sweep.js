// A sweep: throughput against latency, throughput by parameter, and all points.

const pointWords = (sweep, p) => sweep.parameters.map(({ name }) => `${name} ${p.values[name]}`).join(", ");
const sweepVerdict = (sweep) => {
  const done = sweep.points.filter((p) => p.samples_per_second).length, knees = (sweep.knees || []).length, found = (sweep.knees || []).filter((knee) => knee.kind === "found").length;
  const checks = (sweep.knees || []).map((knee) => ({ status: knee.kind === "found" ? "good" : "", name: "Knee", words: (sweep.parameters.length > 1 ? `with ${sweep.parameters.slice(1).map(({ name }) => `${name} ${knee[name]}`).join(", ")}: ` : "") + knee.words + "." }));
  const client = sweep.points.filter((p) => p.client_bound);
  if (client.length) checks.push({ status: "warn", name: "Client-bound points", words: `${client.length} of ${done} measure the client, not the storage (ringed in the plots): ${client.slice(0, 4).map((p) => `${pointWords(sweep, p)} (${p.client_bound})`).join("; ")}${client.length > 4 ? "; ..." : ""}.` });
  if (!sweep.complete) checks.push({ status: "bad", name: "Not complete", words: `${done} of ${sweep.points.length} points were measured; the same command with --resume goes on.` });
  const failed = sweep.points.filter((p) => p.error);
  if (failed.length) checks.push({ status: "bad", name: "Failed", words: failed.slice(0, 4).map((p) => `${pointWords(sweep, p)}: ${p.error}`).join("; ") });
  const best = most(numbers(sweep.points.map((p) => p.samples_per_second?.median)));
  return { status: found ? "good" : "", words: `${found === 0 ? "No knee was found within these values" : knees > 1 ? `A knee was found on ${found} of ${knees} curves` : "The knee was found"}; the best point has ${show(best, 0)} samples/s.`, checks };
};
// Rings around the knees, and around points at which the client was the limit.
const ringsAround = (points) => (u) => {
  u.ctx.save();
  points.forEach((p, i) => {
    if (!p.knee && !p.client_bound) return;
    u.ctx.beginPath();
    u.ctx.lineWidth = 2 * devicePixelRatio;
    u.ctx.strokeStyle = colour(p.knee ? "--good" : "--warn");
    u.ctx.arc(u.valToPos(u.data[0][i], "x", true), u.valToPos(u.data[1][i], "y", true), 8 * devicePixelRatio, 0, 7);
    u.ctx.stroke();
  });
  u.ctx.restore();
};
const drawLatencyAgainstThroughput = (grid, sweep, points) => {
  const second = sweep.parameters.slice(1), keyOf = (p) => second.map(({ name }) => `${name} ${p.values[name]}`).join(", ");
  const sorted = points.filter((p) => p.p50_ms).sort((a, b) => a.samples_per_second.median - b.samples_per_second.median), curves = [...new Set(sorted.map(keyOf))];
  if (!sorted.length) return;
  const column = (key, of) => sorted.map((p) => (keyOf(p) === key ? of(p) ?? null : null));
  const of = (key, name) => ({ label: [name, key].filter(Boolean).join(", "), points: true, span: true });
  plotIn(grid, { title: "Latency against throughput", x: "samples/s", y: "ms", log: true, real: true, draw: [(u) => ringsAround(sorted)({ ...u, ctx: u.ctx, valToPos: u.valToPos.bind(u), data: [u.data[0], sorted.map((p) => p.p50_ms.median)] })],
    words: "Green rings: knees. Amber rings: the client was the limit.",
    columns: [sorted.map((p) => p.samples_per_second.median), ...curves.map((key) => column(key, (p) => p.p50_ms.median)), ...curves.map((key) => column(key, (p) => p.p99_ms?.median))], series: [...curves.map((key, i) => ({ ...of(key, "p50"), colour: LINES[i % LINES.length], dash: [] })), ...curves.map((key, i) => ({ ...of(key, "p99"), colour: LINES[i % LINES.length], dash: [6, 4] }))] });
};
const numeric = (v) => (v !== "" && isNumber(+v) ? +v : null);
const drawByParameter = (grid, sweep, points) => {
  const [first, ...others] = sweep.parameters, keyOf = (p) => others.map(({ name }) => `${name} ${p.values[name]}`).join(", "), curves = [...new Set(points.map(keyOf))];
  const isScale = first.values.every((v) => numeric(v) != null), xs = first.values.map((v, i) => (isScale ? numeric(v) : i)), order = xs.map((_, i) => i).sort((a, b) => xs[a] - xs[b]);
  const curve = (key, of) => order.map((i) => { const p = points.find((one) => one.values[first.name] === first.values[i] && keyOf(one) === key); return p ? of(p) ?? null : null; });
  const sorted = order.map((i) => xs[i]), logX = isScale && sorted.every((v) => v > 0) && sorted[sorted.length - 1] > 20 * sorted[0];
  const best = most(points.map((p) => p.samples_per_second.median)), ceilings = points.some((p) => p.ceiling), far = most(points.map((p) => p.ceiling ?? 0)) > 20 * best;
  const limits = ceilings && !far ? curves.map((key) => [key, curve(key, (p) => p.ceiling)]) : [];
  plotIn(grid, { title: `Throughput by ${first.name}`, x: isScale ? first.name : `${first.name}: ${first.values.join(", ")}`, y: "samples/s", real: true, logX, ...(logX ? { xRange: [sorted[0] / 1.2, sorted[sorted.length - 1] * 1.2] } : {}), ...(sorted.length <= 12 ? { splits: sorted } : {}),
    marks: points.filter((p) => p.knee && isScale).map((p) => numeric(p.values[first.name])), markNames: points.filter((p) => p.knee).map(() => "knee"), words: "Medians of the repeats." + (ceilings && far ? ` What the client could do without storage, ${short(least(numbers(points.map((p) => p.ceiling))))} to ${short(most(numbers(points.map((p) => p.ceiling))))} samples/s, is far above and not drawn.` : ceilings ? " Dotted: what the client could do without storage." : ""),
    columns: [sorted, ...curves.map((key) => curve(key, (p) => p.samples_per_second.median)), ...limits.map(([, column]) => column)], series: [...curves.map((key) => ({ label: key || "samples/s", points: true })), ...limits.map(([key], i) => ({ label: ["client's own limit", key].filter(Boolean).join(", "), colour: LINES[i % LINES.length], dash: [2, 3] }))] });
};
const drawPoints = (sweep) => table("points of the sweep", [...sweep.parameters.map((p) => p.name), "runs", "samples/s", "lowest", "highest", "MB/s", "p50, ms", "p99, ms", "cores", "client's limit", "mark"],
  sweep.points.map((p) => [...sweep.parameters.map(({ name }) => p.values[name]), show(p.runs, 0), show(p.samples_per_second?.median), show(p.samples_per_second?.lowest), show(p.samples_per_second?.highest), show(p.bytes_per_second?.median / 1e6),
    figure(p.p50_ms?.median), figure(p.p99_ms?.median), figure(p.cpu_cores?.median), show(p.ceiling, 0), [[p.knee ? "knee" : "", p.client_bound ? "client: " + p.client_bound : "", p.error || ""].filter(Boolean).join(", "), { class: "words" }]]));
const drawSweep = (parent, run) => {
  const sweep = run.sweep, points = sweep.points.filter((p) => p.samples_per_second);
  parent.append(make("p", { class: "dim" }, make("code", {}, `shoal ${(sweep.command || []).join(" ")}`), ` on ${plural(sweep.cores || 0, "core")}, ${plural(sweep.repeats || 1, "repeat")} per point in random order`), drawVerdict(sweepVerdict(sweep)));
  subsection(parent, run, "Throughput and latency", (grid) => {
    drawLatencyAgainstThroughput(grid, sweep, points);
    if (points.length) drawByParameter(grid, sweep, points);
  });
  subsection(parent, run, "Points", (grid, section) => section.append(drawPoints(sweep)));
};
