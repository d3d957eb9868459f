// The page: its header, the way around in it, one section per result; and how it renews itself while a command is at work.

const page = document.getElementById("page");
let data = JSON.parse(document.getElementById("data").textContent);
let paused = false;

const pauseButton = () => {
  const button = make("button", { type: "button", "aria-pressed": String(paused) }, "pause");
  button.onclick = () => { paused = !paused; button.setAttribute("aria-pressed", String(paused)); };
  return button;
};
const navigation = (name, links) => make("nav", { "aria-label": name }, make("ul", {}, ...links.map(([words, id]) => make("li", {}, make("a", { href: `#${id}` }, words)))));

// The only result of a page; its heading is that of the page.
const drawOnly = (run) => {
  const head = make("div", {}), body = make("div", {});
  page.append(make("h1", { id: run.id }, data.live ? `${run.command} \u2013 ${run.title}` : titleOf(run)), head, body);
  drawTop(head, run);
  guarded(body, "The result", () => (run.kind === "sweep" ? drawSweep : drawPlots)(body, run));
  if (run.parts.length > 1) head.before(navigation("on this page", run.parts));
};
// One of several: its plots are drawn when they are asked for.
const drawOneOf = (run) => {
  const section = make("section", { class: "run", "aria-labelledby": run.id }, make("h2", { class: "result", id: run.id, tabindex: "-1" }, titleOf(run)));
  page.append(section);
  drawTop(section, run);
  if (run.kind === "sweep") { guarded(section, "The sweep", () => drawSweep(section, run)); return; }
  const details = make("details", { class: "all" }, make("summary", {}, `plots and tables of ${run.title}`));
  details.addEventListener("toggle", () => { if (details.open && details.children.length === 1) guarded(details, "The result", () => drawPlots(details, run)); });
  section.append(details);
};
const render = () => {
  plots.forEach(({ plot }) => plot.destroy());
  plots = [];
  const open = [...document.querySelectorAll("details.all")].map((details) => details.open);
  data.runs.forEach((run, i) => { run.id = `result-${i + 1}`; run.parts = []; run.within = data.runs.length > 1; });
  page.replaceChildren(make("p", { class: "dim brand" }, data.live ? "Shoal, live" : "Shoal report"));
  if (data.runs.length > 1) {
    page.append(make("h1", {}, `${data.runs.length} results side by side`), navigation("on this page", [["Figures", "all-figures"], ["On the same axes", "all-on-the-same-axes"], ["Configuration", "all-configuration-differences"], ...data.runs.map((run) => [run.title, run.id])]));
    drawComparison(page, data.runs);
    data.runs.forEach(drawOneOf);
    document.querySelectorAll("nav a").forEach((link) => { if (!document.getElementById(link.hash.slice(1))) link.parentElement.remove(); });
    document.querySelectorAll("details.all").forEach((details, i) => { details.open = open[i] || false; });
  } else drawOnly(data.runs[0]);
  document.title = "Shoal: " + data.runs.map((run) => run.title).join(", ");
  page.append(make("footer", { class: "dim" }, `Made by shoal ${data.version} on ${data.made.replace("T", " ")}. Drag over a plot to zoom in, double-click to zoom out. ${data.live ? "The page renews itself: it fetches data.json from the command." : "All data is in this page as JSON (element \"data\"); the page fetches nothing."}`));
  document.body.dataset.ready = "1";
};
// A result that cannot be taken apart is shown by its name.
const begin = () => {
  data.runs.forEach((run) => {
    try {
      parse(run, data.live);
    } catch (e) {
      Object.assign(run, { summary: {}, shoal: {}, metric: {}, begin: {}, read: null, sweep: null, listing: null, time: null, phases: [], audits: [], kind: "run", ended: false, notes: [...listOf(run.notes), `It cannot be read by this version (${e.message}).`] });
    }
  });
  nameRuns(data.runs);
  render();
};
// Paper is white and narrow, and everything on it is open.
const onPaperAs = (paper) => {
  onPaper = paper;
  if (paper) document.documentElement.dataset.theme = "light";
  else delete document.documentElement.dataset.theme;
  render();
};
addEventListener("beforeprint", () => onPaperAs(true));
addEventListener("afterprint", () => onPaperAs(false));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", render);
begin();
// Plots are drawn when the scripts are over: how long it took until then, for those who want to know.
setTimeout(() => { document.body.dataset.opened = Math.round(performance.now()); });

// ---- Live ----

// Not while somebody reads a table or walks along a plot (a link only puts the focus on a heading, with tabindex -1); less often if it takes long, here or there.
const inUse = () => paused || document.querySelector("details[open]") || document.activeElement?.closest('main [tabindex="0"]') || plots.some(({ plot }) => plot.cursor.left >= 0 || plot.scales.x.max < plot.data[0][plot.data[0].length - 1]);
const REFUSALS = 5; // one after the other, until the command is taken to have ended
let refusals = 0;
// What has the focus, and what has it after the page was drawn again: the same by its name.
const nameOf = (node) => `${node.tagName} ${node.id || node.getAttribute("aria-label") || node.textContent}`;
const keepFocus = (draw) => {
  const had = page.contains(document.activeElement) ? nameOf(document.activeElement) : null;
  draw();
  if (had) [...page.querySelectorAll("a, button, summary, [tabindex]")].find((node) => nameOf(node) === had)?.focus({ preventScroll: true });
};
const refresh = async () => {
  const began = performance.now();
  if (inUse()) { setTimeout(refresh, 1000); return; }
  try {
    const answer = await fetch("data.json");
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    const now = await answer.json(), at = scrollY;
    data = now;
    refusals = 0;
    keepFocus(begin);
    scrollTo(0, at);
    setTimeout(refresh, Math.max(2000, 20 * (performance.now() - began)));
  } catch {
    refusals++;
    if (refusals === REFUSALS) page.prepend(make("p", { class: "note", role: "status" }, "The command has ended, or cannot be reached any more: this is the last that was seen."));
    setTimeout(refresh, refusals < REFUSALS ? 2000 : 10000); // it may have been the network
  }
};
if (data.live) setTimeout(refresh, 2000);
