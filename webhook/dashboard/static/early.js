// Before anything is drawn, and before htmx begins.
"use strict";

// The theme that was chosen here, if one was.
try {
  const chosen = localStorage.getItem("theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
} catch { /* no storage: the system's theme */ }

// Of the page only these have attributes for htmx: it need not look at thousands of hosts.
const OF_HTMX = "#feed, #filter";
document.addEventListener("htmx:before:process", (event) => {
  if (event.target.matches?.(OF_HTMX)) return;
  event.preventDefault();
  for (const element of event.target.querySelectorAll?.(OF_HTMX) ?? []) htmx.process(element);
});
