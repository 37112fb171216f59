"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const fleet = byId("fleet").querySelector("table");
const columns = [["run", "Run"], ["gpus", "GPUs"], ["state", "State"]];

/** An element with properties and children; text is never read as HTML. */
function element(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
const gpusOf = (runs) => runs.reduce((sum, run) => sum + (run.state === "done" ? 0 : run.gpus), 0);

// The list. Every run has one row, made once; a filter and a grouping only hide and move rows.

function rowOf(run) {
  const link = element("a", { href: `#${encodeURIComponent(run.run)}`, textContent: run.run });
  const about = [run.topology, run.target, run.queue && `queue ${run.queue}`].filter(Boolean).join(" · ");
  const state = [run.state, run.warnings ? plural(run.warnings, "warning") : "", run.change].filter(Boolean).join(", ");
  const colour = run.state === "does not compile" ? "bad" : run.change || run.warnings ? "warn" : "";
  return element("tr", { id: `row-${run.run}`, role: "row" },
    element("td", { role: "cell" }, link, element("small", { textContent: about })),
    element("td", { role: "cell", className: "number", textContent: run.gpus || "" }),
    element("td", { role: "cell", className: colour, textContent: state }));
}

const rows = new Map(data.runs.map((run) => [run.run, rowOf(run)]));
const texts = new Map(data.runs.map((run) => [run.run, Object.values(run).join(" ").toLowerCase()]));
const groups = new Map();

function groupBy(key) {
  groups.clear();
  for (const run of data.runs) {
    const name = run[key] || `no ${key}`;
    if (!groups.has(name)) groups.set(name, { runs: [], heading: element("th", { role: "rowheader", scope: "rowgroup" }) });
    groups.get(name).runs.push(run);
  }
  fleet.querySelectorAll("tbody").forEach((body) => body.remove());
  for (const [name, group] of [...groups].sort((one, other) => one[0].localeCompare(other[0]))) {
    group.name = name;
    group.body = element("tbody", { role: "rowgroup" }, element("tr", { role: "row" }, group.heading), ...group.runs.map((run) => rows.get(run.run)));
    fleet.append(group.body);
  }
}

function filter() {
  const words = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const changed = byId("changed").checked;
  const shown = (run) => (!changed || run.change) && words.every((word) => texts.get(run.run).includes(word));
  const all = [];
  for (const group of groups.values()) {
    const kept = group.runs.filter(shown);
    const names = new Set(kept);
    for (const run of group.runs) rows.get(run.run).hidden = !names.has(run);
    group.body.hidden = !kept.length;
    group.heading.textContent = `${group.name}: ${plural(kept.length, "run")}, ${plural(gpusOf(kept), "GPU")}`;
    all.push(...kept);
  }
  byId("totals").textContent = `${plural(all.length, "run")}, ${plural(gpusOf(all), "GPU")} of runs that are not done`;
}

// One run.

async function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

const table = (className, lines, cells) => element("table", { className }, ...lines.map((line) => element("tr", {}, ...cells(line))));
const cell = (text, className = "") => element("td", { className, textContent: text });

function differences(of) {
  const part = (lines) => table("changes", lines, ([label, before, after]) => [cell(label), cell(before, "before"), cell(after, "after")]);
  const fields = element("details", {}, element("summary", { textContent: `Kubernetes fields (${of.fields.length})` }), part(of.fields));
  return [of.facts.length ? part(of.facts) : null, of.fields.length ? fields : null];
}

const said = (text) => (text ? element("p", { textContent: text }) : null);

function changes(change) {
  return [element("h3", { textContent: `This change: ${change.class}` }), said(change.outcome),
    said(change.cause && `Its own file is the same; the cause: ${change.cause}`), ...differences(change)];
}

/** What changes for several runs: its title, and the rest folded. */
function shared(one) {
  const title = element("summary", { className: one.risk ? "bad" : "", textContent: `${one.risk ? "DATA AT RISK: " : ""}${one.title}` });
  return element("details", {}, title, said(one.risk), said(one.effect), said(one.runs && `Touches ${one.runs}.`), ...differences(one));
}

function finding(one) {
  const place = [one.file, one.line].filter(Boolean).join(":");
  return element("div", { className: `finding ${one.severity}` },
    element("strong", { textContent: `${one.severity} ${one.code} ${one.message}` }),
    element("p", { textContent: `${place ? `${place}. ` : ""}${one.why}` }), element("p", { textContent: one.fix }),
    one.waived ? element("p", { textContent: `waived: ${one.waived}` }) : null);
}

/** The file of dist/; the reason of the line under the pointer, or of the one that arrow keys reached, stands below. */
function yaml(file) {
  const why = element("p", { id: "why", textContent: "Point at a line, or press Tab and then the arrow keys, to read why it is so." });
  const lines = file.lines.map((text, number) => element("div", { textContent: text || " ", id: `line-${number + 1}` }));
  const list = element("pre", { className: "yaml", tabIndex: 0, role: "listbox" }, ...lines);
  list.setAttribute("aria-label", `${file.file}, with reasons`);
  lines.forEach((line) => line.setAttribute("role", "option"));
  let here = -1;
  const show = (number) => { why.textContent = `Line ${number + 1}: ${file.reasons[file.why[number]]}`; };
  const move = (number) => {
    lines[here]?.classList.remove("here");
    here = Math.max(0, Math.min(lines.length - 1, number));
    lines[here].classList.add("here");
    lines[here].scrollIntoView({ block: "nearest" });
    list.setAttribute("aria-activedescendant", lines[here].id);
    show(here);
  };
  list.addEventListener("mouseover", (event) => { const number = lines.indexOf(event.target); if (number >= 0) show(number); });
  list.addEventListener("click", (event) => { const number = lines.indexOf(event.target); if (number >= 0) move(number); });
  list.addEventListener("keydown", (event) => {
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20, Home: -lines.length, End: lines.length };
    if (event.key in steps) { event.preventDefault(); move(here + steps[event.key]); }
  });
  return [element("h3", { textContent: file.file }), list, why];
}

