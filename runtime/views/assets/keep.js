// Links and forms of the trace page that keep the selected step and the opened rows: both change without a new page, and
// these follow the address. Without this script each of them changes with a new page. Markup comes from the server alone.
"use strict";

const grid = document.querySelector("[role=treegrid]");

const SELECTION = /^(observation|trace)(=|$)/;
const FOLDS = /^(fold|open)(-run)?=/;

const partsOf = (search) => search.replace(/^\?/, "").split("&").filter(Boolean);
const chosen = (search) => partsOf(search).find((part) => SELECTION.test(part)) ?? "trace";

/** The query with its selection, if it has none of its own to keep, and with the folds of the address. */
function query(search, ownsSelection) {
  const own = partsOf(search);
  const now = partsOf(location.search);
  const rest = own.filter((part) => !SELECTION.test(part) && !FOLDS.test(part));
  const folds = now.filter((part) => FOLDS.test(part));
  return [chosen(ownsSelection ? search : location.search), ...folds, ...rest];
}

/** The address stays one of this page: the whole one would no longer be told from those of others. */
function lead(link, parts) {
  link.setAttribute("href", `?${parts.join("&")}${link.hash}`);
}

/** Leads to the time of the row that is selected; a step that has none has no such part. */
function leadToStep(link) {
  const row = grid.querySelector("[aria-selected=true]");
  // A selected step that is folded away is the one from before, or its time is not known here.
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

/** What a form sends is taken from the address when it is sent. */
function onFormData(event) {
  if (!event.target.matches("form[data-keeps]")) return;
  const sent = event.formData;
  const isKept = (name) => SELECTION.test(name) || FOLDS.test(`${name}=`);
  for (const name of new Set(sent.keys())) if (isKept(name)) sent.delete(name);
  for (const [name, value] of new URLSearchParams(location.search)) if (isKept(name)) sent.append(name, value);
}

grid.addEventListener("addressed", refresh);
// Parts of the page that followed what arrived are made for an address that may be older.
grid.addEventListener("followed", refresh);
document.addEventListener("formdata", onFormData);
