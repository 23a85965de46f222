// Links and forms of the trace page that keep selection and collapsed rows: both change without a new page, and the links
// follow the URL. Without this script each change loads a new page. All markup comes from the server.
"use strict";

const grid = document.querySelector("[role=treegrid]");

const SELECTION = /^(observation|trace)(=|$)/;
const FOLDS = /^(fold|open)(-run)?=/;

const partsOf = (search) => search.replace(/^\?/, "").split("&").filter(Boolean);
const chosen = (search) => partsOf(search).find((part) => SELECTION.test(part)) ?? "trace";

/** The query with the collapsed rows of the URL, and with its own selection or that of the URL. */
function query(search, ownsSelection) {
  const own = partsOf(search);
  const now = partsOf(location.search);
  const rest = own.filter((part) => !SELECTION.test(part) && !FOLDS.test(part));
  const folds = now.filter((part) => FOLDS.test(part));
  return [chosen(ownsSelection ? search : location.search), ...folds, ...rest];
}

/** Sets a relative URL, by which links within this page are recognized. */
function lead(link, parts) {
  link.setAttribute("href", `?${parts.join("&")}${link.hash}`);
}

/** Points the zoom link to the time range of the selected row; hidden for a row without one. */
function leadToStep(link) {
  const row = grid.querySelector("[aria-selected=true]");
  // The selected row is collapsed: the link still fits, or the time range is unknown.
  if (!row) {
    if (chosen(link.search) !== chosen(location.search)) link.hidden = true;
    return;
  }
  const [from, to] = row.dataset.part?.split(" ") ?? [];
  link.hidden = to === undefined;
  if (link.hidden) return;
  const rest = partsOf(link.search).filter((part) => !/^t[01]=/.test(part));
  lead(link, [...rest, `t0=${from}`, `t1=${to}`]);
}

function refresh() {
  for (const link of document.querySelectorAll("a[data-of-step]")) leadToStep(link);
  for (const link of document.querySelectorAll("a[data-keeps], #detail a[href^='?']")) {
    const ownsSelection = link.dataset.keeps !== "";
    lead(link, query(link.search, ownsSelection));
  }
}

/** Takes selection and collapsed rows from the URL when a form is submitted. */
function onFormData(event) {
  if (!event.target.matches("form[data-keeps]")) return;
  const sent = event.formData;
  const isKept = (name) => SELECTION.test(name) || FOLDS.test(`${name}=`);
  for (const name of new Set(sent.keys())) if (isKept(name)) sent.delete(name);
  for (const [name, value] of new URLSearchParams(location.search)) if (isKept(name)) sent.append(name, value);
}

grid.addEventListener("addressed", refresh);
// Updated parts of the page may have been rendered for an older URL.
grid.addEventListener("followed", refresh);
document.addEventListener("formdata", onFormData);