function drawn(text) {
  const svg = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  return document.importNode(svg, true);
}

/** What the address names, or the first run. `data-run` says which run is shown, `aria-busy` that another one is on its way. */
let asked = 0;
async function open() {
  const name = decodeURIComponent(location.hash.slice(1)) || data.runs[0]?.run;
  const ask = ++asked;
  const part = byId("run");
  fleet.querySelectorAll("[aria-selected]").forEach((row) => row.removeAttribute("aria-selected"));
  rows.get(name)?.setAttribute("aria-selected", "true");
  part.setAttribute("aria-busy", "true");
  const content = Object.hasOwn(data.details, name) ? await contentOf(name) : [element("p", { textContent: name ? `There is no run ${name}.` : "This project has no runs." })];
  if (ask !== asked) return;
  part.replaceChildren(...content);
  part.scrollTop = 0;
  part.dataset.run = name ?? "";
  part.removeAttribute("aria-busy");
}

async function contentOf(name) {
  const run = await unpack(data.details[name]);
  const remarks = (run.remarks ?? []).map((text) => element("p", { textContent: text }));
  return [
    element("h2", { textContent: name }), run.file ? element("p", { textContent: `${run.file}, as ${run.name}` }) : null, ...remarks,
    ...(run.change ? changes(run.change) : []),
    ...(run.findings.length ? [element("h3", { textContent: "Findings" }), ...run.findings.map(finding)] : []),
    ...(run.drawing ? [element("h3", { textContent: "Topology" }), drawn(run.drawing)] : []),
    ...(run.plan ? [element("h3", { textContent: "Plan" }), table("plan", run.plan, ([label, text]) => [element("th", { scope: "row", textContent: label }), cell(text)])] : []),
    ...(run.yaml ? yaml(run.yaml) : []),
  ].filter((part) => part !== null);
}

byId("project").textContent = data.project;
byId("diff").textContent = data.diff;
byId("shared").append(...data.shared.map(shared), ...data.notes.map((note) => said(`note: ${note}`)));
byId("only").hidden = !data.diff;
fleet.querySelector("thead").append(element("tr", { role: "row" }, ...columns.map(([key, label]) =>
  element("th", { role: "columnheader", scope: "col", textContent: label, className: key === "gpus" ? "number" : "" }))));
byId("search").addEventListener("submit", (event) => event.preventDefault());
byId("filter").addEventListener("input", filter);
byId("changed").addEventListener("input", filter);
byId("group").addEventListener("change", () => { groupBy(byId("group").value); filter(); });
addEventListener("hashchange", open);
groupBy("cluster");
filter();
open();
