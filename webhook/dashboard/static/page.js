// What the page does beyond its links and forms. Without it everything can be read and opened.
"use strict";

const panel = document.getElementById("panel");
const keys = document.getElementById("keys");
const link = document.getElementById("link");
const live = () => document.getElementById("live");

// Times: how long ago, in the largest unit that they fill.
const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

function tellTimes(root) {
  const now = Date.parse(document.documentElement.dataset.now) || Date.now();
  for (const time of root.querySelectorAll("time[datetime]")) {
    const seconds = Math.max(0, Math.floor((now - Date.parse(time.dateTime)) / 1000));
    const [size, unit] = UNITS.find(([size]) => seconds >= size) ?? [1, "s"];
    const text = `${Math.floor(seconds / size)} ${unit}`;
    if (time.textContent !== text) time.textContent = text;
    if (!time.title) time.title = new Date(time.dateTime).toLocaleString();
  }
}
setInterval(() => {
  tellTimes(document);
  stale = true;  // what is not on the page itself, such as the phase of a pod
}, 5000);
tellTimes(document);

// The feed: each message is taken in by a task of its own, so that the page answers in between.
document.addEventListener("htmx:sse:before:message", (event) => {
  event.detail.waitUntil(new Promise((done) => setTimeout(done)));
});

// An element that moves loses the focus in browsers without `moveBefore`: it gets it back by its id.
let focused = "";
document.addEventListener("focusin", (event) => { focused = event.target.id; });
document.addEventListener("pointerdown", () => { focused = ""; });

function settled() {
  if (focused && document.activeElement === document.body) {
    document.getElementById(focused)?.focus({ preventScroll: true });
  }
  const problems = document.getElementById("summary")?.dataset.problems ?? "0";
  document.title = problems === "0" ? "ray-webhook" : `(${problems}) ray-webhook`;
  tellTimes(document);
  stale = true;
}
document.addEventListener("htmx:sse:after:message", settled);
document.addEventListener("htmx:after:swap", settled);

function tellLink(state) {
  if (link.textContent === state) return;
  link.textContent = state;
  link.className = `link ${state}`;
}
document.addEventListener("htmx:sse:after:connection", (event) => {
  tellLink(event.detail.connection.status === 200 ? "live" : "offline");
});
document.addEventListener("htmx:sse:error", (event) => {
  tellLink("offline");
  if (event.detail.status === 401) location.reload();
});

// A host, or a diagnosis, in the panel. A host is followed while the panel is open: by its element,
// which leads to its pod, or to its place while it has none.
let followed = null;
let stale = false;

async function fill(href, swap) {
  await htmx.ajax("GET", href, { source: panel, target: "#panel-body", swap });
  tellTimes(panel);
}

// The address keeps what is open behind its `#`.
function keep(href) {
  history.replaceState(history.state, "", href ? `#${href}` : location.pathname + location.search);
}

async function open(href, from) {
  const opened = { id: from?.id, from, href, live: !href.startsWith("/diagnosis") };
  followed = opened;
  keep(href);
  await fill(href, "innerHTML");
  if (followed !== opened) return; // closed while it was read, or another one was opened
  panel.hidden = false;
  panel.scrollTop = 0;
  panel.focus({ preventScroll: true });
}

function close() {
  panel.hidden = true;
  keep("");
  (document.getElementById(followed?.id) ?? followed?.from)?.focus({ preventScroll: true });
  followed = null;
}

function follow() {
  stale = false;
  followed.href = document.getElementById(followed.id)?.getAttribute("href") ?? followed.href;
  fill(followed.href, "innerMorph");
}
setInterval(() => { if (stale && followed?.live) follow(); }, 2000);
const kept = location.hash.slice(1);
if (/^\/(pod|host|diagnosis)\?/.test(kept)) open(kept);

