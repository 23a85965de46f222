// Values: nodes of a tree, further parts and places of a text are put in place, values and paths are copied. Without this
// script the same is reached by links and forms. Markup comes from the server alone.
"use strict";

/** The part of a page that the server keeps under its address below `_`. */
function fragment(href) {
  const address = new URL(href, location.href);
  address.pathname = address.pathname.replace(/\/value$/, "/_/value");
  return address.href;
}

/** What the server shows at the address of a page of a value; nothing when it does not. */
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
  // A link to the page is left where nothing came.
  if (body) rest.replaceWith(...body.children);
}

/** Puts what follows a window of nodes or of a text behind it. */
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

/** Shows a value with other levels open. */
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

/** Another form in the pane is another address of the page, which the script of the rows follows. */
function form(link) {
  history.pushState(null, "", new URL(link.href).search);
  dispatchEvent(new PopStateEvent("popstate"));
}

/** A step of the log shows its values in other forms where it stands. */
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
  const asked = event.target.closest(".finder form");
  if (!asked) return;
  event.preventDefault();
  const query = new URLSearchParams(new FormData(asked));
  const address = `${asked.action}?${query}`;
  const places = await ask(address, ".places");
  if (!places) {
    location.href = address;
    return;
  }
  places.tabIndex = -1;
  // In the pane of a trace the rows are those of the tree.
  if (asked.closest("#detail")) places.querySelector("[data-rows]")?.removeAttribute("data-rows");
  asked.parentElement.querySelector(".found-here").replaceChildren(places);
  places.focus();
  const wanted = query.get("find").trim().toLowerCase();
  const section = asked.closest(".value");
  if (wanted) highlight("found", section.querySelector(".node-body") ?? section, wanted);
}

/** Finds in the value that has the keyboard; a second time, the browser finds in the page. */
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
    // Only the page with rows can follow.
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
// The pane, and steps in place, are fetched later.
new MutationObserver((changes) => {
  for (const change of changes) {
    for (const node of change.addedNodes) if (node instanceof Element) prepare(node);
  }
}).observe(document.body, { childList: true, subtree: true });
document.addEventListener("toggle", onToggle, true);
document.addEventListener("click", onClick);
document.addEventListener("submit", onSubmit);
addEventListener("keydown", onFindKey);
