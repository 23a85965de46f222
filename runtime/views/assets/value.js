// Values: expands nodes of a tree, loads further parts, finds text in place, copies values and paths. Without this script
// links and forms do the same. All markup comes from the server.
"use strict";

/** URL of the fragment of a value page. */
function fragment(href) {
  const address = new URL(href, location.href);
  address.pathname = address.pathname.replace(/\/value$/, "/_/value");
  return address.href;
}

/** An element of the fragment of a value page; null without a response. */
async function ask(href, selector) {
  const html = await askHtml(fragment(href));
  const template = document.createElement("template");
  template.innerHTML = html ?? "";
  const found = template.content.querySelector(selector);
  if (found) prepare(found);
  return found;
}

function prepare(root) {
  for (const button of root.querySelectorAll("[data-act]")) button.hidden = false;
}

function isPlain(event) {
  return event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
}

// In place

async function onToggle(event) {
  const details = event.target;
  if (!details.matches?.("details.node") || !details.open) return;
  const rest = details.querySelector(":scope > .rest");
  const link = rest?.querySelector("a");
  if (!link || rest.hasAttribute("aria-busy")) return;
  rest.setAttribute("aria-busy", "true");
  const body = await ask(link.href, ".node-body");
  rest.removeAttribute("aria-busy");
  // Without a response the link to the page remains.
  if (body) rest.replaceWith(...body.children);
}

/** Appends the next window of nodes or of a text. */
async function more(link) {
  const place = link.closest(".rest");
  if (place.hasAttribute("aria-busy")) return;
  place.setAttribute("aria-busy", "true");
  const body = await ask(link.href, ".node-body");
  if (!body) {
    location.href = link.href;
    return;
  }
  const isOfTree = place.tagName === "LI";
  const nodes = isOfTree ? body.querySelector(".tree")?.children ?? [] : body.children;
  const first = nodes[0];
  place.replaceWith(...nodes);
  const next = first?.querySelector("summary, a, button") ?? first;
  if (next === first && first) first.tabIndex = -1;
  next?.focus();
}

/** Shows a value with another number of expanded levels. */
async function levels(link) {
  const section = link.closest(".value");
  const body = await ask(link.href, ".node-body");
  if (!body) {
    location.href = link.href;
    return;
  }
  section.querySelector(".node-body").replaceWith(body);
  for (const other of section.querySelectorAll("[data-levels]")) other.removeAttribute("aria-current");
  link.setAttribute("aria-current", "true");
}

/** Shows a value of the pane in another form: changes the URL, which the script of the rows follows. */
function form(link) {
  history.pushState(null, "", new URL(link.href).search);
  dispatchEvent(new PopStateEvent("popstate"));
}

/** Shows a value of an expanded log entry in another form. */
async function again(place, link) {
  const from = new URL(place.parentElement.dataset.from, location.href);
  for (const [name, value] of new URL(link.href).searchParams) {
    if (name.startsWith("as.")) from.searchParams.set(name, value);
  }
  const html = await askHtml(from.href);
  if (html === null) location.href = link.href;
  else place.innerHTML = html;
}

// Find

async function onSubmit(event) {
  const form = event.target.closest(".finder form");
  if (!form) return;
  event.preventDefault();
  const query = new URLSearchParams(new FormData(form));
  const address = `${form.action}?${query}`;
  const places = await ask(address, ".places");
  if (!places) {
    location.href = address;
    return;
  }
  places.tabIndex = -1;
  // On the page of a trace, shortcuts for rows apply to the tree.
  if (form.closest("#detail")) places.querySelector("[data-rows]")?.removeAttribute("data-rows");
  form.parentElement.querySelector(".found-here").replaceChildren(places);
  places.focus();
  const wanted = query.get("find").trim().toLowerCase();
  const section = form.closest(".value");
  if (wanted) highlight("found", section.querySelector(".node-body") ?? section, wanted);
}

/** Opens the search of the focused value; pressed again, the browser searches the page. */
function onFindKey(event) {
  if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "f" || event.altKey) return;
  const finder = document.activeElement?.closest(".value")?.querySelector(".finder");
  const field = finder?.querySelector("input[name=find]");
  if (!field || document.activeElement === field) return;
  event.preventDefault();
  finder.open = true;
  field.focus();
}

// Copying

function copied(what, value) {
  dispatchEvent(new CustomEvent("perpend:copy", { detail: { what, text: value } }));
}

async function act(button) {
  const node = button.parentElement.querySelector("a.open");
  const path = node ? new URL(node.href).searchParams.get("path") : null;
  if (button.dataset.act === "path") {
    copied("Path", path ?? new URLSearchParams(location.search).get("path") ?? "$");
    return;
  }
  const raw = button.closest("[data-raw]")?.dataset.raw;
  if (!raw) return;
  const address = new URL(raw, location.href);
  if (path) address.searchParams.set("path", path);
  const answer = await fetch(address).catch(() => null);
  if (answer?.ok && !answer.redirected) copied("Value", await answer.text());
  else document.dispatchEvent(new CustomEvent("say", { detail: { text: "Value not copied: the server did not respond", stays: true } }));
}

function onClick(event) {
  const on = event.target instanceof Element ? event.target : null;
  const button = on?.closest("[data-act]");
  if (button) {
    act(button);
    return;
  }
  const link = on?.closest("a[data-more], a[data-levels], #detail a[data-form], .detail-in-place a[data-form]");
  if (!link || !isPlain(event)) return;
  const inPlace = link.closest(".detail-in-place");
  if (inPlace && "form" in link.dataset) {
    event.preventDefault();
    again(inPlace, link);
    return;
  }
  if ("form" in link.dataset) {
    // Only the page with rows follows the URL.
    if (!document.querySelector("[role=treegrid]")) return;
    event.preventDefault();
    form(link);
    return;
  }
  event.preventDefault();
  if ("more" in link.dataset) more(link);
  else levels(link);
}

prepare(document);
// The pane and expanded log entries are loaded later.
new MutationObserver((changes) => {
  for (const change of changes) {
    for (const node of change.addedNodes) if (node instanceof Element) prepare(node);
  }
}).observe(document.body, { childList: true, subtree: true });
document.addEventListener("toggle", onToggle, true);
document.addEventListener("click", onClick);
document.addEventListener("submit", onSubmit);
addEventListener("keydown", onFindKey);
