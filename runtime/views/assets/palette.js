// The search dialog for ids, names and pages. Without this script the field in the top bar opens the results as a page. All
// markup comes from the server.

const dialog = document.getElementById("palette");
const field = dialog.querySelector("[role=combobox]");
const list = document.getElementById("hits");
const notes = document.getElementById("hits-notes");
const status = document.getElementById("hits-said");
// Milliseconds without a keystroke before a request.
const PAUSE = 80;

let asking = null;
let waiting = 0;
// Whether the hits are of an older text, so that no key opens one.
let isStale = false;

// Local results: actions of this page, and recent pages.

const RECENT = 20;
const SHOWN = 8;
const base = dialog.dataset.from.replace(/_\/search$/, "");
const commands = new WeakMap();

/** Recent pages of this project, last one first. */
function recent() {
  try {
    const all = JSON.parse(localStorage.getItem("recent") ?? "[]");
    return Array.isArray(all) ? all.filter((one) => typeof one?.href === "string" && one.href.startsWith(base)) : [];
  } catch {
    return [];
  }
}

function remember() {
  const rest = location.pathname.startsWith(base) ? location.pathname.slice(base.length) : "";
  if (document.querySelector("main > .status")) return;
  // Not comparisons and searches, which depend on query parameters that are not stored.
  if (!/^(traces|sessions|users|datasets)\/./.test(rest) || /^traces\/(compare|[^/]+\/find)$/.test(rest)) return;
  const title = document.title.split(" · ")[0];
  const own = { href: location.pathname, title };
  const all = [own, ...recent().filter((one) => one.href !== own.href)].slice(0, RECENT);
  try {
    localStorage.setItem("recent", JSON.stringify(all));
  } catch {
    // Storage is full or blocked: the page is not stored.
  }
}

/** A group of options with the markup of the server. */
function group(label, ones) {
  const [box, option] = document.getElementById("local-hits").content.children;
  const made = box.cloneNode(true);
  made.querySelector("p").textContent = label;
  made.setAttribute("aria-label", label);
  for (const [at, { title, href, run }] of ones.entries()) {
    const one = option.cloneNode(true);
    one.id = `local-${label.replaceAll(" ", "-")}-${at}`;
    one.querySelector("bdi").textContent = title;
    one.setAttribute("href", href ?? "#");
    if (run) commands.set(one, run);
    made.append(one);
  }
  return made;
}

const isCommand = () => field.value.trim().startsWith(">");

/** The local groups that match the text; after `>` only actions. */
function local() {
  const text = field.value.trim().toLowerCase().replace(/^>\s*/, "");
  if (/^[#?]/.test(text)) return [];
  const fits = ({ title }) => title.toLowerCase().includes(text);
  const onPage = Array.from(document.querySelectorAll("main [data-command]"), (element) => ({
    title: element.dataset.command || element.textContent.trim(),
    href: element.getAttribute("href"),
    run: element.matches("a") ? null : () => element.click(),
  })).filter(fits);
  const before = recent().filter((one) => one.href !== location.pathname && fits(one));
  const groups = isCommand() ? [["On this page", onPage]] : [["On this page", onPage.slice(0, SHOWN)], ["Recent", before]];
  return groups.filter(([, ones]) => ones.length > 0).map(([label, ones]) => group(label, ones));
}

const options = () => Array.from(list.querySelectorAll("[role=option]"));
const marked = () => list.querySelector("[aria-selected=true]");

const mark = (option) => markOption(field, list, option);

/** Markup of the response to the text; empty for actions, which only this page knows. */
async function answerTo(mine) {
  if (isCommand()) return "";
  const address = `${dialog.dataset.from}?q=${encodeURIComponent(field.value)}`;
  const answer = await fetch(address, { headers: { accept: "text/html" }, signal: mine.signal }).catch(() => null);
  // An expired session shows when Enter opens a page.
  return answer?.ok && !answer.redirected ? await answer.text().catch(() => "") : "";
}

/** Shows the results. An outdated response is dropped. */
async function ask() {
  asking?.abort();
  const mine = new AbortController();
  asking = mine;
  const text = field.value;
  const html = await answerTo(mine);
  if (asking !== mine) return;
  list.dataset.of = text;
  isStale = false;
  const part = document.createElement("template");
  part.innerHTML = html;
  list.replaceChildren(...part.content.querySelectorAll("[role=group]"), ...local());
  notes.replaceChildren(...part.content.querySelectorAll("[data-notes] > *"));
  if (isCommand()) notes.textContent = `${options().length} found on this page`;
  const words = notes.querySelector("[data-said]")?.textContent ?? notes.textContent;
  // Screen readers would announce an unchanged text again.
  if (status.textContent !== words) status.textContent = words;
  field.setAttribute("aria-expanded", String(options().length > 0));
  mark(null);
}

function open(text) {
  if (dialog.open) return;
  dialog.showModal();
  if (text === undefined) field.select();
  else field.value = text;
  ask();
}

function step(by) {
  const all = isStale ? [] : options();
  if (all.length === 0) return;
  const at = all.indexOf(marked());
  // After the last and before the first option none is marked.
  const to = at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by;
  mark(all[to] ?? null);
}

field.addEventListener("input", () => {
  clearTimeout(waiting);
  // A response to the older text must not be shown.
  asking?.abort();
  asking = null;
  isStale = true;
  mark(null);
  waiting = setTimeout(ask, PAUSE);
});

field.addEventListener("keydown", (event) => {
  if (event.isComposing) return;
  switch (event.key) {
    case "ArrowDown": step(1); break;
    case "ArrowUp": step(-1); break;
    case "Enter": take(); break;
    default: return;
  }
  event.preventDefault();
});

/** The only hit, or the first one if it is a page or action whose name starts with the text. */
function certain() {
  const [first, ...others] = options();
  const text = field.value.trim().toLowerCase().replace(/^>\s*/, "");
  if (!first || text === "" || first.id === "hit-contents") return null;
  const isPlace = /^(Pages|On this page)/.test(first.closest("[role=group]").querySelector("p").textContent);
  const begins = first.querySelector("bdi").textContent.toLowerCase().startsWith(text);
  return others.length === 0 || (isPlace && begins) ? first : null;
}

/** Handles Enter. Without a certain hit the form is submitted, and the server redirects to an item with this id. */
async function take() {
  const option = marked();
  if (option) return go(option);
  clearTimeout(waiting);
  if (isStale) await ask();
  // More was typed meanwhile, or the dialog was closed.
  if (isStale || !dialog.open) return undefined;
  const only = certain();
  return only ? go(only) : field.form.requestSubmit();
}

function go(option) {
  const run = commands.get(option);
  dialog.close();
  if (run) run();
  else location.href = option.href;
}

dialog.addEventListener("click", (event) => {
  const option = event.target.closest("a");
  if (option && commands.has(option)) {
    event.preventDefault();
    go(option);
    return;
  }
  // Outside of the dialog, or on a link that may lead to a fragment of this page.
  if (event.target === dialog || option) dialog.close();
});

dialog.addEventListener("close", () => {
  asking?.abort();
  asking = null;
  status.textContent = "";
  clearTimeout(waiting);
});

if (document.documentElement.dataset.keys !== "off") {
  addEventListener("keydown", (event) => {
    if (event.key !== "." || event.defaultPrevented || isTyping(event)) return;
    event.preventDefault();
    open("> ");
  });
}

addEventListener("keydown", (event) => {
  const isOurs = (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k";
  if (!isOurs) return;
  event.preventDefault();
  if (dialog.open) dialog.close();
  else if (!document.querySelector("dialog[open]")) open();
});

remember();