document.addEventListener("click", (event) => {
  if (event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const anchor = event.target.closest("a.host, a.explain");
  if (anchor) {
    event.preventDefault();
    open(anchor.getAttribute("href"), anchor);
    return;
  }
  const copy = event.target.closest("button.copy");
  if (copy) {
    navigator.clipboard.writeText(copy.previousElementSibling.textContent).then(() => {
      copy.textContent = "Copied";
      setTimeout(() => { copy.textContent = "Copy"; }, 2000);
    });
    return;
  }
  if (event.target.closest("#panel .close")) close();
  else if (event.target instanceof HTMLDialogElement) event.target.close();
});

// Keys.
function cellsOf(row) {
  return [...row.querySelectorAll("a.host")];
}

function visible(row) {
  return row.offsetParent !== null;
}

function neighbour(row, step) {
  let next = row;
  do next = step > 0 ? next.nextElementSibling : next.previousElementSibling;
  while (next && (!visible(next) || !cellsOf(next).length));
  return next;
}

function below(row, step) {
  // The row that is drawn under this one, or above it: rows of a compact group share lines.
  const here = row.getBoundingClientRect();
  for (let next = neighbour(row, step); next; next = neighbour(next, step)) {
    const there = next.getBoundingClientRect();
    if (Math.abs(there.top - here.top) > 4 && there.left <= here.left + 4 && there.right > here.left) {
      return next;
    }
  }
  return null;
}

function move(event) {
  const list = event.target.closest("ul.rows");
  if (!list || !event.key.startsWith("Arrow")) return;
  event.preventDefault();
  const cell = event.target.closest("a.host");
  if (!cell) {
    const first = [...list.children].find((row) => visible(row) && cellsOf(row).length);
    if (first) cellsOf(first)[0].focus();
    return;
  }
  const row = cell.closest("li"), cells = cellsOf(row), at = cells.indexOf(cell);
  let next = null;
  if (event.key === "ArrowRight") {
    next = cells[at + 1] ?? (neighbour(row, 1) && cellsOf(neighbour(row, 1))[0]);
  } else if (event.key === "ArrowLeft") {
    next = cells[at - 1] ?? (neighbour(row, -1) && cellsOf(neighbour(row, -1)).at(-1));
  } else {
    const other = below(row, event.key === "ArrowDown" ? 1 : -1);
    if (other) next = cellsOf(other)[Math.min(at, cellsOf(other).length - 1)];
  }
  next?.focus();
}

function jump(step) {
  const found = [...document.querySelectorAll(".problem a.explain")].filter(visible);
  if (!found.length) return;
  const at = found.indexOf(document.activeElement);
  const next = at < 0 ? (step > 0 ? 0 : found.length - 1) : (at + step + found.length) % found.length;
  found[next].focus();
  found[next].scrollIntoView({ block: "center" });
}

const ACTIONS = {
  n: () => jump(1),
  p: () => jump(-1),
  t: () => document.querySelector("#summary .filter.degraded")?.click(),
  "/": () => document.getElementById("q").select(),
  "?": () => keys.showModal(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.key === "Escape" && !panel.hidden) return close();
  if (event.target.closest("select, input")) return;
  move(event);
  const action = ACTIONS[event.key];
  if (action) {
    event.preventDefault();
    action();
  }
});

// The theme: the system's, light or dark.
const theme = document.getElementById("theme");
const THEMES = ["", "light", "dark"];

function tellTheme() {
  theme.textContent = `Theme: ${document.documentElement.dataset.theme || "system"}`;
}
theme.addEventListener("click", () => {
  const root = document.documentElement;
  const next = THEMES[(THEMES.indexOf(root.dataset.theme ?? "") + 1) % THEMES.length];
  if (next) root.dataset.theme = next;
  else delete root.dataset.theme;
  try { localStorage.setItem("theme", next); } catch { /* it lasts as long as the page */ }
  tellTheme();
});
tellTheme();
theme.hidden = false;

const help = document.getElementById("help");
help.addEventListener("click", () => keys.showModal());
help.hidden = false;
